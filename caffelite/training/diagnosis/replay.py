"""Runs the iteration of a diagnosis bundle again, with the bundle's weights and samples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, inputs, prototxt, stored, weights
from ...data import arrays
from ...devices.protocol import Device
from ...errors import CaffeliteError, Locator
from ...layers.base.state import carried
from ...net import graph
from ...net.net import Net
from ..checkpoint import snapshot
from ..iteration import Passes
from ..pipeline import Pipeline
from . import diagnosis
from .tracing import TracedArray, trace

_REPORT = {"iteration": int, "seed": int, "parts": int, "rank": int, "size": int}
_RANGES = {"iteration": (0, 1 << 31), "seed": (0, 1 << 63), "parts": (1, 1 << 20), "rank": (0, 1 << 20)}
_RANGES |= {"size": (1, 1 << 20)}


class BundleSource:
    """Returns the batches of a bundle, micro-batch by micro-batch, repeatedly."""

    def __init__(self, micro_batches: list[list[np.ndarray]]):
        self.micro_batches, self.position = micro_batches, 0
        self.length = len(micro_batches) * len(micro_batches[0][0])
        self.shapes = [array.shape for array in micro_batches[0]]

    def next(self) -> list[np.ndarray]:
        self.position += 1
        return self.micro_batches[(self.position - 1) % len(self.micro_batches)]

    def close(self) -> None:
        """Does nothing: no file is open."""


def _no_bundle(folder: Path, reason: object) -> CaffeliteError:
    expected = "a folder that a run left when its loss was not finite, as run_fault_iter_120"
    return CaffeliteError(f"{folder} is no bundle of a fault ({reason})", expected=expected)


def _report(folder: Path) -> dict[str, Any]:
    try:
        inputs.check(folder / diagnosis.REPORT)
        report = stored.load(folder / diagnosis.REPORT, _REPORT)
    except OSError as error:
        raise _no_bundle(folder, error.strerror) from None
    except CaffeliteError as error:
        raise _no_bundle(folder, error) from None
    if wrong := [name for name, (low, high) in _RANGES.items() if not low <= report[name] < high]:
        raise _no_bundle(folder, f'"{wrong[0]}" of {diagnosis.REPORT} is {report[wrong[0]]}')
    return report


def _batch(folder: Path) -> dict[str, np.ndarray]:
    try:
        return arrays.read_all(folder / diagnosis.BATCH)
    except arrays.DAMAGE as error:
        raise _no_bundle(folder, inputs.reason(error)) from None


def _only(folder: Path, pattern: str) -> Path:
    """The only file of a pattern."""
    matches = list(folder.glob(pattern))
    if len(matches) != 1:
        raise _no_bundle(folder, f"{len(matches)} files are called {pattern}")
    return matches[0]


def replay(folder: Path, dev: Device) -> Iterator[TracedArray]:
    """The arrays that layers write in the iteration of a bundle. Errors: a folder that is no bundle, or lacks a part of
    it."""
    report, batch = _report(folder), _batch(folder)
    model, state = _only(folder, "fault_iter_*.caffemodel*"), _only(folder, "fault_iter_*.solverstate*")
    iteration, seed, micro_batches = report["iteration"], report["seed"], report["parts"]
    document = prototxt.read_net(folder / diagnosis.NET)

    def of_bundle(spec: pb.LayerParameter, phase: int, locate: Locator) -> BundleSource:
        names = [[f"{index}/{spec.name}/{i}" for i in range(len(spec.top))] for index in range(micro_batches)]
        if missing := [name for tops in names for name in tops if name not in batch]:
            raise _no_bundle(folder, f"{diagnosis.BATCH} has no {missing[0]}")
        return BundleSource([[batch[name] for name in tops] for tops in names])

    wiring = graph.build(document.message, document.message.state, document.locate, of_bundle)
    net = Net.of(wiring, dev, seed=seed, random_seed=seed, keep=True)
    net.load(weights.read_model(model, copy=False), str(model))
    resume = snapshot.read_state(state).resume
    states = {entry.layer: entry.blob for entry in resume.carried if entry.net == "train"} if resume else {}
    for node in net.graph.nodes:
        arrays = carried(node.layer)
        mine = states.get(node.name, ())[report["rank"] * len(arrays) :]
        for array, blob in zip(arrays, mine, strict=False):
            if len(blob.data) != array.size:
                raise _no_bundle(folder, f'{state.name} does not fit layer "{node.name}"')
            dev.upload(array, np.array(blob.data, dev.dtype).reshape(array.shape))
    yield from trace(Passes(Pipeline(net, micro_batches), report["rank"], report["size"]), iteration)
