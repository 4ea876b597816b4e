"""An image with its objects and how DetectionData resizes, mirrors and cuts it.

Source: zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp.
"""

from __future__ import annotations

import math

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.boxes import rounded
from ..detection.field_maps import Objects, in_multiples
from .draws import below, uniform
from .images import opencv

# The random words of a sample, a multiple of 4
RATIO, MIRROR, OBJECT, COLUMN, ROW, SCALES, SCALE, ASPECT, NOISE_X, NOISE_Y, WORDS = *range(10), 12
NOISE = 20  # pixels: the range of random offsets of a part
LARGE_FACTOR = 1.5  # an image that is enlarged by more is cut first
CUT_MARGIN = 1.2


def template_ratio(param: pb.DetectionDataParameter, words: np.ndarray) -> float:
    """One of template_ratio, by the random words of the first sample of a batch; 1 without them."""
    if not param.template_ratio:
        return 1.0
    return param.template_ratio[int(below(words[RATIO], len(param.template_ratio)))]


class RegionSample:
    """An image H×W×3 with its objects. boxes, regions: corners of objects and regions, which follow the image. words:
    its random numbers."""

    def __init__(self, pixels: np.ndarray, objects: Objects, words: np.ndarray):
        self.pixels, self.objects, self._words = pixels, objects, words
        self.boxes, self.regions = objects.boxes.copy(), objects.regions.copy()
        self.chosen = -1  # the index of the object around which the part is cut
        self.centre = np.zeros(2)  # of the part, x and y
        self.factors = np.ones(2)  # of the random scale, of width and height

    @property
    def sides(self) -> np.ndarray:
        """Width and height."""
        return np.array(self.pixels.shape[1::-1])

    def _below(self, word: int, limit: int) -> int:
        return int(below(self._words[word], limit))

    def _between(self, word: int, low: float, high: float) -> float:
        return low + (high - low) * float(uniform(self._words[word]))

    def _move(self, factors: np.ndarray | float, shift: np.ndarray | float) -> None:
        """Multiplies the corners of boxes and regions, then adds."""
        for table in (self.boxes, self.regions):
            table[:] = table * np.resize(factors, 4) + np.resize(shift, 4)

    def _resize_pixels(self, height: int, width: int) -> None:
        if (height, width) != self.pixels.shape[:2]:
            pixels = np.ascontiguousarray(self.pixels)
            self.pixels = opencv("resizing images").resize(pixels, (width, height))

    def mirror(self) -> None:
        """With a probability of one half."""
        if self._below(MIRROR, 2):
            self.pixels = self.pixels[:, ::-1]
            for table in (self.boxes, self.regions):
                table[:, [0, 2]] = self.pixels.shape[1] - table[:, [2, 0]]

    def resize(self, height: int, width: int) -> None:
        old = self.sides
        self._resize_pixels(height, width)
        self._move(np.array([width, height]) / old, 0.0)

    def resize_by(self, param: pb.DetectionDataParameter, ratio: float) -> None:
        """To the size that the layer's fields give."""
        height, width = self.pixels.shape[:2]
        if param.resize_width and param.resize_height:
            height, width = param.resize_height, param.resize_width
        elif param.HasField("resize_ratio"):
            height, width = (max(1, rounded(side * param.resize_ratio)) for side in (height, width))
        elif param.short_size and param.long_size:
            scale = in_multiples(param.short_size * ratio) / min(height, width)
            height, width = rounded(height * scale), rounded(width * scale)
        self.resize(height, width)

    def choose_centre(self, size: tuple[int, int]) -> None:
        """The centre of a random object; without objects, of a random part of this height and width."""
        if len(self.boxes):
            self.chosen = self._below(OBJECT, len(self.boxes))
            box = self.boxes[self.chosen]
            self.centre = (box[:2] + box[2:]) / 2
            return
        for axis, word in enumerate((COLUMN, ROW)):
            side, wanted = int(self.sides[axis]), size[1 - axis]
            self.centre[axis] = self._below(word, side - wanted + 1) + wanted / 2 if side >= wanted else side / 2

    def _draw_factors(self, param: pb.DetectionDataParameter) -> None:
        if param.HasField("low_scale_ratio") and param.HasField("high_scale_ratio"):
            low, high = math.log2(param.low_scale_ratio), math.log2(param.high_scale_ratio)
        elif not (param.HasField("min_scale") and param.HasField("max_scale")):
            return
        elif self.chosen >= 0:
            box = self.boxes[self.chosen]
            scale = math.sqrt(max(1.0, float((box[2:] - box[:2] + 1).prod())))
            low, high = math.log2(param.min_scale / scale), math.log2(param.max_scale / scale)
        else:
            low = high = 1.0
        if float(uniform(self._words[SCALES])) >= param.multiscale_prob:
            return
        self.factors = np.full(2, 2 ** self._between(SCALE, low, high))
        if param.HasField("min_whaspect") and param.HasField("max_whaspect"):
            low, high = math.log2(param.min_whaspect), math.log2(param.max_whaspect)
            ratio = math.sqrt(2 ** self._between(ASPECT, low, high))
            self.factors *= (ratio, 1 / ratio)

    def rescale(self, param: pb.DetectionDataParameter) -> None:
        """Scales image and boxes at random, where the layer's fields say so."""
        self._draw_factors(param)
        if (self.factors == 1).all():
            return
        if (self.factors > LARGE_FACTOR).any():
            self._cut_before_enlarging()
        width, height = (max(1, rounded(side)) for side in self.sides * self.factors)
        self._resize_pixels(height, width)
        self._move(self.factors, 0.0)
        self.centre = self.centre * self.factors

    def _cut_before_enlarging(self) -> None:
        sides = self.sides
        wanted = [max(1, min(rounded(CUT_MARGIN * s / f), s)) for s, f in zip(sides, self.factors, strict=True)]
        low = [min(max(rounded(c - w * 0.5), 0), s - w) for c, w, s in zip(self.centre, wanted, sides, strict=True)]
        self.pixels = self.pixels[low[1] : low[1] + wanted[1], low[0] : low[0] + wanted[0]]
        self.centre = self.centre - low
        self._move(1.0, -np.array(low, float))

    def cut(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Keeps the part of this height and width around the centre, or less where the image is smaller; returns where
        the part is in the net's image: top, left, height, width. Boxes move along."""
        spans: list[tuple[int, int, int]] = []  # start in the net's image, start in the image, length
        for axis, word in enumerate((NOISE_Y, NOISE_X)):
            have, wanted = self.pixels.shape[axis], size[axis]
            noise = self._below(word, NOISE) - NOISE // 2
            margin = min(max(0, rounded((wanted - have) / 2) + noise), max(0, wanted - have))
            first = rounded(self.centre[1 - axis]) + noise - rounded(wanted / 2)
            spans.append((margin, min(max(0, first), max(0, have - wanted)), min(have, wanted)))
        (top, row, height), (left, column, width) = spans
        self.pixels = self.pixels[row : row + height, column : column + width]
        self._move(1.0, np.array([left - column, top - row], float))
        return top, left, height, width

    def ignored(self, size: tuple[int, int], least: tuple[float, float]) -> np.ndarray:
        """Which objects (G) are ignored: those of the list, those whose centre is outside of the net's image, and those
        narrower or lower than ``least``."""
        middle, sides = (self.boxes[:, :2] + self.boxes[:, 2:]) / 2, self.boxes[:, 2:] - self.boxes[:, :2] + 1
        outside = ((middle < 0) | (middle >= (size[1], size[0]))).any(1)
        return self.objects.ignored | outside | (sides < least).any(1)
