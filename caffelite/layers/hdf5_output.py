"""HDF5Output, which writes blobs into a file."""

import contextlib
import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import roots
from ..devices.protocol import Device
from ..system import reserve
from ..weights.hdf5 import members
from .base import require
from .base.layer import Layer, Shape, register
from .base.state import Writing

SLACK = 1 << 16  # bytes that HDF5 needs besides the rows of a batch, at most
NAMES = "data", "label"


@register
class HDF5Output(Writing, Layer):
    """Appends its two bottoms, (N, ...) each, to the data sets "data" and "label" of hdf5_output_param.file_name. Each
    run creates a new file; of several processes each one its own, out_rank1.h5 beside out_rank0.h5.

    As in Caffe, arrays of fewer than four axes get trailing axes of 1. After each batch the file is complete. Errors: a
    batch does not fit on the disk; the file then holds those before it.
    """

    field = "hdf5_output_param"
    bottoms, tops = (2, 2), (0, 0)
    differentiable = couples_samples = False
    requires_host = writes = True
    divisible_axes = False

    def setup(self) -> None:
        if not self.p.file_name:
            raise self.error("has no file_name", "file_name", remedy='set hdf5_output_param { file_name: "out.h5" }')
        self.path = Path(self.p.file_name)

    def set_rank(self, rank: int, ranks: int) -> None:
        """Gives each of several processes a file of its own."""
        if ranks > 1:
            self.path = self.path.with_name(f"{self.path.stem}_rank{rank}{self.path.suffix}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.fits(self, bottoms, 1, bottoms[0][:1] == bottoms[1][:1], list(bottoms[0][:1]), "differs in batch size")
        return []

    def build(self, dev: Device) -> None:
        self.started = False

    def forward(self, x: list, y: list) -> None:
        import h5py

        arrays = [self.dev.download(bottom).astype(np.float32) for bottom in x]
        arrays = [rows.reshape(*rows.shape, *[1] * (4 - rows.ndim)) for rows in arrays]
        try:
            if not self.started:
                _write(self.path, _first(arrays))
            else:
                _reserve(self.path, sum(rows.nbytes for rows in arrays) + SLACK)
                with roots.named(self.path, os.O_RDWR) as name, h5py.File(name, "r+") as file:
                    stored: dict[str, Any] = dict(members(file))
                    for key, rows in zip(NAMES, arrays, strict=True):
                        stored[key].resize(len(stored[key]) + len(rows), axis=0)
                        stored[key][-len(rows) :] = rows
        except (
            OSError,
            RuntimeError,
            KeyError,
            ValueError,
        ) as error:  # HDF5's, and of a file that another program changed
            full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            what, remedy = f"cannot write {self.path}: {reason}", "free disk space" if full else None
            raise self.error(what, "file_name", remedy=remedy) from None
        self.started = True


def _first(arrays: list[np.ndarray]) -> bytes:
    """The bytes of a file with the first batch."""
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, rows in zip(NAMES, arrays, strict=True):
            file.create_dataset(name, data=rows, maxshape=(None, *rows.shape[1:]), chunks=rows.shape)
    return content.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Writes a new file, or none."""
    try:
        with open(path, "wb", opener=roots.open) as file:
            file.write(content)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _reserve(path: Path, count: int) -> None:
    """Makes sure that a file can grow by so many bytes, as HDF5 itself survives no failed write; it gives back what it
    does not need. Errors: the disk is full."""
    handle = roots.open(path, os.O_RDWR)
    try:
        size = os.fstat(handle).st_size
        try:
            reserve(handle, size, count)
        except OSError as error:
            os.ftruncate(handle, size)
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that reserves nothing
                raise
    finally:
        os.close(handle)
