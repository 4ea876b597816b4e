"""DetectionData and EvalData, and their sources: images of a list with their objects.

Source: zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp and eval_data_layer.cpp.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.augmentation.color import Distort
from ...data.augmentation.perturbation import Fields
from ...data.draws import below, key, of_sample
from ...data.order import AspectOrder, Order
from ...data.pictures import Decoder
from ...data.pipeline import Batch, Source, workers
from ...data.transforms import channel_means
from ...detection.boxes import rounded
from ...devices.protocol import Device
from ...errors import Locator
from ...layers.base import require
from ...layers.base.layer import Shape, register
from .field_maps import LABEL_CHANNELS, Objects, detection_labels, detection_size, in_multiples, map_size
from .listed_images import DETECTION, Draws, ImageFiles, ListedImage, ObjectsFeed, RegionSample, read_objects

OBJECTS = 8  # rows of a batch without data
SHUFFLES = ("random", "random_aspect", "random_mix_aspect")

ROW_LENGTH = 8  # of an object: image, x1, y1, x2, y2, class, ignored, difficult
# The random words of a sample, a multiple of 4
RATIO, MIRROR, OBJECT, COLUMN, ROW, SCALES, SCALE, ASPECT, NOISE_X, NOISE_Y, WORDS = *range(10), 12
DRAWS = Draws(mirror=MIRROR, object=OBJECT, column=COLUMN, row=ROW, noise_x=NOISE_X, noise_y=NOISE_Y)


class ListSource(Source):
    """Images of a list whose batches differ in size. The arrays of a batch are long enough for all sizes: their first
    values are used. The last array has height, width and the number of rows of objects of the batch, at least 1."""

    def __init__(self, layer: pb.LayerParameter, images: list[ListedImage], locate: Locator, cache: bool):
        transform, at, expected = layer.transform_param, locate.at("transform_param"), "1 or 3 of mean_value"
        if transform.mean_file:
            what, found = "images differ in size and take no mean_file", len(transform.mean_value)
            raise at.error(what, "mean_file", expected=expected, found=found)
        self._images, self._mean = images, channel_means(transform, at, expected=expected)
        self._factor = np.float32(transform.scale)
        self._files = ImageFiles(images, cache, Decoder.of(transform, True, at))
        self._lengths: list[int] = []
        self._most = max(1, *(len(image.objects.boxes) for image in images))

    def open(self, layer: pb.LayerParameter, shapes: list[tuple[int, ...]], lengths: list[int]) -> None:
        """shapes: of a large batch; lengths: of the arrays of a batch, for any."""
        self._lengths = lengths
        self.listed = self._images
        super().__init__(shapes, len(self._images), layer.data_param.prefetch, workers())

    def buffer(self) -> Batch:
        return Batch([self.allocate((length,), np.float32) for length in (*self._lengths, 3)])

    def sample(self, number: int, content: bytes, words: np.ndarray) -> RegionSample:
        """The decoded image. Errors: one that cannot be decoded or has another size than in the list."""
        image = self._images[number]
        pixels = self._files.decode(number, content)
        if pixels.shape[:2] != image.picture.shape[1:]:
            expected, found = ("×".join(map(str, shape)) for shape in (image.picture.shape[1:], pixels.shape[:2]))
            where = image.picture.where
            raise where.error(f'wrong size of image "{image.picture.file}"', expected=expected, found=found)
        return RegionSample(pixels, image.objects, words, DRAWS)

    def start(self, batch: Batch, indices: list[int], size: tuple[int, int], rows: np.ndarray) -> list[np.ndarray]:
        """Writes what is known of a batch before its images are read. rows: the array of objects. Returns the rows of
        each image."""
        counts = [len(self._images[number].objects.boxes) for number in indices]
        rows = rows.reshape(-1, ROW_LENGTH)
        batch.arrays[-1][:] = (*size, max(1, sum(counts)))
        if not sum(counts):
            rows[0] = -1
        starts = np.cumsum([0, *counts])
        return [rows[start : start + count] for start, count in zip(starts, counts, strict=False)]

    def release(self) -> None:
        self._files.release()


def write_objects(objects: Objects, item: int, rows: np.ndarray) -> None:
    """Writes the rows (G, 8) of the objects of image ``item`` of a batch."""
    rows[:, 0], rows[:, 1:5] = item, objects.boxes
    rows[:, 5], rows[:, 6], rows[:, 7] = objects.labels, objects.ignored, objects.difficult


def _template_ratio(param: pb.DetectionDataParameter, words: np.ndarray) -> float:
    """One of template_ratio, by the random words of the first sample of a batch; 1 without them."""
    if not param.template_ratio:
        return 1.0
    return param.template_ratio[int(below(words[RATIO], len(param.template_ratio)))]


def _resize(sample: RegionSample, param: pb.DetectionDataParameter, ratio: float) -> None:
    """Resizes the image to the size that the layer's fields give. ratio: of template_ratio."""
    height, width = sample.pixels.shape[:2]
    if param.resize_width and param.resize_height:
        height, width = param.resize_height, param.resize_width
    elif param.HasField("resize_ratio"):
        height, width = (max(1, rounded(side * param.resize_ratio)) for side in (height, width))
    elif param.short_size and param.long_size:
        scale = in_multiples(param.short_size * ratio) / min(height, width)
        height, width = rounded(height * scale), rounded(width * scale)
    sample.resize(height, width)


