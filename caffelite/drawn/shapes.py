"""Synthetic images for detection and segmentation: textured shapes on textured ground, with boxes and label masks.

An image is a function of the seed, the part ("train", "test") and its index, so a larger set begins with the images of
a smaller one.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ..data.drafts import atomic
from ..data.images import encode_png, opencv
from ..data.writers import progress_bar

CLASSES = ("background", "circle", "square", "triangle", "star", "cross")  # the index is the label, also in masks
PARTS = ("train", "test")
MOST = 5  # shapes of an image
SMALLEST, LARGEST = 0.14, 0.48  # side of a shape, as a share of the image's side
CONTRAST = 90  # least distance between the mean colors of a shape and of the ground (0 to 255 a channel)
COVERED = 0.15  # most of the smaller of two boxes that their intersection may cover
SUBPIXELS = 4  # bits of OpenCV's fractional coordinates


@dataclass(frozen=True)
class Box:
    """A shape of an image. xmin, ymin: its first pixel; xmax, ymax: one more than its last. area: its pixels that no
    other shape covers. truncated: whether the image's border cuts it."""

    label: int
    xmin: int
    ymin: int
    xmax: int
    ymax: int
    area: int
    truncated: bool


@dataclass(frozen=True)
class Sample:
    """pixels: H×W×3 of uint8, red, green, blue; mask: H×W of uint8, labels."""

    pixels: np.ndarray
    mask: np.ndarray
    boxes: list[Box]


def _regular(corners: int, start: float, radii: tuple[float, ...] = (1.0,)) -> np.ndarray:
    angles = np.radians(start) + 2 * np.pi * np.arange(corners) / corners
    return np.resize(radii, corners)[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)


_CROSS = 1 / 3
# Outlines with a center of 0 and a greatest extent of about 1, by label.
_OUTLINES = {
    1: _regular(48, 0),
    2: _regular(4, 45, (1.2,)),
    3: _regular(3, -90, (1.15,)),
    4: _regular(10, -90, (1.15, 0.46)),
    5: np.array(
        [(x, y) for x, y in ((1, _CROSS), (_CROSS, _CROSS), (_CROSS, 1), (-_CROSS, 1), (-_CROSS, _CROSS), (-1, _CROSS))]
        + [(x, y) for x, y in ((-1, -_CROSS), (-_CROSS, -_CROSS), (-_CROSS, -1), (_CROSS, -1), (_CROSS, -_CROSS))]
        + [(1, -_CROSS)]
    ),
}


def draw(seed: int, subset: str, index: int, size: int) -> Sample:
    """The image of this index, size×size, with 1 to 5 shapes."""
    rng = np.random.default_rng([seed, PARTS.index(subset), index])
    ground = rng.uniform(40, 215, 3)
    pixels = _texture(rng, ground, size, slice(0, size), slice(0, size))
    owner = np.zeros((size, size), np.uint8)  # 1 + index of the shape on top
    objects: list[tuple[int, np.ndarray, bool]] = []
    for _ in range(int(rng.integers(1, MOST + 1))):
        placed = _place(rng, size, [box for _, box, _ in objects])
        if placed is None:
            continue
        label, corners = placed
        left, top = np.floor(corners.min(0)).astype(int).clip(0)
        right, bottom = np.ceil(corners.max(0)).astype(int).clip(None, size)
        window = slice(top, bottom), slice(left, right)
        cover = _cover(corners - (left, top), bottom - top, right - left)
        inside = cover >= 0.5
        if not inside.any():  # thinner than a pixel
            continue
        texture = _texture(rng, _contrasting(rng, ground), size, *window)
        pixels[window] += cover[..., None] * (texture - pixels[window])
        owner[window][inside] = len(objects) + 1
        cut = bool((corners.min() < 0) or (corners.max() > size))
        objects.append((label, _bounds(inside) + (left, top, left, top), cut))
    noise = np.float32(rng.uniform(1, 8))
    pixels += noise * rng.standard_normal(pixels.shape, np.float32)
    areas = np.bincount(owner.ravel(), minlength=len(objects) + 1)[1:]
    boxes = []
    for (label, box, cut), area in zip(objects, areas, strict=True):
        xmin, ymin, xmax, ymax = box.tolist()
        boxes.append(Box(label, xmin, ymin, xmax, ymax, int(area), cut))
    labels = np.array([0, *(label for label, _, _ in objects)], np.uint8)
    return Sample(np.rint(pixels.clip(0, 255)).astype(np.uint8), labels[owner], boxes)


