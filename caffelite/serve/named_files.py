"""The files that a net names: what a run would read, and what it would write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from .. import inputs

# Fields of layers and of deploy nets, in all their messages and versions.
FIELDS = frozenset(
    {"source", "label_source", "class_weight_source", "mean_file", "meanfile", "file_name", "root_folder", "weights"}
    | {
        "label_file",
        "label_map_file",
        "name_size_file",
        "output_directory",
        "output_name_prefix",
        "save_file",
        "video_file",
    }
)


@dataclass(frozen=True)
class NamedFile:
    """holder: the message with the field; at: the path of the field, as a Locator takes it; text: its value."""

    holder: Message
    field: str
    at: tuple[str | int, ...]
    text: str


def named_files(message: Message, at: tuple[str | int, ...] = ()) -> Iterator[NamedFile]:
    """Every file that the fields of a message name, those of its parts included. at: where the message is."""
    for field, value in message.ListFields():
        here = (*at, field.name)
        if field.type == field.TYPE_MESSAGE:
            repeated = not isinstance(value, Message)
            for i, part in enumerate(value if repeated else [value]):
                yield from named_files(part, (*here, i) if repeated else here)
        elif field.type == field.TYPE_STRING and field.name in FIELDS:
            for text in [value] if isinstance(value, str) else value:
                if text:
                    yield NamedFile(message, field.name, here, text)


def listed_files(layer: pb.LayerParameter, base: Path) -> Iterator[str]:
    """The files that the list of a data layer names, as they are written there with root_folder. base: where relative
    paths start. Lists that cannot be read name none."""
    if layer.type == "RoIData":
        yield from _annotated_files(layer.roi_data_param, base)
        return
    root, source = "", ""
    if layer.type == "DenseImageData":
        root, source = layer.dense_image_data_param.root_folder, layer.dense_image_data_param.source
    elif layer.type in ("ImageData", "ImageSegData", "WindowSegData"):
        root, source = layer.image_data_param.root_folder, layer.image_data_param.source
    elif layer.type in ("VideoData", "VideoFrames"):
        root, source = layer.video_data_param.root_folder, layer.video_data_param.source
    elif layer.type == "HDF5Data":
        source = layer.hdf5_data_param.source
    elif layer.type == "WindowData":
        root, source = layer.window_data_param.root_folder, layer.window_data_param.source
    elif layer.type == "DetectionData":
        root, source = layer.detection_data_param.root_folder, layer.detection_data_param.source
    elif layer.type == "EvalData":
        root, source = layer.eval_data_param.root_folder, layer.eval_data_param.source
    elif layer.type == "ImageGtData":
        root, source = layer.image_gt_data_param.root_folder, layer.image_gt_data_param.source
    path = base / source
    if not source or not path.is_file():
        return
    table = source.lower().endswith(".csv")
    lines = [line.strip() for line in inputs.read_text(path, inputs.LIST, "replace").splitlines()]
    for i, line in enumerate(lines):
        if layer.type in ("WindowData", "DetectionData", "EvalData", "ImageGtData"):
            name = line if i and lines[i - 1].startswith("#") else ""
        elif layer.type == "HDF5Data":
            name = line
        elif layer.type in ("DenseImageData", "ImageSegData", "WindowSegData"):
            words = line.split()[:-4] if layer.type == "WindowSegData" else line.split()
            yield from (root + word for word in _pair(words))
            name = ""
        elif layer.type in ("VideoData", "VideoFrames"):
            name = " ".join(line.split()[:-2])
        else:
            name = line.split(",")[0] if table else line.rpartition(" ")[0] or line
        if name:
            yield root + name


def _pair(words: list[str]) -> set[str]:
    """The files that a line of an image and its labels may name: the labels, and the image, which may have spaces."""
    return {words[0], words[-1], " ".join(words[:-1])} - {""} if words else set()


def _annotated_files(param: pb.RoIDataParameter, base: Path) -> Iterator[str]:
    """The images and annotations that a list of RoIData names, or the images of a COCO JSON file."""
    path = base / param.source
    if not param.source or not path.is_file():
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
