"""Reads the files of CIFAR-10, binary or pickled: 3×32×32 bytes for each image, stored as RGB and returned as
BGR."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Where
from .archive import Files
from .plain_pickle import Built, Global, PlainUnpickler, Refused

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN, TEST = tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",)
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # the label, then the image


def find(files: Files) -> dict[str, str] | None:
    """Each batch's file (batch → name); None where the files are no CIFAR-10 of this kind. Errors: some batches are
    missing."""
    for ending in (".bin", ""):
        by_name = {name.rsplit("/", 1)[-1]: name for name in files}
        batches = {batch: by_name[batch + ending] for batch in TRAIN + TEST if batch + ending in by_name}
        if batches:
            missing = [batch + ending for batch in TRAIN + TEST if batch not in batches]
            if missing:
                raise Where(files.where).error("batches of CIFAR-10 are missing", expected=", ".join(missing))
            return batches
    return None


def read(files: Files, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(images N×3×32×32, labels N) of some files, joined. Errors: one is not of the two forms; a label that is no
    class."""
    batches = [_read(_content(files, name), Where(f"{files.where}/{name}"), name.endswith(".bin")) for name in names]
    return np.concatenate([images for images, _ in batches]).reshape(-1, *SHAPE)[:, ::-1], np.concatenate(
        [labels for _, labels in batches]
    )


def _content(files: Files, name: str) -> bytes:
    try:
        return files[name]
    except OSError as mistake:
        raise Where(f"{files.where}/{name}").error(f"cannot read it: {mistake.strerror or mistake}") from None


def _read(content: bytes, where: Where, binary: bool) -> tuple[np.ndarray, np.ndarray]:
    if not binary:
        images, labels = _unpickled(content, where)
    elif not content or len(content) % RECORD:
        expected = f"a multiple of {RECORD} bytes"
        raise where.error("not a batch of CIFAR-10", expected=expected, found=f"{len(content)} bytes")
    else:
        rows = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
        images, labels = rows[:, 1:], rows[:, 0]
    if labels.max() >= len(CLASSES):
        raise where.error("a label that is no class", expected=f"0 to {len(CLASSES) - 1}", found=labels.max())
    return images, labels


class _Dtype(Built):
    """Stands for a dtype of NumPy, of numbers alone."""

    __slots__ = ("_text", "order")

    def __init__(self, text: Any, *_: Any):
        text = text.decode("latin1") if isinstance(text, bytes) else text
        if text not in NUMBERS:
            raise Refused(f"an array of another type than {', '.join(NUMBERS)}")
        self._text, self.order = text, "="

    def build(self, state: Any) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "=", "|"):
            raise Refused("an order of bytes that is none")
        self.order = order

    def numpy(self) -> np.dtype:
        return np.dtype(self._text).newbyteorder(self.order)


class _Array(Built):
    """Stands for an array of NumPy, which is made when the file is read."""

    __slots__ = ("values",)

    def __init__(self, *_: Any):
        self.values = np.empty(0)

    def build(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        sizes = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
        if not sizes or not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise Refused("an array without numbers")
        values = np.frombuffer(content, dtype.numpy())
        if values.size != math.prod(shape):
            raise Refused(f"an array of {values.size} numbers for the shape {shape[:4]}")
        self.values = values.reshape(shape, order="F" if fortran is True else "C")


NUMBERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
GLOBALS = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Global(_Array) for core in ("core", "_core")},
    ("numpy", "ndarray"): Global(),
    ("numpy", "dtype"): Global(_Dtype),
}


def _numbers(value: Any) -> np.ndarray:
    """An array, or a list of whole numbers as one. Errors: ValueError for anything else."""
    if isinstance(value, list) and all(type(each) is int for each in value):
        return np.array(value, np.int64)
    if not isinstance(value, _Array):
        raise ValueError("values that are no array")
    return value.values


def _unpickled(content: bytes, where: Where) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = PlainUnpickler(content, GLOBALS, encoding="bytes").load()
        images, labels = _numbers(batch[b"data"]), _numbers(batch[b"labels"])
        if images.dtype != np.uint8 or images.shape != (len(labels), RECORD - 1) or labels.min() < 0:
            raise ValueError(f"{images.shape} of {images.dtype}")
    except Exception as mistake:  # a damaged pickle may raise any exception
        expected = f'a pickle with "data", N×{RECORD - 1} of uint8, and "labels"'
        raise where.error("not a batch of CIFAR-10", expected=expected, found=mistake) from None
    return images, labels.astype(np.uint8)