def _place(rng: np.random.Generator, size: int, others: list[np.ndarray]) -> tuple[int, np.ndarray] | None:
    """A label and corners (pixels) of a shape that covers little of the others, or None if there is no space."""
    for _ in range(20):
        label = int(rng.integers(1, len(CLASSES)))
        half = 0.5 * size * np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST)))
        stretch, turn = np.exp(rng.uniform(-0.25, 0.25)), rng.uniform(-0.35, 0.35)
        cos, sin = np.cos(turn), np.sin(turn)
        turned = _OUTLINES[label] * (half * stretch, half / stretch) @ np.array([[cos, sin], [-sin, cos]])
        low, high = turned.min(0), turned.max(0)
        outside = 0.15 * (high - low)  # the border may cut off this much
        corners = turned + rng.uniform(-outside - low, size + outside - high)
        box = np.concatenate([corners.min(0).clip(0), corners.max(0).clip(None, size)])
        if all(_covered(box, other) <= COVERED for other in others):
            return label, corners
    return None


def _covered(a: np.ndarray, b: np.ndarray) -> float:
    sides = (np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)
    return float(sides.prod() / min((a[2:] - a[:2]).prod(), (b[2:] - b[:2]).prod()))


def _cover(corners: np.ndarray, height: int, width: int) -> np.ndarray:
    """height×width of 0 to 1: how much of each pixel the polygon covers."""
    cv2 = opencv("dataset shapes")
    fine = np.zeros((4 * height, 4 * width), np.uint8)
    # OpenCV's coordinates name the center of a pixel, ours its corner.
    points = np.rint((4 * corners - 0.5) * (1 << SUBPIXELS)).astype(np.int32)
    cv2.fillPoly(fine, [points], 1, shift=SUBPIXELS)
    return fine.reshape(height, 4, width, 4).sum((1, 3), dtype=np.float32) / 16


def _bounds(inside: np.ndarray) -> np.ndarray:
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


def _contrasting(rng: np.random.Generator, ground: np.ndarray) -> np.ndarray:
    while True:
        color = rng.uniform(20, 235, 3)
        if np.linalg.norm(color - ground) >= CONTRAST:
            return color


def _texture(rng: np.random.Generator, color: np.ndarray, size: int, rows: slice, columns: slice) -> np.ndarray:
    """rows×columns×3 of about this mean color: plain, stripes, checks, clouds or a gradient. size: of the image."""
    x = np.arange(columns.start, columns.stop, dtype=np.float32) / np.float32(size)
    y = np.arange(rows.start, rows.stop, dtype=np.float32)[:, None] / np.float32(size)
    turn, phase = (np.float32(angle) for angle in rng.uniform(0, 2 * np.pi, 2))
    waves, strength = np.float32(2 * np.pi * rng.uniform(3, 12)), rng.uniform(10, 35)
    along, across = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    kind = int(rng.integers(5))
    if kind == 0:
        pattern = np.zeros_like(along)
    elif kind == 1:
        pattern = np.sin(waves * along + phase)
    elif kind == 2:
        pattern = np.sign(np.sin(waves * along + phase) * np.sin(waves * across + phase))
    elif kind == 3:
        coarse = rng.uniform(-1, 1, (int(rng.integers(4, 12)),) * 2).astype(np.float32)
        pattern = opencv("dataset shapes").resize(coarse, along.shape[::-1])
    else:
        pattern = 2 * along - 1
    amplitude = np.float32(strength * rng.uniform(0.5, 1, 3))
    return color.astype(np.float32) + pattern[..., None] * amplitude


