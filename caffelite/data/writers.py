"""Writes data sets: LMDB for `Data`, HDF5 for `HDF5Data`; a data set gets its final name when it is complete."""

import functools
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import Where, message_of, missing_extra
from ..progress import bar
from ..system import reserve
from .drafts import FULL, Drafts, atomic, final, together

FIRST_MAP_BYTES = 1 << 20
RECORDS_PER_TRANSACTION = 1000


def write_lmdb(
    path: str | os.PathLike,
    samples: Iterable[tuple[np.ndarray, int]],
    total: int | None = None,
    progress: bool = False,
    *,
    digits: int = 8,
    force: bool = False,
) -> int:
    """Writes (C×H×W uint8, label) pairs as Datum records under the keys 00000000, 00000001, … and returns their number.

    total, progress, force: as for `write_records`; digits: the least length of a key.
    Errors: path exists and not force; a sample is not C×H×W uint8; there are none.
    """
    records = ((b"%0*d" % (digits, i), _datum(Path(path), i, image, label)) for i, (image, label) in enumerate(samples))
    return write_records(path, records, total, progress, force=force)


def write_records(
    path: str | os.PathLike,
    records: Iterable[tuple[bytes, bytes]],
    total: int | None = None,
    progress: bool = False,
    *,
    backend: str = "lmdb",
    force: bool = False,
) -> int:
    """Writes a database of (key, value) pairs, which come in the order of their keys, and returns their number.

    total: the number of pairs, for the bar; progress: draw a bar where standard error is a terminal; backend: "lmdb" or
    "leveldb"; force: replace existing files at path. Errors: path exists and not force; a key that LMDB rejects;
    there are no records.
    """
    path, written, records = Path(path), 0, iter(records)
    with BACKENDS[backend](path, force=force) as put, progress_bar(path.name, total, progress) as shown:
        while chunk := list(islice(records, RECORDS_PER_TRANSACTION)):
            put(chunk)
            written += len(chunk)
            shown.update(len(chunk))
        if not written:
            raise Where(str(final(path))).error("no samples to write")
    return written


@contextmanager
def open_lmdb(path: Path, *, force: bool = False) -> Iterator[Callable[[list[tuple[bytes, bytes]]], None]]:
    """A function that adds (key, value) pairs, in the order of their keys, to a new LMDB, which exists at path when the
    context ends."""
    import lmdb

    with atomic(path, folder=True, force=force) as unfinished:
        try:
            with lmdb.open(str(unfinished), map_size=FIRST_MAP_BYTES, lock=False, sync=False, metasync=False) as db:
                yield functools.partial(_put, db, path)
                db.sync(True)
        except lmdb.Error as mistake:
            raise Where(str(final(path))).error(f"cannot write: {_full(unfinished / 'data.mdb') or mistake}") from None


@contextmanager
def open_leveldb(path: Path, *, force: bool = False) -> Iterator[Callable[[list[tuple[bytes, bytes]]], None]]:
    """As `open_lmdb`, for a LevelDB. Errors besides: plyvel is not installed."""
    try:
        import plyvel
    except ImportError:
        raise missing_extra("plyvel-ci", "leveldb", "writing a LevelDB") from None

    def put(records: list[tuple[bytes, bytes]]) -> None:
        with db.write_batch() as batch:
            for key, value in records:
                batch.put(key, value)

    with atomic(path, folder=True, force=force) as unfinished:
        try:
            with closing(plyvel.DB(str(unfinished), create_if_missing=True)) as db:
                yield put
        except plyvel.Error as mistake:
            reason = message_of(mistake).replace(str(unfinished), path.name)
            raise Where(str(final(path))).error(f"cannot write: {reason}") from None


BACKENDS = {"lmdb": open_lmdb, "leveldb": open_leveldb}


def write_hdf5(path: str | os.PathLike, datasets: Mapping[str, np.ndarray], *, force: bool = False) -> None:
    """Writes one HDF5 file with a float32 dataset per name, and in the same folder the list file (.txt), the source of
    `HDF5Data`."""
    path = Path(path)
    with together([path, path.with_suffix(".txt")], force) as drafts:
        fill_hdf5(drafts, path, datasets)