def _scale_factors(sample: RegionSample, param: pb.DetectionDataParameter) -> np.ndarray:
    """The random factors (2) of width and height; 1 where the layer does not scale."""
    if param.HasField("low_scale_ratio") and param.HasField("high_scale_ratio"):
        low, high = math.log2(param.low_scale_ratio), math.log2(param.high_scale_ratio)
    elif not (param.HasField("min_scale") and param.HasField("max_scale")):
        return np.ones(2)
    elif sample.chosen >= 0:
        box = sample.boxes[sample.chosen]
        scale = math.sqrt(max(1.0, float((box[2:] - box[:2] + 1).prod())))
        low, high = math.log2(param.min_scale / scale), math.log2(param.max_scale / scale)
    else:
        low = high = 1.0
    if sample.uniform(SCALES) >= param.multiscale_prob:
        return np.ones(2)
    factors = np.full(2, 2 ** (low + (high - low) * sample.uniform(SCALE)))
    if param.HasField("min_whaspect") and param.HasField("max_whaspect"):
        low, high = math.log2(param.min_whaspect), math.log2(param.max_whaspect)
        ratio = math.sqrt(2 ** (low + (high - low) * sample.uniform(ASPECT)))
        factors *= (ratio, 1 / ratio)
    return factors


class DetectionSource(ListSource):
    """Batches of DetectionData: images, a label map for each field, objects. Random numbers depend on seed, layer and
    sample."""

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param, at = layer.detection_data_param, locate.at("detection_data_param")
        super().__init__(layer, read_objects(path, param.root_folder, DETECTION), locate, param.cache_images)
        self._param, self._mirror = param, layer.transform_param.mirror
        distort = Distort(Fields(param, at, (3, 1, 1)).inner("distort_param"))
        self._distort = distort.seed(key(seed, layer.name, "distort")) if distort.active else None
        sizes = [image.picture.shape[1:] for image in self._images]
        self._order: Order = Order(len(sizes))
        if param.HasField("shuffle"):
            shuffled = key(seed, layer.name, "shuffle")
            self._order = Order(len(sizes), shuffled)
            if param.shuffle != "random":
                group = param.mix_group_size if param.shuffle == "random_mix_aspect" else None
                self._order = AspectOrder([height >= width for height, width in sizes], shuffled, group)
        self._draws = key(seed, layer.name, "transform")
        batch, ratios = param.batch_size, list(param.template_ratio) or [1.0]
        templates = {detection_size(param, size, ratio) for size in set(sizes) for ratio in ratios}
        if not all(min(size) > 0 for size in templates):
            raise at.error("images without pixels", "resize_ratio", remedy="correct the sizes")
        largest = max(templates, key=lambda size: (size[0] * size[1], size))
        shapes: list[tuple[int, ...]]
        shapes = [(batch, 3, *largest), *((batch, LABEL_CHANNELS, *map_size(largest, s)) for s in param.stride)]
        lengths = [batch * 3 * largest[0] * largest[1]]
        for stride in param.stride:
            cells = [map_size(size, stride) for size in templates]
            lengths.append(batch * LABEL_CHANNELS * max(rows * columns for rows, columns in cells))
        objects = batch * self._most
        shapes += [(objects, ROW_LENGTH)] * param.output_gt_boxes
        self.open(layer, shapes, [*lengths, objects * ROW_LENGTH])

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        count = self._param.batch_size
        indices = self._order(position, count).tolist()
        ratio = _template_ratio(self._param, of_sample(self._draws, position, WORDS))
        size = detection_size(self._param, self._images[indices[0]].picture.shape[1:], ratio)
        rows = self.start(batch, indices, size, batch.arrays[-2])
        for i, number in enumerate(indices):
            words = of_sample(self._draws, position + i, WORDS)
            args = number, self._files.read(number), words, position + i, ratio
            yield partial(self._process, args, size, i, rows[i], batch)

    def _process(self, args: tuple, size: tuple[int, int], i: int, rows: np.ndarray, batch: Batch) -> None:
        """Writes image ``i`` of a batch. args: its number, file, random words and position, and template_ratio."""
        number, content, words, position, ratio = args
        sample, param = self.sample(number, content, words), self._param
        if self._distort:
            sample.pixels = self._distort(np.ascontiguousarray(sample.pixels), position)
        if self._mirror:
            sample.mirror()
        _resize(sample, param, ratio)
        sample.choose_center(size)
        sample.rescale(_scale_factors(sample, param))
        window = sample.cut(size)
        sample.write(self._mean, self._factor, self._part(batch.arrays[0], i, 3, size), *window[:2])
        objects = sample.located(size, (param.min_gt_width, param.min_gt_height))
        write_objects(objects, i, rows)
        maps = [
            self._part(array, i, LABEL_CHANNELS, map_size(size, stride))
            for array, stride in zip(batch.arrays[1:-2], param.stride, strict=True)
        ]
        detection_labels(param, objects, window, maps)

    @staticmethod
    def _part(array: np.ndarray, item: int, channels: int, size: tuple[int, int]) -> np.ndarray:
        """The values (channels, H, W) of an image in the array of a batch."""
        length = channels * size[0] * size[1]
        return array[item * length : (item + 1) * length].reshape(channels, *size)


