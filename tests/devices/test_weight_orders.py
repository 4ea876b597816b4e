"""Weights in oneDNN's orders, by kernels of our own: the same bits as by its own reorders."""

import math

import numpy as np
import pytest

from caffelite.devices import Window, open_device, ops
from caffelite.devices.cpu import onednn, weight_orders
from caffelite.devices.cpu.kernels.panels import half
from caffelite.devices.cpu.onednn import Blocking
from caffelite.devices.cpu.onednn_operations import Convolution

SHAPES = [(96, 10, 3, 3), (70, 64, 1, 1), (16, 34, 1, 5), (2, 2, 2, 1), (130, 180, 1, 1)]


def halves(w):
    return np.array([half(v) for v in w.reshape(-1)], np.uint16).reshape(w.shape)


def order(dims, lanes: int, axis: int) -> Blocking:
    """AcdB·a2b for axis 0, BcdA·b2a for axis 1."""
    other, (height, width) = 1 - axis, dims[2:]
    row = dims[other] * lanes
    strides = {axis: row * height * width, other: 2 * lanes, 2: row * width, 3: row}
    padded = {axis: -(-dims[axis] // lanes) * lanes, other: dims[other], 2: height, 3: width}
    return Blocking(*(tuple(of[i] for i in range(4)) for of in (strides, padded)), inner=((lanes, axis), (2, other)))


def run(own, dims, values, at, *more):
    space = np.full(at + own.room + 64, 0xEE, np.uint8)
    own.run(values, space, *more)
    return space


@pytest.mark.parametrize("dims", SHAPES)
@pytest.mark.parametrize("lanes", [16, 48])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_weights_are_packed_in_pairs(dims, lanes, axis, threads, rng, monkeypatch):
    device = open_device()
    monkeypatch.setattr(device, "threads", threads)
    w = rng.normal(size=dims).astype(np.float32)
    w.flat[3] = np.nan
    blocks, pairs = -(-dims[axis] // lanes), dims[1 - axis] // 2
    expected = np.zeros((blocks * lanes, pairs, 2, *dims[2:]), np.uint16)
    expected[: dims[axis]] = np.moveaxis(halves(w), axis, 0).reshape(dims[axis], pairs, 2, *dims[2:])
    expected = expected.reshape(blocks, lanes, pairs, 2, *dims[2:]).transpose(0, 4, 5, 2, 1, 3)
    own = weight_orders.packing(device, dims, order(dims, lanes, axis), 2 * expected.size)
    for _ in range(2):
        space = run(own, dims, w, 2 * expected.size)
        np.testing.assert_array_equal(space[: 2 * expected.size], expected.reshape(-1).view(np.uint8))
        assert (space[-64:] == 0xEE).all()


@pytest.mark.parametrize("dims", [(32, 16, 3, 3), (16, 176, 1, 1), (64, 96, 1, 2)])
@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_are_unpacked(dims, threads, rng, monkeypatch):
    device = open_device()
    monkeypatch.setattr(device, "threads", threads)
    gradient, before = (rng.normal(size=dims).astype(np.float32) for _ in range(2))
    m, c, height, width = dims
    stored = gradient.reshape(m // 16, 16, c // 16, 16, height, width).transpose(0, 2, 4, 5, 3, 1).reshape(-1)
    strides = 256 * height * width * (c // 16), 256 * height * width, 256 * width, 256
    own = weight_orders.unpacking(device, dims, Blocking(strides, dims, ((16, 1), (16, 0))), 4 * stored.size)
    for add in (False, True):
        space, dw = np.zeros(4 * stored.size + own.room, np.uint8), before.copy()
        space[: 4 * stored.size] = stored.view(np.uint8)
        own.run(dw, space, add)
        np.testing.assert_array_equal(dw, before + gradient if add else gradient)


def test_orders_that_no_kernel_knows():
    device, dims = open_device(), (32, 32, 3, 3)
    known = order(dims, 16, 0)
    assert weight_orders.packing(device, dims, known, 0)
    others = [
        known._replace(inner=((16, 0), (4, 1))),
        known._replace(inner=((16, 0),)),
        known._replace(inner=((16, 0), (2, 0))),
        known._replace(strides=(*known.strides[:2], known.strides[2] + 1, known.strides[3])),
        known._replace(padded=(48, 32, 3, 3)),
        known._replace(padded=(32, 34, 3, 3)),
        None,
    ]
    assert not any(weight_orders.packing(device, dims, other, 0) for other in others)
    assert not weight_orders.packing(device, (2, *dims), known, 0)
    assert not weight_orders.packing(device, (32, 3, 3, 3), order((32, 3, 3, 3), 16, 0), 0)
    gradients = Blocking((4608, 2304, 768, 256), dims, ((16, 1), (16, 0)))
    assert weight_orders.unpacking(device, dims, gradients, 0)
    for other in (None, known, gradients._replace(padded=(48, 32, 3, 3)), gradients._replace(strides=(1, 2, 3, 4))):
        assert not weight_orders.unpacking(device, dims, other, 0)


@pytest.mark.parametrize("m, c, size, kernel", [(80, 48, 9, 3), (256, 64, 7, 1), (64, 3, 20, 7), (32, 256, 5, 3)])
def test_the_bits_are_those_of_onednns_reorders(m, c, size, kernel, rng):
    library = onednn.load()
    if not library or not library.bf16():
        pytest.skip("needs oneDNN with bfloat16")
    device, dims = open_device(precision="bf16"), (m, c, kernel, kernel)
    window = Window((kernel, kernel), pad=(kernel // 2, kernel // 2))
    op = Convolution(device, library, ops.Convolution((2, c, size, size), (2, m, size, size), window, 1, True, True))
    w = rng.normal(size=dims).astype(np.float32)
    for packed in (op._forward(False, None), op._data()):
        theirs = packed._primitive._descriptor.layout("w")
        size_of = library.bytes(theirs)
        own = weight_orders.packing(device, dims, library.blocking(theirs), -(-size_of // 64) * 64)
        if own:
            expected = np.zeros(size_of, np.uint8)
            library.reorder(library.dense(dims), theirs).run(w, expected)
            assert not library.equal(theirs, library.dense(dims)) and math.prod(dims) * 2 <= size_of
            np.testing.assert_array_equal(run(own, dims, w, -(-size_of // 64) * 64)[:size_of], expected)
