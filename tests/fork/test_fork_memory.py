"""Layers of a fork whose blobs are in memory that two processes share: what layers do with the memory of blobs."""

import os
from pathlib import Path

import numpy as np
import pytest

from caffelite import TRAIN, Net
from caffelite.fork import option, process, worker

pytestmark = pytest.mark.slow  # a C++ compiler works for half a minute
FORK = Path(__file__).parent / "memory_layers"
NET = """force_backward: true
layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ dim: 2 dim: 6 }} }} }}
layer {{ name: "own" type: "{kind}" bottom: "x" top: "{top}" }}
"""


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()


def opened(tmp_path, kind, top="y"):
    path = tmp_path / "net.prototxt"
    path.write_text(NET.format(kind=kind, top=top))
    return Net(path, TRAIN, fork=FORK)


def passes(net, x, top="y", dy=3.0):
    """The top and the gradient of x."""
    net.blobs["x"].reshape(*x.shape)
    net.blobs["x"].data[...] = x
    net.forward()
    y = net.blobs[top].data.copy()
    net.blobs[top].diff[...] = dy
    net.backward()
    return y, net.blobs["x"].diff.copy()


def inputs():
    """Shapes that shrink and grow: a blob keeps the memory of its largest shape so far."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((2, 6), (2, 6), (1, 6), (5, 6), (3, 4), (5, 6))]


ROWS = {
    "Twice": (lambda x: 2 * x, lambda x: np.full_like(x, 6)),
    "View": (lambda x: x, lambda x: np.full_like(x, 3)),
    "Recall": (lambda x: x, lambda x: 3 * x),
    "Held": (lambda x: np.concatenate([[5], x.ravel()[1:]]).astype(np.float32).reshape(x.shape), lambda x: 3 + 0 * x),
    "Positive": (lambda x: x[x > 0], lambda x: 3.0 * (x > 0)),
}


@pytest.mark.parametrize("kind", ROWS)
def test_numbers_are_right_while_shapes_change(tmp_path, kind):
    net, (wanted, gradient) = opened(tmp_path, kind), ROWS[kind]
    for x in inputs():
        y, dx = passes(net, x)
        np.testing.assert_array_equal(y, wanted(x))
        np.testing.assert_array_equal(dx, gradient(x).astype(np.float32))


def test_a_top_in_place_is_computed_in_place(tmp_path):
    net = opened(tmp_path, "Twice", top="x")
    for x in inputs():
        y, dx = passes(net, x, top="x")
        np.testing.assert_array_equal(y, 2 * x)
        np.testing.assert_array_equal(dx, np.full_like(x, 6))


def test_a_top_that_setup_alone_makes_stays(tmp_path):
    net = opened(tmp_path, "Once")
    for x in inputs()[:2]:
        np.testing.assert_array_equal(passes(net, x)[0].ravel(), np.arange(12))


def test_a_top_that_setup_alone_ties_to_the_bottom_stays_tied(tmp_path):
    net = opened(tmp_path, "Alias")
    for x in inputs()[:2]:
        np.testing.assert_array_equal(passes(net, x)[0], x)


def test_parameters_that_forward_changes_come_back(tmp_path):
    """Also in passes after which the top has another shape."""
    net = opened(tmp_path, "Positive")
    for count, x in enumerate(inputs(), 1):
        passes(net, x)
        assert net.params["own"][0].data == [count]
        assert net.params["own"][0].diff == [7 * count]  # they add up


def test_a_top_that_is_the_parameter_gives_it_its_gradient(tmp_path):
    net = opened(tmp_path, "Learned")
    net.params["own"][0].data[...] = [1, 2, 3, 4]
    y, _ = passes(net, inputs()[0], dy=[5, 6, 7, 8])
    np.testing.assert_array_equal(y, [1, 2, 3, 4])
    np.testing.assert_array_equal(net.params["own"][0].diff, [5, 6, 7, 8])


class InThisProcess:
    """The interface of ``process.NativeProcess``, for a look at the blobs."""

    def __init__(self):
        self.server, self.owner, self.ended, self.unused = worker.Server(), os.getpid(), "", []

    def call(self, method, number, folder, *arguments):
        return self.server.answer(method, number, folder, arguments)


@pytest.mark.parametrize(("kind", "direct"), [("Twice", True), ("View", False)])
def test_blobs_compute_in_mapped_memory(tmp_path, monkeypatch, kind, direct):
    """Where no other blob has their memory."""
    monkeypatch.chdir(tmp_path)
    native = InThisProcess()
    monkeypatch.setattr(process, "_process", native)
    passes(opened(tmp_path, kind), inputs()[0])
    made = native.server.layers[max(native.server.layers)]
    address, blobs = made.library.address, made.blobs
    for blob, array, diff in (
        (made.bottoms[0], blobs.bottoms[0], False),
        (made.tops[0], blobs.tops[0], False),
        (made.bottoms[0], blobs.bottom_diffs[0], True),
        (made.tops[0], blobs.top_diffs[0], True),
    ):
        assert (address(blob, diff) == array.ctypes.data) == direct
