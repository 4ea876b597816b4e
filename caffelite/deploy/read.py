"""Reads lines of text in images with a deploy net: its preprocessing, its decoder and the names of its labels."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import CaffeliteError
from ..layers.base.facets import Decodes
from ..net.net import Net
from ..prototxt import Document
from .preprocessing import Failed, Picture, Preparation, fitting_labels, in_batches, open_deploy_net

MOST_ROWS = 32  # of a batch


@dataclass
class Reading:
    """file: the picture's, its content or its pixels. text: the labels' names, joined. score: the probability of the
    text. seconds: from the picture to it. notes: what the preparation did to the picture."""

    file: Picture
    text: str
    score: float
    seconds: float
    notes: list[str] = field(default_factory=list)


def reads(document: Document) -> bool:
    """Whether a net has a layer that decodes text, and whose output no other layer reads."""
    layers = document.message.layer
    read = {bottom for layer in layers for bottom in layer.bottom}
    return any(Decodes.of(layer.type).text and not read & set(layer.top) for layer in layers)


class Reader:
    """A deploy net that reads, on a device. pictures: the maximum number of images.

    labels: the names of the classes, with or without the blank; by default the net's, or numbers with spaces between
    them. A decoder with indicators of sequences takes one image at a time. share: as for `Classifier`. Errors: those of
    `Preparation`; a number of labels unlike that of classes.
    """

    def __init__(
        self,
        document: Document,
        dev: Any,
        pictures: int = 1,
        labels: list[str] | None = None,
        share: Net | None = None,
    ):
        self.preparation = Preparation(document.message, document.locate)
        fixed = any(Decodes.of(layer.type).text and len(layer.bottom) > 1 for layer in document.message.layer)
        self.batch = 1 if fixed else max(1, min(pictures, MOST_ROWS))
        self.net = open_deploy_net(document.message, document.locate, dev, self.batch, share=share, keep=True)
        outputs = self.net.graph.outputs
        self._text = next(v for v in outputs if Decodes.of(v.node.layer.spec.type).text and v.top == 0)
        self._scores = self._text.node.bottoms[0]
        decoder: Any = self._text.node.layer
        self._decoder = decoder
        count = self._scores.shape[2]
        names = list(labels if labels is not None else document.message.deploy_param.label)
        self._between = "" if names else " "
        if len(names) == count - 1:
            names.insert(self._decoder.blank, "blank")
        expected = f"{count}, one a class, or {count - 1} without the blank"
        self.labels = fitting_labels(names, count, labels is not None, document.locate, expected)

    def warm_up(self) -> None:
        """As of `Classifier`."""
        self.net.forward(0)
        self.net.keep_parameters()

    def readings(self, files: Sequence[Picture], failed: Failed | None = None) -> Iterator[Reading]:
        """The text of each image, in their order: files, their content, or pixels as `Preparation.decode` takes them.
        failed: as for `Classifier.predictions`."""
        name, dev = self.preparation.name, self.net.dev
        rows = np.zeros(self.net.graph.inputs[name].shape, np.float32)

        def prepare(file: Picture, position: int, row: int) -> list[str]:
            fitted, notes = self.preparation.fitted(self.preparation.decode(file))
            rows[row] = self.preparation.views(fitted)[0]
            return notes

        for batch, begun in in_batches(files, self.batch, prepare, failed):
            self.net.set_inputs(**{name: rows})
            self.net.forward(0)
            labels = dev.download(self.net.data[self._text]).reshape(self._text.shape[:2]).astype(int)
            lines = [line[line >= 0] for line in labels]
            scores = dev.download(self.net.data[self._scores]).reshape(self._scores.shape[:3])
            if not np.isfinite(scores).all():
                remedy = "are its weights those of this net, and is the input scaled as in training?"
                raise CaffeliteError("the net's scores are not finite", remedy=remedy)
            shares = self._decoder.probabilities(scores, lines)
            seconds = (time.perf_counter() - begun) / len(batch)
            for i, (file, _, notes) in enumerate(batch):
                text = self._between.join(self.labels[label] for label in lines[i].tolist())
                yield Reading(file, text, float(shares[i]), seconds, notes)
