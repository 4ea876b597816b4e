"""Nets in several threads and processes: each call gets its own answer, or an error that says what to do."""

import copy
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from turns import one_first

import caffelite
import caffelite.pycaffe as caffe
from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError

DOUBLE = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "double" type: "Power" bottom: "data" top: "double" power_param { scale: 2 } }
layer { name: "mean" type: "Pooling" bottom: "double" top: "prob" pooling_param { pool: AVE global_pooling: true } }
"""
FORK = """
import multiprocessing, sys
import numpy as np
import caffelite.pycaffe as caffe

def open_net():
    global net
    net = caffe.Net("net.prototxt", caffe.TEST)

def run(_):
    return float(net.forward(data=np.ones((1, 3, 4, 4)))["prob"].sum())

if __name__ == "__main__":
    if sys.argv[1] != "unused":
        open_net()
    with multiprocessing.get_context("fork").Pool(1, open_net if sys.argv[1] != "inherited" else None) as pool:
        try:
            print(pool.map_async(run, range(2)).get(60))
        except Exception as error:
            print(type(error).__name__, error)
"""


@pytest.fixture(params=[caffe.Net, caffelite.Net])
def net(request, write):
    return request.param(write(DOUBLE), caffe.TEST)


def slowly(net: caffe.Net) -> caffe.Net:
    """A net whose passes give other threads time."""
    net.before_forward(lambda layer: time.sleep(0.001))
    return net


@pytest.mark.parametrize("call", ["forward", "forward_all"])
def test_threads_get_the_outputs_of_their_own_inputs(net, call):
    run = getattr(slowly(net), call)

    def ask(value: int) -> list[bool]:
        arrays = [run(data=np.full((1, 3, 4, 4), value))["prob"] for _ in range(5)]
        return [bool((array == 2 * value).all()) for array in arrays]

    with ThreadPoolExecutor(4) as pool:
        assert all(sum(pool.map(ask, range(8)), []))


def test_threads_classify_their_own_pictures(write):
    net = slowly(caffelite.Net(write(DOUBLE)))

    def ask(channel: int) -> set[int]:
        picture = np.zeros((4, 4, 3), np.uint8)
        picture[..., channel] = 200
        return {net.classify(picture, 1)[0].index for _ in range(10)}

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == [{0}, {1}, {2}]


def test_a_pass_over_the_inputs_of_another_thread_is_an_error(net):
    begun, end = threading.Event(), threading.Event()
    net.before_forward(lambda layer: (begun.set(), end.wait(30)))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(net.forward)
        assert begun.wait(30)
        for run in (net.forward, lambda: caffe.Net.backward(net)):
            with pytest.raises(CaffeliteError, match="two threads run this net at once.*with net.lock"):
                run()
        end.set()
        assert set(first.result()) == {"prob"}
    assert set(net.forward()) == {"prob"}


def test_a_thread_that_holds_the_lock_reads_its_own_blobs(net):
    slowly(net)

    def ask(value: int) -> bool:
        with net.lock:
            net.blobs["data"].data[...] = value
            net.forward()
            return bool((net.blobs["prob"].data == 2 * value).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(20)))


@pytest.mark.parametrize("net_is", one_first(["inherited", "opened"]))
def test_a_forked_worker_raises_an_error(tmp_path, write, net_is):
    write(DOUBLE)
    write(FORK, "fork.py")
    done = subprocess.run([sys.executable, "fork.py", net_is], cwd=tmp_path, capture_output=True, text=True, timeout=90)
    assert done.stdout.startswith("Forked this process was forked from one that had opened a net"), done.stderr
    assert 'get_context("spawn")' in done.stdout and done.stderr.count("forked") <= 2


@pytest.mark.slow
def test_a_worker_forked_before_a_net_is_opened_computes(tmp_path, write):
    write(DOUBLE)
    write(FORK, "fork.py")
    done = subprocess.run(
        [sys.executable, "fork.py", "unused"], cwd=tmp_path, capture_output=True, text=True, timeout=90
    )
    assert done.stdout == "[6.0, 6.0]\n", done.stderr


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nets_and_solvers_are_neither_pickled_nor_copied(net, write, duplicate):
    with pytest.raises(TypeError, match=r"a net can be neither pickled nor copied; open it from its files"):
        duplicate(net)
    write('net: "net.prototxt" base_lr: 1 lr_policy: "fixed" max_iter: 1', "solver.prototxt")
    with pytest.raises(TypeError, match="a solver can be neither pickled nor copied"):
        duplicate(caffe.SGDSolver("solver.prototxt"))


def test_messages_are_pickled():
    message = pb.LayerParameter(name="ip", inner_product_param=pb.InnerProductParameter(num_output=3))
    assert pickle.loads(pickle.dumps(message)) == message
