"""Images with their objects: from COCO's JSON, from a file for each image, and from databases of AnnotatedDatum."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import file_types, inputs
from ..errors import Where
from . import annotation_files, class_names
from .annotated import AnnotatedDatabase, objects_of, parsed
from .listing import files_below, in_order_of_classes, placed_lines, shortened, with_ending
from .pictures import ENDINGS, decode

BACKGROUND = "background"
CLASS_FILES = ("classes.txt", "obj.names")  # of YOLO's tools: names by number, from 0
PAIR = re.compile(r"\s*(.*\.[A-Za-z]\w{2,4})\s+(\S.*\.(?:xml|txt|json))\s*", re.I)  # names with spaces
SHOWN = 5  # of what a warning lists

log = logging.getLogger("caffelite")


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
    (0, 0): not annotated. source: the file with its objects, where each image has its own."""

    name: str
    boxes: list[LabeledBox]
    where: Where
    size: tuple[int, int] = (0, 0)
    source: str = ""


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
        content = json.loads(file_types.read_listing(path))
    except OSError as mistake:
        raise where.error(f"cannot read: {mistake.strerror}") from None
    except (ValueError, RecursionError) as mistake:
        raise where.error(f"not a JSON file: {mistake}") from None
    if isinstance(content, dict) and "shapes" in content and "images" not in content:
        remedy = "name its folder, or a list with a line for each image, as in: 0.jpg 0.json"
        raise where.error("the file of LabelMe has one image", expected="COCO's JSON, of all images", remedy=remedy)
    listed = [_field(content, name, list, where, "the file") for name in ("images", "annotations", "categories")]
    categories = sorted(
        (_field(one, "id", int, where, what), _field(one, "name", str, where, what) if named else "")
        for i, one in enumerate(listed[2])
        for what in (f"category {i}",)
    )
    label_by_id = {number: label for label, (number, _) in enumerate(categories, 1)}
    if len(label_by_id) < len(categories):
        raise where.error("two categories have one id", found=_twice([number for number, _ in categories]))
    names: dict[str, str] = {}
    for i, one in enumerate(listed[0]):
        name, number = _field(one, "file_name", str, where, f"image {i}"), _id(one, "id", where, f"image {i}")
        if number in names:
            raise where.error(f"two images have the id {number}", found=f"{names[number]} and {name}")
        names[number] = name
    boxes: dict[str, list[LabeledBox]] = {}
    strange = []
    for i, one in enumerate(listed[1]):
        what = f"annotation {i}"
        box = _field(one, "bbox", list, where, what)
        if len(box) != 4 or not all(isinstance(v, int | float) and math.isfinite(v) for v in box):
            raise where.error(f"{what}: a bad bbox", expected="4 numbers: x, y, width, height")
        category = _field(one, "category_id", int, where, what)
        if category not in label_by_id:
            raise where.error(f"{what}: category {category} is not in the file")
        number = _id(one, "image_id", where, what)
        if number not in names:
            strange.append(f"annotation {i} of image {number}")
            continue
        left, top, width, height = map(float, box)
        corners = left, top, left + width, top + height
        boxes.setdefault(number, []).append(LabeledBox(label_by_id[category], corners, bool(one.get("iscrowd"))))
    if strange and not boxes:
        raise where.error("no annotation belongs to an image of the file", found=strange[0])
    if strange:
        shown = ", ".join(strange[:SHOWN]) + (", …" if len(strange) > SHOWN else "")
        log.warning("%s: left out %d annotations of images that the file does not list: %s", path, len(strange), shown)
    images = []
    for one in listed[0]:
        number, size = _id(one, "id", where, ""), annotation_files.whole_numbers(one.get("height"), one.get("width"))
        images.append(ImageObjects(names[number], boxes.get(number, []), where, size))
    return images, [BACKGROUND, *(name for _, name in categories)]


