"""ONNX operators of boxes, shared by the families of detectors: decoding, non-maximum suppression, rows of objects."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..detection.boxes import CENTER_SIZE, CORNER_SIZE, LARGEST_GROWTH
from .base.exporting import Writer

LOWEST = float(np.finfo(np.float32).min)  # of a box that is out
EVERY = np.iinfo(np.int32).max  # as many boxes as there are


def halves(w: Writer, x: str) -> list[str]:
    """The first two and the last two values of the last axis."""
    return w.add_many("Split", [x, w.numbers([2, 2])], 2, axis=-1)


def decode(w: Writer, offsets: str, boxes: str, code: int, pixels: bool = False) -> str:
    """`detection.boxes.decode` without variances; pixels: `rcnn_decode`. Shapes (..., 4), which broadcast."""
    low, high = halves(w, boxes)
    size = w.add("Sub", [high, low])
    if code != CENTER_SIZE:
        moves = w.add("Mul", [offsets, w.add("Concat", [size, size], axis=-1)]) if code == CORNER_SIZE else offsets
        return w.add("Add", [boxes, moves])
    size = w.add("Add", [size, w.scalar(1)]) if pixels else size
    center = w.add("Add", [low, w.add("Mul", [size, w.scalar(0.5)])])
    move, growth = halves(w, offsets)
    growth = w.add("Min", [growth, w.scalar(LARGEST_GROWTH)]) if pixels else growth
    center = w.add("Add", [w.add("Mul", [move, size]), center])
    half = w.add("Mul", [w.add("Mul", [w.add("Exp", [growth]), size]), w.scalar(0.5)])
    return w.add("Concat", [w.add("Sub", [center, half]), w.add("Add", [center, half])], axis=-1)


def best(w: Writer, scores: str, count: str) -> list[str]:
    """The ``count`` greatest along the last axis, of equal ones the first, and their places. count: int64 [1]."""
    return w.add_many("TopK", [scores, count], 2, axis=-1)


def taken(w: Writer, table: str, places: str) -> str:
    """table (B, P, 4), places (B, K) → (B, K, 4)."""
    return w.add("GatherND", [table, w.add("Unsqueeze", [places, w.numbers([-1])])], batch_dims=1)


def filled(w: Writer, like: str, value: float) -> str:
    return w.add("Expand", [w.scalar(value), w.add("Shape", [like])])


@dataclass(frozen=True)
class Suppression:
    """Boxes of scores above ``above`` stay where they overlap no better one that stays by more than ``threshold``.
    most: how many at most. pixels: both corners belong to a box."""

    threshold: float
    above: float = LOWEST
    most: int = EVERY
    pixels: bool = False

    def write(self, w: Writer, boxes: str, scores: str) -> str:
        """boxes (B, K, 4) and scores (B, K), each row by falling score → (B, K), 1 where a box stays, else 0."""
        if self.pixels:
            boxes = w.add("Add", [boxes, w.array("a pixel more", np.array([0, 0, 1, 1], np.float32))])
        else:  # a box whose maximum is below its minimum is empty, which the operator turns around
            low, high = halves(w, boxes)
            boxes = w.add("Concat", [low, w.add("Max", [low, high])], axis=-1)
        limits = [w.scalar(min(self.threshold, 1)), w.scalar(max(self.above, LOWEST))]
        rows = w.add("Unsqueeze", [scores, w.numbers([1])])
        chosen = w.add("NonMaxSuppression", [boxes, rows, w.numbers([self.most]), *limits])
        places = w.add("Gather", [chosen, w.numbers([0, 2])], axis=1)
        ones = w.add("Expand", [w.scalar(1), w.add("Shape", [chosen], start=0, end=1)])
        return w.add("ScatterND", [filled(w, scores, 0), places, ones])


def limited(w: Writer, stays: str, scores: str, count: str) -> str:
    """Of stays (N, M) only the ``count`` of the greatest scores (N, M) of each row."""
    ranked = w.add("Where", [w.add("Cast", [stays], to=BOOL), scores, w.scalar(LOWEST)])
    values, places = best(w, ranked, count)
    staying = w.add("Cast", [w.add("Greater", [values, w.scalar(LOWEST)])], to=FLOAT)
    return w.add("ScatterElements", [filled(w, scores, 0), places, staying], axis=1)


FLOAT, INT64, BOOL = 1, 7, 9  # of onnx.TensorProto


def floats(w: Writer, x: str) -> str:
    return w.add("Cast", [x], to=FLOAT)


def places_of(w: Writer, stays: str) -> str:
    """The places (D, axes) of what is not 0, in order."""
    return w.add("Transpose", [w.add("NonZero", [stays])], perm=[1, 0])


def detections(w: Writer, stays: str, scores: str, boxes: str, labels: Sequence[int], otherwise: str) -> str:
    """Rows (1, 1, D, 7), image, class, score and corners, of stays and scores (N, L, K) and boxes (N, L, K, 4).
    otherwise (F, 7): the rows where nothing stays."""
    places = places_of(w, stays)
    image = w.add("Gather", [places, w.numbers([0])], axis=1)
    label = w.add("Gather", [w.array(f"labels {labels}", np.array(labels, np.float32)), column(w, places, 1)], axis=0)
    score = w.add("GatherND", [scores, places])
    columns = [floats(w, image), *(w.add("Unsqueeze", [x, w.numbers([1])]) for x in (label, score))]
    return rows_or(w, w.add("Concat", [*columns, w.add("GatherND", [boxes, places])], axis=1), otherwise)


def rows_or(w: Writer, rows: str, otherwise: str) -> str:
    """The top (1, 1, D, 7) of these rows (D, 7); where there are none, of the others (F, 7)."""
    none = w.add("Equal", [w.add("Shape", [rows], start=0, end=1), w.numbers([0])])
    count = w.add("Where", [none, w.add("Shape", [otherwise], start=0, end=1), w.numbers([0])])
    rest = w.add("Slice", [otherwise, w.numbers([0]), count, w.numbers([0])])
    return w.add("Unsqueeze", [w.add("Concat", [rows, rest], axis=0), w.numbers([0, 1])])


def nothing(w: Writer, values: str) -> str:
    """A row (image, -1, …) for each image of values (N, …)."""
    images = w.add("Shape", [values], start=0, end=1)
    ones = w.add("Expand", [w.scalar(1), w.add("Concat", [images, w.numbers([1])], axis=0)])
    numbers = w.add("Sub", [w.add("CumSum", [ones, w.numbers([0])]), w.scalar(1)])
    return w.add("Concat", [numbers, *[w.add("Neg", [ones])] * 6], axis=1)


def column(w: Writer, table: str, index: int) -> str:
    """A column (R) of a table (R, C)."""
    return w.add("Squeeze", [w.add("Gather", [table, w.numbers([index])], axis=1), w.numbers([1])])
