"""The layers that change images, their flow and their coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import caffelite_pb2 as pb
from ...layers.base import fillers, require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Adapting
from .coefficients import CHROMATIC, EIGEN, IS_FACTOR, NAMES, Drawing, check, schedule, transform, values

Changes = list[dict[str, float]]  # of each image
UNCHANGED = dict(zip(NAMES, map(float, IS_FACTOR), strict=True))
LEAST = 1e-2  # what counts as more than 0


def differ(changes: Changes, names: list[str]) -> bool:
    return any(change[name] != UNCHANGED[name] for change in changes for name in names)


def recolored(images: np.ndarray, changes: Changes, space: Eigenspace | None, most: float, random) -> np.ndarray:
    """space: of the images before they were cut; None: without vectors. most: the largest value. random: for noise."""
    if space and differ(changes, EIGEN):
        images = np.stack([space.changed(image, change, most) for image, change in zip(images, changes, strict=True)])
    if differ(changes, CHROMATIC):
        images = np.stack([_chromatic(image, change, most) for image, change in zip(images, changes, strict=True)])
    if any(_has_effect(change) for change in changes):
        images = np.stack([_effects(image, change, most) for image, change in zip(images, changes, strict=True)])
        for image, change in zip(images, changes, strict=True):
            if change["noise"] > 0:
                image += random.normal(0, change["noise"], image.shape)
    return images


def _chromatic(image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
    colored = image * np.array([change[f"color{i}"] for i in (1, 2, 3)])[:, None, None]
    colored = np.clip(colored * (image.sum(0) / (colored.sum(0) + 0.01)), 0, 1)  # as bright as before
    colored = colored ** change["gamma"] + change["brightness"]
    return np.clip(0.5 + (colored - 0.5) * change["contrast"], 0, most)


def _has_effect(change: dict[str, float]) -> bool:
    fog = change["fog_amount"] != 0 and change["fog_size"] != 0
    return fog or change["motion_blur_size"] > 0 or change["shadow_strength"] > 0 or change["noise"] > 0


def _effects(image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
    height, width = image.shape[1:]
    across = (np.arange(width) - width // 2) * np.cos(change["shadow_angle"])
    down = (np.arange(height) - height // 2) * np.sin(change["shadow_angle"])
    dark = across + down[:, None] - change["shadow_distance"] > 0
    return np.clip(image - dark * change["shadow_strength"], 0, most)


class Eigenspace:
    """The colors of a batch of images along three vectors: their mean, and how far they go along each."""

    def __init__(self, images: np.ndarray, vectors: np.ndarray):
        self.vectors = vectors
        self.mean = images.mean((0, 2, 3))
        self.reach = np.abs(np.einsum("kc,nchw->nkhw", vectors, images)).max((0, 2, 3))
        self.some = self.reach > LEAST
        self.far = float(np.sqrt((self.reach**2).sum()))

    def changed(self, image: np.ndarray, change: dict[str, float], most: float) -> np.ndarray:
        scale = np.where(self.some, self.reach, 1)
        e = np.einsum("kc,chw->khw", self.vectors, image - self.mean[:, None, None]) / scale[:, None, None]
        for k in np.flatnonzero(self.some):
            e[k] = _curved(e[k], *(change[f"{kind}_nomean{k}"] for kind in ("pow", "add", "mult")))
        e += (self.vectors @ self.mean / scale)[:, None, None]
        if self.some[0]:
            e[0] = _curved(e[0], *(change[f"{kind}_withmean0"] for kind in ("pow", "add", "mult")))
        saturation = np.hypot(e[1], e[2])
        colorful = saturation > LEAST
        power, add, factor = (change[f"{kind}_withmean1"] for kind in ("pow", "add", "mult"))
        more = np.maximum(saturation**power + add, 0) * factor
        cos, sin = np.cos(change["col_angle"]), np.sin(change["col_angle"])
        e = np.stack([e[0], cos * e[1] - sin * e[2], sin * e[1] + cos * e[2]]) * scale[:, None, None]
        length = np.sqrt((e**2).sum(0)) / (self.far or 1)
        e[1:] *= np.where(colorful, more / np.where(colorful, saturation, 1), 1)
        if self.far > LEAST:
            now = np.sqrt((e**2).sum(0))
            wanted = np.maximum(length ** change["lmult_pow"] + change["lmult_add"], 0)
            wanted = wanted * change["lmult_mult"] * self.far
            long = now > LEAST
            e = np.where(long, np.minimum(e * wanted / np.where(long, now, 1), self.reach[:, None, None]), e)
        return np.clip(np.einsum("kc,khw->chw", self.vectors, e), 0, most)


def _curved(e: np.ndarray, power: float, add: float, factor: float) -> np.ndarray:
    return (np.copysign(np.abs(e) ** power, e) + add) * factor


MODES = ("add", "replace", "regenerate")


class Augmentation(Layer):
    """What the three types share."""

    field = "augmentation_param"
    requires_host = True
    differentiable = False
    crop: tuple[int, int] | None = None  # height and width of the crop
    divisible_axes = False

    def setup(self) -> None:
        check(self)
        if self.p.HasField("crop_width") and self.p.HasField("crop_height"):
            require.positive(self, "crop_height", "crop_width")
            self.crop = self.p.crop_height, self.p.crop_width
        schedule_param = self.spec.coeff_schedule_param
        if not 0 < schedule_param.half_life < math.inf:
            found = f"{schedule_param.half_life:g}"
            where = "coeff_schedule_param", "half_life"
            raise self.error("a bad half_life", *where, expected="more than 0", found=found, outer=True)
        self.draws = self.phase == pb.TRAIN or self.p.augment_during_test

    def need_crop(self) -> tuple[int, int]:
        if self.crop is None:
            raise self.error("has no crop", expected="crop_width and crop_height")
        return self.crop

    def need_vectors(self, bottoms: list[Shape], i: int) -> None:
        """A bottom of the numbers of coefficients.py."""
        require.fits(self, bottoms, 0, bool(bottoms[0]), "N×...", "has no samples")
        count = bottoms[0][0]
        if bottoms[i][:2] != (count, len(NAMES)) or math.prod(bottoms[i][2:]) != 1:
            raise self.bottom_error(i, "does not fit", expected=[count, len(NAMES), 1, 1], found=list(bottoms[i]))

    def download(self, array) -> np.ndarray:
        return self.dev.download(array).astype(float)

    def drawn(self, start: np.ndarray, mode: str, passes: float, image: tuple[int, int]) -> np.ndarray:
        """Vectors for each sample. passes: how many there were, with this one."""
        coefficient = schedule(self.spec.coeff_schedule_param, passes)
        drawing = Drawing(self.p, coefficient, image, self.crop or image)
        return np.stack([drawing.vector(row, mode, self.random(n)) for n, row in enumerate(start)])

    def random(self, *key: int) -> np.random.Generator:
        return fillers.generator(self.context.seed, self.name, *self.context.clock, *key)


@register
class DataAugmentation(Adapting, Augmentation):
    """The middle of images, crop_height × crop_width, changed at random in position and color in TRAIN, and in TEST
    with augment_during_test; then without a mean. Without a crop only the mean is subtracted.

    x (N, C, H, W) → y (N, C, h, w). A second bottom, (N, 42, 1, 1), has the numbers of the changes instead, as
    GenerateAugmentationParameters makes them; a second top gets them. recompute_mean: the mean of the first training
    passes, of each pixel, or of channels with mean_per_pixel: false; TEST takes it as it is. Blobs: the number of
    passes; with recompute_mean the means of pixels and those of channels, which fit any crop. mean: three numbers,
    unless recompute_mean or mean_per_pixel. Between pixels y is interpolated, at the last ones from 1.05 before the
    edge, as in the fork. No gradient. The host computes it. fog, motion_blur and write_augmented have no effect,
    as there. Errors: a crop larger than the image, colors of other than 3 channels. As in lmb-freiburg/flownet2,
    src/caffe/layers/data_augmentation_layer.cu, where TEST counts passes too.
    """

    bottoms = tops = (1, 2)
    needs_images = True

    def setup(self) -> None:
        super().setup()
        self.measures = self.phase == pb.TRAIN and self.p.recompute_mean > 0

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, c, height, width = require.images(self, bottoms)
        if len(bottoms) > 1:
            self.need_vectors(bottoms, 1)
        for name, side, image in zip(("crop_height", "crop_width"), self.crop or (), (height, width), strict=False):
            if side > image:
                raise self.error(f"{name} is larger than the image", name, expected=f"at most {image}", found=side)
        size = self.crop or (height, width)
        zero = pb.FillerParameter()
        for shape in ((1, 1, 1, 1), (1, c, *size), (1, c, 1, 1))[: 3 if self.p.recompute_mean else 1]:
            self.add_param(shape, zero, statistic=True, ignores_rate=True)
        self.couples_samples = self.draws
        tops: list[Shape] = [(n, c, *size), (n, len(NAMES), 1, 1)]
        return tops[: len(self.spec.top)]

    def adapted(self, blobs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray | None]:
        if len(blobs) != 3 or any(blob is None for blob in blobs):
            return blobs
        passes, pixels, channels = (np.asarray(blob) for blob in blobs)
        shape = self.param_blobs[1].shape if len(self.param_blobs) == 3 else pixels.shape
        if pixels.shape == shape or pixels.ndim != 4 or pixels.shape[1] != shape[1]:
            return blobs
        if self.p.mean_per_pixel:
            channels = pixels.mean((2, 3), keepdims=True)
        return [passes, np.broadcast_to(channels.reshape(1, -1, 1, 1), shape), channels]

    def forward(self, x: list, y: list) -> None:
        images = self.download(x[0])
        passes = float(self.download(self.params[0].data).reshape(-1)[0])
        if self.phase == pb.TRAIN:
            passes += 1
            self.dev.fill(self.params[0].data, passes)
        vectors = self.download(x[1]).reshape(len(images), -1) if len(x) > 1 else np.zeros((len(images), len(NAMES)))
        if self.crop:
            if len(x) == 1 and self.draws:
                vectors = self.drawn(vectors, "regenerate", passes, _size(images.shape))
            images = self._changed(images, vectors, self.crop)
        self.dev.upload(y[0], images - self._mean(images, passes))
        if len(y) > 1:
            self.dev.upload(y[1], vectors.reshape(y[1].shape))

    def _changed(self, images: np.ndarray, vectors: np.ndarray, crop: tuple[int, int]) -> np.ndarray:
        size, changes = _size(images.shape), [values(vector) for vector in vectors]
        cut = np.stack([_cut(i, transform(c, crop, size), crop) for i, c in zip(images, changes, strict=True)])
        if not differ(changes, NAMES[6:]):
            return cut
        if images.shape[1] != 3:
            what = f'bottom "{self.spec.bottom[0]}" has no colors to change'
            raise self.error(what, expected="3 channels", found=images.shape[1])
        space = None
        if differ(changes, EIGEN):
            if len(self.p.chromatic_eigvec) != 9:
                raise self.error("needs the eigenvectors of colors", "chromatic_eigvec", expected="9 numbers")
            space = Eigenspace(images, np.array(self.p.chromatic_eigvec).reshape(3, 3))
        return recolored(cut, changes, space, self.p.max_multiplier, self.random(len(images)))

    def _mean(self, images: np.ndarray, passes: float) -> np.ndarray | float:
        if self.p.recompute_mean:
            pixels, channels = (self.download(param.data) for param in self.params[1:])
            if self.measures and passes <= self.p.recompute_mean:
                pixels = (pixels * (passes - 1) + images.mean(0)) / passes
                channels = pixels.mean((2, 3), keepdims=True)
                for param, value in zip(self.params[1:], (pixels, channels), strict=True):
                    self.dev.upload(param.data, value)
            return pixels if self.p.mean_per_pixel else channels
        if len(self.p.mean) == 3 == images.shape[1] and not self.p.mean_per_pixel:
            return np.array(self.p.mean).reshape(1, 3, 1, 1)
        return 0.0


def _cut(image: np.ndarray, matrix: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The pixels (C, h, w) of an image (C, H, W) at the positions to which the matrix leads."""
    height, width = image.shape[1:]
    rows, columns = np.mgrid[: size[0], : size[1]]
    across, down = (m[0] * columns + m[1] * rows + m[2] for m in matrix)
    across, down = (np.maximum(np.minimum(at, side - 1.05), 0) for at, side in ((across, width), (down, height)))
    left, top = across.astype(int), down.astype(int)
    right, below = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    a, b = across - left, down - top
    upper = (1 - a) * image[:, top, left] + a * image[:, top, right]
    return (1 - b) * upper + b * ((1 - a) * image[:, below, left] + a * image[:, below, right])


