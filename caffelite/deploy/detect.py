"""Detects objects in images with a deploy net: its preprocessing, the names of its classes, boxes in pixels."""

import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.boxes import clip
from ..layers import REGISTRY
from ..layers.base.detection_base import DetectingLayer
from ..layers.base.feeding import is_input
from ..net.net import Net
from ..prototxt import Document, families
from .preprocessing import Failed, Picture, Preparation, fitting_labels, in_batches, input_shapes, open_deploy_net

LEAST_SCORE = 0.3  # of a box, where none is given
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

    def record(self) -> dict[str, Any]:
        """label (the name), class (the number), score, and box rounded to thousandths of a pixel."""
        box = [round(corner, 3) for corner in self.box]
        return {"label": self.name, "class": self.label, "score": self.score, "box": box}


@dataclass
class Detected:
    """file: the picture's, its content or its pixels. detections: the objects, the highest score first. seconds: from
    the picture to them. notes: what the preparation did to the picture."""

    file: Picture
    detections: list[Detection]
    seconds: float
    notes: list[str] = field(default_factory=list)


def detects(document: Document) -> bool:
    """Whether a net has a layer that detects objects, and whose output no other layer reads."""
    message = document.message
    if completed(message) is not message:
        return True
    read = {bottom for layer in message.layer for bottom in layer.bottom}
    return any(
        layer.type in REGISTRY and issubclass(REGISTRY[layer.type], DetectingLayer) and not read & set(layer.top)
        for layer in message.layer
    )


def completed(message: pb.NetParameter) -> pb.NetParameter:
    """A region detector that ends in boxes and scores, with the layer that makes detections of them, where a family of
    layers knows it by its blobs; another net as it is."""
    sizes = image_sizes(message)
    layer = families.detections(message, sizes) if sizes else None
    if layer is None:
        return message
    complete = deepcopy(message)
    complete.layer.append(layer)
    return complete


def image_sizes(message: pb.NetParameter) -> list[str]:
    """The inputs of a net that have the height, width and scale of each image: N×3."""
    return [
        top
        for layer in message.layer
        if is_input(layer)
        for top, shape in zip(layer.top, input_shapes(layer), strict=False)
        if shape[1:] in ([3], [3, 1, 1])
    ]


class Detector:
    """A deploy net that detects, on a device. pictures: the maximum number of images.

    labels: the names of the classes by number, the background first, which YOLO's nets may lack; by default the net's,
    or numbers. A net of regions, which has an input of image sizes, takes one image at a time. share: as for
    `Classifier`. Errors: those of `Preparation`; labels that do not fit.
    """

    def __init__(
        self,
        document: Document,
        dev: Any,
        pictures: int = 1,
        labels: list[str] | None = None,
        share: Net | None = None,
    ):
        self._sizes = image_sizes(document.message)
        self.preparation = Preparation(document.message, document.locate, self._sizes)
        self.batch = 1 if self._sizes else max(1, min(pictures, MOST_ROWS))
        message = completed(document.message)
        self.net = open_deploy_net(message, document.locate, dev, self.batch, share=share)
        self.output = next(v for v in self.net.graph.outputs if isinstance(v.node.layer, DetectingLayer))
        detector: Any = self.output.node.layer
        count = detector.detected_classes
        named = list(labels if labels is not None else message.deploy_param.label)
        if len(named) == count - 1 and detector.spec.type.startswith("Yolo"):  # whose classes count from 1
            named = ["background", *named]
        expected = f"{count}, one a class, the background included"
        self.labels = fitting_labels(named, count, labels is not None, document.locate, expected)

    def warm_up(self) -> None:
        """As of `Classifier`."""
        self._set_inputs(np.zeros(self.net.graph.inputs[self.preparation.name].shape, np.float32))
        self.net.forward(0)
        self.net.keep_parameters()

    def detections(
        self, files: Sequence[Picture], least: float = 0.0, failed: Failed | None = None
    ) -> Iterator[Detected]:
        """The objects of each image with scores of at least ``least``, in the order of the images: files, their
        content, or pixels as `Preparation.decode` takes them. failed: as for `Classifier.predictions`."""
        name = self.preparation.name
        rows = np.zeros(self.net.graph.inputs[name].shape, np.float32)

        def prepare(file: Picture, position: int, row: int) -> tuple[tuple[int, ...], list[str]]:
            image = self.preparation.decode(file)
            fitted, notes = self.preparation.fitted(image)
            rows[row] = self.preparation.views(fitted)[0]
            return image.shape[1:], notes

        for batch, begun in in_batches(files, self.batch, prepare, failed):
            self._set_inputs(rows)
            self.net.forward(0)
            output = self.net.data[self.output]
            table = self.net.dev.download(output).reshape(-1, output.shape[-1])[:, :ROW]
            seconds = (time.perf_counter() - begun) / len(batch)
            for i, (file, _, (size, notes)) in enumerate(batch):
                mine = table[(table[:, 0] == i) & (table[:, 1] != -1) & (table[:, 2] >= least)]
                yield Detected(file, self._detections(mine, size), seconds, notes)

    def _set_inputs(self, rows: np.ndarray) -> None:
        """The images, and their size where the net has an input for it."""
        inputs = {self.preparation.name: rows}
        for top in self._sizes:
            inputs[top] = np.zeros(self.net.graph.inputs[top].shape, np.float32)
            inputs[top].reshape(self.batch, 3)[:] = (*self.preparation.shape[1:], 1)
        self.net.set_inputs(**inputs)

    def _detections(self, rows: np.ndarray, size: tuple[int, ...]) -> list[Detection]:
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
