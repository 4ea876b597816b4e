"""Files of detections in the formats of VOC, COCO and ILSVRC, as DetectionOutput writes them."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, roots
from ..errors import Locator
from . import boxes as box_arithmetic
from .names import read_label_map, read_sizes

FORMATS = "VOC", "COCO", "ILSVRC"


def in_pixels(boxes: np.ndarray, height: int, width: int, resized: pb.ResizeParameter | None = None) -> np.ndarray:
    """Boxes (N, 4) in pixels of an image, of boxes as shares of what the net read; cut at its sides. resized: how the
    image was resized for the net; None: without regard to its ratio."""
    scale = np.array([width, height] * 2, boxes.dtype)
    if resized is None or resized.resize_mode == pb.ResizeParameter.WARP or not (resized.height and resized.width):
        return box_arithmetic.clip(boxes) * scale
    if resized.resize_mode == pb.ResizeParameter.FIT_SMALL_SIZE:
        if not (resized.height_scale and resized.width_scale):
            return box_arithmetic.clip(boxes) * scale
        scale = np.array([resized.width_scale, resized.height_scale] * 2, boxes.dtype)
        return box_arithmetic.clip(boxes * scale, width, height)
    whole, ratio = resized.width / resized.height, width / height
    margin = [0.0, (1 - whole / ratio) / 2] if ratio > whole else [(1 - ratio / whole) / 2, 0.0]
    region = np.array([*margin, *(1 - m for m in margin)], boxes.dtype)
    return box_arithmetic.clip((boxes - np.tile(region[:2], 2)) / np.tile(region[2:] - region[:2], 2)) * scale


class Saving:
    """Collects the detections of images in the order of name_size_file; after each num_test_image images it writes the
    files of output_format into output_directory and starts again.

    resolve: finds a file that a prototxt names. Errors: files that cannot be read or written, an unknown format, a
    class without name.
    """

    def __init__(self, param: pb.SaveOutputParameter, locate: Locator, resolve: Callable[[str, Locator], Path]):
        self._locate, self._param = locate, param
        for name in ("label_map_file", "name_size_file"):
            if not getattr(param, name):
                raise locate.error(f"output_directory without {name}", "output_directory")
        if param.output_format not in FORMATS:
            expected = ", ".join(FORMATS)
            raise locate.error("unknown output_format", "output_format", expected=expected, found=param.output_format)
        self._names = read_label_map(resolve(param.label_map_file, locate), locate("label_map_file"))
        self._images = read_sizes(resolve(param.name_size_file, locate), locate("name_size_file"))
        self._count = param.num_test_image if param.HasField("num_test_image") else len(self._images)
        if not 0 < self._count <= len(self._images):
            expected = f"1 to {len(self._images)}, the lines of name_size_file"
            raise locate.error("wrong num_test_image", "num_test_image", expected=expected, found=self._count)
        self._position = 0
        self._boxes: list[tuple[str, int, float, list[float]]] = []

    def add(self, rows: np.ndarray) -> None:
        """The rows (D, 7) of the next image, as DetectionOutput makes them."""
        name, (height, width) = self._images[self._position]
        resized = self._param.resize_param if self._param.HasField("resize_param") else None
        corners = in_pixels(rows[:, 3:7].astype(float), height, width, resized)
        for row, (left, top, right, bottom) in zip(rows, corners.tolist(), strict=True):
            label = int(row[1])
            if label not in self._names:
                raise self._locate.error(f"class {label} has no name in the label map", "label_map_file")
            sides = [round(v * 100) / 100 if math.isfinite(v) else 0.0 for v in (left, top, right - left, bottom - top)]
            self._boxes.append((name, label, float(row[2]), sides))
        self._position += 1
        if self._position == self._count:
            self._write()
            self._position, self._boxes = 0, []

    def _write(self) -> None:
        folder, prefix = Path(self._param.output_directory), self._param.output_name_prefix
        try:
            for name, text in self._files():
                file = folder / f"{prefix}{name}"
                with roots.folder(file.parent, make=True) as opened:
                    draft = opened / f".{file.name}.draft"
                    roots.write(draft, text)
                    os.replace(draft, opened / file.name)
        except OSError as mistake:
            what = f"cannot write detections into {folder}: {mistake.strerror}"
            raise self._locate.error(what, "output_directory") from None

    def _files(self) -> list[tuple[str, str]]:
        """Name and text of each file."""
        if self._param.output_format == "COCO":
            records = [
                {"image_id": int(i) if i.isdecimal() else i, "category_id": label, "bbox": sides, "score": score}
                for i, label, score, sides in self._boxes
            ]
            return [(".json", json.dumps(records, indent=1) + "\n")]
        if self._param.output_format == "ILSVRC":
            return [(".txt", "".join(self._line(i, s, b, str(label)) for i, label, s, b in self._boxes))]
        return [
            (f"{name}.txt", "".join(self._line(i, s, b) for i, label, s, b in self._boxes if label == known))
            for known, name in self._names.items()
            if known
        ]

    @staticmethod
    def _line(image: str, score: float, sides: list[float], *more: str) -> str:
        left, top, width, height = (int(v) for v in sides)
        return (
            " ".join([image, *more, f"{score:.6g}", str(left), str(top), str(left + width), str(top + height)]) + "\n"
        )
