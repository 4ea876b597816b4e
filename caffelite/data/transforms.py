"""The transform of an image: augmentation, then mean, crop, mirror and scale in Caffe's order."""

import copy
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb, file_types, inputs
from ..errors import CaffeliteError, Locator, Where
from ..prototxt import resolve
from ..weights import Damaged, decode_blob
from . import npy
from .augmentation import Augmentation, Draws
from .augmentation.perturbation import Perturbation
from .draws import Key, below, per_sample
from .images import channels_first, channels_last


@dataclass(frozen=True)
class Choice:
    """What chance, or the middle, decided for N samples: corners N×2 (top, left of the crop) and flips N (1:
    mirrored)."""

    corners: np.ndarray
    flips: np.ndarray


class Transform:
    """y = scale · mirror(crop(x - mean)) for images C×H×W, as in Caffe, of images that TRAIN may have perturbed before.

    Where crop_size is set, or crop_h and crop_w, TRAIN crops at random and TEST in the center; mirror flips every other
    image on average, in both phases. A sample takes one of two paths: `augment`, by a worker on a single image,
    and then `finish`; or, if the transform is `plain` and images have one size, only `finish`,
    also on a device.

    shape: C×h×w of y. resizes: images may have any size. plain: there is mean, crop, mirror and scale only. mean: None,
    C×1×1 or an image C×H×W; scale: float32; param: the message. Errors: mean_file and mean_value together, force_color
    and force_gray together, a mean or a crop that does not fit the image, the errors of perturbations.
    """

    def __init__(
        self, param: pb.TransformationParameter, phase: int, shape: tuple[int, int, int], locate: Locator, key: Key
    ):
        self.param, self.locate, self.key = param, locate, key
        self.scale, self.mirror = np.float32(param.scale), param.mirror
        height, width = param.crop_h or param.crop_height, param.crop_w or param.crop_width
        self.crop = height or param.crop_size, width or param.crop_size
        if param.force_color and param.force_gray:
            raise locate.error("force_color and force_gray exclude each other", "force_gray", remedy="leave one out")
        for name, channels in (("force_color", 3), ("force_gray", 1)):
            if getattr(param, name) and shape[0] != channels:
                what, found = f"{name} acts on encoded records of a Data layer only", f"images of {shape[0]} channels"
                raise locate.error(
                    what, name, found=found, remedy="for ImageData set is_color; else store the images so"
                )
        if param.is_flow:
            remedy = "leave it out, and mirror too"
            raise locate.error("is_flow acts on VideoData of modality FLOW only", "is_flow", remedy=remedy)
        for name in ("scale", "mean_value"):
            if not np.isfinite(getattr(param, name)).all():
                raise locate.error(f"{name} is no finite number", name, remedy=f"correct {name}")
        if any(self.crop) and not all(self.crop):
            name, other = ("crop_h", "crop_w") if self.crop[0] else ("crop_w", "crop_h")
            raise locate.error(f"{name} without {other}", name, remedy=f"set {other}, or crop_size")
        self._input = shape
        self.shape = (shape[0], *self.crop) if any(self.crop) else shape
        self._augmentation = Augmentation(param, phase, shape, self.crop, locate, key)
        self.plain, self.resizes = not self._augmentation, self._augmentation.resizes
        self.mean = self._mean(param, shape)
        self._mean_image = bool(param.mean_file)
        self._random_crop = any(self.crop) and phase == pb.TRAIN
        self.check(shape)

    def of_pixels(self) -> "Transform":
        """The same transform, with the same draws, whose results are pixels: without mean and scale."""
        result = copy.copy(self)
        result.mean, result.scale = None, np.float32(1)
        return result

    def check(self, shape: tuple[int, ...]) -> None:
        """Raises the error that says why an image of this shape cannot be taken, if it cannot."""
        for i, (name, side) in enumerate((("crop_h", "rows"), ("crop_w", "columns"))):
            if self.crop[i] > shape[i + 1] and not self._augmentation.grows:
                square = self.crop[0] == self.crop[1]
                most = f"at most {min(shape[1:])}" if square else f"at most {shape[i + 1]} {side}"
                name = "crop_size" if square else name
                raise self.locate.error(f"{name} is larger than the image", name, expected=most, found=self.crop[i])
        # As in Caffe, images may differ in size where a crop makes them equal, and no mean image needs them equal.
        free = self._augmentation.resizes or any(self.crop) and not self._mean_image
        if shape[0] != self._input[0] or shape != self._input and not free:
            remedy = (
                "where records are encoded, force_color makes all of 3 channels" if shape[0] != self._input[0] else None
            )
            what = "images differ in shape"
            raise CaffeliteError(what, expected=_times(self._input), found=_times(shape), remedy=remedy)

    def __call__(self, images: np.ndarray | Sequence[np.ndarray], position: int, out: np.ndarray) -> None:
        """Writes N×C×h×w into out. images: N×C×H×W, or a list of C×H×W; position: the run's number of the first of
        them."""
        if not self.plain or not isinstance(images, np.ndarray):
            draws = self.draw(position, len(images))
            images = [self.augment(image, position + i, draws[i]) for i, image in enumerate(images)]
        self.finish(images, self.choose(position, len(images)), out)

    def draw(self, position: int, count: int) -> list[Draws]:
        """The numbers of the perturbations of ``count`` samples from this one of the run on, for ``augment``."""
        return self._augmentation.draw(position, count)

    def augment(self, image: np.ndarray, position: int, draws: Draws | None = None) -> np.ndarray:
        """C×h×w of a sample's image C×H×W: perturbed and cut out, neither mirrored nor less the mean. position: its
        number in the run. draws: its own of ``draw``, which are cheaper for many samples at once."""
        self.check(image.shape)
        pixels, moves = image, self._augmentation.moves
        if not self.plain:
            if image.dtype != np.uint8:
                remedy = "leave the perturbations out of transform_param"
                raise self.locate.error("perturbations need bytes", expected="uint8", found=image.dtype, remedy=remedy)
            draws = draws or self.draw(position, 1)[0]
            pixels = self._steps(moves, pixels, position, draws)
        if pixels.shape != self.shape:
            top, left = self._corners(per_sample(self.key, position, 1), np.array([pixels.shape[1:]]))[0]
            pixels = pixels[:, top : top + self.shape[1], left : left + self.shape[2]]
        if self._augmentation.looks and draws:
            pixels = self._steps(self._augmentation.looks, pixels, position, draws[len(moves) :])
        return pixels

    @staticmethod
    def _steps(steps: list[Perturbation], pixels: np.ndarray, position: int, draws: Draws) -> np.ndarray:
        if not steps:
            return pixels
        pixels = channels_last(pixels)
        for step, numbers in zip(steps, draws, strict=False):
            pixels = step(pixels, position, numbers)
        return channels_first(pixels)

    def choose(self, position: int, count: int) -> Choice:
        """Crops and flips of samples position … position + count - 1 of the run, in images of the size that the
        transform was made for."""
        draws = per_sample(self.key, position, count)
        return Choice(
            self._corners(draws, np.array([self._input[1:]])), (self.mirror * below(draws[:, 0], 2)).astype(np.uint8)
        )

    def finish(self, images: np.ndarray | Sequence[np.ndarray], choice: Choice, out: np.ndarray) -> None:
        """Writes scale · mirror(x - mean) as float32 N×C×h×w into out. images: as `augment` returns them, or
        complete, to be cropped here."""
        if isinstance(images, np.ndarray) and not (self.mirror or self._random_crop):
            top, left = choice.corners[0].tolist()
            self._window(images, top, left, 0, out)  # without random numbers, one operation for the complete batch
        else:
            for image, (top, left), flip, row in zip(
                images, choice.corners.tolist(), choice.flips.tolist(), out, strict=True
            ):
                self._window(image, top, left, flip, row)
        if self.scale != 1:
            np.multiply(out, self.scale, out=out)

    def _corners(self, draws: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        margin = np.maximum(sizes - self.shape[1:], 0)
        if self._random_crop:
            return below(draws[:, 1:3], margin + 1).astype(int)
        return np.repeat(margin // 2, len(draws) // len(margin), 0)

    def _window(self, images: np.ndarray, top: int, left: int, flip: int, out: np.ndarray) -> None:
        step = (..., slice(None, None, -1 if flip else None))
        if self.mean is None:
            out[...] = self._cut(images, top, left)[step]
        else:
            mean = self._cut(self.mean, top, left) if self._mean_image else self.mean
            np.subtract(self._cut(images, top, left)[step], mean[step], out=out)

    def _cut(self, images: np.ndarray, top: int, left: int) -> np.ndarray:
        """The crop; what has the crop's size is cut out already."""
        if images.shape[-2:] == self.shape[1:]:
            return images
        return images[..., top : top + self.shape[1], left : left + self.shape[2]]

    def _mean(self, param: pb.TransformationParameter, shape: tuple[int, int, int]) -> np.ndarray | None:
        """C×H×W, C×1×1, or None where nothing is to be subtracted."""
        check_one_mean(param, self.locate)
        if param.mean_file:
            if not self._augmentation.resizes:
                return read_mean(param.mean_file, shape, self.locate)
            # Of images of any size, as in NVCaffe its middle.
            mean = read_mean(param.mean_file, self.shape, self.locate, larger=True)
            top, left = (np.array(mean.shape[1:]) - self.shape[1:]) // 2
            return mean[:, top : top + self.shape[1], left : left + self.shape[2]]
        if not param.mean_value:
            return None
        expected = f"1 or {shape[0]}, one for each channel" if shape[0] > 1 else "1"
        means = channel_means(param, self.locate, shape[0], expected)
        return np.broadcast_to(means[:, None, None], (shape[0], 1, 1))


def check_one_mean(param: pb.TransformationParameter, locate: Locator) -> None:
    """Errors: both mean_file and mean_value."""
    if param.mean_file and param.mean_value:
        raise locate.error("mean_file and mean_value exclude each other", "mean_value", 0, remedy="leave one out")


def channel_means(
    param: pb.TransformationParameter, locate: Locator, channels: int = 3, expected: str = ""
) -> np.ndarray:
    """mean_value: one number, for each channel one, or 0 where there is none. Errors: another number of them."""
    count = len(param.mean_value)
    if count not in (0, 1, channels):
        expected = expected or f"1 or {channels}"
        raise locate.error("wrong number of mean_value", "mean_value", 0, expected=expected, found=count)
    return np.array(param.mean_value or [0], np.float32)


def read_mean(path: str, shape: tuple[int, int, int] | None, locate: Locator, larger: bool = False) -> np.ndarray:
    """The mean image C×H×W of a binaryproto file (a BlobProto, 1×C×H×W in its old or new shape), or of a .npy file
    (1×C×H×W, C×H×W, or H×W of a gray one).

    shape: what it must have, None for any; larger: than shape will do too. Errors: no such file, no mean file, another
    shape.
    """
    where = locate("mean_file")
    file = resolve(path, locate)
    try:
        data = inputs.read(file, inputs.MESSAGE)
        file_types.refuse(data, file)
        values = _npy(data) if data.startswith(b"\x93NUMPY") else decode_blob(memoryview(data))
    except OSError as mistake:
        raise where.error(f'cannot read mean_file "{path}": {mistake.strerror}') from None
    except Damaged as damage:
        what = f"not a mean file: {damage}"
        expected = "a binary BlobProto, or a .npy file of numbers"
        raise Where(str(file)).error(what, expected=expected, remedy=f"named at {where}") from None
    if not np.isfinite(values).all():
        raise Where(str(file)).error("the mean image holds NaN or infinity", remedy=f"named at {where}")
    axes = values.shape
    valid = len(axes) >= 3 and min(axes) > 0 and values.size == math.prod(axes[-3:])
    fits = (
        axes[-3:] == (shape or axes[-3:])
        or larger
        and shape is not None
        and axes[-3:-2] == shape[:1]
        and axes[-2] >= shape[1]
        and axes[-1] >= shape[2]
    )
    if not (valid and fits):
        where, remedy = Where(str(file)), f"named at {where}"
        found = f"{_times(axes)} with {values.size} values"
        expected = _times(shape) if shape else "1×C×H×W and as many values"
        raise where.error("the mean does not fit the images", expected=expected, found=found, remedy=remedy)
    return values.reshape(axes[-3:])


def _npy(data: bytes) -> np.ndarray:
    """The array in the bytes of a .npy file, as float32. Errors: Damaged; objects."""
    try:
        dtype, shape, order, start = npy.header(io.BytesIO(data))
        if dtype.kind not in "fiu":
            raise ValueError(f"values of the type {dtype}")
        values = np.frombuffer(data, dtype, math.prod(shape), start)
        values = values.reshape(shape, order=order).astype(np.float32)
    except (ValueError, OverflowError) as error:
        raise Damaged(str(error)) from None
    return values[None] if values.ndim == 2 else values


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
