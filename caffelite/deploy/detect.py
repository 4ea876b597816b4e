"""Detects objects in images with a deploy net: its preprocessing, the names of its classes, boxes in pixels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.boxes import clip
from ..errors import CaffeliteError
from ..net import graph
from ..net.net import Net
from ..prototxt import Document
from .prepare import Preparation

MOST_ROWS = 32  # of a batch
ROW = 7  # numbers of a detection


@dataclass(frozen=True)
class Detection:
    """An object: its class and the class's name, its score, and its box (xmin, ymin, xmax, ymax) in pixels of the
    image."""

    label: int
    name: str
    score: float
    box: tuple[float, float, float, float]


@dataclass
class Detected:
    """file: the picture's, its content or its pixels. found: the objects, the highest score first. seconds: from the
    picture to them. notes: what the preparation did to the picture."""

    file: Path | bytes | np.ndarray
    found: list[Detection]
    seconds: float
    notes: list[str] = field(default_factory=list)


class Detector:
    """A deploy net that detects, on a device. pictures: the maximum number of images.

    labels: the names of the classes by number, the background first; by default the net's, or numbers. Errors: those of
    `Preparation`; labels that do not fit.
    """

    def __init__(self, document: Document, dev: Any, pictures: int = 1, labels: list[str] | None = None):
        self.preparation = Preparation(document.message, document.locate)
        self.batch = max(1, min(pictures, MOST_ROWS))
        message = pb.NetParameter()
        message.CopyFrom(document.message)
        layer = next(layer for layer in message.layer if layer.type == "Input")
        for shape in layer.input_param.shape:
            shape.dim[0] = self.batch
        state = pb.NetState(phase=pb.TEST)
        state.MergeFrom(message.state)
        state.phase = pb.TEST
        self.net = Net.of(graph.build(message, state, document.locate), dev)
        self.output = next(v for v in self.net.graph.outputs if v.node.layer.detects)
        count = self.output.node.layer.p.num_classes
        named = labels if labels is not None else message.deploy_param.label
        self.labels = list(named) or [str(i) for i in range(count)]
        if len(self.labels) != count:
            where = document.locate("deploy_param", "label") if labels is None else None
            expected = f"{count}, one a class, the background included"
            raise CaffeliteError("labels do not fit the net", where=where, expected=expected, found=len(self.labels))

    def warm_up(self) -> None:
        """One pass, so that no picture's time has what only the first costs."""
        self.net.forward(0)

    def detections(
        self,
        files: Sequence[Path | bytes | np.ndarray],
        least: float = 0.0,
        failed: Callable[[Path | bytes | np.ndarray, CaffeliteError], None] | None = None,
    ) -> Iterator[Detected]:
        """The objects of each image with scores of at least ``least``, in the order of the images: files, their
        content, or pixels as `Preparation.decode` takes them. failed: as for `Classifier.answers`."""
        name = self.preparation.name
        rows = np.zeros(self.net.graph.inputs[name].shape, np.float32)
        for start in range(0, len(files), self.batch):
            begun = time.perf_counter()
            part: list[tuple[Path | bytes | np.ndarray, tuple[int, ...], list[str]]] = []
            for file in files[start : start + self.batch]:
                try:
                    image = self.preparation.decode(file)
                    fitted, notes = self.preparation.fitted(image)
                    rows[len(part)] = self.preparation.views(fitted)[0]
                except CaffeliteError as error:
                    if failed is None:
                        raise
                    failed(file, error)
                    continue
                part.append((file, image.shape[1:], notes))
            if not part:
                continue
            self.net.set_inputs(**{name: rows})
            self.net.forward(0)
            table = self.net.dev.download(self.net.data[self.output]).reshape(-1, ROW)
            seconds = (time.perf_counter() - begun) / len(part)
            for i, (file, size, notes) in enumerate(part):
                mine = table[(table[:, 0] == i) & (table[:, 1] != -1) & (table[:, 2] >= least)]
                yield Detected(file, self._found(mine, size), seconds, notes)

    def _found(self, rows: np.ndarray, size: tuple[int, ...]) -> list[Detection]:
        """The objects of an image of some height and width."""
        boxes = rows[:, 3:7].astype(float)
        stored, shape = self.preparation.size, self.preparation.shape[1:]
        if stored and tuple(stored) != tuple(shape):  # the net reads the middle
            scale = np.array([shape[1] / stored[1], shape[0] / stored[0]])
            boxes = boxes * np.tile(scale, 2) + np.tile((1 - scale) / 2, 2)
        height, width = size
        boxes = clip(boxes) * np.tile([width, height], 2)
        order = np.argsort(-rows[:, 2], kind="stable")
        return [
            Detection(label, self.labels[label], float(rows[i, 2]), tuple(boxes[i].tolist()))
            for i in order.tolist()
            for label in (int(rows[i, 1]),)
        ]
