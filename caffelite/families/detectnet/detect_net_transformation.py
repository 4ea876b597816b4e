"""DetectNetTransformation: augmented images, and grids of their labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.protocol import Device
from ...layers import fillers, require
from ...layers.feeding import Scheduled
from ...layers.layer import Layer, Shape, register
from . import pictures
from .coverage import Grid, Object

HEADER, BOX = 2, 6  # of a label: how many objects and numbers of each; the numbers of an object that count
PROBABILITIES = ("crop_prob", "scale_prob", "flip_prob", "rotation_prob", "hue_rotation_prob", "desaturation_prob")


@register
class DetectNetTransformation(Scheduled, Layer):
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
    _iteration: Any = None  # in the input buffer

    def setup(self) -> None:
        for name in ("stride", "image_size_x", "image_size_y"):
            require.positive(self, name)
        transform, augmentation = self.spec.transform_param, self.spec.detectnet_augmentation_param
        if transform.mean_file or len(transform.mean_value) not in (0, 1, 3):
            found = "mean_file" if transform.mean_file else f"{len(transform.mean_value)} values"
            raise self.error(
                "needs a mean of its own",
                "transform_param",
                expected="1 or 3 mean_value",
                found=found,
                outer=True,
            )
        for name in PROBABILITIES:
            value = getattr(augmentation, name)
            if not 0 <= value <= 1:
                path = "detectnet_augmentation_param", name
                raise self.error(f"a bad {name}", *path, expected="0 to 1", found=f"{value:g}", outer=True)
        self.mean = np.array(list(transform.mean_value) or [0.0]).reshape(-1, 1, 1) / 255
        self.grid = Grid(self.p)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        n, channels = bottoms[0][:2]
        if channels != 3:
            raise self.bottom_error(0, "has other channels", expected="3", found=channels)
        require.fits(self, bottoms, 1, bottoms[1][:1] == (n,), f"{n} samples")
        return [(n, 3, self.p.image_size_y, self.p.image_size_x), (n, self.grid.channels, *self.grid.size)]

    def build(self, dev: Device) -> None:
        self._iteration = self._iteration or self.context.input_buffer.field((1,))
        self._value = dev.empty(1)

    def feed(self, which: int, iteration: int, micro_batch: int) -> None:
        self._iteration.set(which, np.full(1, iteration, self.dev.dtype))

    def _objects(self, values: np.ndarray) -> list[Object]:
        values = values.reshape(-1)
        count, length = (int(number) for number in values[:HEADER]) if len(values) >= HEADER else (0, BOX)
        if length < BOX or count < 0 or len(values) < (count + 1) * length:
            what = f'bottom "{self.spec.bottom[1]}" has labels that do not fit'
            raise self.error(what, expected="the number of objects and of their values", found=f"{count} of {length}")
        rows = values[length : (count + 1) * length].reshape(count, length)
        return [Object(x, y, width, height, int(label)) for x, y, width, height, _, label in rows[:, :BOX].tolist()]

    def forward(self, x: list, y: list) -> None:
        self._iteration.copy_to(self._value)
        iteration = int(self.dev.download(self._value)[0])
        images, labels = (self.dev.download(blob).astype(float) for blob in x)
        transformed = []
        for n, image in enumerate(images):
            random = fillers.generator(self.context.seed, self.name, iteration, n)
            transformed.append(self._transformed(image / 255, self._objects(labels[n]), random))
        for top, arrays in zip(y, zip(*transformed, strict=True), strict=True):
            self.dev.upload(top, np.stack(arrays))

    def _transformed(
        self, image: np.ndarray, objects: list[Object], random: np.random.Generator
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
            image = pictures.recolored(image, turn, saturation)
        image = image - self.mean
        if flips:
            image = image[:, :, ::-1]
            objects = [Object(image.shape[2] - o.x - o.width - 1, o.y, o.width, o.height, o.label) for o in objects]
        across, down = width / image.shape[2], height / image.shape[1]
        objects = [Object(o.x * across, o.y * down, o.width * across, o.height * down, o.label) for o in objects]
        image = pictures.resized(image, height, width)
        if degrees:
            rotation = pictures.Turn(height, width, degrees)
            image, objects = rotation.image(image), [self._turned(rotation, o) for o in objects]
        return self._cropped(image, objects, random if train else None)

    @staticmethod
    def _turned(rotation: pictures.Turn, o: Object) -> Object:
        x, y = rotation.moved(o.x + o.width / 2, o.y + o.height / 2)
        return Object(float(x) - o.width / 2, float(y) - o.height / 2, o.width, o.height, o.label)

    def _cropped(
        self, image: np.ndarray, objects: list[Object], random: np.random.Generator | None
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
        objects = [Object(o.x - x, o.y - y, o.width, o.height, o.label) for o in objects]
        return pictures.cropped(image, x, y, p.image_size_y, p.image_size_x) * 255, self.grid.labels(objects)
