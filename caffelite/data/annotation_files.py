"""The objects of one image, as tools for annotation write them: PASCAL VOC's XML, YOLO's text, LabelMe's JSON."""

import json
import math
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ..errors import Where
from .listing import number, shortened, whole_number

ENDINGS = (".xml", ".txt", ".json")
FORMATS = "PASCAL VOC's .xml, YOLO's .txt (class x y width height, as shares) or LabelMe's .json"


class Objects(NamedTuple):
    """boxes: (class, corners in pixels, difficult) of each object; size: the image's height and width as annotated,
    (0, 0): not annotated."""

    boxes: list[tuple[str, tuple[float, ...], bool]]
    size: tuple[int, int]


def read(content: bytes, name: str, first: int, size: Callable[[], tuple[int, int]], classes: list[str]) -> Objects:
    """The objects of a file, whose ending tells its format.

    first: the number of the first pixel in XML. size: returns height and width of the image, of which YOLO's boxes are
    shares. classes: YOLO's names by number; where they end, the number is the name. Errors: another format; a box that
    is not understood.
    """
    ending = PurePosixPath(name).suffix.lower()
    if ending == ".txt":
        return _yolo(content, name, size(), classes)
    if ending == ".json":
        return _labelme(content, name)
    return _voc(content, name, first)


def whole_numbers(height: Any, width: Any) -> tuple[int, int]:
    """Height and width of an image; (0, 0) where they are no integers."""
    try:
        return int(height), int(width)
    except (TypeError, ValueError, OverflowError):
        return 0, 0


def _voc(content: bytes, name: str, first: int) -> Objects:
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError) as mistake:
        raise Where(name).error(f"not an XML file: {mistake}", expected=FORMATS) from None
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
    return Objects(boxes, whole_numbers(*(root.findtext(f"size/{side}") for side in ("height", "width"))))


def _yolo(content: bytes, name: str, size: tuple[int, int], classes: list[str]) -> Objects:
    height, width = size
    boxes: list[tuple[str, tuple[float, ...], bool]] = []
    for line_number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        label, shares = whole_number(words[0]), [number(word) for word in words[1:5]]
        if label is None or label < 0 or len(words) not in (5, 6) or None in shares:
            expected, found = "class x y width height, as shares of the sides", f'"{shortened(line.strip())}"'
            raise Where(name, line_number).error("an object is not understood", expected=expected, found=found)
        x, y, w, h = (share or 0.0 for share in shares)
        if max(x, y, w, h) > 2 or min(w, h) < 0:
            expected, found = "shares of the sides, from 0 to 1", shortened(line.strip())
            raise Where(name, line_number).error("a box is no share of its image", expected=expected, found=found)
        corners = (x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height
        boxes.append((classes[label] if label < len(classes) else str(label), corners, False))
    return Objects(boxes, size)


def _labelme(content: bytes, name: str) -> Objects:
    try:
        file = json.loads(content)
        shapes = file["shapes"]
        boxes = [_shape(shape) for shape in shapes]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        expected = 'LabelMe\'s "shapes", each with "label" and "points"'
        raise Where(name).error("not a file of LabelMe", expected=expected) from None
    return Objects(boxes, whole_numbers(file.get("imageHeight"), file.get("imageWidth")))


def _shape(shape: dict[str, Any]) -> tuple[str, tuple[float, ...], bool]:
    """The box around a shape. Errors: ValueError, LookupError and others where it is none."""
    points = [(float(x), float(y)) for x, y in shape["points"]]
    if shape.get("shape_type") == "circle":  # its center, and a point on it
        (x, y), edge = points
        radius = math.dist((x, y), edge)
        points = [(x - radius, y - radius), (x + radius, y + radius)]
    xs, ys = zip(*points, strict=True)
    corners = min(xs), min(ys), max(xs), max(ys)
    label = re.sub(r"\s+", " ", shape["label"]).strip()
    if not label or not all(map(math.isfinite, corners)):
        raise ValueError("no label")
    return label, corners, bool((shape.get("flags") or {}).get("difficult"))