def _size(shape: Shape) -> tuple[int, int]:
    """Height and width."""
    return shape[2], shape[3]


@register
class FlowAugmentation(Augmentation):
    """The flow between two images that DataAugmentation has changed: flow (N, C, H, W), C = 2, and the numbers of both
    changes (N, 42, 1, 1) → y (N, C, h, w), crop_height × crop_width, of the pixel that is nearest.

    Where a change leads outside the flow, its nearest pixel counts. No gradient. The host computes it. Errors: no crop,
    other channels. As in lmb-freiburg/flownet2, src/caffe/layers/flow_augmentation_layer.cu.
    """

    bottoms, tops = (3, 3), (1, 1)
    needs_images = True
    couples_samples = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        if bottoms[0][1] != 2:
            raise self.bottom_error(0, "is no flow", expected="2 channels", found=bottoms[0][1])
        for i in (1, 2):
            self.need_vectors(bottoms, i)
        return [(*bottoms[0][:2], *self.need_crop())]

    def forward(self, x: list, y: list) -> None:
        flows, *vectors = map(self.download, x)
        pairs = zip(flows, *(array.reshape(len(flows), -1) for array in vectors), strict=True)
        self.dev.upload(y[0], np.stack([self._moved(*each) for each in pairs]))

    def _moved(self, flow: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        crop, size = self.need_crop(), (flow.shape[1], flow.shape[2])
        before, after = (transform(values(vector), crop, size) for vector in (first, second))
        rows, columns = np.mgrid[: crop[0], : crop[1]]
        pixels = np.stack([columns, rows]).reshape(2, -1)
        at = before[:, :2] @ pixels + before[:, 2:]
        column, row = (np.clip((at[i] + 0.5).astype(int), 0, size[1 - i] - 1) for i in (0, 1))
        target = at + flow[:, row, column] - after[:, 2:]
        return (np.linalg.inv(after[:, :2]) @ target - pixels).reshape(2, *crop)


@register
class GenerateAugmentationParameters(Augmentation):
    """Numbers of random changes for DataAugmentation and FlowAugmentation, y (N, 42, 1, 1): drawn in TRAIN, and in TEST
    with augment_during_test, so that the crop, with up to 50 tries, stays in the image.

    Bottoms: images (N, C, H, W), or numbers (N, 42, 1, 1) alone, or numbers, images and crops (N, C, h, w). mode: "add"
    to the numbers of the first bottom (default), "replace" those that are drawn, "regenerate" all, as with images.
    Sizes without a bottom: crop_width, crop_height, bottomwidth, bottomheight. coeff_schedule_param: the spread grows
    from initial_coeff to final_coeff, half of it in half_life iterations. No gradient. The host computes it. Errors: no
    size, an unknown mode or rand_type. As in lmb-freiburg/flownet2,
    src/caffe/layers/generate_augmentation_parameters_layer.cu, which counts the passes of the process.
    """

    bottoms, tops = (1, 3), (1, 1)
    couples_samples = False

    def setup(self) -> None:
        super().setup()
        if self.p.mode not in MODES:
            raise self.error("an unknown mode", "mode", expected=", ".join(MODES), found=f'"{self.p.mode}"')
        if len(self.spec.bottom) == 2:
            what = "numbers, images and crops"
            raise self.error("has 2 bottoms", "bottom", 0, expected=f"1, or 3: {what}", found=2, outer=True)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.mode, self.of_images = self.p.mode, len(bottoms) == 1 and math.prod(bottoms[0][2:]) > 1
        if self.of_images:
            self.mode = "regenerate"
            require.images(self, bottoms)
        else:
            self.need_vectors(bottoms, 0)
        if len(bottoms) == 3:
            for i in (1, 2):
                require.images(self, bottoms, i)
            self.image, self.crop = _size(bottoms[1]), _size(bottoms[2])
        else:
            self.image = _size(bottoms[0]) if self.of_images else (self.p.bottomheight, self.p.bottomwidth)
            self.need_crop()
            if min(self.image) < 1:
                name = "bottomheight" if self.image[0] < 1 else "bottomwidth"
                raise self.error(f"{name} must be positive", name, expected="the size of the images")
        return [(bottoms[0][0], len(NAMES), 1, 1)]

    def forward(self, x: list, y: list) -> None:
        count = len(y[0])
        vectors = np.zeros((count, len(NAMES))) if self.of_images else self.download(x[0]).reshape(count, -1)
        if self.mode == "regenerate":
            vectors = np.zeros_like(vectors)
        if self.draws:
            vectors = self.drawn(vectors, self.mode, self.context.clock[0] + 1, self.image)
        self.dev.upload(y[0], vectors.reshape(y[0].shape))
