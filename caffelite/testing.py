"""Tests of a layer of one's own: ``check_layer``."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import caffelite_pb2 as pb, prototxt
from .devices import open_device
from .layers import REGISTRY
from .net import graph
from .net.net import Net

STEP = 1e-5
DIRECTIONS = 3


def check_layer(
    kind: str,
    *bottoms: Any,
    settings: str = "",
    reference: Callable[..., Any] | None = None,
    tops: int = 1,
    phase: str = "TRAIN",
    gpu: int | None = None,
    tolerance: float = 1e-6,
    seed: int = 1,
) -> None:
    """Raises AssertionError unless the layer type ``kind`` computes what it should, in float64.

    bottoms: an array each, samples first, away from places where the layer has no slope. settings: fields of the layer
    as in a prototxt, such as ``softclip_param { scale: 2 }``. reference: the top, or a tuple of tops, from bottoms and
    parameters. Compared are forward with the reference, gradients with finite differences (if the type has any), a
    batch of one with the first sample, and whether NaN in a bottom shows in the tops. gpu: the number of one; None: the
    CPU.
    """
    arrays = [np.array(bottom, np.float64) for bottom in bottoms]
    case = _Case(kind, settings, tops, phase, open_device(gpu, "float64"), seed)
    outputs = case.forward(arrays)
    if reference is not None:
        expected = reference(*arrays, *case.parameters)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for i, (value, wanted) in enumerate(zip(outputs, expected, strict=True)):
            assert value.shape == np.shape(wanted), f"top {i}: expected shape {np.shape(wanted)}, found {value.shape}"
            np.testing.assert_allclose(value, wanted, tolerance, tolerance, err_msg=f"{kind}: forward, top {i}")
    if REGISTRY[kind].differentiable and arrays:
        case.check_gradient(arrays, tolerance)
        case.check_nan(arrays)
    if arrays and all(array.ndim for array in arrays):
        case.check_batch_of_one(arrays, outputs, tolerance)


class _Case:
    def __init__(self, kind: str, settings: str, tops: int, phase: str, device: Any, seed: int):
        self.kind, self.settings, self.tops, self.phase, self.device, self.seed = (
            kind,
            settings,
            tops,
            phase,
            device,
            seed,
        )
        self.type = REGISTRY[kind]
        self.parameters: list[np.ndarray] = []

    def net(self, arrays: list[np.ndarray], judged: tuple[tuple[int, ...], ...] = ()) -> Net:
        """A net of the layer alone, or with a loss on each of its tops. judged: their shapes."""
        text = "".join(_input(f"x{i}", array.shape) for i, array in enumerate(arrays))
        below = " ".join(f'bottom: "x{i}"' for i in range(len(arrays)))
        above = " ".join(f'top: "y{i}"' for i in range(self.tops))
        text += f'layer {{ name: "layer" type: "{self.kind}" {below} {above} {self.settings} }}\n'
        for i, shape in enumerate(judged):
            text += _input(f"t{i}", shape)
            text += f'layer {{ name: "j{i}" type: "EuclideanLoss" bottom: "y{i}" bottom: "t{i}" top: "j{i}" }}\n'
        document = prototxt.parse(f"force_backward: true\n{text}", pb.NetParameter, f"<{self.kind}>")
        state = pb.NetState(phase=self.phase)
        built = graph.build(document.message, state, document.locate)
        net = Net.of(built, self.device, seed=self.seed, random_seed=self.seed, keep=True)
        random = np.random.default_rng(self.seed)
        for blob in net.params.blobs:
            self.device.upload(blob, random.normal(size=blob.shape))
        self.parameters = [np.array(self.device.download(blob)) for blob in net.params.blobs]
        self.feed(net, {f"x{i}": array for i, array in enumerate(arrays)})
        self.feed(net, {f"t{i}": random.normal(size=shape) for i, shape in enumerate(judged)})
        return net

    def feed(self, net: Net, arrays: dict[str, np.ndarray]) -> None:
        for node in net.graph.feeds:
            for value in node.tops:
                if value.name in arrays:
                    self.device.upload(net.data[value], arrays[value.name])

    def forward(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        net = self.net(arrays)
        net.forward()
        return [np.array(self.device.download(net.blobs[f"y{i}"])) for i in range(self.tops)]

    def check_gradient(self, arrays: list[np.ndarray], tolerance: float) -> None:
        """The gradients are derivatives of the loss along random directions."""
        shapes = () if self.type.loss else tuple(top.shape for top in self.forward(arrays))
        net, random = self.net(arrays, shapes), np.random.default_rng(self.seed)
        _loss(net)
        values = {value.name: value for node in net.graph.feeds for value in node.tops}
        names = [f"x{i}" for i in range(len(arrays)) if i not in self.type.constant_bottoms]
        spots = [net.data[values[name]] for name in names] + [net.params.data]
        differences = [self.device.download(net.diff[values[name]]) for name in names]
        gradients = [np.array(gradient) for gradient in (*differences, self.device.download(net.params.diff))]
        starts = [np.array(self.device.download(spot)) for spot in spots]
        for name, which in [*((name, [i]) for i, name in enumerate(names)), ("all", range(len(spots)))]:
            for _ in range(DIRECTIONS):
                steps = [random.normal(size=s.shape) * STEP * (i in which) for i, s in enumerate(starts)]
                slope = sum(float((g * step).sum()) for g, step in zip(gradients, steps, strict=True))
                losses = []
                for sign in (1, -1):
                    for spot, start, step in zip(spots, starts, steps, strict=True):
                        self.device.upload(spot, start + sign * step)
                    losses.append(_loss(net))
                what = f"{self.kind}: the gradient of {name} is not that of forward"
                measured = (losses[0] - losses[1]) / 2
                np.testing.assert_allclose(slope, measured, 10 * tolerance, STEP * tolerance, err_msg=what)

    def check_nan(self, arrays: list[np.ndarray]) -> None:
        """NaN in a bottom's first sample shows in a top, and, if samples are independent, in no other sample."""
        for i in set(range(len(arrays))) - set(self.type.constant_bottoms):
            broken = [array.copy() for array in arrays]
            broken[i][:1] = np.nan
            tops = self.forward(broken)
            assert any(np.isnan(top).any() for top in tops), f"{self.kind}: NaN in bottom {i} does not show"
            for top in tops if not self.type.couples_samples else ():
                assert not top.ndim or not np.isnan(top[1:]).any(), f"{self.kind}: NaN reaches other samples"

    def check_batch_of_one(self, arrays: list[np.ndarray], outputs: list[np.ndarray], tolerance: float) -> None:
        for i, top in enumerate(self.forward([array[:1] for array in arrays])):
            if not self.type.couples_samples and top.ndim:
                what = f"{self.kind}: a batch of one, top {i}"
                np.testing.assert_allclose(top, outputs[i][:1], tolerance, tolerance, err_msg=what)


def _input(name: str, shape: tuple[int, ...]) -> str:
    dims = " ".join(f"dim: {d}" for d in shape)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def _loss(net: Net) -> float:
    """Of one pass forward and backward."""
    net.clear_loss()
    net.forward(0)
    net.backward()
    return float(net.loss[0])
