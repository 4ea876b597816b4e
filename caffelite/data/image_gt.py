"""The source of ImageGtData: images, the labels of their maps, the boxes of their objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from .. import inputs
from ..detection.boxes import rounded
from ..detection.field_maps import (
    NO_BOX,
    Objects,
    covered_cells,
    fields_of,
    image_gt_labels,
    image_gt_shapes,
    image_gt_size,
)
from ..errors import CaffeliteError, Locator, Where
from .database import EXACT_LABELS
from .draws import below, key, of_sample
from .images import MOST_PIXELS, decode, opencv
from .order import Order
from .pipeline import Batch, Source, workers
from .window_lines import Picture, WindowLines

NOISE = 20  # pixels: the range of random offsets of a part
OCTAVE_STEPS = 2  # of scales that do_multiple_scale draws from
ASPECT_STEP = 0.05
SCALE_MARGIN = (0.8, 1.2)  # of min_scale and max_scale, for a side that changes with the ratio
LARGE_FACTOR = 1.5  # of an image that is cut before it is enlarged
CUT_MARGIN = 1.2
# Random words of a sample, a multiple of 4
MIRROR, OBJECT, COLUMN, ROW, SCALES, SCALE, ASPECTS, ASPECT, SIDE, NOISE_X, NOISE_Y, WORDS = *range(11), 12


@dataclass
class Annotated:
    """An image of the list and what is in it."""

    picture: Picture
    objects: Objects


def read_annotated(path: Path, root: str) -> list[Annotated]:
    """The images of a list: after "# index", the path, channels, height and width of an image, the number of its
    objects, for each "label ignored x1 y1 x2 y2", the number of ignored regions, for each "x1 y1 x2 y2".

    Errors: the first line that is not understood; a label below 1; another number of channels than 3; no images.
    """
    found, lines = [], WindowLines(path)
    for picture in lines.pictures(root):
        if picture.shape[0] != 3 or min(picture.shape) < 1:
            expected = "3 channels, height and width of 1 or more"
            raise CaffeliteError("bad sides of an image", where=picture.where, expected=expected, found=picture.shape)
        rows = _numbers(lines, "objects", 6, "label, ignored, x1 y1 x2 y2")
        regions = _numbers(lines, "ignored regions", 4, "x1 y1 x2 y2")
        objects = Objects(rows[:, 2:], rows[:, 0], rows[:, 1] != 0, np.zeros(len(rows), bool), regions)
        found.append(Annotated(picture, objects))
    if not found:
        raise CaffeliteError("no images in the list", where=lines.end)
    return found


def _numbers(lines: WindowLines, what: str, count: int, expected: str) -> np.ndarray:
    """The table of so many numbers a line that follows a line with its length."""
    (length,), where = lines.row(1, f"the number of {what}")
    if length < 0:
        raise CaffeliteError(f"a bad number of {what}", where=where, expected="0 or more", found=length)
    rows = []
    for _ in range(length):
        values, where = lines.row(count, expected, float)
        if not all(abs(value) <= EXACT_LABELS for value in values):  # which NaN and infinity are not
            raise CaffeliteError("a line is not understood", where=where, expected=f"numbers up to {EXACT_LABELS}")
        if count == 6 and (values[0] < 1 or values[0] != int(values[0])):
            expected, found = "an integer of 1 or more", f"{values[0]:g}"
            raise CaffeliteError("a bad label", where=where, expected=expected, found=found)
        rows.append(values)
    return np.array(rows, float).reshape(length, count)


class ImageGtSource(Source):
    """Parts of images (N, 3, H, W) less their mean, 0 outside of the image; label maps (N, 6, h, w), one for each
    field; and rows of boxes (N·M, 7), M the most objects of an image, whose label is -1 where there is none.

    Random numbers depend on seed, layer and sample. Errors: those of ``read_annotated``, an image that cannot be read,
    a crop larger than the images.
    """

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param = layer.image_gt_data_param
        self._param, self._images = param, read_annotated(path, param.root_folder)
        self._fields = fields_of(param.field_w, param.field_h, param.downsample_rate)
        self._mirror = layer.transform_param.mirror
        mean = np.array(layer.transform_param.mean_value or [0], np.float32)
        self._mean, self._factor = mean, np.float32(param.scale)
        repeats = [param.fg_img_multiple if (~a.objects.ignored).any() else 1 for a in self._images]
        self._numbers = np.repeat(np.arange(len(self._images)), repeats)
        self._kept: dict[int, bytes] | None = {} if param.cache_images else None
        most = max(len(a.objects.boxes) for a in self._images)
        listed = self._images[-1].picture.shape[1:]
        self._size = image_gt_size(param, listed)
        whole = (param.resize_height, param.resize_width) if param.resize_width else listed
        for name, side, limit in zip(("crop_height", "crop_width"), self._size, whole, strict=True):
            if side > limit:
                where, expected = locate("image_gt_data_param", name), f"at most {limit}"
                raise CaffeliteError("a crop is larger than the images", where=where, expected=expected, found=side)
        if param.resize_height * param.resize_width > MOST_PIXELS:
            where, found = locate("image_gt_data_param", "resize_width"), f"{param.resize_height}×{param.resize_width}"
            what, expected = "resize_height and resize_width make images too large", f"at most {MOST_PIXELS} pixels"
            raise CaffeliteError(what, where=where, expected=expected, found=found)
        if not len(self._numbers):
            where = locate("image_gt_data_param", "fg_img_multiple")
            raise CaffeliteError("fg_img_multiple leaves no image", where=where, expected="1 or more", found=0)
        self._order = Order(len(self._numbers), key(seed, layer.name, "shuffle") if param.shuffle else None)
        self._draws = key(seed, layer.name, "transform")
        super().__init__(
            image_gt_shapes(param, self._size, most), len(self._numbers), layer.data_param.prefetch, workers()
        )

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        numbers = self._numbers[self._order(position, self.shapes[0][0])]
        for i, number in enumerate(numbers.tolist()):
            words = of_sample(self._draws, position + i, WORDS)
            yield partial(self._process, self._images[number], self._content(number), words, i, batch)

    def _content(self, number: int) -> bytes:
        if self._kept and number in self._kept:
            return self._kept[number]
        picture = self._images[number].picture
        try:
            content = inputs.read(picture.file, inputs.IMAGE)
        except OSError as mistake:
            what = f'cannot read image "{picture.file}": {mistake.strerror}'
            raise CaffeliteError(what, where=picture.where) from None
        if self._kept is not None:
            self._kept[number] = content
        return content

    def _process(self, image: Annotated, content: bytes, words: np.ndarray, i: int, batch: Batch) -> None:
        """Writes sample ``i`` of a batch."""
        try:
            pixels = decode(content, True).transpose(1, 2, 0)
        except ValueError as mistake:
            where: Where = image.picture.where
            raise CaffeliteError(f'image "{image.picture.file}": {mistake}', where=where) from None
        sample = _Sample(pixels, image.objects, words)
        if self._mirror:
            sample.mirror()
        if self._param.resize_width:
            sample.resize(self._param.resize_height, self._param.resize_width)
        sample.choose_centre(self._size)
        sample.rescale(self._param)
        window = sample.place(self._size, batch.arrays[0][i], self._mean, self._factor)
        objects = self._counted(sample)
        windows = [covered_cells(window, field.stride) for field in self._fields]
        maps = [array[i] for array in batch.arrays[1 : 1 + len(self._fields)]]
        image_gt_labels(self._fields, objects, windows, self._param.fg_threshold, maps)
        if self._param.output_gt_boxes:
            most = len(batch.arrays[-1]) // len(batch.arrays[0])
            rows = batch.arrays[-1][i * most : (i + 1) * most] if most else batch.arrays[-1]
            rows[:], rows[:, 5] = 0, NO_BOX
            table = np.column_stack([np.full(len(objects.boxes), i), *objects[:1], objects.labels, objects.ignored])
            rows[: len(table)] = table

    def _counted(self, sample: _Sample) -> Objects:
        """The objects; ignored are also those with their centre outside of the image, and small ones."""
        boxes, param = sample.boxes, self._param
        middle, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1
        outside = ((middle < 0) | (middle >= (self._size[1], self._size[0]))).any(1)
        small = (sides < (param.min_gt_width, param.min_gt_height)).any(1)
        return Objects(boxes, sample.labels, sample.ignored | outside | small, sample.difficult, sample.regions)

    def release(self) -> None:
        self._kept = None


class _Sample:
    """An image H×W×3 and the boxes in it, on their way into a batch. words: its random numbers."""

    def __init__(self, pixels: np.ndarray, objects: Objects, words: np.ndarray):
        self.pixels, self._words = pixels, words
        self.boxes, self.regions = objects.boxes.copy(), objects.regions.copy()
        self.labels, self.ignored, self.difficult = objects.labels, objects.ignored, objects.difficult
        self.centre, self.chosen = np.zeros(2), -1
        self.factors = np.ones(2)  # of width and height

    def _below(self, word: int, limit: int) -> int:
        return int(below(self._words[word], limit))

    def _move(self, factors: np.ndarray | float, shift: np.ndarray | float = 0.0) -> None:
        """Multiplies the corners of all boxes, then adds."""
        for table in (self.boxes, self.regions):
            table[:] = table * np.resize(factors, 4) + np.resize(shift, 4)

    def mirror(self) -> None:
        if not self._below(MIRROR, 2):
            return
        self.pixels = self.pixels[:, ::-1]
        for table in (self.boxes, self.regions):
            table[:, [0, 2]] = self.pixels.shape[1] - table[:, [2, 0]]

    def _resize_pixels(self, height: int, width: int) -> None:
        if (height, width) != self.pixels.shape[:2]:
            pixels = np.ascontiguousarray(self.pixels)
            self.pixels = opencv("resizing images").resize(pixels, (width, height))

    def resize(self, height: int, width: int) -> None:
        old = np.array(self.pixels.shape[1::-1])
        self._resize_pixels(height, width)
        self._move(np.array([width, height]) / old)

    def choose_centre(self, size: tuple[int, int]) -> None:
        """The centre of the part: of a random object, or of a random part of this size."""
        if len(self.boxes):
            self.chosen = self._below(OBJECT, len(self.boxes))
            box = self.boxes[self.chosen]
            self.centre = (box[:2] + box[2:]) / 2
            return
        for axis, word in enumerate((COLUMN, ROW)):
            side, wanted = self.pixels.shape[1 - axis], size[1 - axis]
            random = self._below(word, side - wanted + 1) + wanted / 2 if side >= wanted else side / 2
            self.centre[axis] = random

    def rescale(self, param: pb.ImageGtDataParameter) -> None:
        """Scales image and boxes at random, where the layer does."""
        scales = param.do_multiple_scale and param.HasField("min_scale") and param.HasField("max_scale")
        if scales and self.chosen >= 0 and self._below(SCALES, 2):
            self._draw_factors(param)
            self.factors = np.minimum(self.factors, self.pixels.shape[1::-1])  # at least a pixel is enlarged
        if (self.factors == 1).all():
            return
        if (self.factors > LARGE_FACTOR).any():
            self._cut()
        width, height = (max(1, rounded(v)) for v in self.pixels.shape[1::-1] * self.factors)
        self._resize_pixels(height, width)
        self._move(self.factors)
        self.centre = self.centre * self.factors

    def _draw_factors(self, param: pb.ImageGtDataParameter) -> None:
        low, high = param.min_scale, param.max_scale
        sides = self.boxes[self.chosen][2:] - self.boxes[self.chosen][:2]
        exponents = np.arange(rounded(OCTAVE_STEPS * math.log2(high / low) + 1)) / OCTAVE_STEPS
        area, areas = sides.prod(), (low * 2**exponents) ** 2
        present = exponents[np.argmax(np.minimum(area, areas) / np.maximum(area, areas))] if area > 0 else 0.0
        self.factors = np.full(2, 2.0 ** (exponents[self._below(SCALE, len(exponents))] - present))
        ratios = param.HasField("min_whaspect") and param.HasField("max_whaspect")
        if not ratios or (sides <= 0).any() or not self._below(ASPECTS, 2):
            return
        steps = max(1, rounded((param.max_whaspect - param.min_whaspect) / ASPECT_STEP))
        ratio = self._below(ASPECT, steps) * ASPECT_STEP + param.min_whaspect
        change = ratio * sides[1] / sides[0]
        axis = 0 if self._below(SIDE, 2) else 1
        factor = self.factors[axis] * (change if axis == 0 else 1 / change)
        if low * SCALE_MARGIN[0] <= sides[axis] * factor <= high * SCALE_MARGIN[1]:
            self.factors[axis] = factor

    def _cut(self) -> None:
        """Cuts out the part around the centre that enlarging needs."""
        sides = self.pixels.shape[1::-1]
        wanted = [max(1, min(rounded(CUT_MARGIN * s / f), s)) for s, f in zip(sides, self.factors, strict=True)]
        low = [min(max(rounded(c - w * 0.5), 0), s - w) for c, w, s in zip(self.centre, wanted, sides, strict=True)]
        self.pixels = self.pixels[low[1] : low[1] + wanted[1], low[0] : low[0] + wanted[0]]
        self.centre = self.centre - low
        self._move(1.0, -np.array(low, float))

    def place(
        self, size: tuple[int, int], out: np.ndarray, mean: np.ndarray, factor: np.floating
    ) -> tuple[int, int, int, int]:
        """Writes the part of this size around the centre, or the image with a margin, into ``out`` (3, H, W); returns
        where the image is in it: top, left, height, width."""
        starts: list[tuple[int, int, int]] = []  # in the part, in the image, the length
        for axis, word in enumerate((NOISE_Y, NOISE_X)):
            have, wanted = self.pixels.shape[axis], size[axis]
            noise = self._below(word, NOISE) - NOISE // 2
            margin = min(max(0, rounded((wanted - have) / 2) + noise), max(0, wanted - have))
            first = rounded(self.centre[1 - axis]) + noise - rounded(wanted / 2)
            starts.append((margin, min(max(0, first), max(0, have - wanted)), min(have, wanted)))
        (top, first_row, height), (left, first_column, width) = starts
        part = self.pixels[first_row : first_row + height, first_column : first_column + width]
        out[:] = 0
        values = (part - mean) * factor
        out[:, top : top + height, left : left + width] = values.transpose(2, 0, 1)
        self._move(1.0, np.array([left - first_column, top - first_row], float))
        return top, left, height, width
