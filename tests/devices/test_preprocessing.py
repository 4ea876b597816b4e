"""Pixels to numbers, as Caffe's transformer computes them, bit for bit, on both devices."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from textnet import bind

from caffelite.data import open_source
from caffelite.data.writers import write_lmdb
from caffelite.devices import ops
from caffelite.devices.cpu import CPU, preprocessing
from caffelite.devices.cuda import GPU

N, C, H, W, h, w = 5, 3, 9, 8, 6, 5


@pytest.fixture(params=["one thread", "all threads", pytest.param("gpu", marks=pytest.mark.host)])
def dev(request, monkeypatch):
    if request.param == "all threads":
        monkeypatch.setattr(preprocessing, "SMALL", 0)
    return GPU(0, "float32", HostBackend()) if request.param == "gpu" else CPU()


def caffes(pixels, picks, mean, scale):
    """Element by element, in the order of Caffe's loops: (pixel - mean) * scale in float32, mirrored where it is
    written."""
    out = np.empty((len(picks), C, h, w), np.float32)
    for n, (index, top, left, mirror) in enumerate(picks):
        y0, x0 = (top, left) if pixels.shape[2:] != (h, w) else (0, 0)
        for y in range(h):
            for x in range(w):
                value = pixels[index, :, y + y0, x + x0].astype(np.float32)
                if mean is not None:
                    my, mx = (top, left) if mean.shape[1:] == (H, W) else (0, 0)
                    value = value - (mean[:, 0, 0] if mean.shape[1:] == (1, 1) else mean[:, y + my, x + mx])
                out[n, :, y, w - 1 - x if mirror else x] = value * np.float32(scale)
    return out


@pytest.mark.parametrize("mean", [None, (C, 1, 1), (C, H, W), (C, h, w)], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("layout", ["channels", "pixels"])
@pytest.mark.parametrize("whole", [True, False], ids=["to be cut", "cut"])
def test_bit_for_bit(dev, mean, dtype, layout, whole):
    rng = np.random.default_rng(4)
    sides = (H, W) if whole else (h, w)
    values = rng.integers(0, 256, (7, C, *sides)) if dtype == "uint8" else rng.normal(size=(7, C, *sides))
    pixels = values.astype(dtype)
    if layout == "pixels":
        pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    mean = None if mean is None else rng.uniform(90, 130, mean).astype(np.float32)
    picks = np.stack([rng.integers(0, high, N) for high in (7, H - h + 1, W - w + 1, 2)], 1).astype(np.int32)
    context = dev.make_context()
    op, out = dev.build(ops.Preprocess((N, C, h, w), mean, 0.017, context)), dev.empty((N, C, h, w))
    fields, tops = [context.input_buffer.field(shape) for shape in ((N,), (N, 2))], [dev.empty((N,)), dev.empty((N, 2))]
    expected = caffes(pixels, picks, mean, 0.017)
    for resident in (False, True, True):
        context.input_buffer.begin()
        op.wait()
        op.set_batch(
            0,
            pixels if resident or dev.number is None else _first(pixels, picks),
            _numbered(picks, resident or dev.number is None),
            resident,
        )
        others = [rng.normal(size=top.shape).astype(np.float32) for top in tops]
        for field, other in zip(fields, others, strict=True):
            field.set(0, other)
        context.input_buffer.send()
        op.forward(out, fields, tops)
        np.testing.assert_array_equal(dev.download(out), expected)
        for top, other in zip(tops, others, strict=True):
            np.testing.assert_array_equal(dev.download(top), other)


def _first(pixels, picks):
    """A batch as it is read: its own pixels, in the layout that they had."""
    actual = pixels[picks[:, 0]]
    if not pixels.flags.c_contiguous:
        actual = np.ascontiguousarray(actual.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    return actual


def _numbered(picks, as_is):
    return picks if as_is else np.concatenate([np.arange(N, dtype=np.int32)[:, None], picks[:, 1:]], 1)


@pytest.mark.host
@pytest.mark.parametrize("layout", ["channels", "pixels"])
def test_a_set_that_the_gpu_has_no_room_for(monkeypatch, layout):
    dev = GPU(0, "float32", HostBackend())
    monkeypatch.setattr(dev.backend, "free_bytes", lambda: 100, raising=False)
    pixels = np.random.default_rng(0).integers(0, 256, (7, C, H, W)).astype(np.uint8)
    if layout == "pixels":
        pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    picks = np.array([[6, 1, 2, 1], [0, 0, 0, 0], [6, 3, 3, 0], [2, 2, 1, 1], [3, 0, 1, 0]], np.int32)
    context = dev.make_context()
    op, out = dev.build(ops.Preprocess((N, C, h, w), None, 1.0, context)), dev.empty((N, C, h, w))
    context.input_buffer.begin()
    op.set_batch(0, pixels, picks, True)
    context.input_buffer.send()
    op.forward(out)
    np.testing.assert_array_equal(dev.download(out), caffes(pixels, picks, None, 1))
    assert picks[0, 0] == 6


def test_memory_to_read_from(dev):
    memory = dev.build(ops.Preprocess((N, C, h, w), None, 1.0, dev.make_context())).host_buffer((2, 3), np.uint8)
    memory[...] = 7
    assert memory.shape == (2, 3) and memory.dtype == np.uint8 and memory.sum() == 42


def test_pixels_wait_for_who_used_their_memory_before(monkeypatch):
    """The GPU's pool gives a block again as soon as Python has let go of it, though a kernel may still have to read
    it."""
    dev = GPU(0, "float32", HostBackend("late", "early"))
    pixels, picks = np.full((N, C, H, W), 9, np.uint8), np.zeros((N, 4), np.int32)
    before, seen, empty = dev.zeros(pixels.shape, np.uint8), dev.empty(pixels.shape, np.uint8), dev.backend.empty
    context = dev.make_context()
    op = dev.build(ops.Preprocess((N, C, h, w), None, 1.0, context))
    context.input_buffer.begin()
    dev.synchronize()
    dev.copy(before, seen)
    monkeypatch.setattr(
        dev.backend, "empty", lambda shape, dtype: before if shape == pixels.shape else empty(shape, dtype)
    )
    op.set_batch(0, pixels, picks)
    context.input_buffer.send()
    assert not dev.download(seen).any()


def test_pixels_of_another_type_need_another_graph():
    """They lie in another array, though kernel and shape are the same."""
    dev, actual = GPU(0, "float32", HostBackend()), set()
    op = dev.build(ops.Preprocess((N, C, h, w), None, 1.0, context := dev.make_context()))
    for dtype in (np.uint8, np.float32):
        context.input_buffer.begin()
        op.set_batch(0, np.ones((N, C, H, W), dtype), np.zeros((N, 4), np.int32))
        context.input_buffer.send()
        actual.add(op.signature())
    assert len(actual) == 2


@pytest.mark.host
@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
def test_pixels_straight_to_the_format_of_convolutions(tmp_path, precision, seed):
    """The same numbers as by a transposition and a rounding, without these launches."""
    rng = np.random.default_rng(seed)
    write_lmdb(tmp_path / "images", [(rng.integers(0, 256, (3, 9, 8)).astype(np.uint8), i % 2) for i in range(5)])
    text = f"""
    layer {{ name: "images" type: "Data" top: "x" top: "label" data_param {{ source: "{tmp_path}/images" backend: LMDB
      batch_size: 3 }} transform_param {{ crop_size: 7 mirror: true scale: 0.0039 mean_value: 90 }} }}
    layer {{ name: "conv" type: "Convolution" bottom: "x" top: "y"
      convolution_param {{ num_output: 4 kernel_size: 3 weight_filler {{ type: "xavier" }} }} }}"""
    actual, launches = [], []
    for straight in (True, False):
        dev = plans.device(precision)
        dev.traits = replace(dev.traits, writes_pixels=straight)
        net = bind(text, dtype="float32", dev=dev, keep=True, open_source=partial(open_source, seed=1))
        before = dev.backend.launches
        net.forward()
        launches.append(dev.backend.launches - before)
        actual.append([dev.download(net.blobs["y"]), dev.download(net.data[net.graph.values["label"]])])
        net.close()
    for straight, copied in zip(*actual, strict=True):
        np.testing.assert_array_equal(straight, copied)
    assert actual[0][0].any() and launches[0] < launches[1]
