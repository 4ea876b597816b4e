"""Writes blobs of a net, batch by batch, to LMDB, HDF5 or npz."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Where
from .drafts import Drafts, final
from .writers import BACKENDS, new_hdf5

Add = Callable[[Mapping[str, np.ndarray]], None]


def outputs(kind: str, path: Path) -> list[Path]:
    """The files that ``features`` writes for a path."""
    return [path, path.with_suffix(".txt")] if kind == "hdf5" else [path]


@contextmanager
def features(kind: str, path: Path, shapes: Mapping[str, tuple[int, ...]], drafts: Drafts) -> Iterator[Add]:
    """A function that adds a batch of rows, N×…, for each name; the draft of path is complete when the context ends.

    kind: "lmdb" or "leveldb", a Datum of float_data a row under the keys 0000000000, …, as Caffe's tool writes them,
    for one name; "hdf5", with the list file that HDF5Data takes; "npz". shapes: of one row by name. drafts: of
    ``outputs``. Errors: rows that a Datum cannot hold; OSError.
    """
    if kind in BACKENDS:
        writing = _database(drafts[path], shapes, kind)
    else:
        writing = {"hdf5": _hdf5, "npz": _npz}[kind](drafts[path], shapes)
    with writing as add:
        yield add
    for listing in outputs(kind, path)[1:]:
        drafts[listing].write_text(f"{path.name}\n")


@contextmanager
def _database(path: Path, shapes: Mapping[str, tuple[int, ...]], backend: str) -> Iterator[Add]:
    [(name, shape)] = shapes.items()
    if len(shape) > 3:
        remedy = "write hdf5 or npz"
        what = f'a Datum cannot hold rows of "{name}"'
        raise Where(str(final(path))).error(what, expected="C×H×W", found="×".join(map(str, shape)), remedy=remedy)
    channels, height, width = (*shape, 1, 1, 1)[:3]
    written = 0
    with BACKENDS[backend](path) as put:

        def add(batch: Mapping[str, np.ndarray]) -> None:
            nonlocal written
            rows = np.asarray(batch[name], np.float32).reshape(len(batch[name]), -1).tolist()
            datums = (pb.Datum(channels=channels, height=height, width=width, float_data=row) for row in rows)
            put([(b"%010d" % (written + i), datum.SerializeToString()) for i, datum in enumerate(datums)])
            written += len(rows)

        yield add


@contextmanager
def _hdf5(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Add]:
    with new_hdf5(path) as (file, check):
        sets = {
            name: file.create_dataset(name, (0, *shape), np.float32, maxshape=(None, *shape))
            for name, shape in shapes.items()
        }

        def add(batch: Mapping[str, np.ndarray]) -> None:
            for name, rows in sets.items():
                rows.resize(len(rows) + len(batch[name]), 0)
                rows[-len(batch[name]) :] = batch[name]
            check()

        yield add


@contextmanager
def _npz(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Add]:
    batches: dict[str, list[np.ndarray]] = {name: [] for name in shapes}

    def add(batch: Mapping[str, np.ndarray]) -> None:
        for name, rows in batches.items():
            rows.append(np.array(batch[name], np.float32))

    yield add
    # As np.savez, which cannot take every name of a blob.
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in batches.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.concatenate(rows), allow_pickle=False)


def destinations(blobs: Sequence[str], names: Sequence[str], kind: str) -> list[tuple[Path, list[str]]]:
    """Which blobs go to which file. Errors: neither a name for each blob nor, where a file holds several, one for all;
    a name twice."""
    to_one = len(names) == 1 and kind not in BACKENDS
    if len(names) != len(blobs) and not to_one:
        expected = (
            f"{len(blobs)}, one for each blob" if kind in BACKENDS else f"{len(blobs)}, one for each blob, or 1 for all"
        )
        raise CaffeliteError("wrong number of names to write to", expected=expected, found=len(names))
    files = [str(path) for name in names for path in outputs(kind, Path(name))]
    for texts, what in ((files, "name"), (blobs, "blob")):
        if twice := [name for i, name in enumerate(texts) if name in texts[:i]]:
            raise CaffeliteError(f'the {what} "{twice[0]}" is given twice', remedy="leave one out")
    if to_one:
        return [(Path(names[0]), list(blobs))]
    return [(Path(name), [blob]) for name, blob in zip(names, blobs, strict=True)]
