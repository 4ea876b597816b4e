"""The sources behind the data layers: `Data` (LMDB) and `HDF5Data`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from caffelite import caffelite_pb2 as pb
from caffelite.data.database import Database
from caffelite.data.draws import below, key, per_sample, permutation
from caffelite.data.hdf5 import HDF5Source
from caffelite.data.pipeline import Share, Source
from caffelite.data.transforms import Transform
from caffelite.errors import CaffeliteError, Locator
from caffelite.prototxt import resolve

MADE_BY = {"mnist": "mnist", "digits": "digits", "logreg": "blobs"}  # how a set's name starts: the dataset command that makes it


def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int, share: Share = Share()) -> Source:  # noqa: B008
    """The source of a data layer. Reads no more than its shapes need; the thread starts with the first next().

    phase: pb.TRAIN or pb.TEST; locate: bound to the layer; seed: with the layer's name it decides every random number.
    share: which of several processes reads. Errors: whatever is wrong with the layer's fields, files or records.
    """
    source = _SOURCES[layer.type](layer, phase, locate, seed)
    source.share = share
    return source


class DataSource(Source):
    """Images and labels of an LMDB, around and around: N×C×H×W and N; in the order of its keys, or shuffled anew every time around."""

    def __init__(self, layer: pb.LayerParameter, phase: int, locate: Locator, seed: int):
        param, transform = layer.data_param, layer.transform_param
        tops = _tops(layer, locate, 2)
        batch = _batch_size(param, locate.at("data_param"))
        path = _file(param, locate.at("data_param"))
        if param.backend != pb.DataParameter.LMDB:
            remedy = ("" if (path / "data.mdb").is_file() else "convert the database to LMDB and ") + "write backend: LMDB"
            what = "backend LEVELDB, which is the default, is not supported"
            raise CaffeliteError(what, where=locate("data_param", "backend"), remedy=remedy)
        color = True if transform.force_color or param.force_encoded_color else False if transform.force_gray else None
        self._database = Database(path, color)
        try:
            shape = self._database.first_image.shape
            self._transform = Transform(transform, phase, shape, locate.at("transform_param"), key(seed, layer.name, "transform"))
        except BaseException:
            self._database.close()
            raise
        self._shuffle = key(seed, layer.name, "shuffle") if param.shuffle else None
        self._epoch: tuple[int, np.ndarray] | None = None
        skip = per_sample(key(seed, layer.name, "skip"), 0, 1)[0]
        self._skipped = int(below(skip, param.rand_skip)[0]) if param.rand_skip else 0
        super().__init__([(batch, *self._transform.shape), (batch,)][:tops], self._database.length, param.prefetch)

    def fill(self, position: int, batch: list[np.ndarray]) -> None:
        done, size = 0, len(batch[0])
        while done < size:
            epoch, record = divmod(position + self._skipped + done, self.length)
            count = min(size - done, self.length - record)
            if self._shuffle:
                images, labels = self._database.pick(self._order(epoch)[record : record + count], self._transform.check)
            else:
                images, labels = self._database.read(record, count, self._transform.check)
            self._transform(images, position + done, batch[0][done : done + count])
            if len(batch) > 1:
                batch[1][done : done + count] = labels
            done += count

    def _order(self, epoch: int) -> np.ndarray:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, permutation(self._shuffle, epoch, 0, self.length)
        return self._epoch[1]

    def release(self) -> None:
        self._database.close()


def _hdf5(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    if layer.HasField("transform_param"):
        remedy = "leave it out and store the values as the net needs them"
        raise CaffeliteError("HDF5Data takes no transform_param", where=locate("transform_param"), remedy=remedy)
    param = locate.at("hdf5_data_param")
    _tops(layer, locate, None)
    batch = _batch_size(layer.hdf5_data_param, param)
    listing = _file(layer.hdf5_data_param, param)
    return HDF5Source(listing, list(layer.top), batch, key(seed, layer.name, "shuffle") if layer.hdf5_data_param.shuffle else None, param)


_SOURCES = {"Data": DataSource, "HDF5Data": _hdf5}


def _tops(layer: pb.LayerParameter, locate: Locator, most: int | None) -> int:
    if not layer.top or most and len(layer.top) > most:
        expected = f"1 to {most}" if most else "at least 1"
        raise CaffeliteError(f'layer "{layer.name}": wrong number of tops', where=locate("top"), expected=expected, found=len(layer.top))
    return len(layer.top)


def _batch_size(param: pb.DataParameter | pb.HDF5DataParameter, locate: Locator) -> int:
    if not param.batch_size:
        raise CaffeliteError("batch_size is missing", where=locate("batch_size"), expected="at least 1", found=0)
    return param.batch_size


def _file(param: pb.DataParameter | pb.HDF5DataParameter, locate: Locator) -> Path:
    if not param.source:
        raise CaffeliteError("source is missing", where=locate("source"), expected="the path of the data")
    path = resolve(param.source, locate)
    if not os.path.exists(path):
        command = MADE_BY.get(path.name.split("_")[0])
        remedy = f"make it with: caffelite dataset {command}" if command else "correct the path"
        raise CaffeliteError(f'source "{param.source}" does not exist', where=locate("source"), remedy=remedy)
    return path