def write(path: Path, counts: dict[str, int], size: int, seed: int, *, force: bool = False) -> None:
    """Writes a folder: images/, annotations/ (VOC XML), masks/; per part PART.json (COCO), PART.txt (image and
    annotation), PART_masks.txt (image and mask); labels.txt and labelmap.prototxt.

    counts: images of each part. Errors: path exists and not force.
    """
    with atomic(path, folder=True, force=force) as unfinished, progress_bar(path.name, sum(counts.values())) as shown:
        for name in ("images", "annotations", "masks"):
            (unfinished / name).mkdir()
        for subset, count in counts.items():
            make = partial(draw, seed, subset, size=size)
            _write_part(unfinished, path.name, subset, count, make, shown.update)
        (unfinished / "labels.txt").write_text("".join(f"{name}\n" for name in CLASSES))
        (unfinished / "labelmap.prototxt").write_text("".join(_label_map()))


def _write_part(
    folder: Path, source: str, subset: str, count: int, make: Callable[[int], Sample], report: Callable[[], None]
) -> None:
    coco: dict[str, list[dict]] = {
        "images": [],
        "annotations": [],
        "categories": [{"id": label, "name": name} for label, name in enumerate(CLASSES) if label],
    }
    stems = [f"{subset}_{i:06d}" for i in range(count)]
    for i, stem in enumerate(stems):
        sample = make(i)
        height, width = sample.mask.shape
        (folder / "images" / f"{stem}.png").write_bytes(encode_png(sample.pixels))
        (folder / "masks" / f"{stem}.png").write_bytes(encode_png(sample.mask))
        ElementTree.ElementTree(_voc(source, stem, sample)).write(folder / "annotations" / f"{stem}.xml")
        coco["images"].append({"id": i + 1, "file_name": f"images/{stem}.png", "width": width, "height": height})
        for box in sample.boxes:
            number = len(coco["annotations"]) + 1
            sides = [box.xmin, box.ymin, box.xmax - box.xmin, box.ymax - box.ymin]
            coco["annotations"].append(
                {"id": number, "image_id": i + 1, "category_id": box.label, "bbox": sides, "area": box.area}
                | {"iscrowd": 0}
            )
        report()
    (folder / f"{subset}.json").write_text(json.dumps(coco))
    (folder / f"{subset}.txt").write_text("".join(f"images/{s}.png annotations/{s}.xml\n" for s in stems))
    (folder / f"{subset}_masks.txt").write_text("".join(f"images/{s}.png masks/{s}.png\n" for s in stems))


def _voc(source: str, stem: str, sample: Sample) -> ElementTree.Element:
    """The annotation of PASCAL VOC. Its coordinates start at 1, and xmax and ymax are the last pixel's."""
    root = ElementTree.Element("annotation")

    def add(parent: ElementTree.Element, **texts: object) -> None:
        for name, text in texts.items():
            ElementTree.SubElement(parent, name).text = str(text)

    add(root, folder=source, filename=f"{stem}.png")
    height, width = sample.mask.shape
    add(ElementTree.SubElement(root, "size"), width=width, height=height, depth=3)
    add(root, segmented=1)
    for box in sample.boxes:
        item = ElementTree.SubElement(root, "object")
        add(item, name=CLASSES[box.label], pose="Unspecified", truncated=int(box.truncated), difficult=0)
        corners = {"xmin": box.xmin + 1, "ymin": box.ymin + 1, "xmax": box.xmax, "ymax": box.ymax}
        add(ElementTree.SubElement(item, "bndbox"), **corners)
    ElementTree.indent(root, "\t")
    return root


def _label_map() -> Iterator[str]:
    for label, name in enumerate(CLASSES):
        named = name if label else "none_of_the_above"
        yield f'item {{\n  name: "{named}"\n  label: {label}\n  display_name: "{name}"\n}}\n'
