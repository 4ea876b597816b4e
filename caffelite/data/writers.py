"""Writes data sets: LMDB for `Data`, HDF5 for `HDF5Data`; a data set gets its final name when it is complete."""

import errno
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import Where, message_of, missing_extra
from ..progress import bar
from ..system import reserve

FIRST_MAP_BYTES = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
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
            raise Where(str(path)).error("no samples to write")
    return written


@contextmanager
def open_lmdb(path: Path, *, force: bool = False) -> Iterator[Callable[[list[tuple[bytes, bytes]]], None]]:
    """A function that adds (key, value) pairs, in the order of their keys, to a new LMDB, which exists at path when the
    context ends."""
    import lmdb

    check_free([path], force)
    with atomic(path, folder=True) as unfinished:
        try:
            with lmdb.open(str(unfinished), map_size=FIRST_MAP_BYTES, lock=False, sync=False, metasync=False) as db:
                yield functools.partial(_put, db, path)
                db.sync(True)
        except lmdb.Error as mistake:
            raise Where(str(path)).error(f"cannot write: {_full(unfinished / 'data.mdb') or mistake}") from None


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

    check_free([path], force)
    with atomic(path, folder=True) as unfinished:
        try:
            with closing(plyvel.DB(str(unfinished), create_if_missing=True)) as db:
                yield put
        except plyvel.Error as mistake:
            raise Where(str(path)).error(f"cannot write: {message_of(mistake)}") from None


BACKENDS = {"lmdb": open_lmdb, "leveldb": open_leveldb}


def write_hdf5(path: str | os.PathLike, datasets: Mapping[str, np.ndarray], *, force: bool = False) -> None:
    """Writes one HDF5 file with a float32 dataset per name, and in the same folder the list file (.txt), the source of
    `HDF5Data`."""
    import h5py

    path = Path(path)
    listing = path.with_suffix(".txt")
    check_free([path, listing], force)
    with atomic(path) as unfinished, h5py.File(unfinished, "w") as file:
        for name, values in datasets.items():
            file.create_dataset(name, data=np.asarray(values, np.float32))
    with atomic(listing) as unfinished:
        unfinished.write_text(f"{path.name}\n")


def write_mean(path: str | os.PathLike, mean: np.ndarray, *, force: bool = False) -> None:
    """Writes a mean image, C×H×W, as the binary BlobProto that mean_file takes."""
    path = Path(path)
    check_free([path], force)
    channels, height, width = mean.shape
    values = mean.astype(np.float32).ravel().tolist()
    with atomic(path) as unfinished:
        unfinished.write_bytes(
            pb.BlobProto(num=1, channels=channels, height=height, width=width, data=values).SerializeToString()
        )


def write_lines(path: str | os.PathLike, lines: Iterable[str], *, force: bool = False) -> None:
    """Writes a text file, such as the names of the classes in the order of their labels."""
    check_free([Path(path)], force)
    with atomic(Path(path)) as unfinished:
        unfinished.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")


def check_free(paths: Iterable[Path], force: bool) -> None:
    """Refuses to write over anything that exists, unless force."""
    for path in paths:
        if not force and os.path.lexists(path):
            raise Where(str(path)).error("already exists", remedy="give --force to replace it")


@contextmanager
def together(paths: Sequence[Path], force: bool) -> Iterator[None]:
    """For files and folders that are written one after the other: after an error none of them is there, nor a folder
    that was made for them; what they would have replaced is as it was. Errors: one exists and not force."""
    check_free(paths, force)
    above = {folder for path in paths for folder in path.parents}
    made = sorted((folder for folder in above if not folder.exists()), reverse=True)
    there, old = [path for path in paths if os.path.lexists(path)], {}
    try:
        for path in there:
            old[path] = _set_aside(path)
        yield
    except BaseException:
        for path in paths:
            if path in old or path not in there:
                remove(path)
        for path, before in old.items():
            before.rename(path)
        for folder in made:
            with suppress(OSError):  # another process uses it
                folder.rmdir()
        raise
    finally:
        for before in old.values():
            shutil.rmtree(before.parent, ignore_errors=True)


def _set_aside(path: Path) -> Path:
    """Moves a file or folder into a new folder next to it, and returns its path there."""
    try:
        return path.rename(Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)) / path.name)
    except OSError as mistake:
        raise Where(str(path)).error(f"cannot replace it: {mistake.strerror or mistake}") from None


def remove(path: Path) -> None:
    """Removes a file or a folder, where it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def progress_bar(name: str, total: int | None, progress: bool = True, unit: str = "images"):
    """A progress bar, drawn where standard error is a terminal and progress is set."""
    return bar(total, name=name, unit=f" {unit}", shown=progress)


@contextmanager
def atomic(path: Path, folder: bool = False) -> Iterator[Path]:
    """A temporary path in the folder of path, renamed to path at the end, and removed after an error. folder: it is a
    folder, which is there already."""
    workshop = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        unfinished = workshop / path.name
        if folder:
            unfinished.mkdir()
        yield unfinished
        if folder and os.path.lexists(path):
            os.rename(path, workshop / "replaced")
        os.replace(unfinished, path)
    except OSError as mistake:
        raise Where(str(path)).error(f"cannot write: {mistake.strerror or mistake}") from None
    finally:
        if workshop:
            shutil.rmtree(workshop, ignore_errors=True)


def _datum(path: Path, index: int, image: np.ndarray, label: int) -> bytes:
    if image.ndim != 3 or image.dtype != np.uint8:
        what = f"sample {index}"
        raise Where(str(path)).error(what, expected="C×H×W of uint8", found=f"{image.shape} of {image.dtype}")
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
            raise Where(str(path)).error(what, expected="1 to 511 bytes", found=found) from None
