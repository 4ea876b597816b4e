"""Databases of images with objects, and how resize_param resizes both.

Source: weiliu89/caffe (branch ssd) src/caffe/util/im_transforms.cpp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import Locator
from .augmentation.perturbation import Fields
from .database import Database, Datums
from .draws import Key, key, of_sample, uniform
from .images import MOST_PIXELS, opencv
from .leveldb import LevelDB
from .lmdb_reader import Record
from .samples import Label


@dataclass
class Objects:
    """The objects of an image: boxes (G, 4) as shares of its sides; for each its class, its number among the objects of
    the class, and whether it is difficult (G, 3)."""

    boxes: np.ndarray
    others: np.ndarray

    def selected(self, which: np.ndarray, boxes: np.ndarray) -> Objects:
        """Some of them, with other boxes (of all)."""
        return Objects(boxes[which], self.others[which])


def objects_of(record: pb.AnnotatedDatum) -> Objects:
    """The objects of a record, in its order."""
    rows = [
        (
            *(one.bbox.xmin, one.bbox.ymin, one.bbox.xmax, one.bbox.ymax),
            *(group.group_label, one.instance_id, one.bbox.difficult),
        )
        for group in record.annotation_group
        for one in group.annotation
    ]
    table = np.array(rows, float).reshape(-1, 7)
    return Objects(table[:, :4], table[:, 4:])


def parsed(value: bytes) -> pb.AnnotatedDatum:
    """A record. Errors: ValueError where it is none."""
    from google.protobuf.message import DecodeError

    try:
        record = pb.AnnotatedDatum.FromString(value)
    except DecodeError:
        raise ValueError("not an AnnotatedDatum record") from None
    if not record.HasField("datum"):
        raise ValueError("not an AnnotatedDatum record: it has no datum")
    return record


class _Annotated(Datums):
    """The datums within AnnotatedDatum records."""

    def look(self) -> None:
        if self.length:
            try:
                self.encoded = parsed(next(self.walk(0))[1]).datum.encoded
            except ValueError as mistake:
                raise self.error(0, next(self.walk(0)), str(mistake)) from None
        encoded = self.encoded
        super().look()
        self.encoded = encoded

    def image(self, number: int, content: Record) -> tuple[np.ndarray, Label]:
        try:
            record = parsed(content[1])
        except ValueError as mistake:
            raise self.error(number, content, str(mistake)) from None
        return super().image(number, (content[0], record.datum.SerializeToString()))

    def picture(self, number: int, content: Record) -> bytes | np.ndarray:
        datum = parsed(content[1]).datum
        return datum.data if datum.encoded else self.image(number, content)[0]


class AnnotatedDatabase(_Annotated, Database):
    """The records of an LMDB of AnnotatedDatum."""


class AnnotatedLevelDB(_Annotated, LevelDB):
    """The records of a LevelDB of AnnotatedDatum."""


_R = pb.ResizeParameter
_BORDERS = {_R.CONSTANT: "BORDER_CONSTANT", _R.MIRRORED: "BORDER_REFLECT_101", _R.REPEAT_NEAREST: "BORDER_REPLICATE"}


class Resize:
    """resize_param for images of some channels: ``shape`` is their height and width afterwards.

    draws: whether an interpolation is drawn for each sample; else the first is taken. Errors: no height or width, a
    wrong number of pad_value, FIT_SMALL_SIZE, whose images differ in size.
    """

    def __init__(self, param: pb.ResizeParameter, channels: int, draws: bool, locate: Locator, transform: Key):
        for name in ("height", "width"):
            if not getattr(param, name):
                raise locate.error(f"resize_param without {name}", name, expected="pixels")
        self.shape = param.height, param.width
        if math.prod(self.shape) > MOST_PIXELS:
            raise locate.error("images too large", "height", expected=f"at most {MOST_PIXELS} pixels")
        if param.resize_mode == _R.FIT_SMALL_SIZE:
            remedy = "set WARP or FIT_LARGE_SIZE_AND_PAD"
            raise locate.error("FIT_SMALL_SIZE makes images of several sizes", "resize_mode", remedy=remedy)
        self._pads = param.resize_mode == _R.FIT_LARGE_SIZE_AND_PAD
        self._value = Fields(param, locate, (channels, *self.shape)).values("pad_value")
        self._border = _BORDERS[param.pad_mode]
        modes = list(param.interp_mode) or [_R.LINEAR]
        self._algorithms = [f"INTER_{_R.Interp_mode.Name(mode)}" for mode in (modes if draws else modes[:1])]
        self._key = key(transform[0], transform[1], "resize")
        opencv("resizing images")

    def __call__(self, image: np.ndarray, boxes: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        """An image H×W×C or H×W and its boxes. position: the sample's number in the run."""
        cv2 = opencv("resizing images")
        choice = 0
        if len(self._algorithms) > 1:
            choice = int(uniform(of_sample(self._key, position, 1))[0] * len(self._algorithms))
        algorithm = getattr(cv2, self._algorithms[choice])
        if not self._pads:
            return cv2.resize(image, self.shape[::-1], interpolation=algorithm), boxes
        height, width = self.shape
        ratio = image.shape[1] / image.shape[0]
        wide = ratio > width / height
        inner = (max(1, int(width / ratio)), width) if wide else (height, max(1, int(ratio * height)))
        resized = cv2.resize(image, inner[::-1], interpolation=algorithm)
        top, left = (height - inner[0]) // 2, (width - inner[1]) // 2
        margins = top, height - inner[0] - top, left, width - inner[1] - left
        border = getattr(cv2, self._border)
        padded = cv2.copyMakeBorder(resized, *margins, border, value=self._value)
        scale, shift = np.array([inner[1] / width, inner[0] / height]), np.array([left / width, top / height])
        return padded, boxes * np.tile(scale, 2) + np.tile(shift, 2)
