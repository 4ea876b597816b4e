"""What happens to an image on its way into a net: mean, crop, mirror, scale, in Caffe's order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from caffelite import caffelite_pb2 as pb
from caffelite.data.draws import Key, below, per_sample
from caffelite.errors import CaffeliteError, Locator, Where
from caffelite.prototxt import resolve


class Transform:
    """y = scale · mirror(crop(x - mean)) for images C×H×W, as in Caffe.

    Where crop_size is set, or crop_h and crop_w, TRAIN crops at random and TEST in the centre; mirror flips every other
    image on average, in both phases. shape: C×H×W of y. Errors: mean_file and mean_value together, force_color and
    force_gray together, a mean or a crop that does not fit the image.
    """

    def __init__(self, param: pb.TransformationParameter, phase: int, shape: tuple[int, int, int], locate: Locator, key: Key):
        self.locate, self.key = locate, key
        self.scale, self.mirror, self.crop = (
            np.float32(param.scale),
            param.mirror,
            (param.crop_h or param.crop_size, param.crop_w or param.crop_size),
        )
        if param.force_color and param.force_gray:
            raise CaffeliteError("force_color and force_gray exclude each other", where=locate("force_gray"), remedy="leave one out")
        for name in ("scale", "mean_value"):
            if not np.isfinite(getattr(param, name)).all():
                raise CaffeliteError(f"{name} is no finite number", where=locate(name), remedy=f"correct {name}")
        self._input = shape
        self.mean, self._mean_image = self._mean(param, shape), bool(param.mean_file)
        if any(self.crop) and not all(self.crop):
            name, other = ("crop_h", "crop_w") if self.crop[0] else ("crop_w", "crop_h")
            raise CaffeliteError(f"{name} without {other}", where=locate(name), remedy=f"set {other}, or crop_size")
        self.shape = (shape[0], *self.crop) if any(self.crop) else shape
        self._random_crop = any(self.crop) and phase == pb.TRAIN
        self.check(shape)

    def check(self, shape: tuple[int, ...]) -> None:
        """Raises the error that says why an image of this shape cannot be taken, if it cannot."""
        for i, (name, side) in enumerate((("crop_h", "rows"), ("crop_w", "columns"))):
            if self.crop[i] > shape[i + 1]:
                square = self.crop[0] == self.crop[1]
                most = f"at most {min(shape[1:])}" if square else f"at most {shape[i + 1]} {side}"
                name = "crop_size" if square else name
                raise CaffeliteError(f"{name} is larger than the image", where=self.locate(name), expected=most, found=self.crop[i])
        # As in Caffe, images may differ in size where a crop makes them equal, and no mean image needs them equal.
        if shape[0] != self._input[0] or shape != self._input and (not any(self.crop) or self._mean_image):
            raise CaffeliteError("images differ in shape", expected=_times(self._input), found=_times(shape))

    def __call__(self, images: np.ndarray | Sequence[np.ndarray], start: int, out: np.ndarray) -> None:
        """Writes N×C×h×w into out. images: N×C×H×W, or a list of C×H×W; start: the run's number of the first of them."""
        # Where nothing is drawn, one array operation does the whole batch.
        if isinstance(images, np.ndarray) and not (self.mirror or self._random_crop):
            self._window(images, (images.shape[2] - self.shape[1]) // 2, (images.shape[3] - self.shape[2]) // 2, 0, out)
        else:
            draws = per_sample(self.key, start, len(images))
            room = np.array([image.shape[1:] for image in images]) - self.shape[1:]
            corners = below(draws[:, 1:3], room + 1) if self._random_crop else room // 2
            flips = self.mirror * below(draws[:, 0], 2)
            for image, (top, left), flip, row in zip(images, corners.tolist(), flips.tolist(), out, strict=True):
                self._window(image, top, left, flip, row)
        if self.scale != 1:
            np.multiply(out, self.scale, out=out)

    def _window(self, images: np.ndarray, top: int, left: int, flip: int, out: np.ndarray) -> None:
        window = (..., slice(top, top + self.shape[1]), slice(left, left + self.shape[2]))
        step = (..., slice(None, None, -1 if flip else None))
        if self.mean is None:
            out[...] = images[window][step]
        else:
            mean = self.mean[window] if self._mean_image else self.mean
            np.subtract(images[window][step], mean[step], out=out)

    def _mean(self, param: pb.TransformationParameter, shape: tuple[int, int, int]) -> np.ndarray | None:
        """C×H×W, C×1×1, or None where nothing is to be subtracted."""
        if param.mean_file and param.mean_value:
            where = self.locate("mean_value", 0)
            raise CaffeliteError("mean_file and mean_value exclude each other", where=where, remedy="leave one out")
        if param.mean_file:
            return read_mean(param.mean_file, shape, self.locate)
        if not param.mean_value:
            return None
        if len(param.mean_value) not in (1, shape[0]):
            expected = f"1 or {shape[0]}, one for each channel" if shape[0] > 1 else "1"
            where = self.locate("mean_value", 0)
            raise CaffeliteError("wrong number of mean_value", where=where, expected=expected, found=len(param.mean_value))
        return np.broadcast_to(np.array(param.mean_value, np.float32)[:, None, None], (shape[0], 1, 1))


def read_mean(path: str, shape: tuple[int, int, int], locate: Locator) -> np.ndarray:
    """The mean image C×H×W of a binaryproto file (a BlobProto, 1×C×H×W in its old or new shape)."""
    from google.protobuf.message import DecodeError

    where = locate("mean_file")
    file = resolve(path, locate)
    try:
        blob = pb.BlobProto.FromString(file.read_bytes())
    except OSError as mistake:
        raise CaffeliteError(f'cannot read mean_file "{path}": {mistake.strerror}', where=where) from None
    except DecodeError:
        raise CaffeliteError("not a mean file", where=Where(str(file)), expected="a binary BlobProto", remedy=f"named at {where}") from None
    axes = tuple(blob.shape.dim) if blob.HasField("shape") else (blob.num, blob.channels, blob.height, blob.width)
    values = np.array(blob.data or blob.double_data, np.float32)
    if axes[-3:] != shape or max(axes[:-3], default=1) > 1 or values.size != math.prod(shape):
        where, remedy = Where(str(file)), f"named at {where}"
        found = f"{_times(axes)} with {values.size} values"
        raise CaffeliteError("the mean does not fit the images", where=where, expected=_times(shape), found=found, remedy=remedy)
    return values.reshape(shape)


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
