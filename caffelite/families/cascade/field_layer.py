"""Layers that read maps of fields (MS-CNN, Cascade R-CNN): what they share."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Layer, Shape
from .field_maps import LABEL_CHANNELS, Field
from .offsets import normalisation


class Maps:
    """The cells of a batch: scores (M, K, H, W) and offsets (M, 4, H, W) of M maps, float64; the channels of their
    label maps; and which cells have an object, or are background that may be in a loss (M, H, W)."""

    def __init__(self, scores: np.ndarray, offsets: np.ndarray, labels: np.ndarray, ignored: int | None):
        self.scores, self.offsets = scores, offsets
        self.labels, self.targets, self.overlap = labels[:, 0], labels[:, 1:5], labels[:, 5]
        self.counted = np.ones(self.labels.shape, bool) if ignored is None else self.labels != ignored

    def restrict(self, classes: int, objectness: bool) -> int | None:
        """Counts only labels that are classes, of which there is one for all objects with ``objectness``; returns the
        place of the first other one."""
        labels = self.labels
        named = (labels >= 0) & (objectness | (labels < classes)) & (labels == np.floor(labels))
        wrong = np.flatnonzero(self.counted & ~named)
        self.counted &= named
        self.labels = np.where(self.counted, np.minimum(labels, 1) if objectness else labels, 0).astype(int)
        return int(wrong[0]) if len(wrong) else None

    @property
    def objects(self) -> np.ndarray:
        return self.counted & (self.labels > 0)

    def background(self, threshold: float) -> np.ndarray:
        return self.counted & (self.labels == 0) & (self.overlap < threshold)


class FieldLayer(Layer):
    """A layer that reads the predictions and the label map of one field, or of a group of them, on the host.

    Of loss_param only ignore_label acts: cells with this label are not counted. Errors: bad sizes of fields, shapes
    that do not agree, labels that are no classes.
    """

    grouped = False  # whether scores and offsets are bottoms of their own, of several fields
    requires_host = True
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        p = self.p
        if p.cls_num < 2 or (p.objectness and p.cls_num != 2):
            expected = "2 with objectness" if p.objectness else "2 or more, the background included"
            raise self.error("a bad cls_num", "cls_num", expected=expected, found=p.cls_num)
        require.value(self, "coord_num", self.grouped or p.coord_num == 4, 4)
        for name in ("field_whr", "field_xyr"):
            require.value(self, name, 0 < getattr(p, name) < math.inf, "a finite number above 0")
        require.value(self, "bg_threshold", math.isfinite(p.bg_threshold), "a finite number")
        self.fields = self._fields()
        self.mean, self.deviation = (v.reshape(4, 1, 1) for v in normalisation(self))
        param = self.spec.loss_param
        self.ignore_label = param.ignore_label if param.HasField("ignore_label") else None

    def _fields(self) -> list[Field]:
        p, stride = self.p, "stride" if self.grouped else "downsample_rate"
        widths, heights = (p.field_w, p.field_h) if self.grouped else ([p.field_w], [p.field_h])
        if len(widths) != len(heights) or not widths:
            found = f"{len(widths)} and {len(heights)}"
            at = ("field_w", 0) if widths else ("field_w",)
            raise self.error("bad fields", *at, expected="as many field_w as field_h, at least 1", found=found)
        for name, values in (("field_w", widths), ("field_h", heights), (stride, [getattr(p, stride)])):
            if 0 in values:
                at = (name, list(values).index(0)) if self.grouped and name != stride else (name,)
                raise self.error(f"a bad {name}", *at, expected="1 or more", found=0)
        return [Field(*sides, getattr(p, stride)) for sides in zip(widths, heights, strict=True)]

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        """Errors: shapes that do not agree."""
        shape, classes, group = bottoms[0], self.p.cls_num, len(self.fields)
        channels = classes if self.grouped else classes + 4
        if len(shape) != 4 or shape[1] != channels or shape[0] % group:
            batch = f"N·{group}" if self.grouped else "N"
            found = f"shape {list(shape)}"
            raise self.bottom_error(0, "does not fit", expected=f"{batch}×{channels}×H×W", found=found)
        others = [(len(bottoms) - 1, LABEL_CHANNELS)] + [(1, 4)] * self.grouped
        for i, wanted in others:
            expected = [shape[0], wanted, *shape[2:]]
            require.fits(self, bottoms, i, list(bottoms[i]) == expected, expected)
        self._fault: str | None = None

    def read(self, x: list) -> Maps:
        arrays = [self.dev.download(blob).astype(float) for blob in x]
        classes = self.p.cls_num
        scores, offsets = arrays[:2] if self.grouped else (arrays[0][:, :classes], arrays[0][:, classes:])
        maps = Maps(scores, offsets, arrays[-1], self.ignore_label)
        wrong = maps.restrict(classes, self.p.objectness)
        if wrong is not None and not self._fault:
            blob, last = self.spec.bottom[len(x) - 1], classes - 1
            expected = "0 or more" if self.p.objectness else f"0 to {last}"
            sample, position = divmod(wrong, maps.labels[0].size)
            what = f'a label in bottom "{blob}" is no class (map {sample} of the batch, position {position})'
            self._fault = f"{what}; expected integers {expected}"
        return maps

    def faults(self) -> str | None:
        return self._fault

    def fields_of_maps(self, count: int) -> list[Field]:
        """The field of each of ``count`` maps."""
        return self.fields * (count // len(self.fields))
