"""DetectNetTransformation: augmented images, and the grid of their objects."""

import math
from dataclasses import dataclass

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.protocol import Device
from ...layers.base import fillers, require
from ...layers.base.feeding import ScheduledNumber
from ...layers.base.layer import Shape, register

FIELDS = 8  # of a cell before the coverages of classes
EMPTY = 1e-7  # an area


@dataclass
class LabeledBox:
    """A box x, y, width, height in pixels, and its class in the file."""

    x: float
    y: float
    width: float
    height: float
    label: int


def overlap(start: float, end: float, low: float, high: float) -> float:
    return max(0.0, min(end, high) - max(start, low))


class Grid:
    """Cells of stride × stride pixels of an image."""

    def __init__(self, p: pb.DetectNetGroundTruthParameter):
        self.p = p
        self.classes = {pair.src: pair.dst for pair in p.object_class} or {1: 0}
        self.size = p.image_size_y // p.stride, p.image_size_x // p.stride
        self.channels = FIELDS + max(self.classes.values()) + 1

    def _kept(self, item: LabeledBox) -> LabeledBox | None:
        """The object, cut at the edges of the image; None if it does not count."""
        if self.p.crop_bboxes:
            width = overlap(item.x, item.x + item.width, 0, self.p.image_size_x)
            height = overlap(item.y, item.y + item.height, 0, self.p.image_size_y)
            item = LabeledBox(max(item.x, 0), max(item.y, 0), width, height, item.label)
        return item if item.label in self.classes and item.width * item.height >= EMPTY else None

    def _side(self, size: float) -> float:
        """Of the region that an object covers, along an axis."""
        shrunk = size * self.p.scale_cvg
        if self.p.gridbox_type == self.p.GRIDBOX_MIN:
            return min(size, max(self.p.min_cvg_len, shrunk))
        return min(self.p.max_cvg_len, shrunk)

    def labels(self, objects: list[LabeledBox]) -> np.ndarray:
        """Channels: foreground; left, top, right, bottom less the cell's; 1 / width, 1 / height; the cell's area by the
        region's, or 1; then the coverage of each class. Later objects replace earlier ones."""
        labels = np.zeros((self.channels, *self.size))
        for item in filter(None, map(self._kept, objects)):
            self._add(labels, item)
        return labels

    def _add(self, labels: np.ndarray, item: LabeledBox) -> None:
        stride = self.p.stride
        wide, high = self._side(item.width), self._side(item.height)
        left, top = item.x + (item.width - wide) / 2, item.y + (item.height - high) / 2
        norm = stride * stride / (wide * high) if wide * high else math.inf
        rows = range(max(0, math.floor(top / stride)), min(self.size[0], math.ceil((top + high) / stride)))
        columns = range(max(0, math.floor(left / stride)), min(self.size[1], math.ceil((left + wide) / stride)))
        for row, column in ((row, column) for row in rows for column in columns):
            x, y = column * stride, row * stride
            area = overlap(left, left + wide, x, x + stride) * overlap(top, top + high, y, y + stride)
            if area / stride**2 <= EMPTY:
                continue
            cell = labels[:, row, column]
            corners = item.x - x, item.y - y, item.x + item.width - x, item.y + item.height - y
            cell[:FIELDS] = 1, *corners, 1 / item.width, 1 / item.height, max(0 if self.p.obj_norm else 1, norm)
            cell[FIELDS:] = 0
            cell[FIELDS + self.classes[item.label]] = 1


SHARPNESS = -0.75  # of the cubic kernel


def recolored(image: np.ndarray, turn: float, saturation: float) -> np.ndarray:
    """With the hue turned by degrees, and the saturation multiplied."""
    blue, green, red = image
    value, low = image.max(0), image.min(0)
    spread = value - low
    safe = np.where(spread > 0, spread, 1)
    sixths = [(green - blue) / safe, 2 + (blue - red) / safe]
    hue = np.select([value == red, value == green], sixths, 4 + (red - green) / safe) * (spread > 0)
    chroma = np.where(value > 0, spread / np.where(value > 0, value, 1), 0) * saturation * value
    hue = (hue + turn / 60) % 6
    return np.stack([value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1) for k in ((n + hue) % 6 for n in (1, 3, 5))])


def _cubic(size: int, count: int) -> np.ndarray:
    """The weights of ``size`` values for each of ``count``; beyond the edge is the last value."""
    positions = (np.arange(count) + 0.5) * size / count - 0.5
    first = np.floor(positions).astype(int)
    weights = np.zeros((count, size))
    for step in range(-1, 3):
        d = np.abs(positions - first - step)
        near = (SHARPNESS + 2) * d**3 - (SHARPNESS + 3) * d**2 + 1
        far = SHARPNESS * (d**3 - 5 * d**2 + 8 * d - 4)
        np.add.at(weights, (np.arange(count), np.clip(first + step, 0, size - 1)), np.where(d <= 1, near, far))
    return weights


