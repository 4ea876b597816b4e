"""Images, arrays and messages, as pycaffe converts them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

import numpy as np

from .. import inputs
from ..data.pictures import decode
from ..errors import CaffeliteError
from ..weights import decode_blob
from .proto import caffe_pb2

GRAY = np.array([0.2125, 0.7154, 0.0721])  # weights of red, green and blue in a gray image


# Messages


def blobproto_to_array(blob: caffe_pb2.BlobProto, return_diff: bool = False) -> np.ndarray:
    """The array of a BlobProto: its data (float, double, or NVCaffe's bytes), or its diff. Errors: ValueError for
    numbers that do not fit the shape."""
    if not (return_diff or blob.data):
        return decode_blob(memoryview(blob.SerializeToString()))
    old = any(blob.HasField(name) for name in ("num", "channels", "height", "width"))
    shape = (blob.num, blob.channels, blob.height, blob.width) if old else tuple(blob.shape.dim)
    values = np.array(blob.diff if return_diff else blob.data)
    return values.reshape(shape)


def array_to_blobproto(arr: np.ndarray, diff: np.ndarray | None = None) -> caffe_pb2.BlobProto:
    """A BlobProto with the shape and the numbers of an array; diff: of the same shape."""
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(np.asarray(arr, float).ravel())
    if diff is not None:
        blob.diff.extend(np.asarray(diff, float).ravel())
    return blob


def arraylist_to_blobprotovector_str(arraylist: Iterable[np.ndarray]) -> bytes:
    """A serialized BlobProtoVector of arrays."""
    return caffe_pb2.BlobProtoVector(blobs=[array_to_blobproto(array) for array in arraylist]).SerializeToString()


def blobprotovector_str_to_arraylist(text: bytes) -> list[np.ndarray]:
    """The arrays of a serialized BlobProtoVector."""
    return [blobproto_to_array(blob) for blob in caffe_pb2.BlobProtoVector.FromString(text).blobs]


def array_to_datum(arr: np.ndarray, label: int | None = None) -> caffe_pb2.Datum:
    """A Datum of an array C×H×W: bytes of uint8, floats of other types. Errors: ValueError for other axes."""
    if arr.ndim != 3:
        raise ValueError(f"a Datum has 3 axes, C×H×W; found {arr.ndim}")
    channels, height, width = arr.shape
    datum = caffe_pb2.Datum(channels=channels, height=height, width=width)
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(np.asarray(arr, float).ravel())
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: caffe_pb2.Datum) -> np.ndarray:
    """The array C×H×W of a Datum that is not encoded."""
    values = np.frombuffer(datum.data, np.uint8).copy() if datum.data else np.array(datum.float_data, float)
    return values.reshape(datum.channels, datum.height, datum.width)


# Images


def load_image(filename: str | os.PathLike[str] | IO[bytes], color: bool = True) -> np.ndarray:
    """The image of a file, or of an open file, as float32, 0 to 1: H×W×3 in the order red, green, blue, or H×W×1 where
    not ``color``. Errors: no such file; a file that is no image."""
    name = os.fspath(filename) if isinstance(filename, str | os.PathLike) else "the open file"
    try:
        read = inputs.read(filename, inputs.IMAGE) if isinstance(filename, str | os.PathLike) else filename.read()
        pixels = decode(read, True if color else None)
    except OSError as error:
        raise CaffeliteError(f"cannot read {name}: {error.strerror or error}") from None
    except ValueError as error:
        raise CaffeliteError(f"{name}: {error}") from None
    image = pixels.transpose(1, 2, 0).astype(np.float32) / np.float32(255)
    if color:
        return np.ascontiguousarray(image[..., ::-1])
    if image.shape[2] == 3:
        image = (image[..., ::-1] @ GRAY)[..., None]
    return np.ascontiguousarray(image, np.float32)


def resize_image(im: np.ndarray, new_dims: Sequence[int], interp_order: int = 1) -> np.ndarray:
    """An image H×W×K in other height and width, float32. interp_order: of the spline, 1 for linear.

    Images of 1 or 3 channels are aligned by the areas of their pixels, with the least value beyond the edges; others by
    the centers of their corners. Both are what pycaffe does.
    """
    from scipy.ndimage import zoom

    factors = [*(new / old for new, old in zip(new_dims, im.shape[:2], strict=True)), 1]
    if im.shape[-1] not in (1, 3):
        return zoom(im, factors, order=interp_order).astype(np.float32)
    low, high = im.min(), im.max()
    if low == high:
        return np.full((*new_dims, im.shape[-1]), low, np.float32)
    scaled = (im.astype(float) - low) / (high - low)
    scaled = zoom(scaled, factors, order=interp_order, mode="grid-constant", cval=0, grid_mode=True)
    return (scaled * (high - low) + low).astype(np.float32)


def oversample(images: Sequence[np.ndarray], crop_dims: Sequence[int]) -> np.ndarray:
    """Ten crops of each image H×W×K: corners and center, then their mirror images. Returns (10·N)×height×width×K."""
    (height, width), (rows, columns) = images[0].shape[:2], (int(d) for d in crop_dims)
    corners = [(y, x) for y in (0, height - rows) for x in (0, width - columns)]
    corners.append((int(height / 2 - rows / 2), int(width / 2 - columns / 2)))
    crops = [[image[y : y + rows, x : x + columns] for y, x in corners] for image in images]
    return np.array([crop for five in crops for crop in (*five, *(c[:, ::-1] for c in five))], np.float32)


class Transformer:
    """Converts images to the inputs of a net, and back. inputs: the shapes of the input blobs by name.

    The settings of an input are made by the ``set_`` functions. Errors: CaffeliteError for an input that is not
    known, and for settings that do not fit its shape.
    """

    def __init__(self, inputs: Mapping[str, Sequence[int]]):
        self.inputs = {name: tuple(shape) for name, shape in inputs.items()}
        self.transpose: dict[str, Sequence[int]] = {}
        self.channel_swap: dict[str, Sequence[int]] = {}
        self.raw_scale: dict[str, float] = {}
        self.mean: dict[str, np.ndarray] = {}
        self.input_scale: dict[str, float] = {}

    def _shape(self, in_: str) -> tuple[int, ...]:
        if in_ not in self.inputs:
            raise CaffeliteError(f'"{in_}" is no input', expected=", ".join(self.inputs) or "none is known")
        return self.inputs[in_]

    def preprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """An image H×W×K as float32 for the net: resized, transposed, channels in their order, times the raw scale,
        less the mean, times the input scale."""
        size = self._shape(in_)[2:]
        image = np.array(data, np.float32)
        if image.shape[:2] != size:
            image = resize_image(image, size)
        if in_ in self.transpose:
            image = image.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            image = image[list(self.channel_swap[in_])]
        for settings, apply in (
            (self.raw_scale, np.multiply),
            (self.mean, np.subtract),
            (self.input_scale, np.multiply),
        ):
            if in_ in settings:
                image = apply(image, settings[in_]).astype(np.float32, copy=False)
        return image

    def deprocess(self, in_: str, data: np.ndarray) -> np.ndarray:
        """The image of an input array: ``preprocess`` backwards, without the size."""
        self._shape(in_)
        image = np.array(data).squeeze()
        for settings, apply in ((self.input_scale, np.divide), (self.mean, np.add), (self.raw_scale, np.divide)):
            if in_ in settings:
                image = apply(image, settings[in_]).astype(image.dtype, copy=False)
        if in_ in self.channel_swap:
            image = image[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            image = image.transpose(np.argsort(self.transpose[in_]))
        return image

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """Sets the order of the axes: (2, 0, 1) makes K×H×W of H×W×K."""
        axes = len(self._shape(in_)) - 1
        if len(order) != axes:
            raise CaffeliteError("the order of axes does not fit the input", expected=axes, found=list(order))
        self.transpose[in_] = tuple(order)

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """Sets the order of the channels, the first axis after the transposition: (2, 1, 0) makes BGR of RGB."""
        channels = self._shape(in_)[1]
        if len(order) != channels:
            raise CaffeliteError("the order of channels does not fit the input", expected=channels, found=list(order))
        self.channel_swap[in_] = tuple(order)

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """Sets the factor of the image before the mean is taken off: 255 for images of 0 to 1."""
        self._shape(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_: str, mean: np.ndarray) -> None:
        """Sets what is taken off: a number a channel (K), or an image H×W or K×H×W, which is resized to the input."""
        shape = self._shape(in_)
        mean = np.asarray(mean)
        if mean.ndim == 1:
            if len(mean) != shape[1]:
                what = "the mean does not fit the input"
                raise CaffeliteError(what, expected=f"{shape[1]} channels", found=len(mean))
            mean = mean[:, None, None]
        elif mean.ndim not in (2, 3):
            raise CaffeliteError("a mean has 1 to 3 axes", found=list(mean.shape))
        else:
            mean = mean.reshape(-1, *mean.shape[-2:])
            if mean.shape[1:] != shape[2:]:
                mean = resize_image(mean.transpose(1, 2, 0), shape[2:]).transpose(2, 0, 1)
        self.mean[in_] = mean

    def set_input_scale(self, in_: str, scale: float) -> None:
        """Sets the factor after the mean is taken off."""
        self._shape(in_)
        self.input_scale[in_] = scale
