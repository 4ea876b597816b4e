"""Images with objects as other programs store them: PASCAL VOC's XML and COCO's JSON; converted to AnnotatedDatum."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .. import caffelite_pb2 as pb
from .. import inputs
from ..errors import CaffeliteError, Where
from .convert import Recipe, in_order
from .writers import write_records

BACKGROUND = "background"


@dataclass(frozen=True)
class Known:
    """An object in an image: its class, its corners in pixels, and whether it is difficult."""

    label: int
    corners: tuple[float, float, float, float]
    difficult: bool = False


@dataclass(frozen=True)
class Annotated:
    """An image file with its objects. where: the place that names it, for errors."""

    name: str
    known: list[Known]
    where: Where


@dataclass
class Converted:
    """What became of a list of images: ``images`` were written with ``objects`` objects by class; ``cut`` boxes went
    beyond the image, ``empty`` ones had no area in it and were left out; ``sizes``: a line "name height width" for each
    image; ``skipped``: images that were left out, and why."""

    images: int = 0
    objects: Counter = field(default_factory=Counter)
    cut: int = 0
    empty: int = 0
    sizes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


# COCO


def read_coco(path: Path) -> tuple[list[Annotated], list[str]]:
    """The images of a COCO JSON file in its order, and the classes by label, the background first: its categories,
    in the order of their ids, are numbered from 1. Objects of crowds are difficult. Errors: no JSON, missing fields."""
    where = Where(str(path))
    try:
        content = json.loads(inputs.read(path, inputs.LIST))
    except OSError as mistake:
        raise CaffeliteError(f"cannot read: {mistake.strerror}", where=where) from None
    except (ValueError, RecursionError) as mistake:
        raise CaffeliteError(f"not a JSON file: {mistake}", where=where) from None
    listed = [_field(content, name, list, where, "the file") for name in ("images", "annotations", "categories")]
    categories = sorted(
        (_field(one, "id", int, where, f"category {i}"), _field(one, "name", str, where, f"category {i}"))
        for i, one in enumerate(listed[2])
    )
    numbers = {number: label for label, (number, _) in enumerate(categories, 1)}
    known: dict[Any, list[Known]] = {}
    for i, one in enumerate(listed[1]):
        what = f"annotation {i}"
        box = _field(one, "bbox", list, where, what)
        if len(box) != 4 or not all(isinstance(v, int | float) and math.isfinite(v) for v in box):
            raise CaffeliteError(f"{what}: a bad bbox", where=where, expected="4 numbers: x, y, width, height")
        category = _field(one, "category_id", int, where, what)
        if category not in numbers:
            raise CaffeliteError(f"{what}: category {category} is not in the file", where=where)
        left, top, width, height = map(float, box)
        corners = left, top, left + width, top + height
        known.setdefault(one.get("image_id"), []).append(Known(numbers[category], corners, bool(one.get("iscrowd"))))
    images = []
    for i, one in enumerate(listed[0]):
        name = _field(one, "file_name", str, where, f"image {i}")
        images.append(Annotated(name, known.get(one.get("id"), []), where))
    return images, [BACKGROUND, *(name for _, name in categories)]


def _field(message: Any, name: str, kind: type, where: Where, what: str) -> Any:
    value = message.get(name) if isinstance(message, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {list: "a list", int: "an integer", str: "a text"}[kind]
        raise CaffeliteError(f'{what} has no "{name}"', where=where, expected=expected)
    return value


# PASCAL VOC


def read_list(path: Path) -> list[tuple[str, str, Where]]:
    """(image, annotation, place) of each line "image annotation" of a file. Errors: a line of other words."""
    try:
        lines = inputs.read_text(path, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        raise CaffeliteError(f"cannot read the list: {inputs.reason(mistake)}", where=Where(str(path))) from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        where = Where(str(path), number)
        if len(words) != 2:
            expected = '"image annotation", two paths without spaces'
            raise CaffeliteError("a line is not understood", where=where, expected=expected, found=line[:80])
        found.append((words[0], words[1], where))
    if not found:
        raise CaffeliteError("no images in the list", where=Where(str(path)))
    return found


def voc_folder(path: Path, part: str) -> list[tuple[str, str, Where]]:
    """The same of a VOC folder: JPEGImages and Annotations of the names in ImageSets/Main/PART.txt."""
    listing = path / "ImageSets" / "Main" / f"{part}.txt"
    try:
        lines = inputs.read_text(listing, inputs.LIST).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what, remedy = f"cannot read the list of names: {inputs.reason(mistake)}", "name another one with --part"
        raise CaffeliteError(what, where=Where(str(listing)), remedy=remedy) from None
    found = [
        (f"JPEGImages/{words[0]}.jpg", f"Annotations/{words[0]}.xml", Where(str(listing), number))
        for number, line in enumerate(lines, 1)
        if (words := line.split())
    ]
    if not found:
        raise CaffeliteError("no images in the list", where=Where(str(listing)))
    return found


def read_voc(
    listed: Sequence[tuple[str, str, Where]],
    read: Callable[[str], bytes],
    classes: Sequence[str] | None = None,
    first: int = 0,
) -> tuple[list[Annotated], list[str]]:
    """The images of a list with the objects of their XML files, and the classes by label.

    read: a file's bytes. classes: the names by label, the background first; None: the names that occur, sorted, from 1.
    first: the number of the first pixel: 0 as SSD's tool reads VOC, 1 as VOC's own coordinates count. Errors: no such
    file, no XML, a box without corners, a name that is no class.
    """
    rows: list[tuple[str, list[tuple[str, tuple[float, ...], bool]], Where, Where]] = []
    for image, annotation, where in listed:
        try:
            content = read(annotation)
        except OSError as mistake:
            raise CaffeliteError(f'cannot read "{annotation}": {mistake.strerror}', where=where) from None
        rows.append((image, _voc_objects(content, annotation, first), where, Where(annotation)))
    if classes is None:
        classes = [BACKGROUND, *sorted({name for _, found, _, _ in rows for name, _, _ in found})]
    numbers = {name: label for label, name in enumerate(classes) if label}
    images = []
    for image, found, where, source in rows:
        known = []
        for name, corners, difficult in found:
            if name not in numbers:
                what, expected = f'"{name}" is no class', ", ".join(list(numbers)[:10])
                raise CaffeliteError(what, where=source, expected=expected)
            known.append(Known(numbers[name], (corners[0], corners[1], corners[2], corners[3]), difficult))
        images.append(Annotated(image, known, where))
    return images, list(classes)


def _voc_objects(content: bytes, name: str, first: int) -> list[tuple[str, tuple[float, ...], bool]]:
    """(class, corners, difficult) of the objects of an XML file."""
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as mistake:
        raise CaffeliteError(f"not an XML file: {mistake}", where=Where(name)) from None
    found: list[tuple[str, tuple[float, ...], bool]] = []
    for i, item in enumerate(root.iter("object")):
        label = (item.findtext("name") or "").strip()
        texts = [item.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        try:
            corners = tuple(float(text or "") for text in texts)
        except ValueError:
            corners = (math.nan,)
        if not label or not all(map(math.isfinite, corners)):
            expected = "name, and bndbox with xmin, ymin, xmax, ymax"
            raise CaffeliteError(f"object {i + 1} is not understood", where=Where(name), expected=expected)
        moved = corners[0] - first, corners[1] - first, corners[2], corners[3]
        found.append((label, moved, (item.findtext("difficult") or "0").strip() == "1"))
    return found


# Records


def annotated(
    known: Sequence[Known], height: int, width: int
) -> tuple[list[pb.AnnotationGroup], list[int], tuple[int, int]]:
    """The groups of an image's objects by class, with boxes as shares of its sides; the class of each; and how many
    boxes were cut at its sides and how many had no area and were left out."""
    groups: dict[int, pb.AnnotationGroup] = {}
    labels, cut, empty = [], 0, 0
    for one in known:
        box = [v / side for v, side in zip(one.corners, (width, height) * 2, strict=True)]
        inside = [min(1.0, max(0.0, v)) for v in box]
        if inside[0] >= inside[2] or inside[1] >= inside[3]:
            empty += 1
            continue
        cut += inside != box
        group = groups.setdefault(one.label, pb.AnnotationGroup(group_label=one.label))
        left, top, right, bottom = inside
        shown = pb.NormalizedBBox(xmin=left, ymin=top, xmax=right, ymax=bottom, difficult=one.difficult)
        group.annotation.append(pb.Annotation(instance_id=len(group.annotation), bbox=shown))
        labels.append(one.label)
    return list(groups.values()), labels, (cut, empty)


def convert(
    path: Path,
    images: Sequence[Annotated],
    read: Callable[[str], bytes],
    recipe: Recipe,
    *,
    skip: bool = False,
    threads: int | None = None,
    progress: bool = False,
    backend: str = "lmdb",
    force: bool = False,
) -> Converted:
    """Writes a database of AnnotatedDatum records under the keys "<number>_<name>", the number of eight digits.

    read: an image's bytes. recipe: how images are stored; boxes are shares, so resizing does not change them. skip:
    leave out images that cannot be read. Errors: path exists and not force; the first unreadable image, by its place.
    """
    done = Converted()

    def task(item: tuple[int, Annotated]) -> tuple[int, Annotated, Any]:
        number, image = item
        try:
            content = read(image.name)
            datum, _ = recipe(content, image.name, 0)
            height, width = _size(content)
        except OSError as mistake:
            what = f'cannot read "{image.name}": {mistake.strerror}'
            return number, image, CaffeliteError(what, where=image.where)
        except ValueError as mistake:
            return number, image, CaffeliteError(f'image "{image.name}": {mistake}', where=image.where)
        datum.ClearField("label")
        groups, labels, dropped = annotated(image.known, height, width)
        record = pb.AnnotatedDatum(datum=datum, type=pb.AnnotatedDatum.BBOX, annotation_group=groups)
        return number, image, (record.SerializeToString(), labels, dropped, (height, width))

    def records() -> Iterator[tuple[bytes, bytes]]:
        number = 0
        for _, image, found in in_order(task, enumerate(images), threads):
            if isinstance(found, CaffeliteError):
                if not skip:
                    raise found
                done.skipped.append(str(found))
                continue
            value, labels, (cut, empty), (height, width) = found
            done.objects.update(labels)
            done.cut, done.empty = done.cut + cut, done.empty + empty
            stem = os.path.splitext(os.path.basename(image.name))[0]
            done.sizes.append(f"{stem} {height} {width}")
            yield b"%08d_%s" % (number, os.fsencode(image.name)), value
            number += 1

    done.images = write_records(path, records(), len(images), progress, backend=backend, force=force)
    return done


def _size(content: bytes) -> tuple[int, int]:
    """Height and width of an image file."""
    from .images import decode

    return decode(content, True).shape[1:]


def label_map(classes: Sequence[str]) -> str:
    """The text of a LabelMap file of the classes by label."""
    names = [json.dumps(name, ensure_ascii=False) for name in classes]
    return "".join(
        f"item {{\n  name: {name if label else json.dumps('none_of_the_above')}\n  label: {label}\n"
        f"  display_name: {name}\n}}\n"
        for label, name in enumerate(names)
    )
