"""Writes blobs of a net, batch by batch, to LMDB, HDF5 or npz."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Where
from .writers import BACKENDS, atomic, check_free

Add = Callable[[Mapping[str, np.ndarray]], None]


@contextmanager
def features(kind: str, path: Path, shapes: Mapping[str, tuple[int, ...]], *, force: bool = False) -> Iterator[Add]:
    """A function that adds a batch of rows, N×…, for each name; the file exists at path when the context ends.

    kind: "lmdb" or "leveldb", a Datum of float_data a row under the keys 0000000000, …, as Caffe's tool writes them,
    for one name; "hdf5", with the list file that HDF5Data takes; "npz". shapes: of one row by name. Errors: path exists
    and not force; rows that a Datum cannot hold.
    """
    with (
        _database(path, shapes, force, kind)
        if kind in BACKENDS
        else {"hdf5": _hdf5, "npz": _npz}[kind](path, shapes, force) as add
    ):
        yield add


@contextmanager
def _database(path: Path, shapes: Mapping[str, tuple[int, ...]], force: bool, backend: str) -> Iterator[Add]:
    [(name, shape)] = shapes.items()
    if len(shape) > 3:
        remedy = "write hdf5 or npz"
        what = f'a Datum cannot hold rows of "{name}"'
        raise Where(str(path)).error(what, expected="C×H×W", found="×".join(map(str, shape)), remedy=remedy)
    channels, height, width = (*shape, 1, 1, 1)[:3]
    written = 0
    with BACKENDS[backend](path, force=force) as put:

        def add(batch: Mapping[str, np.ndarray]) -> None:
            nonlocal written
            rows = np.asarray(batch[name], np.float32).reshape(len(batch[name]), -1).tolist()
            datums = (pb.Datum(channels=channels, height=height, width=width, float_data=row) for row in rows)
            put([(b"%010d" % (written + i), datum.SerializeToString()) for i, datum in enumerate(datums)])
            written += len(rows)

        yield add


@contextmanager
def _hdf5(path: Path, shapes: Mapping[str, tuple[int, ...]], force: bool) -> Iterator[Add]:
    import h5py

    listing = path.with_suffix(".txt")
    check_free([path, listing], force)
    with atomic(path) as unfinished:
        with h5py.File(unfinished, "w") as file:
            sets = {
                name: file.create_dataset(name, (0, *shape), np.float32, maxshape=(None, *shape))
                for name, shape in shapes.items()
            }

            def add(batch: Mapping[str, np.ndarray]) -> None:
                for name, rows in sets.items():
                    rows.resize(len(rows) + len(batch[name]), 0)
                    rows[-len(batch[name]) :] = batch[name]

            yield add
    with atomic(listing) as unfinished:
        unfinished.write_text(f"{path.name}\n")


@contextmanager
def _npz(path: Path, shapes: Mapping[str, tuple[int, ...]], force: bool) -> Iterator[Add]:
    check_free([path], force)
    batches: dict[str, list[np.ndarray]] = {name: [] for name in shapes}

    def add(batch: Mapping[str, np.ndarray]) -> None:
        for name, rows in batches.items():
            rows.append(np.array(batch[name], np.float32))

    yield add
    # As np.savez, which cannot take every name of a blob.
    with atomic(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        for name, rows in batches.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.concatenate(rows), allow_pickle=False)


def destinations(blobs: Sequence[str], names: Sequence[str], kind: str) -> list[tuple[Path, list[str]]]:
    """Which blobs go to which file. Errors: neither a name for each blob nor, where a file holds several, one for all;
    a name twice."""
    if len(names) == 1 and kind not in BACKENDS:
        return [(Path(names[0]), list(blobs))]
    if len(names) != len(blobs):
        expected = (
            f"{len(blobs)}, one for each blob" if kind in BACKENDS else f"{len(blobs)}, one for each blob, or 1 for all"
        )
        raise CaffeliteError("wrong number of names to write to", expected=expected, found=len(names))
    for texts, what in ((names, "name"), (blobs, "blob")):
        if twice := [name for i, name in enumerate(texts) if name in texts[:i]]:
            raise CaffeliteError(f'the {what} "{twice[0]}" is given twice', remedy="leave one out")
    return [(Path(name), [blob]) for name, blob in zip(names, blobs, strict=True)]
