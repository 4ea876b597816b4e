"""The source of ImageGtData: images, the labels of their maps, the boxes of their objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from ..detection.boxes import rounded
from ..detection.field_maps import (
    NO_BOX,
    covered_cells,
    fields_of,
    image_gt_labels,
    image_gt_shapes,
    image_gt_size,
)
from ..errors import CaffeliteError, Locator
from .draws import key, of_sample
from .images import MOST_PIXELS
from .object_lists import IMAGE_GT, ImageFiles, read_objects
from .order import Order
from .pipeline import Batch, Source, workers
from .region_sample import Draws, RegionSample

OCTAVE_STEPS = 2  # of scales that do_multiple_scale draws from
ASPECT_STEP = 0.05
SCALE_MARGIN = (0.8, 1.2)  # of min_scale and max_scale, for a side that changes with the ratio
# Random words of a sample, a multiple of 4
MIRROR, OBJECT, COLUMN, ROW, SCALES, SCALE, ASPECTS, ASPECT, SIDE, NOISE_X, NOISE_Y, WORDS = *range(11), 12
DRAWS = Draws(mirror=MIRROR, object=OBJECT, column=COLUMN, row=ROW, noise_x=NOISE_X, noise_y=NOISE_Y)


class ImageGtSource(Source):
    """Parts of images (N, 3, H, W) less their mean, 0 outside of the image; label maps (N, 6, h, w), one for each
    field; and rows of boxes (N·M, 7), M the most objects of an image, whose label is -1 where there is none.

    Random numbers depend on seed, layer and sample. Errors: those of ``read_objects``, an image that cannot be read,
    a crop larger than the images.
    """

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param = layer.image_gt_data_param
        self._param, self._images = param, read_objects(path, param.root_folder, IMAGE_GT)
        self._fields = fields_of(param.field_w, param.field_h, param.downsample_rate)
        self._mirror = layer.transform_param.mirror
        mean = np.array(layer.transform_param.mean_value or [0], np.float32)
        self._mean, self._factor = mean, np.float32(param.scale)
        repeats = [param.fg_img_multiple if (~a.objects.ignored).any() else 1 for a in self._images]
        self._numbers = np.repeat(np.arange(len(self._images)), repeats)
        self._files = ImageFiles(self._images, param.cache_images)
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
        self.listed = self._images
        super().__init__(
            image_gt_shapes(param, self._size, most), len(self._numbers), layer.data_param.prefetch, workers()
        )

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        numbers = self._numbers[self._order(position, self.shapes[0][0])]
        for i, number in enumerate(numbers.tolist()):
            words = of_sample(self._draws, position + i, WORDS)
            yield partial(self._process, number, self._files.read(number), words, i, batch)

    def _process(self, number: int, content: bytes, words: np.ndarray, i: int, batch: Batch) -> None:
        """Writes sample ``i`` of a batch."""
        pixels, param = self._files.decode(number, content), self._param
        sample = RegionSample(pixels, self._images[number].objects, words, DRAWS)
        if self._mirror:
            sample.mirror()
        if param.resize_width:
            sample.resize(param.resize_height, param.resize_width)
        sample.choose_centre(self._size)
        sample.rescale(_scale_factors(sample, param))
        window = sample.cut(self._size)
        sample.write(self._mean, self._factor, batch.arrays[0][i], *window[:2])
        objects = sample.located(self._size, (param.min_gt_width, param.min_gt_height))
        windows = [covered_cells(window, field.stride) for field in self._fields]
        maps = [array[i] for array in batch.arrays[1 : 1 + len(self._fields)]]
        image_gt_labels(self._fields, objects, windows, param.fg_threshold, maps)
        if param.output_gt_boxes:
            most = len(batch.arrays[-1]) // len(batch.arrays[0])
            rows = batch.arrays[-1][i * most : (i + 1) * most] if most else batch.arrays[-1]
            rows[:], rows[:, 5] = 0, NO_BOX
            table = np.column_stack([np.full(len(objects.boxes), i), *objects[:1], objects.labels, objects.ignored])
            rows[: len(table)] = table

    def release(self) -> None:
        self._files.release()


def _scale_factors(sample: RegionSample, param: pb.ImageGtDataParameter) -> np.ndarray:
    """The random factors (2) of width and height; 1 where the layer does not scale."""
    scales = param.do_multiple_scale and param.HasField("min_scale") and param.HasField("max_scale")
    if not scales or sample.chosen < 0 or not sample.below(SCALES, 2):
        return np.ones(2)
    return np.minimum(_random_factors(sample, param), sample.sides)  # at least a pixel is enlarged


def _random_factors(sample: RegionSample, param: pb.ImageGtDataParameter) -> np.ndarray:
    low, high = param.min_scale, param.max_scale
    sides = sample.boxes[sample.chosen][2:] - sample.boxes[sample.chosen][:2]
    exponents = np.arange(rounded(OCTAVE_STEPS * math.log2(high / low) + 1)) / OCTAVE_STEPS
    area, areas = sides.prod(), (low * 2**exponents) ** 2
    present = exponents[np.argmax(np.minimum(area, areas) / np.maximum(area, areas))] if area > 0 else 0.0
    factors = np.full(2, 2.0 ** (exponents[sample.below(SCALE, len(exponents))] - present))
    ratios = param.HasField("min_whaspect") and param.HasField("max_whaspect")
    if not ratios or (sides <= 0).any() or not sample.below(ASPECTS, 2):
        return factors
    steps = max(1, rounded((param.max_whaspect - param.min_whaspect) / ASPECT_STEP))
    ratio = sample.below(ASPECT, steps) * ASPECT_STEP + param.min_whaspect
    change = ratio * sides[1] / sides[0]
    axis = 0 if sample.below(SIDE, 2) else 1
    factor = factors[axis] * (change if axis == 0 else 1 / change)
    if low * SCALE_MARGIN[0] <= sides[axis] * factor <= high * SCALE_MARGIN[1]:
        factors[axis] = factor
    return factors
