"""The files that a net or a solver names: what a run would read, and what it would write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from ... import caffelite_pb2 as pb
from ... import inputs
from ...data import files, listing, table
from ...errors import CaffeliteError

# Fields of layers and of deploy nets, in all their messages and versions.
FIELDS = frozenset(
    "source label_source class_weight_source mean_file meanfile file_name root_folder weights label_file "
    "label_map_file name_size_file output_directory output_name_prefix save_file video_file".split()
)
# Fields of text that name blobs, layers, classes, modules, methods and formats, or have no effect. ``_frames`` reads
# name_pattern.
OTHERS = frozenset(
    "name type bottom top input label param stage not_stage id net layer display_name module param_str crop_mode "
    "det_crop_mode distance_type normalize_type nms_type ap_version output_format softmax_tree class_map shuffle "
    "sample_mode neg_mining_type neg_ranking_type bbox_loss_type forward_func backward_func name_pattern".split()
)

NETS = ("net", "train_net", "test_net")  # of a solver
SOLVER_FIELDS = frozenset((*NETS, "snapshot_prefix", "weights"))
SOLVER_OTHERS = frozenset("type best_score eval_type ap_version lr_policy regularization_type larc_policy".split())


@dataclass(frozen=True)
class NamedFile:
    """holder: the message with the field; at: the path of the field, as a Locator takes it; text: its value."""

    holder: Message
    field: str
    at: tuple[str | int, ...]
    text: str


def named_files(message: Message, at: tuple[str | int, ...] = ()) -> Iterator[NamedFile]:
    """Every file that the fields of a message name, those of its parts included. at: where the message is."""
    of_solver = isinstance(message, pb.SolverParameter)
    for field, value in message.ListFields():
        here = (*at, field.name)
        if field.type == field.TYPE_MESSAGE:
            repeated = not isinstance(value, Message)
            for i, part in enumerate(value if repeated else [value]):
                yield from named_files(part, (*here, i) if repeated else here)
        elif field.type == field.TYPE_STRING and field.name in (SOLVER_FIELDS if of_solver else FIELDS):
            for text in [value] if isinstance(value, str) else value:
                for part in text.split(",") if of_solver and field.name == "weights" else [text]:
                    if part.strip():
                        yield NamedFile(message, field.name, here, part.strip() if part != text else text)


def listed_files(layer: pb.LayerParameter, base: Path) -> Iterator[str]:
    """The files that the list, table or folder of a data layer names, as the layer reads them, with root_folder. base:
    where relative paths start. A list that the layer refuses names none."""
    if layer.type in _LISTS:
        field, read = _LISTS[layer.type]
        param = getattr(layer, field)
        path = base / param.source
        if param.source and path.exists():
            with suppress(CaffeliteError, OSError):
                yield from read(param, path)


def _images(param: pb.ImageDataParameter, path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from (f"{path}/{each.name}" for each in files.folder(path))
    elif path.suffix.lower() == ".csv":
        yield from (param.root_folder + cells[0] for _, cells in table.read_rows(path)[1:])
    elif ".tar" not in param.source:
        yield from (param.root_folder + each.name for each in listing.read_list(path))


def _pairs(param: Any, path: Path) -> Iterator[str]:
    """Of a list of images and their labels: the labels, and the image, which may have spaces."""
    for words in map(str.split, _lines(path)):
        yield from _pair(param.root_folder, words)


def _pairs_of_windows(param: Any, path: Path) -> Iterator[str]:
    """As ``_pairs``; the last four words of a line are the window."""
    for words in map(str.split, _lines(path)):
        yield from _pair(param.root_folder, words[:-4])


def _pair(root: str, words: list[str]) -> Iterator[str]:
    yield from (root + name for name in {*words[:1], *words[-1:], " ".join(words[:-1])} - {""})


def _frames(param: pb.VideoDataParameter, path: Path) -> Iterator[str]:
    """Folders of frames with the pattern of their names; the last two words of a line are their number and the
    label."""
    for line in _lines(path):
        folder = param.root_folder + " ".join(line.split()[:-2])
        yield f"{folder}/{param.name_pattern}" if param.name_pattern else folder


def _clips(param: pb.VideoDataParameter, path: Path) -> Iterator[str]:
    """Videos; the last word of a line, or the last two, are numbers."""
    for words in map(str.split, _lines(path)):
        yield from (param.root_folder + " ".join(words[:-count]) for count in (1, 2) if len(words) > count)


def _hdf5(param: pb.HDF5DataParameter, path: Path) -> Iterator[str]:
    for name in _lines(path):
        yield name
        yield str(path.parent / name)  # the layer looks there, too


def _windows(param: Any, path: Path) -> Iterator[str]:
    """All lines: those of numbers name files that are never opened."""
    yield from (param.root_folder + " ".join(line.split()) for line in _lines(path))


def _annotated(param: pb.RoIDataParameter, path: Path) -> Iterator[str]:
    """The images and annotations that a list of RoIData names, or the images of a COCO JSON file."""
    if path.is_dir():
        return
    folder = Path(param.root_folder) if param.root_folder else path.parent
    text = inputs.read_text(path, inputs.LIST, "replace")
    names = text.split()
    if path.suffix.lower() == ".json":
        try:
            names = [str(image["file_name"]) for image in json.loads(text)["images"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            return  # the layer refuses the file
    yield from (str(folder / name) for name in names)


def _lines(path: Path) -> list[str]:
    """The lines of a list that are not empty, without the spaces around them."""
    if path.is_dir():
        return []
    text = inputs.read(path, inputs.LIST).decode("utf-8", "surrogateescape")
    return [line.strip() for line in text.splitlines() if line.strip()]


# By the type of a data layer: the message that names its source, and the function that reads what the source names.
_LISTS: dict[str, tuple[str, Callable[[Any, Path], Iterator[str]]]] = {
    "ImageData": ("image_data_param", _images),
    "ImageSegData": ("image_data_param", _pairs),
    "DenseImageData": ("dense_image_data_param", _pairs),
    "HDF5Data": ("hdf5_data_param", _hdf5),
    "WindowSegData": ("image_data_param", _pairs_of_windows),
    "VideoFrames": ("video_data_param", _frames),
    "VideoClips": ("video_data_param", _clips),
    "ImageGtData": ("image_gt_data_param", _windows),
    "WindowData": ("window_data_param", _windows),
    "DetectionData": ("detection_data_param", _windows),
    "EvalData": ("eval_data_param", _windows),
    "RoIData": ("roi_data_param", _annotated),
}
STORED = ("Data", "AnnotatedData", "VideoData")  # data layers whose source names no other file
