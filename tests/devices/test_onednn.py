"""Where oneDNN is found, what is passed over, and that everything runs without it."""

import ctypes
import json
import os
import subprocess
import sys
from importlib import metadata

import engines
import numpy as np
import pytest
from textnet import bind, feed, inputs

from caffelite import caffelite_pb2 as pb
from caffelite.devices import open_device
from caffelite.devices.cpu import onednn
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.training.optim.updates import Updater

FILL = 'weight_filler { type: "xavier" }'
NET = (
    inputs(data=(4, 1, 12, 12), label=(4,))
    + f"""
layer {{ name: "c1" type: "Convolution" bottom: "data" top: "c1"
  convolution_param {{ num_output: 6 kernel_size: 3 {FILL} }} }}
layer {{ name: "p1" type: "Pooling" bottom: "c1" top: "p1" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "c2" type: "Convolution" bottom: "p1" top: "c2"
  convolution_param {{ num_output: 8 kernel_size: 3 {FILL} }} }}
layer {{ name: "r2" type: "ReLU" bottom: "c2" top: "c2" }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "c2" top: "ip1" inner_product_param {{ num_output: 20 {FILL} }} }}
layer {{ name: "r3" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param {{ num_output: 5 {FILL} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
"""
)


def losses(dev, iterations: int = 8) -> list[float]:
    """Those of a small training."""
    rng = np.random.default_rng(3)
    net = bind(NET, dev=dev)
    feed(net, data=rng.normal(size=(4, 1, 12, 12)), label=rng.integers(0, 5, 4))
    updater = Updater(pb.SolverParameter(momentum=0.9), net, NOWHERE)
    actual = []
    for iteration in range(iterations):
        net.clear_loss()
        net.forward(iteration)
        net.backward()
        updater.run(0.05, iteration)
        actual.append(float(net.loss[0]))
    return actual


def test_without_it_a_training_has_the_same_losses():
    mine, plain = losses(engines.with_onednn()), losses(engines.without_onednn())
    np.testing.assert_allclose(mine, plain, rtol=1e-4)
    assert plain[-1] < plain[0] / 2


def test_bf16_has_nearly_the_same_losses():
    half, full = (losses(engines.with_onednn(precision)) for precision in ("bf16", "fp32"))
    assert half != full
    np.testing.assert_allclose(half, full, rtol=0.05, atol=0.02)


def test_bf16_without_it_reports_the_extra():
    with engines.chosen("0"), pytest.raises(CaffeliteError, match=r"needs oneDNN.*caffelite\[onednn\]"):
        open_device(None, precision="bf16")


@pytest.mark.parametrize("kind, precision", [("native", "bf16"), ("emulated", "fp32"), (None, "fp32")])
def test_auto_takes_bf16_where_the_processor_multiplies_it(monkeypatch, kind, precision):
    engines.with_onednn()  # skips where there is none
    monkeypatch.setattr(onednn.Library, "bf16", lambda library: kind)
    assert open_device(None, precision="auto").precision == precision


def test_auto_without_it_takes_fp32():
    with engines.chosen("0"):
        assert open_device(None, precision="auto").precision == "fp32"


def test_float64_knows_nothing_of_it():
    """The device that tests gradients computes by itself."""
    assert not open_device(None, "float64").traits.channels_last


LOOK = """
import json
from pathlib import Path
from caffelite.devices import open_device
dev = open_device()
maps = Path("/proc/self/maps").read_text().split()
print(json.dumps([dev.traits.channels_last, sorted({word for word in maps if "libdnnl" in word})]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_wheels_library_is_found_and_0_loads_none():
    try:
        files = metadata.files("onednn-cpu-gomp")
    except metadata.PackageNotFoundError:
        pytest.skip("the wheel onednn-cpu-gomp is not installed")
    (library,) = [str(f.locate().resolve()) for f in files if f.name == "libdnnl.so.3"]
    for chosen, expected in (("", [True, [library]]), (library, [True, [library]]), ("0", [False, []])):
        environment = {**os.environ, "CAFFELITE_ONEDNN": chosen}
        done = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True)
        wants, mapped = json.loads(done.stdout)
        assert [wants, sorted({os.path.realpath(m) for m in mapped})] == expected


def test_no_compiler_is_asked_where_the_library_is(monkeypatch):
    """ctypes would start three processes at each start of a training."""
    engines.with_onednn()  # skips where there is none
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: pytest.fail("a compiler is asked"))
    with engines.chosen(None):
        assert onednn.load() is not None


def test_a_path_that_is_no_library_is_passed_over(tmp_path):
    path = tmp_path / "libdnnl.so.3"
    path.write_text("not a library")
    other = ctypes.util.find_library("c")
    for chosen in (str(path), str(tmp_path / "nothing"), *filter(None, [other])):
        with engines.chosen(chosen):
            assert onednn.load() is None
            assert not open_device().traits.channels_last


class Fake:
    """A library whose functions all succeed, of the version that it says."""

    def __init__(self, major: int):
        self._version = (ctypes.c_int * 3)(major, 7, 0)

    def __getattr__(self, name: str):
        function = (lambda: ctypes.pointer(self._version)) if name == "dnnl_version" else (lambda *_: 0)
        holder = type("Function", (), {"__call__": staticmethod(function)})()
        setattr(self, name, holder)
        return holder


@pytest.mark.parametrize("major, taken", [(2, False), (3, True), (4, False)])
def test_only_version_3_is_taken(monkeypatch, major, taken):
    monkeypatch.setattr(ctypes, "CDLL", lambda path: Fake(major))
    with engines.chosen("anywhere"):
        assert (onednn.load() is not None) == taken


def test_one_place_after_the_other_is_tried(monkeypatch):
    """A bad library hides no good one behind it."""
    tried = []

    def library(path):
        tried.append(path)
        if path != "libdnnl.so.3":
            raise OSError("a bad library")
        return Fake(3 if tried.count(path) else 2)

    monkeypatch.setattr(ctypes, "CDLL", library)
    with engines.chosen(None):
        assert onednn.load().version[0] == 3
    assert tried[-1] == "libdnnl.so.3"
