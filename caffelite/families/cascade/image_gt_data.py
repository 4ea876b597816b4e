"""ImageGtData and its source: images, the labels of their maps, the boxes of their objects."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.draws import key, of_sample
from ...data.images import MOST_PIXELS
from ...data.order import Order
from ...data.pictures import FIELDS, Decoder
from ...data.pipeline import Batch, Source, workers
from ...detection.boxes import rounded
from ...errors import Locator
from ...layers.base import require
from ...layers.base.layer import Shape, register
from .field_maps import NO_BOX, covered_cells, fields_of, image_gt_labels, image_gt_shapes, image_gt_size
from .listed_images import IMAGE_GT, Draws, ImageFiles, ObjectsFeed, RegionSample, read_objects

TRANSFORMS = ("mirror", "mean_value", *FIELDS)
WITHOUT_BOX = (0, 1, 1, 2, 2, 1, 1)  # the row of a batch without boxes: an ignored one
OBJECTS = 8  # of an image, as long as the data is not available

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
        param, at = layer.image_gt_data_param, locate.at("image_gt_data_param")
        self._param, self._images = param, read_objects(path, param.root_folder, IMAGE_GT)
        self._fields = fields_of(param.field_w, param.field_h, param.downsample_rate)
        self._mirror = layer.transform_param.mirror
        mean = np.array(layer.transform_param.mean_value or [0], np.float32)
        self._mean, self._factor = mean, np.float32(param.scale)
        repeats = [param.fg_img_multiple if (~a.objects.ignored).any() else 1 for a in self._images]
        self._indices = np.repeat(np.arange(len(self._images)), repeats)
        decoder = Decoder.of(layer.transform_param, True, locate.at("transform_param"))
        self._files = ImageFiles(self._images, param.cache_images, decoder)
        most = max(len(a.objects.boxes) for a in self._images)
        listed = self._images[-1].picture.shape[1:]
        self._size = image_gt_size(param, listed)
        whole = (param.resize_height, param.resize_width) if param.resize_width else listed
        for name, side, limit in zip(("crop_height", "crop_width"), self._size, whole, strict=True):
            if side > limit:
                raise at.error("a crop is larger than the images", name, expected=f"at most {limit}", found=side)
        if param.resize_height * param.resize_width > MOST_PIXELS:
            expected, found = f"at most {MOST_PIXELS} pixels", f"{param.resize_height}×{param.resize_width}"
            what = "resize_height and resize_width make images too large"
            raise at.error(what, "resize_width", expected=expected, found=found)
        if not len(self._indices):
            raise at.error("fg_img_multiple leaves no image", "fg_img_multiple", expected="1 or more", found=0)
        self._order = Order(len(self._indices), key(seed, layer.name, "shuffle") if param.shuffle else None)
        self._draws = key(seed, layer.name, "transform")
        self.listed = self._images
        super().__init__(
            image_gt_shapes(param, self._size, most), len(self._indices), layer.data_param.prefetch, workers()
        )

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        indices = self._indices[self._order(position, self.shapes[0][0])]
        for i, number in enumerate(indices.tolist()):
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
        sample.choose_center(self._size)
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


@register
class ImageGtData(ObjectsFeed):
    """Images with objects, of a list of boxes, and the labels of maps of fields: data (N, C, H, W), C = 3, label
    maps (N, 6, h, w), one for each field_w, field_h and downsample_rate, and with output_gt_boxes the boxes (G, 7); N =
    batch_size, h = H / downsample_rate, rounded.

    An image is mirrored at random (transform_param), resized, scaled at random (do_multiple_scale, min_whaspect), and
    cut to crop_height × crop_width around a random object of it; less mean_value, times scale; 0 outside of the image.
    Channels of a label map: the label of the object that the cell's field overlaps most, if by an IoU above
    fg_threshold, else 0; its center x and y, width and height in pixels; and that IoU, 1 outside of the image and in
    ignored regions. An object without a cell gets the one of its center. Rows of boxes: image, xmin, ymin, xmax, ymax,
    label, ignored; G depends on the data. Random numbers depend on seed, layer and sample. Errors: another number of
    tops than maps, fields of transform_param other than mirror, mean_value and those of decoding. As in
    zhaoweicai/mscnn, src/caffe/layers/image_gt_data_layer.cpp.
    """

    field = "image_gt_data_param"
    reader = ImageGtSource
    tops = (2, None)
    _rows: np.ndarray  # the boxes of the batch that was fed

    def setup(self) -> None:
        if not self.p.downsample_rate:
            raise self.error("has no maps", remedy="set downsample_rate, field_w and field_h")
        self.check_maps("downsample_rate", "boxes", behind=True)
        self._check_sizes()
        for descriptor, _ in self.spec.transform_param.ListFields():
            if descriptor.name not in TRANSFORMS:
                remedy = "give scale in image_gt_data_param" if descriptor.name == "scale" else "leave it out"
                what = f"{descriptor.name} does not act on ImageGtData"
                raise self.error(what, "transform_param", descriptor.name, remedy=remedy, outer=True)
        means = self.spec.transform_param.mean_value
        if len(means) not in (0, 1, 3):
            what, found = "wrong number of mean_value", len(means)
            raise self.error(what, "transform_param", "mean_value", 0, expected="1 or 3", found=found, outer=True)

    def _check_sizes(self) -> None:
        p = self.p
        self.check_pairs(
            *(("resize_width", "resize_height"), ("crop_width", "crop_height")),
            *(("min_scale", "max_scale"), ("min_whaspect", "max_whaspect")),
        )
        for name in ("resize_width", "resize_height"):
            require.value(self, name, not p.HasField(name) or getattr(p, name), "1 or more")
        if p.HasField("min_scale") and not 0 < p.min_scale <= p.max_scale:
            found = f"{p.min_scale} and {p.max_scale}"
            raise self.error("bad scales", "min_scale", expected="0 < min_scale <= max_scale", found=found)
        ratios = p.min_whaspect, p.max_whaspect
        if p.HasField("min_whaspect") and not 0 < ratios[0] <= ratios[1] < math.inf:
            found = f"{ratios[0]:g} and {ratios[1]:g}"
            raise self.error("bad ratios", "min_whaspect", expected="0 < min_whaspect <= max_whaspect", found=found)
        for name in ("scale", "fg_threshold", "min_gt_width", "min_gt_height"):
            if not math.isfinite(getattr(p, name)):
                raise self.error(f"{name} is no finite number", name, remedy=f"correct {name}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.varies = self.requires_host = self.p.output_gt_boxes
        self.varied_tops = frozenset({len(self.spec.top) - 1})
        return super().shapes(bottoms)

    @staticmethod
    def image_transform(spec: pb.LayerParameter) -> pb.TransformationParameter:
        transform = ObjectsFeed.image_transform(spec)
        if spec.image_gt_data_param.HasField("scale"):
            transform.scale = spec.image_gt_data_param.scale
        return transform

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p = spec.image_gt_data_param
        size = image_gt_size(p, (0, 0))
        return image_gt_shapes(p, size, OBJECTS) if all(size) else []

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        arrays = self.source.next()
        for field, array in zip(self._arrays, arrays, strict=True):
            field.set(which, array)
        if self.varies:
            rows = arrays[-1]
            objects = rows[rows[:, 5] != NO_BOX]
            self._rows = objects if len(objects) else np.array([WITHOUT_BOX], rows.dtype)

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        if y[-1].shape != self._rows.shape:
            y = self.resize([*(top.shape for top in y[:-1]), self._rows.shape])
        for top, field in zip(y[:-1], self._arrays, strict=False):
            field.copy_to(top)
        self.dev.upload(y[-1], self._rows)
