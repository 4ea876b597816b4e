"""Images with boxes, from COCO JSON, from lists of PASCAL VOC annotations, and from databases of AnnotatedDatum."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where
from .annotated import AnnotatedDatabase, objects_of, parsed


@dataclass(frozen=True)
class AnnotatedImage:
    """file: of the image. boxes: G×5 of float32: x1, y1, x2, y2 and label; coordinates start at 0, and pixel x2, y2
    belongs to the box. difficult: G of bool."""

    file: str
    height: int
    width: int
    boxes: np.ndarray
    difficult: np.ndarray


def read(path: Path, root: str = "", label_file: str = "") -> list[AnnotatedImage]:
    """The images of a COCO JSON file (.json), or of a list of lines "image annotation.xml".

    root: the folder of the files; "": that of ``path``. label_file: for VOC, the names of the classes, the background
    first. COCO's categories get the labels 1, 2, … in the order of their ids. Errors: a file that is missing or
    cannot be read, an unknown class, an image without its size, no images.
    """
    folder = Path(root) if root else path.parent
    if path.suffix.lower() == ".json":
        found = _coco(path, folder)
    else:
        found = _voc_list(path, folder, label_file)
    if not found:
        raise CaffeliteError("no images", where=Where(str(path)), expected="at least one")
    return found


def of_database(database: AnnotatedDatabase) -> list[AnnotatedImage]:
    """The images of a database of AnnotatedDatum, whose files are keys. Reads all records; decodes those that do not
    store the size of their image."""
    found = []
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
        found.append(AnnotatedImage(bytes(record[0]).decode(errors="backslashreplace"), height, width, boxes,
                                    objects.others[:, 2] != 0))  # fmt: skip
    return found


def _text(path: Path, where: Where) -> str:
    try:
        return inputs.read_text(path, inputs.LIST)
    except (OSError, UnicodeDecodeError) as mistake:
        raise CaffeliteError(f'cannot read "{path}": {inputs.reason(mistake)}', where=where) from None


def _coco(path: Path, folder: Path) -> list[AnnotatedImage]:
    where = Where(str(path))
    try:
        content = json.loads(_text(path, where))
        labels = {c["id"]: i for i, c in enumerate(sorted(content["categories"], key=lambda c: c["id"]), 1)}
        rows: dict[int, list[tuple[list[float], bool]]] = {image["id"]: [] for image in content["images"]}
        for item in content["annotations"]:
            x, y, width, height = (float(v) for v in item["bbox"])
            box = [x, y, x + max(0.0, width - 1), y + max(0.0, height - 1), float(labels[item["category_id"]])]
            rows[item["image_id"]].append((box, bool(item.get("iscrowd"))))
        return [
            _image(folder / image["file_name"], int(image["height"]), int(image["width"]), rows[image["id"]], where)
            for image in content["images"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as mistake:
        what = f"no COCO annotations: {type(mistake).__name__}: {mistake}"
        expected = "images, annotations with bbox, categories"
        raise CaffeliteError(what, where=where, expected=expected) from None


def _voc_list(path: Path, folder: Path, label_file: str) -> list[AnnotatedImage]:
    where = Where(str(path))
    if not label_file:
        remedy = "name it, or use COCO JSON"
        raise CaffeliteError("annotations of PASCAL VOC need a label_file", where=where, remedy=remedy)
    names = _text(Path(label_file), Where(label_file)).split("\n")
    labels = {name.strip(): i for i, name in enumerate(names) if name.strip()}
    found = []
    for number, line in enumerate(_text(path, where).split("\n"), 1):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise CaffeliteError("not a line of a list", where=Where(str(path), number), expected="IMAGE ANNOTATION")
        found.append(_voc(folder / parts[0], folder / parts[1], labels))
    return found


def _voc(image: Path, path: Path, labels: dict[str, int]) -> AnnotatedImage:
    where = Where(str(path))
    try:
        root = ElementTree.fromstring(_text(path, where))
        rows = []
        for item in root.iter("object"):
            name = (item.findtext("name") or "").strip()
            if name not in labels:
                expected = ", ".join(list(labels)[:20])
                raise CaffeliteError(f'unknown class "{name}"', where=where, expected=expected)
            sides = [float(item.findtext(f"bndbox/{side}") or "?") - 1 for side in ("xmin", "ymin", "xmax", "ymax")]
            rows.append(([*sides, float(labels[name])], (item.findtext("difficult") or "0").strip() == "1"))
        height, width = (int(root.findtext(f"size/{side}") or "?") for side in ("height", "width"))
    except (ElementTree.ParseError, ValueError) as mistake:
        raise CaffeliteError(f"no annotation of PASCAL VOC: {mistake}", where=where) from None
    return _image(image, height, width, rows, where)


def _image(file: Path, height: int, width: int, rows: list[tuple[list[float], bool]], where: Where) -> AnnotatedImage:
    if min(height, width) < 1:
        raise CaffeliteError(f'no size of image "{file}"', where=where, expected="height and width of 1 or more")
    boxes = np.array([box for box, _ in rows], np.float32).reshape(-1, 5)
    if not all(map(math.isfinite, boxes.ravel())):
        raise CaffeliteError(f'a box of image "{file}" is not finite', where=where)
    return AnnotatedImage(str(file), height, width, boxes, np.array([hard for _, hard in rows], bool))
