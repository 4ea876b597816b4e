"""Checks of convolutions, one row per precision: forward, data and weight gradient; a GPU against the CPU, a CPU
against NumPy."""

from __future__ import annotations

import functools

import numpy as np

from .. import caffelite_pb2 as pb
from .. import prototxt
from ..devices import open_device
from ..devices.protocol import Device
from ..net import graph
from ..net.net import Net
from .bench import Bench, compare
from .products import supported

TOLERANCE = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 1e-2, "bf16": 6e-2}
LAYERS = {  # name: the bottom's shape, convolution_param
    "lenet_conv2": ((8, 20, 12, 12), "num_output: 50 kernel_size: 5"),
    "alexnet_conv2": ((2, 96, 27, 27), "num_output: 256 kernel_size: 5 pad: 2 group: 2"),
    "resnet_conv1": ((2, 3, 64, 64), "num_output: 64 kernel_size: 7 stride: 2 pad: 3"),
    "resnet_3x3": ((4, 64, 14, 14), "num_output: 64 kernel_size: 3 pad: 1"),
    "resnet_1x1": ((4, 64, 14, 14), "num_output: 128 kernel_size: 1 stride: 2"),
}
LOSS_WEIGHT = 0.01
NET = """force_backward: true
layer {{ name: "x" type: "DummyData" top: "x" dummy_data_param {{ shape {{ {shape} }}
  data_filler {{ type: "gaussian" }} }} }}
layer {{ name: "{name}" type: "Convolution" bottom: "x" top: "y" convolution_param {{ {param}
  weight_filler {{ type: "xavier" }} bias_filler {{ type: "constant" value: 0.1 }} }} }}
layer {{ name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: {weight}
  reduction_param {{ operation: SUMSQ }} }}
"""


def passes(dev: Device, name: str) -> dict[str, np.ndarray]:
    """The results of a convolution's passes, by name."""
    shape, param = LAYERS[name]
    text = NET.format(name=name, param=param, weight=LOSS_WEIGHT, shape=" ".join(f"dim: {d}" for d in shape))
    net = Net.of(
        graph.build(prototxt.parse(text, pb.NetParameter).message, pb.NetState(phase=pb.TRAIN)), dev, seed=3, keep=True
    )
    net.clear_loss()
    net.forward(0)
    net.backward()
    x, y = net.graph.values["x"], net.graph.values["y"]
    w, b = net.params.blobs
    found = {
        "x": net.shown(net.data[x], x),
        "w": w,
        "b": b,
        "y": net.shown(net.data[y], y),
        "dx": net.shown(net.diff[x], x),
        "dw": net.params.diffs[0],
        "db": net.params.diffs[1],
    }
    return {what: np.array(dev.download(whole(dev, array)), np.float64) for what, array in found.items()}


def whole(dev: Device, array):
    """The array, in one piece."""
    if array.flags.c_contiguous:
        return array
    copy = dev.empty(array.shape)
    dev.assign(array, copy)
    return copy


def by_numpy(found: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """y and the gradients of a layer from its inputs, in float64: products with the columns of its
    windows."""
    p = prototxt.parse(LAYERS[name][1], pb.ConvolutionParameter).message
    x, w, b = (found[what] for what in "xwb")
    k, stride, pad, groups = p.kernel_size[0], (*p.stride, 1)[0], (*p.pad, 0)[0], p.group
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))[:, :, ::stride, ::stride]
    n, c, oh, ow = seen.shape[:4]
    columns = (
        seen.reshape(n, groups, c // groups, oh, ow, k, k)
        .transpose(1, 0, 3, 4, 2, 5, 6)
        .reshape(groups, n * oh * ow, -1)
    )
    flat = w.reshape(groups, len(w) // groups, -1)
    y = columns @ flat.swapaxes(1, 2) + b.reshape(groups, 1, -1)
    dy = 2 * LOSS_WEIGHT * y
    dcolumns = (
        (dy @ flat)
        .reshape(groups, n, oh, ow, c // groups, k, k)
        .transpose(1, 0, 4, 2, 3, 5, 6)
        .reshape(n, c, oh, ow, k, k)
    )
    dx = np.zeros_like(padded)
    for i in range(k):
        for j in range(k):
            dx[:, :, i : i + stride * oh : stride, j : j + stride * ow : stride] += dcolumns[..., i, j]
    return {
        "y": y.reshape(groups, n, oh, ow, -1).transpose(1, 0, 4, 2, 3).reshape(n, -1, oh, ow),
        "dx": dx[:, :, pad : pad + x.shape[2], pad : pad + x.shape[3]],
        "dw": (dy.swapaxes(1, 2) @ columns).reshape(w.shape),
        "db": dy.sum(1).reshape(-1),
    }


@functools.cache
def on_cpu(name: str) -> dict[str, np.ndarray]:
    return passes(open_device(), name)


def _convolutions(bench: Bench, precision: str) -> str:
    dev, errors = (
        supported(bench, precision, deterministic=True),
        [],
    )  # with cuDNN's first plan: timing all of them takes a minute
    for name in LAYERS:
        found = passes(dev, name)
        expected = by_numpy(found, name) if bench.number is None else on_cpu(name)
        for what in ("y", "dx", "dw", "db"):
            errors.append(compare(f"{name}, {what}", found[what], expected[what], TOLERANCE[precision]))
    return f"{len(LAYERS)} layers, off by up to {max(errors):.1e}"


def _check(precision: str):
    check = functools.partial(_convolutions, precision=precision)
    check.__doc__ = f"convolutions, {precision}"
    return check


CHECKS = tuple(map(_check, TOLERANCE))
