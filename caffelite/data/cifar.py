"""Reads the files of CIFAR-10, binary or pickled: 3×32×32 bytes for each image, stored as RGB and returned as
BGR."""

import io
import pickle
from collections.abc import Sequence

import numpy as np

from ..errors import Where
from .archive import Files

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


class _Arrays(pickle.Unpickler):
    """Makes arrays and plain values, and nothing else that a pickle may ask for."""

    def find_class(self, module: str, name: str):
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.empty(0).__reduce__()[0]  # that function, wherever this NumPy keeps it
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def _unpickled(content: bytes, where: Where) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _Arrays(io.BytesIO(content), encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        if images.dtype != np.uint8 or images.shape != (len(labels), RECORD - 1) or labels.min() < 0:
            raise ValueError(f"{images.shape} of {images.dtype}")
    except Exception as mistake:  # a damaged pickle may raise any exception
        expected = f'a pickle with "data", N×{RECORD - 1} of uint8, and "labels"'
        raise where.error("not a batch of CIFAR-10", expected=expected, found=mistake) from None
    return images, labels.astype(np.uint8)