def resized(image: np.ndarray, height: int, width: int) -> np.ndarray:
    if image.shape[1:] == (height, width):
        return image
    return _cubic(image.shape[1], height) @ image @ _cubic(image.shape[2], width).T


class Turn:
    """A rotation by degrees, clockwise, into the frame that holds the whole image."""

    def __init__(self, height: int, width: int, degrees: float):
        angle = math.radians(degrees)
        self.matrix = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        extent = np.abs(self.matrix) @ (width, height)
        self.width, self.height = (math.ceil(side - 1e-6) for side in extent)
        self.before, self.after = np.array([width, height]) / 2, extent / 2

    def moved(self, x: float, y: float) -> np.ndarray:
        return self.matrix @ (np.array([x, y]) - self.before) + self.after

    def image(self, image: np.ndarray) -> np.ndarray:
        """Interpolated between four pixels; 0 outside."""
        rows, columns = np.mgrid[: self.height, : self.width]
        positions = np.stack([columns - self.after[0], rows - self.after[1]]).reshape(2, -1)
        x, y = self.matrix.T @ positions + self.before[:, None]
        left, top = np.floor(x).astype(int), np.floor(y).astype(int)
        inside = (left >= 0) & (top >= 0) & (left < image.shape[2] - 1) & (top < image.shape[1] - 1)
        left, top, x, y = (np.where(inside, part, 0) for part in (left, top, x, y))
        right, down = np.where(inside, x - left, 0), np.where(inside, y - top, 0)
        corners = image[:, top, left] * (1 - right) * (1 - down) + image[:, top, left + inside] * right * (1 - down)
        corners += image[:, top + inside, left] * (1 - right) * down
        corners += image[:, top + inside, left + inside] * right * down
        return (corners * inside).reshape(3, self.height, self.width)


def cropped(image: np.ndarray, x: int, y: int, height: int, width: int) -> np.ndarray:
    """The part from (x, y) on, which may lie outside; 0 there."""
    target = np.zeros((3, height, width))
    rows = slice(max(0, y), max(0, min(image.shape[1], y + height)))
    columns = slice(max(0, x), max(0, min(image.shape[2], x + width)))
    part = image[:, rows, columns]
    top, left = rows.start - y, columns.start - x
    target[:, top : top + part.shape[1], left : left + part.shape[2]] = part
    return target


HEADER, BOX = 2, 6  # of a label: how many objects and numbers of each; the numbers of an object that count
PROBABILITIES = ("crop_prob", "scale_prob", "flip_prob", "rotation_prob", "hue_rotation_prob", "desaturation_prob")


