"""Lists of images with their objects and regions, and the files of those images (DetectionData, EvalData, ImageGtData).

Sources: zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp; zhaoweicai/mscnn
src/caffe/layers/image_gt_data_layer.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import caffelite_pb2 as pb
from ... import inputs
from ...data.database import EXACT_LABELS
from ...data.images import decode
from ...data.opening import root_folder_of, source_path
from ...data.window_lines import Picture, WindowLines
from ...errors import Locator
from .field_maps import Objects

CORNERS = "x1 y1 x2 y2"


class Format(NamedTuple):
    """The names of what a list has: the label of an object; the flags after it, ignored and optionally difficult; and
    the regions of an image."""

    label: str
    flags: tuple[str, ...]
    regions: str


DETECTION = Format("class", ("ignored", "difficult"), "regions")  # of DetectionData and EvalData
IMAGE_GT = Format("label", ("ignored",), "ignored regions")  # of ImageGtData


@dataclass
class ListedImage:
    """An image of the list with its objects."""

    picture: Picture
    objects: Objects


def read_objects(path: Path, root: str, form: Format) -> list[ListedImage]:
    """The images of a list: after "# index", the path, channels, height and width of an image, the number of its
    objects, for each a line of label, flags and "x1 y1 x2 y2", the number of regions, for each "x1 y1 x2 y2". root:
    written before each path.

    Errors: the first line that is not understood; a label below 1; another number of channels than 3; no images.
    """
    objects, lines = [], WindowLines(path)
    for picture in lines.pictures(root):
        if picture.shape[0] != 3 or min(picture.shape) < 1:
            expected = "3 channels, height and width of 1 or more"
            raise picture.where.error("bad sides of an image", expected=expected, found=picture.shape)
        rows = _numbers(lines, "objects", (form.label, *form.flags))
        regions = _numbers(lines, form.regions, ())
        difficult = rows[:, 2] != 0 if "difficult" in form.flags else np.zeros(len(rows), bool)
        objects.append(ListedImage(picture, Objects(rows[:, -4:], rows[:, 0], rows[:, 1] != 0, difficult, regions)))
    if not objects:
        raise lines.end.error("no images in the list")
    return objects


def _numbers(lines: WindowLines, what: str, names: tuple[str, ...]) -> np.ndarray:
    """The rows of numbers that follow a line with their count. names: of the numbers before the corners; the first is
    a label."""
    (length,), where = lines.row(1, f"the number of {what}")
    if length < 0:
        raise where.error(f"a bad number of {what}", expected="0 or more", found=length)
    rows, count = [], len(names) + 4
    for _ in range(length):
        values, where = lines.row(count, ", ".join((*names, CORNERS)), float)
        if not all(abs(value) <= EXACT_LABELS for value in values):  # which NaN and infinity are not
            raise where.error("a line is not understood", expected=f"numbers up to {EXACT_LABELS}")
        if names and (values[0] < 1 or values[0] != int(values[0])):
            raise where.error(f"a bad {names[0]}", expected="an integer of 1 or more", found=f"{values[0]:g}")
        rows.append(values)
    return np.array(rows, float).reshape(length, count)


class ImageFiles:
    """The files of the images of a list, by their number in it. cache: files stay in memory."""

    def __init__(self, images: list[ListedImage], cache: bool):
        self._images = images
        self._kept: dict[int, bytes] | None = {} if cache else None

    def read(self, number: int) -> bytes:
        """The bytes of a file. Errors: one that cannot be read, with the place that names it."""
        if self._kept and number in self._kept:
            return self._kept[number]
        picture = self._images[number].picture
        try:
            content = inputs.read(picture.file, inputs.IMAGE)
        except OSError as mistake:
            raise picture.where.error(f'cannot read image "{picture.file}": {mistake.strerror}') from None
        if self._kept is not None:
            self._kept[number] = content
        return content

    def decode(self, number: int, content: bytes) -> np.ndarray:
        """The pixels H×W×3 of a file. Errors: one that cannot be decoded, with the place that names it."""
        picture = self._images[number].picture
        try:
            return decode(content, True).transpose(1, 2, 0)
        except ValueError as mistake:
            raise picture.where.error(f'image "{picture.file}": {mistake}') from None

    def release(self) -> None:
        """Drops the files that are in memory; further ones do not stay there."""
        self._kept = None


def located(layer: pb.LayerParameter, field: str, locate: Locator) -> tuple[pb.LayerParameter, Path]:
    """A copy of a layer whose root_folder can be put before names, and the path of its list. field: its message."""
    spec, at = pb.LayerParameter(), locate.at(field)
    spec.CopyFrom(layer)
    param = getattr(spec, field)
    path = source_path(param, at)
    param.root_folder = root_folder_of(param.root_folder, at)
    return spec, path
