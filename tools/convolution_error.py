"""Prints the rounding errors of a CPU's convolutions: each algorithm, pass and shape of shipped nets.

Root mean square errors against float64, as multiples of the errors of columns and BLAS, which is Caffe's way. Weight
gradients stay within 4 times BLAS's (tests/devices/test_weight_gradients.py). Images have normal deviates, of which a
ReLU leaves the positive ones.

Examples:
  python tools/convolution_error.py
  python tools/convolution_error.py lenet resnet18 --batch 16
  ONEDNN_MAX_CPU_ISA=AVX2 NUMBA_CPU_NAME=haswell NUMBA_CPU_FEATURES= python tools/convolution_error.py lenet
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices import Window, algorithms, ops
from caffelite.devices.cpu import CPU, onednn
from caffelite.layers.convolution import Convolution
from caffelite.net import graph

MODELS = Path(__file__).resolve().parent.parent / "models"
NETS = "lenet", "cifar10_full", "alexnet", "resnet18", "mobilenet"
PASSES = "forward", "data gradient", "weight gradient"


class Shape(NamedTuple):
    """A convolution: x (N, C, H, W), y (N, M, OH, OW)."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    window: Window
    groups: int

    def __str__(self) -> str:
        kernel = "x".join(map(str, self.window.kernel))
        stride = f" stride {self.window.stride[0]}" * (self.window.stride != (1, 1))
        return f"{self.x[1]}x{self.x[2]} to {self.y[1]}, {kernel}{stride}" + f", {self.groups} groups" * (
            self.groups > 1
        )


def shapes(net: str, batch: int) -> list[Shape]:
    """The convolutions of a shipped net, each shape once."""
    document = prototxt.read_net(str(MODELS / net / "deploy.prototxt"))
    wiring = graph.build(document.message, pb.NetState(phase=pb.TEST), document.locate)
    layers = [node.layer for node in wiring.nodes if isinstance(node.layer, Convolution)]
    every = [
        Shape((batch, *layer.x_shape[1:]), (batch, *layer.y_shape[1:]), layer.window, layer.p.group) for layer in layers
    ]
    return list(dict.fromkeys(every))


def without_onednn() -> CPU:
    with mock.patch.dict(os.environ, CAFFELITE_ONEDNN="0"):
        onednn.load.cache_clear()
        device = CPU()
    onednn.load.cache_clear()
    return device


def passes(device: CPU, shape: Shape, arrays: tuple[np.ndarray, ...], algorithm: str | None) -> list[np.ndarray]:
    """y, dx, dw, channels first. algorithm: None for images that lie channels first."""
    x, w, dy = (a.astype(device.dtype) for a in arrays)
    options: dict[str, Any] = {}
    if algorithm:
        options = {"channels_last": True, "algorithm": algorithm}
        x, dy = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, dy))
    op = device.build(ops.Convolution(shape.x, shape.y, shape.window, shape.groups, **options))
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    op.forward(x, w, None, y)
    op.backward(x, w, dy, dx, dw, None)
    if algorithm:
        y, dx = (a.transpose(0, 3, 1, 2) for a in (y, dx))
    return [y, dx, dw]


def errors(shape: Shape) -> Iterator[tuple[str, list[float]]]:
    """By algorithm: the error of each pass as a multiple of BLAS's."""
    rng = np.random.default_rng(1)
    dims = (shape.y[1], shape.x[1] // shape.groups, *shape.window.kernel)
    x, w, dy = (rng.standard_normal(s).astype(np.float32) for s in (shape.x, dims, shape.y))
    arrays = np.maximum(x, 0), w, dy
    exact, plain = passes(CPU("float64"), shape, arrays, None), passes(without_onednn(), shape, arrays, None)
    blas = [error(a, e) for a, e in zip(plain, exact, strict=True)]
    for name in algorithms.candidates(shape.x, shape.y, shape.window, shape.groups, half=False):
        ours = passes(CPU(), shape, arrays, name)
        yield name, [error(a, e) / b for a, e, b in zip(ours, exact, blas, strict=True)]


def error(values: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - exact) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="net", help=f"folders of models/ (default: {', '.join(NETS)})")
    parser.add_argument("--batch", type=int, default=8, help="images (default 8)")
    args = parser.parse_args()
    print(f"{'net':14}{'convolution':36}{'algorithm':12}" + "".join(f"{name:>17}" for name in PASSES))
    for net in args.nets or NETS:
        for shape in shapes(net, args.batch):
            for name, multiples in errors(shape):
                print(f"{net:14}{str(shape):36}{name:12}" + "".join(f"{m:17.2f}" for m in multiples), flush=True)


if __name__ == "__main__":
    main()