@register
class DetectNetTransformation(ScheduledNumber):
    """Images of image_size, less the mean, and grids of labels: images (N, 3, H, W) of 0 to 255, labels (N, ...), rows
    of as many numbers as the second of the first row says: the number of objects, then x, y, width, height, angle,
    class of each → images (N, 3, image_size_y, image_size_x), grids (N, 8 + classes, image_size_y / stride,
    image_size_x / stride).

    TEST resizes the image. TRAIN draws with the probabilities of detectnet_augmentation_param: hue, saturation, a flip,
    a scale, a rotation, a crop, in this order, and moves the objects too; outside of the image pixels are 0. A grid has
    foreground, corners less the cell's, 1 / width, 1 / height, an area and a channel for each class, in the cells that
    the middle of an object covers: scale_cvg of its size, at least min_cvg_len (GRIDBOX_MIN), or at most max_cvg_len
    (GRIDBOX_MAX). Mean: transform_param.mean_value, one or three. No gradients. Random numbers depend on the iteration
    and the sample. The host computes it. Errors: mean_file, images of other channels, labels that do not fit. Source:
    NVIDIA/caffe 0.17 src/caffe/layers/detectnet_transform_layer.cpp, src/caffe/util/detectnet_coverage_rectangular.cpp;
    OpenCV draws and rounds otherwise.
    """

    field = "detectnet_groundtruth_param"
    bottoms, tops = (2, 2), (2, 2)
    constant_bottoms = frozenset({0, 1})
    differentiable = couples_samples = False
    requires_host = needs_images = True

    def setup(self) -> None:
        require.positive(self, "stride", "image_size_x", "image_size_y")
        transform, augmentation = self.spec.transform_param, self.spec.detectnet_augmentation_param
        if transform.mean_file or len(transform.mean_value) not in (0, 1, 3):
            found = "mean_file" if transform.mean_file else f"{len(transform.mean_value)} values"
            what = "needs a mean of its own"
            raise self.error(what, "transform_param", expected="1 or 3 mean_value", found=found, outer=True)
        for name in PROBABILITIES:
            value = getattr(augmentation, name)
            if not 0 <= value <= 1:
                path = "detectnet_augmentation_param", name
                raise self.error(f"a bad {name}", *path, expected="0 to 1", found=f"{value:g}", outer=True)
        self.mean = np.array(list(transform.mean_value) or [0.0]).reshape(-1, 1, 1) / 255
        self.grid = Grid(self.p)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, channels = require.images(self, bottoms)[:2]
        if channels != 3:
            raise self.bottom_error(0, "has other channels", expected="3", found=channels)
        require.fits(self, bottoms, 1, bottoms[1][:1] == (n,), f"{n} samples")
        return [(n, 3, self.p.image_size_y, self.p.image_size_x), (n, self.grid.channels, *self.grid.size)]

    def build(self, dev: Device) -> None:
        self.need_number()
        self._value = dev.empty(1)

    def scheduled_number(self, iteration: int) -> float:
        return iteration

    def _objects(self, values: np.ndarray) -> list[LabeledBox]:
        values = values.reshape(-1)
        count, length = (int(number) for number in values[:HEADER]) if len(values) >= HEADER else (0, BOX)
        if length < BOX or count < 0 or len(values) < (count + 1) * length:
            what = f'bottom "{self.spec.bottom[1]}" has labels that do not fit'
            raise self.error(what, expected="the number of objects and of their values", found=f"{count} of {length}")
        rows = values[length : (count + 1) * length].reshape(count, length)
        return [LabeledBox(x, y, width, height, int(label)) for x, y, width, height, _, label in rows[:, :BOX].tolist()]

    def forward(self, x: list, y: list) -> None:
        self.number.copy_to(self._value)
        iteration = int(self.dev.download(self._value)[0])
        images, labels = (self.dev.download(blob).astype(float) for blob in x)
        transformed = []
        for n, image in enumerate(images):
            random = fillers.generator(self.context.seed, self.name, iteration, n)
            transformed.append(self._transformed(image / 255, self._objects(labels[n]), random))
        for top, arrays in zip(y, zip(*transformed, strict=True), strict=True):
            self.dev.upload(top, np.stack(arrays))

    def _transformed(
        self, image: np.ndarray, objects: list[LabeledBox], random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        p, a, train = self.p, self.spec.detectnet_augmentation_param, self.phase == pb.TRAIN
        height, width = p.image_size_y, p.image_size_x
        turn, saturation, flips, degrees = 0.0, 1.0, False, 0.0
        if train:
            if random.random() <= a.hue_rotation_prob:
                turn = min(180.0, max(-180.0, random.uniform(-1, 1) * a.hue_rotation))
            if random.random() <= a.desaturation_prob:
                saturation = 1 - random.random() * a.desaturation_max
            flips = bool(random.random() <= a.flip_prob)
            height, width = image.shape[1:]
            if random.random() <= a.scale_prob:
                scale = random.uniform(a.scale_min, a.scale_max)
                height, width = max(1, round(height * scale)), max(1, round(width * scale))
            if random.random() <= a.rotation_prob:
                degrees = random.uniform(-1, 1) * a.max_rotate_degree
        if turn or saturation != 1:
            image = recolored(image, turn, saturation)
        image = image - self.mean
        if flips:
            image = image[:, :, ::-1]
            objects = [LabeledBox(image.shape[2] - o.x - o.width - 1, o.y, o.width, o.height, o.label) for o in objects]
        across, down = width / image.shape[2], height / image.shape[1]
        objects = [LabeledBox(o.x * across, o.y * down, o.width * across, o.height * down, o.label) for o in objects]
        image = resized(image, height, width)
        if degrees:
            rotation = Turn(height, width, degrees)
            image, objects = rotation.image(image), [self._turned(rotation, o) for o in objects]
        return self._cropped(image, objects, random if train else None)

    @staticmethod
    def _turned(rotation: Turn, o: LabeledBox) -> LabeledBox:
        x, y = rotation.moved(o.x + o.width / 2, o.y + o.height / 2)
        return LabeledBox(float(x) - o.width / 2, float(y) - o.height / 2, o.width, o.height, o.label)

    def _cropped(
        self, image: np.ndarray, objects: list[LabeledBox], random: np.random.Generator | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """random: of a training pass; without, and where no crop is drawn, the middle."""
        p, a = self.p, self.spec.detectnet_augmentation_param
        shares, shifts = (0.5, 0.5), (0, 0)
        if random is not None and random.random() <= a.crop_prob:
            shares, shifts = (random.random(), random.random()), (a.shift_x, a.shift_y)
        room = image.shape[2] - p.image_size_x, image.shape[1] - p.image_size_y
        x, y = (
            round(share * (free + shift) - shift // 2) for share, free, shift in zip(shares, room, shifts, strict=True)
        )
        objects = [LabeledBox(o.x - x, o.y - y, o.width, o.height, o.label) for o in objects]
        return cropped(image, x, y, p.image_size_y, p.image_size_x) * 255, self.grid.labels(objects)
