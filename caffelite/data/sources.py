"""The sources behind the data layers, by type."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator, Where
from ..prototxt import resolve, say_once
from . import files, listing, segmentation
from .annotated import AnnotatedDatabase, AnnotatedLevelDB, AnnotatedSource
from .arrays import Arrays, holds_arrays
from .database import Database
from .detection_data import DetectionSource, EvalSource
from .draws import below, key, per_sample
from .hdf5 import HDF5Source
from .image_gt import ImageGtSource
from .images import MOST_PIXELS
from .leveldb import LevelDB
from .order import BalancedOrder, Order
from .pipeline import Shard, Source
from .roi_data import RoISource
from .samples import DataSource, Samples
from .table import read_table
from .transforms import Transform
from .video import VideoSource
from .video_clips import open_video_clips
from .video_frames import open_video_frames
from .windows import WindowSource

MOST_VALUES = (1 << 31) - 1  # of a blob, as in Caffe
PARAMS = {
    "Data": "data_param",
    "AnnotatedData": "data_param",
    "VideoData": "data_param",
    "VideoFrames": "video_data_param",
    "VideoClips": "video_data_param",
    "ImageData": "image_data_param",
    "WindowData": "window_data_param",
    "HDF5Data": "hdf5_data_param",
    "DenseImageData": "dense_image_data_param",
    "ImageSegData": "image_data_param",
    "WindowSegData": "image_data_param",
    "RoIData": "roi_data_param",
    "DetectionData": "detection_data_param",
    "EvalData": "eval_data_param",
    "ImageGtData": "image_gt_data_param",
}
MADE_BY = {
    "mnist": "mnist",
    "digits": "digits",
    "logreg": "blobs",
}  # how a set's name starts: the dataset command that makes it


def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int, shard: Shard = Shard()) -> Source:  # noqa: B008
    """The source of a data layer. Reads no more than its shapes need; threads start with the first batch.

    phase: pb.TRAIN or pb.TEST; locate: bound to the layer; seed: with the layer's name it decides every random number.
    shard: which of several processes reads. Errors: invalid fields, files or records of the layer.
    """
    source = _SOURCES[layer.type](layer, phase, locate, seed)
    source.shard = shard
    for shape in source.shapes:
        if math.prod(shape) > MOST_VALUES:
            source.close()
            what, where = f'a batch of layer "{layer.name}" is too large', locate(PARAMS[layer.type], "batch_size")
            raise CaffeliteError(
                what,
                where=where,
                expected=f"at most {MOST_VALUES} values",
                found=_times(shape),
                remedy="lower batch_size",
            )
    return source


def _annotated_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.data_param, locate.at("data_param")
    _tops(layer, locate, 2)
    _batch_size(param, at)
    path = _file(param, at)
    if _balanced(param, phase):
        what, remedy = "sampler BALANCED needs one label for each sample", "leave it out"
        raise CaffeliteError(what, where=at("sampler"), remedy=remedy)
    transform = layer.transform_param
    color = False if transform.force_gray else True if transform.force_color or param.force_encoded_color else None
    is_leveldb = param.backend == pb.DataParameter.LEVELDB and not (path / "data.mdb").is_file()
    database = AnnotatedLevelDB(path, color) if is_leveldb else AnnotatedDatabase(path, color, param.shuffle)
    try:
        order = _order(layer, param, database.length, seed)
        return AnnotatedSource(database, layer, phase, order, locate, key(seed, layer.name, "transform"))
    except BaseException:
        database.close()
        raise


def _video_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    _tops(layer, locate, 2)
    _batch_size(layer.data_param, locate.at("data_param"))
    return VideoSource(layer, phase, locate, key(seed, layer.name, "transform"))


def _video_frames(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.video_data_param, locate.at("video_data_param")
    _tops(layer, locate, 2)
    _batch_size(param, at)
    segmentation.check_size((param.new_height, param.new_width), at)
    opened = open_video_clips if layer.type == "VideoClips" else open_video_frames
    return opened(layer, _file(param, at), _root(param.root_folder, at), phase, locate, seed)


def _order(layer: pb.LayerParameter, param, length: int, seed: int) -> Order:
    """The order of the samples: their own or shuffled, from a random one on where the layer skips some."""
    skip = per_sample(key(seed, layer.name, "skip"), 0, 1)[0]
    skipped = int(below(skip, param.rand_skip)[0]) if param.rand_skip else 0
    return Order(length, key(seed, layer.name, "shuffle") if param.shuffle else None, skipped)


def _data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.data_param, locate.at("data_param")
    _tops(layer, locate, 2)
    _batch_size(param, at)
    path = _file(param, at)
    transform = layer.transform_param
    color = True if transform.force_color or param.force_encoded_color else False if transform.force_gray else None

    def samples() -> Samples:
        if param.backend == pb.DataParameter.ARRAYS:
            return Arrays(path, _named(param.label_source, "label_source", at) if param.label_source else None)
        if param.label_source:
            raise CaffeliteError(
                "label_source belongs to backend ARRAYS", where=at("label_source"), remedy="leave it out"
            )
        if holds_arrays(path):
            kind = pb.DataParameter.DB.Name(param.backend)
            what = f"{path} holds arrays, and backend is {kind}{'' if param.HasField('backend') else ', its default'}"
            raise CaffeliteError(what, where=at("backend"), remedy="write backend: ARRAYS")
        if param.backend == pb.DataParameter.LMDB:
            return Database(path, color, param.shuffle or _balanced(param, phase))
        if (path / "data.mdb").is_file():
            what = "the folder holds an LMDB, not a LevelDB, the default of backend"
            raise CaffeliteError(what, where=at("backend"), remedy="write backend: LMDB")
        return LevelDB(path, color)

    return _source(samples, layer, param, phase, locate, seed)


def _image_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.image_data_param, locate.at("image_data_param")
    _tops(layer, locate, 2)
    _batch_size(param, at)
    size = param.new_height, param.new_width
    if any(size) and not all(size):
        name, other = ("new_height", "new_width") if size[0] else ("new_width", "new_height")
        raise CaffeliteError(f"{name} without {other}", where=at(name), remedy=f"set {other} too, or neither")
    if math.prod(size) > MOST_PIXELS:
        what, expected = "new_height and new_width make images too large", f"at most {MOST_PIXELS} pixels"
        raise CaffeliteError(what, where=at("new_height"), expected=expected, found=_times(size))
    archives = _archives(param.source, at("source")) if ".tar" in param.source else []

    def samples() -> Samples:
        if archives:
            return files.Shards([_named(str(path), "source", at) for path in archives], param.is_color, size)
        path = _file(param, at)
        if path.is_dir():
            return files.Files(files.folder(path), f"{path}/", param.is_color, size)
        if path.suffix.lower() == ".csv":
            table = read_table(path)
            return files.Files(table.listed, _root(param.root_folder, at), param.is_color, size, table.values)
        return files.Files(listing.read_list(path), _root(param.root_folder, at), param.is_color, size)

    return _source(samples, layer, param, phase, locate, seed)


def _balanced(param, phase: int) -> bool:
    """Whether a layer draws every class equally often; in TEST each sample comes once."""
    return phase == pb.TRAIN and param.sampler == pb.BALANCED


def _archives(pattern: str, where: Where) -> list[Path]:
    try:
        return [path for path in files.shards(pattern) if path.suffix == ".tar"]
    except CaffeliteError as mistake:
        raise CaffeliteError(mistake.what, where=where, remedy=mistake.remedy) from None


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _source(open_samples: Callable[[], Samples], layer, param, phase: int, locate: Locator, seed: int) -> Source:
    given = {field.name for field, _ in layer.transform_param.ListFields()}
    for name in ("resize_param", "expand_param", "emit_constraint"):
        if name in given:
            say_once(f"{locate('transform_param', name)}: {name} acts on AnnotatedData only: it has no effect here")
    samples = open_samples()
    try:
        keyed = key(seed, layer.name, "transform")
        transform = Transform(layer.transform_param, phase, samples.first.shape, locate.at("transform_param"), keyed)
        order = _order(layer, param, samples.length, seed)
        if _balanced(param, phase):
            if samples.label_shape:
                what, found = "sampler BALANCED needs one label for each sample", f"{samples.label_shape[0]} numbers"
                where = locate(PARAMS[layer.type], "sampler")
                raise CaffeliteError(what, where=where, found=found, remedy="class_weight weighs several labels")
            order = BalancedOrder(samples.length, samples.all_labels, order.shuffle, order.skipped)
        # As in Caffe, prefetch is in data_param for ImageData too.
        return DataSource(
            samples, transform, order, param.batch_size, len(layer.top), layer.data_param.prefetch, param.cache
        )
    except BaseException:
        samples.close()
        raise


def _window_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param = layer.window_data_param
    _tops(layer, locate, 2)
    _batch_size(param, locate.at("window_data_param"))
    return WindowSource(layer, phase, _file(param, locate.at("window_data_param")), locate, seed)


def _dense_image_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.dense_image_data_param, locate.at("dense_image_data_param")
    transform, there = layer.transform_param, locate.at("transform_param")
    segmentation.check_transform(transform, there)
    crop, other = (param.crop_height, param.crop_width), segmentation.crop_of(transform, there)
    if any(crop) and not all(crop):
        name = "crop_height" if crop[0] else "crop_width"
        raise CaffeliteError("a crop of one side only", where=at(name), remedy="give crop_height and crop_width")
    if any(crop) and any(other):
        raise CaffeliteError("gives two crops", where=at("crop_height"), remedy="keep one of them")
    if param.label_divide_factor != 1 and (param.label_divide_factor < 1 or any(crop) or any(other)):
        what, expected = "a bad label_divide_factor", "1 or more, and 1 with a crop"
        raise CaffeliteError(what, where=at("label_divide_factor"), expected=expected, found=param.label_divide_factor)
    settings = segmentation.Settings(
        color=param.is_color,
        size=(param.new_height, param.new_width),
        divisor=param.label_divide_factor,
        crop=crop if any(crop) else other,
        mirror=param.mirror or transform.mirror,
    )
    return _pairs(layer, param, at, settings, "PIXEL", locate, seed)


def _image_seg_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    param, at = layer.image_data_param, locate.at("image_data_param")
    transform, there = layer.transform_param, locate.at("transform_param")
    segmentation.check_transform(transform, there, ("scale_factors",))
    for i, factor in enumerate(transform.scale_factors):
        if not 0 < factor < math.inf:
            where, found = there("scale_factors", i), f"{factor:g}"
            raise CaffeliteError("a bad factor", where=where, expected="a finite number above 0", found=found)
    if transform.mean_file:
        what = f"{layer.type} takes no mean_file, as its images differ in size"
        raise CaffeliteError(what, where=there("mean_file"), remedy="give mean_value")
    settings = segmentation.Settings(
        color=param.is_color,
        size=(param.new_height, param.new_width),
        crop=segmentation.crop_of(transform, there),
        padded=True,
        random_crop=phase == pb.TRAIN,
        mirror=transform.mirror,
        factors=tuple(transform.scale_factors),
        ignore=param.ignore_label,
    )
    kind = pb.ImageDataParameter.LabelType.Name(param.label_type)
    return _pairs(layer, param, at, settings, kind, locate, seed)


def _pairs(layer, param, at: Locator, settings: segmentation.Settings, kind: str, locate: Locator, seed: int) -> Source:
    _tops(layer, locate, 3)
    batch = _batch_size(param, at)
    segmentation.check_size(settings.size, at)
    windows = layer.type == "WindowSegData"
    pairs = segmentation.read_pairs(_file(param, at), _root(param.root_folder, at), kind, settings.ignore, windows)
    skip = per_sample(key(seed, layer.name, "skip"), 0, 1)[0]
    skipped = int(below(skip, param.rand_skip)[0]) if param.rand_skip else 0
    order = Order(len(pairs), key(seed, layer.name, "shuffle") if param.shuffle else None, skipped)
    keyed, there = key(seed, layer.name, "transform"), locate.at("transform_param")
    return segmentation.SegmentationSource(
        pairs, settings, layer.transform_param, order, batch, len(layer.top), layer.data_param.prefetch, keyed, there
    )


def _hdf5(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    if layer.HasField("transform_param"):
        remedy = "leave it out and store the values as the net needs them"
        raise CaffeliteError("HDF5Data takes no transform_param", where=locate("transform_param"), remedy=remedy)
    param = locate.at("hdf5_data_param")
    _tops(layer, locate, None)
    batch = _batch_size(layer.hdf5_data_param, param)
    listing = _file(layer.hdf5_data_param, param)
    shuffle = key(seed, layer.name, "shuffle") if layer.hdf5_data_param.shuffle else None
    source = HDF5Source(listing, list(layer.top), batch, shuffle, param)
    if _balanced(layer.hdf5_data_param, phase):
        source.balance(param("sampler"))
    return source


def _roi_data(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    at = locate.at("roi_data_param")
    param = layer.roi_data_param
    path = _file(param, at)
    opened = pb.LayerParameter()
    opened.CopyFrom(layer)
    named = opened.roi_data_param
    named.root_folder = _root(param.root_folder, at)
    named.label_file = str(_named(param.label_file, "label_file", at)) if param.label_file else ""
    return RoISource(opened, phase, path, locate, seed)


_OBJECTS = {"DetectionData": DetectionSource, "EvalData": EvalSource, "ImageGtData": ImageGtSource}


def _objects(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
    name = PARAMS[layer.type]
    opened, at = pb.LayerParameter(), locate.at(name)
    opened.CopyFrom(layer)
    param = getattr(opened, name)
    path = _file(param, at)
    param.root_folder = _root(param.root_folder, at)
    return _OBJECTS[layer.type](opened, phase, path, locate, seed)


_SOURCES = {
    "Data": _data,
    "AnnotatedData": _annotated_data,
    "VideoData": _video_data,
    "VideoFrames": _video_frames,
    "VideoClips": _video_frames,
    "ImageData": _image_data,
    "WindowData": _window_data,
    "HDF5Data": _hdf5,
    "DenseImageData": _dense_image_data,
    "ImageSegData": _image_seg_data,
    "WindowSegData": _image_seg_data,
    "RoIData": _roi_data,
    **dict.fromkeys(_OBJECTS, _objects),
}


def _tops(layer: pb.LayerParameter, locate: Locator, most: int | None) -> int:
    if not layer.top or most and len(layer.top) > most:
        expected = f"1 to {most}" if most else "at least 1"
        raise CaffeliteError(
            f'layer "{layer.name}": wrong number of tops', where=locate("top"), expected=expected, found=len(layer.top)
        )
    return len(layer.top)


def _batch_size(param, locate: Locator) -> int:
    if not param.batch_size:
        raise CaffeliteError("batch_size is missing", where=locate("batch_size"), expected="at least 1", found=0)
    return param.batch_size


def _file(param, locate: Locator) -> Path:
    if not param.source:
        raise CaffeliteError("source is missing", where=locate("source"), expected="the path of the data")
    return _named(param.source, "source", locate)


def _named(name: str, field: str, locate: Locator) -> Path:
    path = resolve(name, locate)
    if not os.path.exists(path):
        command = MADE_BY.get(path.name.split("_")[0])
        remedy = f"make it with: caffelite dataset {command}" if command else "correct the path"
        raise CaffeliteError(f'{field} "{name}" does not exist', where=locate(field), remedy=remedy)
    return path


def _root(folder: str, locate: Locator) -> str:
    """Put before each name as it is written; from the prototxt's folder where there is no such folder here."""
    sibling = Path(locate.file).parent / folder
    return (
        f"{sibling}{'/' * folder.endswith('/')}"
        if folder and not os.path.exists(folder) and os.path.exists(sibling)
        else folder
    )