def fill_hdf5(drafts: Drafts, path: Path, datasets: Mapping[str, np.ndarray]) -> None:
    """``write_hdf5`` into the drafts of path and of its list file. Errors: OSError."""
    with new_hdf5(drafts[path]) as (file, check):
        for name, values in datasets.items():
            file.create_dataset(name, data=np.asarray(values, np.float32))
            check()
    drafts[path.with_suffix(".txt")].write_text(f"{path.name}\n")


@contextmanager
def new_hdf5(path: Path) -> Iterator[tuple[Any, Callable[[], None]]]:
    """(a new h5py.File, a function that raises OSError where what was written has no room). Errors: OSError."""
    import h5py

    with _Guarded(path, "w+") as raw:
        try:
            with h5py.File(raw, "w") as file:
                yield file, raw.check
        finally:
            raw.check()


class _Guarded(io.FileIO):
    """A file whose writes never fail, for HDF5's library, which ends the process where it cannot close one. After a
    failure nothing is written; ``check`` raises it."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        self._attempt(lambda: self._write_all(memoryview(data)))
        return len(data)

    def _write_all(self, left: memoryview) -> None:
        while left:
            left = left[super().write(left) or 0 :]

    def truncate(self, size: int | None = None) -> int:
        self._attempt(lambda: super(_Guarded, self).truncate(size))
        return size or 0

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            if not self.failure:
                action()
        except OSError as failure:
            self.failure = failure

    def check(self) -> None:
        if self.failure:
            raise self.failure from None


def write_mean(path: str | os.PathLike, mean: np.ndarray, *, force: bool = False) -> None:
    """Writes a mean image, C×H×W, as the binary BlobProto that mean_file takes."""
    path = Path(path)
    channels, height, width = mean.shape
    values = mean.astype(np.float32).ravel().tolist()
    with atomic(path, force=force) as unfinished:
        unfinished.write_bytes(
            pb.BlobProto(num=1, channels=channels, height=height, width=width, data=values).SerializeToString()
        )


def write_lines(path: str | os.PathLike, lines: Iterable[str], *, force: bool = False) -> None:
    """Writes a text file, such as the names of the classes in the order of their labels."""
    with atomic(Path(path), force=force) as unfinished:
        unfinished.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")


def progress_bar(name: str, total: int | None, progress: bool = True, unit: str = "images"):
    """A progress bar, drawn where standard error is a terminal and progress is set."""
    return bar(total, name=name, unit=f" {unit}", shown=progress)


def _datum(path: Path, index: int, image: np.ndarray, label: int) -> bytes:
    if image.ndim != 3 or image.dtype != np.uint8:
        what = f"sample {index}"
        raise Where(str(final(path))).error(what, expected="C×H×W of uint8", found=f"{image.shape} of {image.dtype}")
    channels, height, width = image.shape
    return pb.Datum(
        channels=channels, height=height, width=width, data=image.tobytes(), label=int(label)
    ).SerializeToString()


def _full(file: Path) -> str:
    """Why a file cannot grow; empty where it can. LMDB calls a full disk an error of input or output."""
    try:
        with open(file, "ab") as handle:
            reserve(handle.fileno(), os.fstat(handle.fileno()).st_size, FIRST_MAP_BYTES)
    except OSError as mistake:
        return mistake.strerror or "" if mistake.errno in FULL else ""
    return ""


def _put(db, path: Path, records: list[tuple[bytes, bytes]]) -> None:
    import lmdb

    while True:
        try:
            with db.begin(write=True) as transaction:
                for key, value in records:
                    transaction.put(key, value, append=True)
            return
        except lmdb.MapFullError:
            db.set_mapsize(2 * db.info()["map_size"])
        except lmdb.BadValsizeError:
            found = f'"{key.decode(errors="backslashreplace")}"'
            what = "LMDB does not take this key"
            raise Where(str(final(path))).error(what, expected="1 to 511 bytes", found=found) from None