class EvalSource(ListSource):
    """Batches of EvalData: images in the order of the list, their objects and their sizes."""

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param = layer.eval_data_param
        super().__init__(layer, read_objects(path, param.root_folder, DETECTION), locate, False)
        self._param, batch = param, param.batch_size
        sizes = [self._size(number) for number in range(len(self._images))]
        if min(map(min, sizes)) < 1:
            least = "a size that is rounded to 32×32 or more"
            raise locate.error("an image is too small", "eval_data_param", "source", expected=least)
        largest = max(sizes, key=lambda size: (size[0] * size[1], size))
        shapes = [(batch, 3, *largest), (batch * self._most, ROW_LENGTH), (batch, 2)][: len(layer.top)]
        self.open(layer, shapes, [batch * 3 * largest[0] * largest[1], batch * self._most * ROW_LENGTH, batch * 2])

    def _size(self, number: int) -> tuple[int, int]:
        """Height and width of an image as the net reads it."""
        param, (_, height, width) = self._param, self._images[number].picture.shape
        if param.resize_width and param.resize_height:
            height, width = param.resize_height, param.resize_width
        elif param.short_size and param.long_size:
            scale = param.short_size / min(height, width)
            height, width = (min(int(side * scale + 0.5), param.long_size) for side in (height, width))
        return in_multiples(height), in_multiples(width)

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        count = self._param.batch_size
        indices = [(position + i) % len(self._images) for i in range(count)]
        size = self._size(indices[0])
        batch.arrays[2].reshape(-1, 2)[:] = size
        rows = self.start(batch, indices, size, batch.arrays[1])
        for i, number in enumerate(indices):
            yield partial(self._process, number, self._files.read(number), size, i, rows[i], batch)

    def _process(
        self, number: int, content: bytes, size: tuple[int, int], i: int, rows: np.ndarray, batch: Batch
    ) -> None:
        sample = self.sample(number, content, np.zeros(0, np.uint64))
        sample.resize(*size)
        length = 3 * size[0] * size[1]
        out = batch.arrays[0][i * length : (i + 1) * length].reshape(3, *size)
        sample.write(self._mean, self._factor, out)
        write_objects(sample.objects._replace(boxes=sample.boxes), i, rows)


