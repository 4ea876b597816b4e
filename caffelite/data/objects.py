"""Images with their objects: from PASCAL VOC's XML, COCO's JSON, and databases of AnnotatedDatum."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from .. import inputs
from ..errors import Where
from . import class_names
from .annotated import AnnotatedDatabase, objects_of, parsed

BACKGROUND = "background"


@dataclass(frozen=True)
class LabeledBox:
    """An object in an image: its class, its corners in pixels (the maximum is past the last pixel), and whether it is
    difficult."""

    label: int
    corners: tuple[float, float, float, float]
    difficult: bool = False


@dataclass(frozen=True)
class ImageObjects:
    """An image file with its objects. where: the place that names it, for errors. size: height and width as annotated,
    (0, 0): not annotated."""

    name: str
    boxes: list[LabeledBox]
    where: Where
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class AnnotatedImage:
    """file: of the image. boxes: G×5 of float32: x1, y1, x2, y2 and label; coordinates start at 0, and pixel x2, y2
    belongs to the box. difficult: G of bool."""

    file: str
    height: int
    width: int
    boxes: np.ndarray
    difficult: np.ndarray


# COCO


def read_coco(path: Path, named: bool = True) -> tuple[list[ImageObjects], list[str]]:
    """The images of a COCO JSON file in its order, and the classes by label, the background first: its categories,
    in the order of their ids, are numbered from 1. Objects of crowds are difficult. named: categories must have names.
    Errors: no JSON, missing fields."""
    where = Where(str(path))
    try:
        content = json.loads(inputs.read(path, inputs.LIST))
    except OSError as mistake:
        raise where.error(f"cannot read: {mistake.strerror}") from None
    except (ValueError, RecursionError) as mistake:
        raise where.error(f"not a JSON file: {mistake}") from None
    listed = [_field(content, name, list, where, "the file") for name in ("images", "annotations", "categories")]
    categories = sorted(
        (_field(one, "id", int, where, what), _field(one, "name", str, where, what) if named else "")
        for i, one in enumerate(listed[2])
        for what in (f"category {i}",)
    )
    label_by_id = {number: label for label, (number, _) in enumerate(categories, 1)}
    boxes: dict[Any, list[LabeledBox]] = {}
    for i, one in enumerate(listed[1]):
        what = f"annotation {i}"
        box = _field(one, "bbox", list, where, what)
        if len(box) != 4 or not all(isinstance(v, int | float) and math.isfinite(v) for v in box):
            raise where.error(f"{what}: a bad bbox", expected="4 numbers: x, y, width, height")
        category = _field(one, "category_id", int, where, what)
        if category not in label_by_id:
            raise where.error(f"{what}: category {category} is not in the file")
        left, top, width, height = map(float, box)
        corners = left, top, left + width, top + height
        labeled = LabeledBox(label_by_id[category], corners, bool(one.get("iscrowd")))
        boxes.setdefault(one.get("image_id"), []).append(labeled)
    images = []
    for i, one in enumerate(listed[0]):
        name = _field(one, "file_name", str, where, f"image {i}")
        size = _whole_numbers(one.get("height"), one.get("width"))
        images.append(ImageObjects(name, boxes.get(one.get("id"), []), where, size))
    return images, [BACKGROUND, *(name for _, name in categories)]


def _field(message: Any, name: str, kind: type, where: Where, what: str) -> Any:
    value = message.get(name) if isinstance(message, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise where.error(f'{what} has no "{name}"', expected={list: "a list", int: "an integer", str: "a text"}[kind])
    return value


def _whole_numbers(height: Any, width: Any) -> tuple[int, int]:
    """Height and width of an image; (0, 0) where they are no integers."""
    try:
        return int(height), int(width)
    except (TypeError, ValueError, OverflowError):
        return 0, 0


# PASCAL VOC


def read_list(path: Path) -> list[tuple[str, str, Where]]:
    """(image, annotation, place) of each line "image annotation" of a file. Errors: a line of other words."""
    try:
        lines = inputs.read_text(path, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        raise Where(str(path)).error(f"cannot read the list: {inputs.reason(mistake)}") from None
    names = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        where = Where(str(path), number)
        if len(words) != 2:
            expected = '"image annotation", two paths without spaces'
            raise where.error("a line is not understood", expected=expected, found=line[:80])
        names.append((words[0], words[1], where))
    if not names:
        raise Where(str(path)).error("no images in the list")
    return names


def voc_folder(path: Path, subset: str) -> list[tuple[str, str, Where]]:
    """The same of a VOC folder: JPEGImages and Annotations of the names in ImageSets/Main/PART.txt."""
    listing = path / "ImageSets" / "Main" / f"{subset}.txt"
    try:
        lines = inputs.read_text(listing, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what = f"cannot read the list of names: {inputs.reason(mistake)}"
        raise Where(str(listing)).error(what, remedy="name another one with --part") from None
    images = [
        (f"JPEGImages/{words[0]}.jpg", f"Annotations/{words[0]}.xml", Where(str(listing), number))
        for number, line in enumerate(lines, 1)
        if (words := line.split())
    ]
    if not images:
        raise Where(str(listing)).error("no images in the list")
    return images


def read_voc(
    listed: Sequence[tuple[str, str, Where]],
    read: Callable[[str], bytes],
    classes: Sequence[str] | None = None,
    first: int = 0,
) -> tuple[list[ImageObjects], list[str]]:
    """The images of a list with the objects of their XML files, and the classes by label.

    read: a file's bytes. classes: the names by label, the background first; None: the names that occur, sorted, from 1.
    first: the number of the first pixel: 0 as SSD's tool reads VOC, 1 as VOC's own coordinates count. Errors: no such
    file, no XML, a box without corners, a name that is no class.
    """
    rows: list[tuple[str, _VocObjects, Where, Where]] = []
    for image, annotation, where in listed:
        try:
            content = read(annotation)
        except OSError as mistake:
            raise where.error(f'cannot read "{annotation}": {mistake.strerror}') from None
        rows.append((image, _voc_objects(content, annotation, first), where, Where(annotation)))
    if classes is None:
        classes = [BACKGROUND, *sorted({name for _, annotated, _, _ in rows for name, _, _ in annotated.boxes})]
    label_by_name = {name: label for label, name in enumerate(classes) if label}
    images = []
    for image, annotated, where, source in rows:
        boxes = []
        for name, corners, difficult in annotated.boxes:
            if name not in label_by_name:
                raise source.error(f'"{name}" is no class', expected=", ".join(list(label_by_name)[:10]))
            boxes.append(LabeledBox(label_by_name[name], (corners[0], corners[1], corners[2], corners[3]), difficult))
        images.append(ImageObjects(image, boxes, where, annotated.size))
    return images, list(classes)


class _VocObjects(NamedTuple):
    """boxes: (class, corners, difficult) of the objects of an XML file; size: the image's height and width, or 0."""

    boxes: list[tuple[str, tuple[float, ...], bool]]
    size: tuple[int, int]


