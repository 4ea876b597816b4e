"""AnnotatedData: images with objects from a database, and how both are cut.

Boxes (N, 4) are shares of the image's sides. Source: weiliu89/caffe (branch ssd) src/caffe/util/sampler.cpp and
src/caffe/data_transformer.cpp.
Source: weiliu89/caffe (branch ssd) src/caffe/layers/annotated_data_layer.cpp and src/caffe/data_transformer.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.annotated import AnnotatedDatabase, AnnotatedLevelDB, Objects, Resize, objects_of, parsed
from ...data.augmentation.color import Distort
from ...data.augmentation.perturbation import Fields
from ...data.database import Datums
from ...data.draws import Key, key, of_sample, uniform
from ...data.fingerprint import Facts, digest, sampled
from ...data.images import channels_first, channels_last
from ...data.joining import joined
from ...data.lmdb_reader import Record
from ...data.opening import batch_size_of, check_tops, is_balanced, sample_order, source_path
from ...data.order import Order
from ...data.pictures import Decoder
from ...data.pipeline import Batch, Source, workers
from ...data.samples import TransformedSource
from ...data.transforms import Choice, Transform
from ...detection import boxes as box_arithmetic
from ...devices.context import ExecutionContext
from ...devices.protocol import Device
from ...errors import CaffeliteError, Locator
from ...layers.base.layer import Shape, register
from ...layers.base.state import Varying
from ...layers.data import Feed, no_files
from ...prototxt import say_once

WORDS = 4  # random numbers of a region
WHOLE = np.array([0.0, 0.0, 1.0, 1.0])
_CONSTRAINTS = "jaccard_overlap", "sample_coverage", "object_coverage"


class Expansion:
    """expand_param: the image at a random place of a canvas that is up to max_expand_ratio times as large, filled with
    the mean's color. Errors: a probability or a ratio out of range."""

    def __init__(self, param: pb.ExpansionParameter, fill: tuple[int, ...], locate: Locator, transform: Key):
        fields: Fields = Fields(param, locate, (1, 1, 1))
        self._probability = fields.probability("prob")
        self._most = fields.amount("max_expand_ratio", least=1, most=100)
        self._fill, self._key = fill, key(transform[0], transform[1], "expand")

    def __call__(self, image: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        """The canvas, and the region (4) of the image that it is, which exceeds 0 to 1."""
        happens, ratio, y, x = uniform(of_sample(self._key, position, WORDS)).tolist()
        height, width = image.shape[:2]
        ratio = 1 + (self._most - 1) * ratio
        large = int(height * ratio), int(width * ratio)
        if happens >= self._probability or large == (height, width):
            return image, WHOLE
        top, left = int(y * (large[0] - height + 1)), int(x * (large[1] - width + 1))
        canvas = np.empty((*large, *image.shape[2:]), image.dtype)
        canvas[...] = self._fill if image.ndim == 3 else self._fill[0]
        canvas[top : top + height, left : left + width] = image
        region = [-left / width, -top / height, (large[1] - left) / width, (large[0] - top) / height]
        return canvas, np.array(region)


class BatchSamplers:
    """batch_sampler: one of all accepted regions, each as likely. Errors: scales and ratios out of range."""

    def __init__(self, samplers: list[pb.BatchSampler], locate: Locator, transform: Key):
        self._samplers = [(i, sampler) for i, sampler in enumerate(samplers) if sampler.use_original_image]
        self._key = key(transform[0], transform[1], "batch_sampler")
        for i, sampler in self._samplers:
            at = locate.at("batch_sampler", i)
            fields: Fields = Fields(sampler.sampler, at.at("sampler"), (1, 1, 1))
            fields.range("min_scale", "max_scale", most=1)
            fields.range("min_aspect_ratio", "max_aspect_ratio")
            fields.positive("min_scale", "min_aspect_ratio")
            if sampler.max_trials > 10_000:
                raise at.error("too many trials", "max_trials", expected="at most 10000")

    def __call__(self, boxes: np.ndarray, position: int) -> np.ndarray | None:
        """A region (4) of an image with these boxes, or None where none is accepted."""
        drawn = [WHOLE[None][:0]]
        for i, sampler in self._samplers:
            uniforms = uniform(of_sample(key(*self._key, i), position, WORDS * sampler.max_trials)).reshape(-1, WORDS)
            regions = _drawn(sampler.sampler, uniforms)
            accepted = regions[_accepted(sampler.sample_constraint, regions, boxes)]
            drawn.append(accepted[: sampler.max_sample] if sampler.HasField("max_sample") else accepted)
        every = np.concatenate(drawn)
        if not len(every):
            return None
        return every[int(uniform(of_sample(self._key, position, 1))[0] * len(every))]


class Jitter:
    """yolo_data_jitter: in 1 of 5 images the whole, else a region of it, each of whose sides is smaller by up to half
    of ``jitter`` in 1 of 5, by up to all of it in 3 of 5; with ``square`` both sides by the same share."""

    def __init__(self, jitter: float, square: bool, transform: Key):
        self._jitter, self._square, self._key = jitter, square, key(transform[0], transform[1], "yolo_data_jitter")

    def __call__(self, boxes: np.ndarray, position: int) -> np.ndarray | None:
        kind, *shares = uniform(of_sample(self._key, position, 5))
        if kind < 0.2:
            return None
        sides = 1 - self._jitter * (0.5 if kind < 0.4 else 1) * np.array(shares[:2])
        if self._square:
            sides[1] = sides[0]
        low = (1 - sides) * np.array(shares[2:])
        return np.concatenate([low, low + sides])


def _drawn(sampler: pb.BBoxSampler, uniforms: np.ndarray) -> np.ndarray:
    """Regions (T, 4) of random numbers (T, 4)."""
    scale = sampler.min_scale + (sampler.max_scale - sampler.min_scale) * uniforms[:, 0]
    ratio = sampler.min_aspect_ratio + (sampler.max_aspect_ratio - sampler.min_aspect_ratio) * uniforms[:, 1]
    ratio = np.clip(ratio, scale**2, scale**-2)
    sides = np.stack([scale * np.sqrt(ratio), scale / np.sqrt(ratio)], 1)
    low = uniforms[:, 2:] * (1 - sides)
    return np.concatenate([low, low + sides], 1)


def _accepted(constraint: pb.SampleConstraint, regions: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Which regions (T) satisfy the constraint with one of the boxes."""
    names = [f"{end}_{name}" for name in _CONSTRAINTS for end in ("min", "max")]
    if not any(constraint.HasField(name) for name in names):
        return np.ones(len(regions), bool)
    fits = np.ones((len(regions), len(boxes)), bool)
    tables = (
        box_arithmetic.overlaps(regions, boxes),
        box_arithmetic.coverages(regions, boxes),
        box_arithmetic.coverages(boxes, regions).T,
    )
    for name, table in zip(_CONSTRAINTS, tables, strict=True):
        if constraint.HasField(f"min_{name}"):
            fits &= table >= getattr(constraint, f"min_{name}")
        if constraint.HasField(f"max_{name}"):
            fits &= table <= getattr(constraint, f"max_{name}")
    return np.asarray(fits.any(1))


def emitted(constraint: pb.EmitConstraint | None, boxes: np.ndarray, region: np.ndarray) -> np.ndarray:
    """Which boxes (N) a region (4) keeps, as far as the constraint decides."""
    if constraint is None or not len(boxes):
        return np.ones(len(boxes), bool)
    if constraint.emit_type == pb.EmitConstraint.MIN_OVERLAP:
        return box_arithmetic.coverages(boxes, region[None])[:, 0] > constraint.emit_overlap
    centers = (boxes[:, :2] + boxes[:, 2:]) / 2
    return ((centers >= region[:2]) & (centers <= region[2:])).all(1)


def cut(image: np.ndarray, region: np.ndarray) -> np.ndarray:
    """The pixels of a region (4) within an image H×W×C or H×W, at least one."""
    height, width = image.shape[:2]
    left, top, right, bottom = np.clip(region, 0, 1) * np.tile([width, height], 2)
    left, top = min(int(left), width - 1), min(int(top), height - 1)
    return image[top : max(top + 1, int(bottom)), left : max(left + 1, int(right))]


IMAGES_PER_TASK = 4
ROW = 8  # numbers of an object in a label blob
YOLO_OBJECTS, YOLO_ROW = 300, 5  # of an image in that of YOLO, and numbers of each
GEOMETRY = (
    *("img_rand_resize_lower", "img_rand_resize_upper", "rand_resize_ratio_lower", "rand_resize_ratio_upper"),
    *("vertical_stretch_lower", "vertical_stretch_upper", "horizontal_stretch_lower", "horizontal_stretch_upper"),
    *("random_resize_param", "random_aspect_ratio_param"),
)


@register
class AnnotatedData(Varying, Feed):
    """Images of a database with the objects in them: data (N, C, H, W) and objects (1, 1, G, 8), rows (item, class,
    instance, xmin, ymin, xmax, ymax, difficult), boxes as shares of the image; N = data_param.batch_size.

    G is the number of objects of the batch, and until the first pass the most that a batch can have. Without objects
    there is one row of -1. On a GPU that captures graphs G is always the most, and rows without an object are -1. Where
    records have labels instead of boxes, the second top is labels (N). yolo_data_type: 1 makes it (N, 1, 300, 5), rows
    (class - 1, x, y, w, h) of each image, those without an object 0; a region of each image in TRAIN is taken by
    yolo_data_jitter. Errors: an image of more than 300 objects there. Sources: weiliu89/caffe (branch ssd) and
    eric612/MobileNet-YOLO, src/caffe/layers/annotated_data_layer.cpp.
    """

    field = "data_param"
    files = ("source", "annotated_data_param.label_map_file")
    tops = (1, 2)
    reads_images = reads_objects = transforms_images = True
    varied_tops = frozenset({1})
    _rows: np.ndarray  # of the batch that was fed
    listed_files = staticmethod(no_files)
    joined = staticmethod(joined)

    @staticmethod
    def label_map(spec: pb.LayerParameter) -> str:
        return spec.annotated_data_param.label_map_file

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.data_param, locate.at("data_param")
        check_tops(layer, locate, 2)
        batch_size_of(param, at)
        path = source_path(param, at)
        if is_balanced(param, phase):
            raise at.error("sampler BALANCED needs one label for each sample", "sampler", remedy="leave it out")
        transform = layer.transform_param
        color = False if transform.force_gray else True if transform.force_color or param.force_encoded_color else None
        decoder = Decoder.of(transform, color, locate.at("transform_param"))
        is_leveldb = param.backend == pb.DataParameter.LEVELDB and not (path / "data.mdb").is_file()
        database = AnnotatedLevelDB(path, decoder) if is_leveldb else AnnotatedDatabase(path, decoder)
        try:
            order = sample_order(layer, param, database.length, seed)
            return AnnotatedSource(database, layer, phase, order, locate, key(seed, layer.name, "transform"))
        except BaseException:
            database.close()
            raise

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shapes = super().shapes(bottoms)
        self.varies = self.requires_host = getattr(self.source, "gives_objects", False) and len(shapes) > 1
        return shapes

    def bound(self, dev: Device, params: list, context: ExecutionContext, replica: bool = False) -> Self:
        copied = super().bound(dev, params, context, replica)
        if dev.traits.captures:  # a graph needs one shape
            copied.varies = copied.requires_host = False
        return copied

    def feeds_ahead(self) -> bool:
        return not self.varies and super().feeds_ahead()

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        if not self.varies:
            return super().feed(which, iteration, micro_batch)
        finish: Any = self._finish
        finish.wait()
        batch = self.source.draw()
        finish.set_batch(which, batch.pixels, batch.picks, batch.resident)
        self._rows = batch.arrays[0]

    def forward(self, x: list, y: list) -> None:
        if not self.varies:
            return super().forward(x, y)
        count = max(1, int((self._rows[..., 0] != -1).sum()))
        if y[1].shape[2] != count:
            y = self.resize([y[0].shape, (1, 1, count, 8)])
        finish: Any = self._finish
        finish.forward(y[0], [], [])
        self.dev.upload(y[1], self._rows[:, :, :count])


class AnnotatedSource(TransformedSource):
    """Images and objects of a database: data N×C×h×w, and label 1×1×M×8, or N where records have labels instead.

    A row of label is (item of the batch, class, instance, xmin, ymin, xmax, ymax, difficult); M is the most that a
    batch can have, and rows without an object are -1. In TRAIN, colors change first (distort_param), then the image is
    expanded (expand_param) and a region of it taken (batch_sampler); resize_param, crop, mirror, mean and scale follow
    in both phases. The boxes move along; objects without area in the region are left out. All random numbers depend on
    the seed, the layer's name and the sample's number in the run.
    """

    def __init__(
        self, database: Datums, spec: pb.LayerParameter, phase: int, order: Order, locate: Locator, transform_key: Key
    ):
        self.database = self.samples = database
        self.order, param = order, spec.transform_param
        train, at = phase == pb.TRAIN, locate.at("transform_param")
        first = parsed(next(database.walk(0))[1])
        typed = first.HasField("type") or spec.annotated_data_param.HasField("anno_type")
        image = database.first
        _check_geometry(param, at)
        shape = image.shape
        self._resize = None
        if param.resize_param:
            self._resize = Resize(param.resize_param[0], shape[0], train, at.at("resize_param", 0), transform_key)
            if len(param.resize_param) > 1:
                size = "×".join(map(str, self._resize.shape))
                say_once(
                    f"{at('resize_param', 1)}: all batches have the first size here, {size}; the others are ignored"
                )
            shape = (shape[0], *self._resize.shape)
        fixed = pb.TransformationParameter()
        fixed.CopyFrom(param)
        for name in ("resize_param", "expand_param", "emit_constraint", "distort_param"):
            fixed.ClearField(name)
        self.transform = Transform(fixed, phase, shape, at, transform_key)
        fill = tuple(min(255, max(0, round(v))) for v in param.mean_value) or (0,)
        fill = fill * shape[0] if len(fill) == 1 else fill
        distort = Distort(Fields(param, at, shape).inner("distort_param"))
        distort.seed(transform_key)
        expand = Expansion(param.expand_param, fill, at.at("expand_param"), transform_key)
        samplers = list(spec.annotated_data_param.batch_sampler)
        draw = BatchSamplers(samplers, locate.at("annotated_data_param"), transform_key)
        self._distort = distort if train and distort.active else None
        self._expand = expand if train and param.HasField("expand_param") else None
        self._draw: BatchSamplers | Jitter | None = draw if train and samplers else None
        self._emit = param.emit_constraint if param.HasField("emit_constraint") else None
        anno, batch = spec.annotated_data_param, spec.data_param.batch_size
        if anno.HasField("yolo_data_type") or anno.HasField("yolo_data_jitter"):
            self._draw = self._draw or self._jitter(
                anno, param, train, locate.at("annotated_data_param"), transform_key
            )
        self._most = most_objects(database) if typed and len(spec.top) > 1 else 0
        label = (1, 1, max(1, batch * self._most), ROW) if typed else (batch,)
        self.gives_objects, self._write, self._hard = typed, _write_labels, anno.train_diffcult
        if typed and anno.yolo_data_type == 1:
            label, self.gives_objects, self._write = (batch, 1, YOLO_OBJECTS, YOLO_ROW), False, _write_rows
        self._typed = typed
        shapes: list[tuple[int, ...]] = [(batch, *self.transform.shape), label]
        super().__init__(shapes[: len(spec.top)], database.length, spec.data_param.prefetch, workers())
        self.pixel_type = database.first.dtype
        self.floats = self.pixel_type.kind == "f"

    def facts(self) -> Facts:
        records = self.database.at(sampled(self.length))
        return {**super().facts(), "content": digest(bytes(value) for _, value in records)}

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        pixels, choice = self.choose(position, batch)
        indices = self.order(position, len(pixels))
        all_objects: list[Objects | None] = [None] * len(indices)
        labels = batch.arrays[0] if batch.arrays else None
        counter = _Countdown(len(indices), partial(self._write, all_objects, labels)) if self._typed else None
        for start in range(0, len(indices), IMAGES_PER_TASK):
            contents = self.database.read(indices[start : start + IMAGES_PER_TASK])
            yield partial(self._process, contents, position, start, choice, pixels, all_objects, labels, counter)

    def _process(
        self,
        contents: Sequence[Record],
        position: int,
        start: int,
        choice: Choice,
        pixels: np.ndarray,
        all_objects: list[Objects | None],
        labels: np.ndarray | None,
        counter: _Countdown | None,
    ) -> None:
        """Writes the samples of these records into the rows of a batch from ``start`` on; the last task also writes the
        label blob."""
        for i, content in enumerate(contents, start):
            try:
                record = parsed(content[1])
                image, label = self.database.image(i, content)
                changed, objects = self.changed(image, objects_of(record), position + i)
                if changed.dtype != pixels.dtype:
                    raise ValueError(f"images differ in type: expected {pixels.dtype}, found {changed.dtype}")
                pixels[i] = changed
            except ValueError as mistake:
                raise self.database.error(i, content, str(mistake)) from None
            if counter:
                placed = self._placed(objects, choice, i)
                all_objects[i] = self._easy(placed) if self._write is _write_rows else placed
                counter.step()
            elif labels is not None:
                labels[i] = label

    def changed(self, image: np.ndarray, objects: Objects, position: int) -> tuple[np.ndarray, Objects]:
        """The pixels C×h×w of an image C×H×W as the net receives them, but for mirroring and the mean, and its objects
        before the crop. position: the sample's number in the run."""
        if image.dtype == np.uint8:
            pixels = channels_last(image)
            if self._distort:
                pixels = self._distort(pixels, position)
            if self._expand:
                pixels, region = self._expand(pixels, position)
                objects = self._within(objects, region)
            if self._draw and (drawn := self._draw(objects.boxes, position)) is not None:
                pixels, objects = cut(pixels, drawn), self._within(objects, drawn)
            if self._resize:
                pixels, boxes = self._resize(pixels, objects.boxes, position)
                objects = Objects(boxes, objects.others)
            image = channels_first(pixels)
        elif self._distort or self._expand or self._draw or self._resize:
            raise ValueError(f"only bytes can be resized, expanded or cut: expected uint8, found {image.dtype}")
        try:
            return self.transform.augment(image, position), objects
        except CaffeliteError as mistake:
            raise ValueError(str(mistake)) from None

    @staticmethod
    def _jitter(
        anno: pb.AnnotatedDataParameter, param: pb.TransformationParameter, train: bool, at: Locator, transform: Key
    ) -> Jitter | None:
        if anno.yolo_data_type not in (0, 1):
            raise at.error("a bad yolo_data_type", "yolo_data_type", expected="0 or 1", found=anno.yolo_data_type)
        if not 0 <= anno.yolo_data_jitter < 1:
            found = f"{anno.yolo_data_jitter:g}"
            raise at.error("a bad yolo_data_jitter", "yolo_data_jitter", expected="0 to 1, less than 1", found=found)
        pads = any(one.resize_mode == pb.ResizeParameter.FIT_LARGE_SIZE_AND_PAD for one in param.resize_param[:1])
        return Jitter(anno.yolo_data_jitter, pads, transform) if train and anno.yolo_data_jitter else None

    def _easy(self, objects: Objects) -> Objects:
        """The objects that a detector of YOLO learns. Errors: too many."""
        if not self._hard:
            objects = objects.selected(objects.others[:, 2] == 0, objects.boxes)
        if len(objects.boxes) > YOLO_OBJECTS:
            count = len(objects.boxes)
            raise ValueError(f"has {count} objects; expected at most {YOLO_OBJECTS} with yolo_data_type: 1")
        return objects

    def _within(self, objects: Objects, region: np.ndarray) -> Objects:
        moved, seen = box_arithmetic.project(objects.boxes, region)
        return objects.selected(seen & emitted(self._emit, objects.boxes, region), moved)

    def _placed(self, objects: Objects, choice: Choice, row: int) -> Objects:
        """The objects in the crop of a sample, mirrored where it is."""
        _, height, width = self.transform.shape
        whole = self._resize.shape if self._resize else self.database.first.shape[1:]
        top, left = choice.corners[row].tolist()
        if any(self.transform.crop):
            sides = np.tile([whole[1], whole[0]], 2)
            objects = self._within(objects, np.array([left, top, left + width, top + height]) / sides)
        else:
            objects = self._within(objects, np.array([0.0, 0.0, 1.0, 1.0]))
        if choice.flips[row]:
            left_side = 1 - objects.boxes[:, 2]
            objects.boxes[:, 2], objects.boxes[:, 0] = 1 - objects.boxes[:, 0], left_side
        return objects

    def release(self) -> None:
        self.database.close()


class _Countdown:
    """Calls a function once, when ``step`` was called so many times, by any thread."""

    def __init__(self, count: int, then: Callable[[], None]):
        from threading import Lock

        self._left, self._then, self._lock = count, then, Lock()

    def step(self) -> None:
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._then()


def _write_labels(all_objects: list[Objects | None], labels: np.ndarray | None) -> None:
    """The label blob of a batch's objects."""
    if labels is None:
        return
    rows = labels.reshape(-1, ROW)
    rows[...] = -1
    at = 0
    for item, objects in enumerate(all_objects):
        if objects is None or not len(objects.boxes):
            continue
        end = at + len(objects.boxes)
        rows[at:end, 0] = item
        rows[at:end, 1:3] = objects.others[:, :2]
        rows[at:end, 3:7] = objects.boxes
        rows[at:end, 7] = objects.others[:, 2]
        at = end


def _write_rows(all_objects: list[Objects | None], labels: np.ndarray | None) -> None:
    """The same in YOLO's form."""
    if labels is None:
        return
    labels[...] = 0
    for rows, objects in zip(labels[:, 0], all_objects, strict=True):
        if objects is not None:
            count, low, high = len(objects.boxes), objects.boxes[:, :2], objects.boxes[:, 2:]
            rows[:count, 0] = objects.others[:, 0] - 1
            rows[:count, 1:3], rows[:count, 3:] = (low + high) / 2, high - low


def most_objects(database: Datums) -> int:
    """The number of objects of the record that has the most. Errors: a record cannot be read."""
    most = 0
    for i, (name, value) in enumerate(database.walk(0)):
        try:
            record = parsed(value)
        except ValueError as mistake:
            raise database.error(i, (name, value), str(mistake)) from None
        most = max(most, sum(len(group.annotation) for group in record.annotation_group))
    return most


def _check_geometry(param: pb.TransformationParameter, locate: Locator) -> None:
    """Errors: augmentations that do not move boxes."""
    for name in GEOMETRY:
        if param.HasField(name):
            raise locate.error(f"{name} does not move boxes", name, remedy="use expand_param and batch_sampler")
    perturb = param.perturb_param
    for name in ("shift_x", "shift_y", "max_rotate_degree", "scale_min", "scale_max"):
        if perturb.HasField(name):
            remedy = "use expand_param and batch_sampler"
            raise locate.error(f"{name} does not move boxes", "perturb_param", name, remedy=remedy)