def _id(message: Any, name: str, where: Where, what: str) -> str:
    """The number of an image as text: some tools write it as such, others as 7.0. Errors: it has none."""
    value = message.get(name) if isinstance(message, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise where.error(f'{what} has no "{name}"', expected="an integer")
    return str(value)


def _twice(values: list[Any]) -> Any:
    return next(value for value in values if values.count(value) > 1)


def _field(message: Any, name: str, kind: type, where: Where, what: str) -> Any:
    value = message.get(name) if isinstance(message, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise where.error(f'{what} has no "{name}"', expected={list: "a list", int: "an integer", str: "a text"}[kind])
    return value


# Files with the objects of one image each

Pair = tuple[str, str, Where]  # an image, its annotation, and the place that names both


def read_list(path: Path) -> list[Pair]:
    """(image, annotation, place) of each line "image annotation" of a file. Errors: a line of other words."""
    names = []
    for where, line in placed_lines(path):
        words = line.split()
        if len(words) != 2 and (parts := PAIR.fullmatch(line)):
            words = [parts[1], parts[2]]
        if len(words) != 2:
            expected = f"an image and its annotation: {annotation_files.FORMATS}"
            raise where.error("a line is not understood", expected=expected, found=f'"{shortened(line.strip())}"')
        names.append((words[0], words[1], where))
    if not names:
        raise Where(str(path)).error("no images in the list")
    return names


def read_folder(path: Path, subset: str) -> list[Pair]:
    """The same of a folder: of a VOC folder (JPEGImages, Annotations) the names in ImageSets/Main/SUBSET.txt; else all
    images that have an annotation of their name. Errors: none has."""
    if (path / "ImageSets").is_dir():
        return voc_folder(path, subset)
    names = sorted(files_below(path))
    by_stem: dict[str, list[str]] = {}
    for name in names:
        if name.lower().endswith(annotation_files.ENDINGS) and os.path.basename(name) not in CLASS_FILES:
            by_stem.setdefault(os.path.splitext(os.path.basename(name))[0], []).append(name)
    pairs, alone = [], []
    for image in sorted(name for name in names if os.path.splitext(name)[1].lower() in ENDINGS):
        stem = os.path.splitext(os.path.basename(image))[0]
        known = by_stem.get(stem, [])
        beside = [name for name in known if os.path.dirname(name) == os.path.dirname(image)] or known
        if len(beside) == 1:
            pairs.append((image, beside[0], Where(str(path / image))))
        elif beside:
            raise Where(str(path / image)).error("several annotations have the image's name", found=", ".join(beside))
        else:
            alone.append(image)
    if not pairs:
        expected = (
            f"images with an annotation of their name: {annotation_files.FORMATS}; or a VOC folder with ImageSets"
        )
        raise Where(str(path)).error("no image has an annotation", expected=expected)
    if alone:
        shown = ", ".join(alone[:SHOWN]) + (", …" if len(alone) > SHOWN else "")
        log.warning("%s: left out %d images without an annotation: %s", path, len(alone), shown)
    return pairs


def voc_folder(path: Path, subset: str) -> list[Pair]:
    """The same of a VOC folder: JPEGImages and Annotations of the names in ImageSets/Main/SUBSET.txt."""
    listing = path / "ImageSets" / "Main" / f"{subset}.txt"
    try:
        lines = file_types.read_listing(listing).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what = f"cannot read the list of names: {inputs.reason(mistake)}"
        raise Where(str(listing)).error(what, remedy="name another one with --part") from None
    images = []
    for number, line in enumerate(lines, 1):
        if words := line.split():
            image = f"JPEGImages/{words[0]}.jpg"
            if not (path / image).exists() and (other := with_ending(str(path / "JPEGImages" / words[0]))):
                image = f"JPEGImages/{os.path.basename(other)}"
            images.append((image, f"Annotations/{words[0]}.xml", Where(str(listing), number)))
    if not images:
        raise Where(str(listing)).error("no images in the list")
    return images


def read_pairs(
    listed: Sequence[Pair], read: Callable[[str], bytes], classes: Sequence[str] | None = None, first: int = 0
) -> tuple[list[ImageObjects], list[str]]:
    """The images of a list with the objects of their files, and the classes by label.

    read: a file's bytes. classes: the names by label, the background first; None: the names that occur, sorted, from 1,
    or those of YOLO's classes.txt beside the annotations. first: the number of the first pixel in XML: 0 as SSD's tool
    reads VOC, 1 as VOC's own coordinates count. Errors: no such file, another format, a box without corners, a name
    that is no class."""
    numbered = list(classes[1:]) if classes else _yolo_names(listed, read)
    rows: list[tuple[str, annotation_files.Objects, Where, str]] = []
    for image, annotation, where in listed:
        size = functools.partial(_size, read, image, where)
        content = _content(read, annotation, where)
        rows.append((image, annotation_files.read(content, annotation, first, size, numbered), where, annotation))
    if classes is None:
        occurring = {name for _, annotated, _, _ in rows for name, _, _ in annotated.boxes}
        known = numbered if occurring <= set(numbered) else []
        classes = [BACKGROUND, *(known or in_order_of_classes(occurring))]
    label_by_name = {name: label for label, name in enumerate(classes) if label}
    images = []
    for image, annotated, where, source in rows:
        boxes = []
        for name, corners, difficult in annotated.boxes:
            if name not in label_by_name:
                expected = ", ".join(list(label_by_name)[:10])
                raise Where(source).error(f'"{name}" is no class', expected=expected)
            boxes.append(LabeledBox(label_by_name[name], (corners[0], corners[1], corners[2], corners[3]), difficult))
        images.append(ImageObjects(image, boxes, where, annotated.size, source))
    return images, list(classes)


def _content(read: Callable[[str], bytes], name: str, where: Where) -> bytes:
    try:
        return read(name)
    except OSError as mistake:
        raise where.error(f'cannot read "{name}": {mistake.strerror}') from None


def _size(read: Callable[[str], bytes], image: str, where: Where) -> tuple[int, int]:
    """Height and width of an image."""
    try:
        _, height, width = decode(_content(read, image, where)).shape
    except ValueError as mistake:
        raise where.error(f'image "{image}": {mistake}') from None
    return height, width


def _yolo_names(listed: Sequence[Pair], read: Callable[[str], bytes]) -> list[str]:
    """The names of classes by number in a file beside the first annotation of YOLO, or in the folder above."""
    annotation = next((name for _, name, _ in listed if name.lower().endswith(".txt")), None)
    if annotation is None:
        return []
    folder = os.path.dirname(annotation)
    for name in (os.path.join(where, file) for where in (folder, os.path.dirname(folder)) for file in CLASS_FILES):
        with suppress(OSError):
            return [line.strip() for line in read(name).decode("utf-8-sig", "replace").splitlines() if line.strip()]
    return []


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
        images, _ = read_pairs(listed, lambda name: inputs.read(name, inputs.LIST), names, first=1)
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