def _voc_objects(content: bytes, name: str, first: int) -> _VocObjects:
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as mistake:
        raise Where(name).error(f"not an XML file: {mistake}") from None
    boxes: list[tuple[str, tuple[float, ...], bool]] = []
    for i, item in enumerate(root.iter("object")):
        label = (item.findtext("name") or "").strip()
        texts = [item.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        try:
            corners = tuple(float(text or "") for text in texts)
        except ValueError:
            corners = (math.nan,)
        if not label or not all(map(math.isfinite, corners)):
            expected = "name, and bndbox with xmin, ymin, xmax, ymax"
            raise Where(name).error(f"object {i + 1} is not understood", expected=expected)
        moved = corners[0] - first, corners[1] - first, corners[2], corners[3]
        boxes.append((label, moved, (item.findtext("difficult") or "0").strip() == "1"))
    return _VocObjects(boxes, _whole_numbers(*(root.findtext(f"size/{side}") for side in ("height", "width"))))


# Arrays


def read(path: Path, root: str = "", label_file: str = "") -> list[AnnotatedImage]:
    """The images of a COCO JSON file (.json), or of a list of lines "image annotation.xml", whose pixels count from 1.

    root: the folder of the files; "": that of ``path``. label_file: for VOC, the names of the classes, the background
    first. Errors: those of ``read_coco`` and ``read_voc``, a class that is not in the label_file, an image without its
    size, no images.
    """
    folder = Path(root) if root else path.parent
    if path.suffix.lower() == ".json":
        images, _ = read_coco(path, named=False)
        images = [replace(image, name=str(folder / image.name)) for image in images]
    else:
        if not label_file:
            remedy = "name it, or use COCO JSON"
            raise Where(str(path)).error("annotations of PASCAL VOC need a label_file", remedy=remedy)
        listed = [(str(folder / image), str(folder / xml), where) for image, xml, where in read_list(path)]
        names = class_names.read(label_file)
        images, _ = read_voc(listed, lambda name: inputs.read(name, inputs.LIST), names, first=1)
    if not images:
        raise Where(str(path)).error("no images", expected="at least one")
    return [_with_pixels(image) for image in images]


def _with_pixels(image: ImageObjects) -> AnnotatedImage:
    """The arrays of an image. A box has at least one pixel."""
    if min(image.size) < 1:
        raise image.where.error(f'no size of image "{image.name}"', expected="height and width of 1 or more")
    rows = [(x, y, max(x, x2 - 1), max(y, y2 - 1), box.label) for box in image.boxes for x, y, x2, y2 in [box.corners]]
    with np.errstate(over="ignore"):
        boxes = np.array(rows, np.float32).reshape(-1, 5)
    if not np.isfinite(boxes).all():
        raise image.where.error(f'a box of image "{image.name}" is not finite')
    return AnnotatedImage(image.name, *image.size, boxes, np.array([box.difficult for box in image.boxes], bool))


def of_database(database: AnnotatedDatabase) -> list[AnnotatedImage]:
    """The images of a database of AnnotatedDatum, whose files are keys. Reads all records; decodes those that do not
    store the size of their image."""
    images = []
    for number, record in enumerate(database.walk(0)):
        try:
            content = parsed(record[1])
        except ValueError as mistake:
            raise database.error(number, record, str(mistake)) from None
        height, width = content.datum.height, content.datum.width
        if min(height, width) < 1:
            height, width = database.image(number, record)[0].shape[1:]
        objects = objects_of(content)
        corners = objects.boxes * ([width, height] * 2) - (0, 0, 1, 1)
        boxes = np.concatenate([corners, objects.others[:, :1]], 1).astype(np.float32)
        images.append(AnnotatedImage(bytes(record[0]).decode(errors="backslashreplace"), height, width, boxes,
                                    objects.others[:, 2] != 0))  # fmt: skip
    return images
