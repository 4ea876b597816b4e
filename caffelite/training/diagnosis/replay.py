"""Runs the iteration of a diagnosis bundle again, with the bundle's weights and samples."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb
from ... import inputs, prototxt, weights
from ...devices.protocol import Device
from ...errors import CaffeliteError, Locator
from ...net import graph
from ...net.net import Net
from ..checkpoint import snapshot
from ..iteration import Passes
from ..pipeline import Pipeline
from . import bundle
from .tracing import TracedArray, trace


class BundleSource:
    """Returns the batches of a bundle, micro-batch by micro-batch, repeatedly."""

    def __init__(self, parts: list[list[np.ndarray]]):
        self.parts, self.position, self.length = parts, 0, len(parts) * len(parts[0][0])
        self.shapes = [array.shape for array in parts[0]]

    def next(self) -> list[np.ndarray]:
        self.position += 1
        return self.parts[(self.position - 1) % len(self.parts)]

    def close(self) -> None:
        """Does nothing: no file is open."""


def replay(folder: Path, dev: Device) -> Iterator[TracedArray]:
    """The arrays that layers write in the iteration of a bundle. Errors: a folder that is no bundle, or lacks a part of
    it."""
    try:
        report = json.loads(inputs.read_text(folder / bundle.REPORT))
        inputs.check(folder / bundle.BATCH)
        with np.load(folder / bundle.BATCH) as file:
            batch = dict(file)
        iteration, seed, parts, _ = (report[name] for name in ("iteration", "seed", "parts", "rank"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        what = f"{folder} is no bundle of a fault ({getattr(error, 'strerror', None) or error})"
        raise CaffeliteError(
            what, expected="a folder that a run left when its loss was not finite, as run_fault_iter_120"
        ) from None
    document = prototxt.read_net(folder / bundle.NET)

    def stored(spec: pb.LayerParameter, phase: int, locate: Locator) -> BundleSource:
        kept = [[batch[f"{part}/{spec.name}/{i}"] for i in range(len(spec.top))] for part in range(parts)]
        return BundleSource(kept)

    wiring = graph.build(document.message, document.message.state, document.locate, stored)
    net = Net.of(wiring, dev, seed=seed, random_seed=seed, keep=True)
    model = next(folder.glob("fault_iter_*.caffemodel*"))
    net.load(weights.read_model(model, copy=False), str(model))
    (state,) = folder.glob("fault_iter_*.solverstate*")
    resume = snapshot.read_state(state).resume
    kept = {entry.layer: entry.blob for entry in resume.carried if entry.net == "train"} if resume else {}
    for node in net.graph.nodes:
        count = len(node.layer.carried)
        for array, blob in zip(node.layer.carried, kept.get(node.name, ())[report["rank"] * count :], strict=False):
            dev.upload(array, np.array(blob.data, dev.dtype).reshape(array.shape))
    yield from trace(Passes(Pipeline(net, parts), report["rank"], report["size"]), iteration)