class ListFeed(ObjectsFeed):
    """The base class of layers whose batches differ in size and in the number of objects."""

    requires_host = True

    def build(self, dev: Device) -> None:
        """Nothing: a pass uploads its batch."""

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        """The shapes of all tops; size: height and width of the images of a batch."""
        raise NotImplementedError

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        *arrays, facts = self.source.next()
        height, width, objects = facts.astype(int).tolist()
        tops = zip(arrays, self.tops_of((height, width), objects), strict=False)
        self._batch = [array.reshape(-1)[: math.prod(shape)].reshape(shape) for array, shape in tops]

    def forward(self, x: list, y: list) -> None:
        self.write_tops(y, self._batch)

    def check_positive(self, *names: str) -> None:
        """Errors: a field that is set, but not above 0 and finite."""
        for name in names:
            value = getattr(self.p, name)
            require.value(self, name, not self.p.HasField(name) or 0 < value < math.inf, "above 0")


@register
class DetectionData(ListFeed):
    """Images with objects and the labels of the fields of maps: data (N, C, H, W), C = 3, a label map (N, 6,
    H / stride, W / stride) for each of stride, field_w and field_h, and with output_gt_boxes objects (G, 8), rows
    image, x1, y1, x2, y2, class, ignored, difficult, or a row of -1.

    source lists images and objects (see DetectionDataParameter). Images are resized and may be mirrored, scaled at
    random and changed in color; a part around a random object is cut out. H and W are those of the first image of the
    batch, or of crop_height and crop_width; smaller images have a margin of 0. Label maps have the channels class,
    center x, y, width, height and overlap: see ``field_maps``. Random numbers depend on seed, layer and sample.
    Errors: other tops than maps, fields that exclude each other. Source: zhaoweicai/cascade-rcnn
    src/caffe/layers/detection_data_layer.cpp.
    """

    field = "detection_data_param"
    reader = DetectionSource

    def setup(self) -> None:
        p = self.p
        self.check_maps("stride", "objects")
        if not p.batch_size:
            raise self.error("batch_size is missing", "batch_size", expected="1 or more", found=0)
        if p.HasField("shuffle") and p.shuffle not in SHUFFLES:
            expected_names, found_name = " or ".join(f'"{name}"' for name in SHUFFLES), f'"{p.shuffle}"'
            raise self.error("an unknown shuffle", "shuffle", expected=expected_names, found=found_name)
        self._check_sizes()

    def _check_sizes(self) -> None:
        p = self.p
        pairs = (
            *(("resize_width", "resize_height"), ("crop_width", "crop_height"), ("short_size", "long_size")),
            *(("crop_short_size", "crop_long_size"), ("min_scale", "max_scale"), ("min_whaspect", "max_whaspect")),
            ("low_scale_ratio", "high_scale_ratio"),
        )
        self.check_pairs(*pairs)
        self.check_positive(*(name for pair in pairs for name in pair), "resize_ratio", "mix_group_size")
        for low, high in (("short_size", "long_size"), ("crop_short_size", "crop_long_size"), *pairs[4:]):
            if p.HasField(low) and getattr(p, low) > getattr(p, high):
                expected, found = f"at most {high} {getattr(p, high):g}", f"{getattr(p, low):g}"
                raise self.error(f"{low} is too large", low, expected=expected, found=found)
        for one, other in (
            *(("resize_width", "resize_ratio"), ("resize_width", "short_size"), ("resize_ratio", "short_size")),
            *(("crop_width", "crop_short_size"), ("min_scale", "low_scale_ratio")),
        ):
            if p.HasField(one) and p.HasField(other):
                raise self.error(f"has both {one} and {other}", one, remedy="keep one of them")
        for i, ratio in enumerate(p.template_ratio):
            if not 0 < ratio < math.inf or (p.short_size and in_multiples(p.short_size * ratio) < 1):
                raise self.error("a bad template_ratio", "template_ratio", i, expected="above 0", found=f"{ratio:g}")
        require.value(self, "fg_threshold", p.fg_threshold > 0, "above 0")

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        return _detection_shapes(self.p, size, objects)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        size = detection_size(spec.detection_data_param, (0, 0))
        return _detection_shapes(spec.detection_data_param, size, OBJECTS) if all(size) else []


def _detection_shapes(param: pb.DetectionDataParameter, size: tuple[int, int], objects: int) -> list[Shape]:
    maps = [map_size(size, stride) for stride in param.stride]
    shapes: list[Shape] = [
        (param.batch_size, 3, *size),
        *((param.batch_size, LABEL_CHANNELS, *cells) for cells in maps),
    ]
    return [*shapes, (objects, 8)] if param.output_gt_boxes else shapes


@register
class EvalData(ListFeed):
    """Images with objects in the order of their list: data (N, C, H, W), C = 3, objects (G, 8), rows image, x1, y1, x2,
    y2, class, ignored, difficult, or a row of -1, and optionally sizes (N, 2), height and width.

    Images are resized to resize_height and resize_width, or so that the shorter side is short_size, each side at most
    long_size; H and W are multiples of 32 and vary from pass to pass. source is a list as of DetectionData. Errors: a
    batch of images that differ in size. Source: zhaoweicai/cascade-rcnn src/caffe/layers/eval_data_layer.cpp.
    """

    field = "eval_data_param"
    reader = EvalSource
    tops = (2, 3)

    def setup(self) -> None:
        self.check_pairs(("resize_width", "resize_height"), ("short_size", "long_size"))
        self.check_positive("resize_width", "resize_height", "short_size", "long_size")
        if not self.p.batch_size:
            raise self.error("batch_size is missing", "batch_size", expected="1 or more", found=0)
        if self.p.batch_size > 1 and not self.p.resize_width:
            remedy = "or set resize_width and resize_height"
            raise self.error("images differ in size", "batch_size", expected=1, found=self.p.batch_size, remedy=remedy)

    def tops_of(self, size: tuple[int, int], objects: int) -> list[Shape]:
        return _eval_shapes(self.spec, size, objects)

    @staticmethod
    def shapes_without_data(spec: pb.LayerParameter) -> list[Shape]:
        p = spec.eval_data_param
        size = (p.resize_height, p.resize_width) if p.resize_width else (p.long_size, p.short_size)
        height, width = (in_multiples(side) for side in size)
        return _eval_shapes(spec, (height, width), OBJECTS) if height and width else []


def _eval_shapes(spec: pb.LayerParameter, size: tuple[int, int], objects: int) -> list[Shape]:
    batch = spec.eval_data_param.batch_size
    shapes: list[Shape] = [(batch, 3, *size), (objects, 8), (batch, 2)]
    return shapes[: len(spec.top)]
