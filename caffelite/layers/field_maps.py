"""Layers that read maps of fields (MS-CNN, Cascade R-CNN): what they share, and the accuracies."""

from __future__ import annotations

import math

import numpy as np

from ..detection import cascade, field_maps
from ..detection.field_maps import LABEL_CHANNELS, Field
from .cascade import normalisation
from .layer import Layer, Shape, register


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

    def setup(self) -> None:
        p = self.p
        if p.cls_num < 2 or (p.objectness and p.cls_num != 2):
            expected = "2 with objectness" if p.objectness else "2 or more, the background included"
            raise self.error("a bad cls_num", "cls_num", expected=expected, found=p.cls_num)
        if not self.grouped and p.coord_num != 4:
            raise self.error("a bad coord_num", "coord_num", expected=4, found=p.coord_num)
        for name in ("field_whr", "field_xyr"):
            if not 0 < getattr(p, name) < math.inf:
                found = f"{getattr(p, name):g}"
                raise self.error(f"a bad {name}", name, expected="a finite number above 0", found=found)
        if not math.isfinite(p.bg_threshold):
            raise self.error("a bad bg_threshold", "bg_threshold", expected="a finite number")
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
            if list(bottoms[i]) != expected:
                raise self.bottom_error(i, "does not fit", expected=expected, found=list(bottoms[i]))
        self._fault: str | None = None

    def divisible(self, axis: int) -> bool:
        return False

    def backward_reads_bottom(self, index: int) -> bool:
        return False

    backward_reads_top = backward_reads_bottom

    def build(self, dev) -> None:
        """Nothing: the host computes all."""

    def read(self, x: list) -> Maps:
        arrays = [self.dev.download(blob).astype(float) for blob in x]
        classes = self.p.cls_num
        scores, offsets = arrays[:2] if self.grouped else (arrays[0][:, :classes], arrays[0][:, classes:])
        maps = Maps(scores, offsets, arrays[-1], self.ignore_label)
        wrong = maps.restrict(classes, self.p.objectness)
        if wrong is not None and not self._fault:
            blob, last = self.spec.bottom[len(x) - 1], classes - 1
            expected = "0 or more" if self.p.objectness else f"0 to {last}"
            sample, place = divmod(wrong, maps.labels[0].size)
            what = f'a label in bottom "{blob}" is no class (map {sample} of the batch, position {place})'
            self._fault = f"{what}; expected integers {expected}"
        return maps

    def faults(self) -> str | None:
        return self._fault

    def fields_of_maps(self, count: int) -> list[Field]:
        """The field of each of ``count`` maps."""
        return self.fields * (count // len(self.fields))


class FieldAccuracy(FieldLayer):
    """Scores of a batch of maps; -1 where there is nothing to count."""

    tops = (1, 2)
    differentiable = False
    least_side = 0.0  # of an intersection, in pixels

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.check_bottoms(bottoms)
        tops: list[Shape] = [(1, 1, 1, 2), (1, 1, 1, 1)]
        return tops[: len(self.spec.top)]

    def correct(self, maps: Maps) -> np.ndarray:
        """The cells (M, H, W) whose label has one of the highest scores; none with NaN."""
        classes = np.arange(maps.scores.shape[1]).reshape(-1, 1, 1)
        own = np.take_along_axis(maps.scores, maps.labels[:, None], 1)
        before = classes < maps.labels[:, None] if self.grouped else classes > maps.labels[:, None]
        better = (maps.scores > own) | ((maps.scores == own) & before)
        most = 1 if self.grouped else self.p.top_k
        return (better.sum(1) < most) & ~np.isnan(maps.scores).any(1)

    def forward(self, x: list, y: list) -> None:
        maps = self.read(x)
        objects = maps.objects
        counted, right = objects | maps.background(self.p.bg_threshold), self.correct(maps)
        found = [right[cells].mean() if cells.any() else -1.0 for cells in (counted, objects)]
        self.dev.upload(y[0], np.array(found).reshape(1, 1, 1, 2))
        if len(y) > 1:
            self.dev.upload(y[1], np.array(self._overlap(maps, objects)).reshape(1, 1, 1, 1))

    def _overlap(self, maps: Maps, objects: np.ndarray) -> float:
        """The mean IoU of predicted and true boxes."""
        normal, ratios = (self.deviation, self.mean), (self.p.field_whr, self.p.field_xyr)
        found = []
        for i, field in enumerate(self.fields_of_maps(len(objects))):
            places = objects[i].reshape(-1)
            anchor = (field.width, field.height)
            boxes = cascade.decode_map(maps.offsets[i], anchor, field.stride, ratios, normal, False)[places]
            middle, sides = np.split(maps.targets[i].reshape(4, -1).T[places], 2, axis=1)
            true = np.concatenate([middle - sides / 2, middle + sides / 2], 1)
            found.append(field_maps.overlaps_of_pairs(boxes, true, self.least_side))
        values = np.concatenate(found)
        return float(values.mean()) if len(values) else -1.0


@register
class DetectionAccuracy(FieldAccuracy):
    """The shares of correct cells, of all and of those with an object (1, 1, 1, 2), and optionally the mean IoU of
    boxes at cells with an object (1, 1, 1, 1); -1 where there is no such cell.

    x (N, C, H, W) and labels (N, 6, H, W) as in DetectionLoss. A cell is correct if its label is among the top_k
    (1) highest scores, of equal ones the last class. Cells of the background with an IoU of bg_threshold (0.5) or more
    do not count. Offsets are clipped to ±1/field_xyr (4) and the logarithm of field_whr (2). A score that is NaN is
    wrong. As in zhaoweicai/mscnn, src/caffe/layers/detection_accuracy_layer.cpp.
    """

    field = "detection_accuracy_param"
    bottoms = (2, 2)

    def setup(self) -> None:
        super().setup()
        if not 1 <= self.p.top_k <= self.p.cls_num:
            raise self.error("a bad top_k", "top_k", expected=f"1 to {self.p.cls_num}", found=self.p.top_k)


@register
class DetectionGroupAccuracy(FieldAccuracy):
    """As DetectionAccuracy, of a group of fields: scores (N·G, K, H, W), offsets (N·G, 4, H, W), labels
    (N·G, 6, H, W) → (1, 1, 1, 2), (1, 1, 1, 1).

    Of equal scores the first class is predicted. An intersection of less than a pixel in one direction is none. As in
    zhaoweicai/cascade-rcnn, src/caffe/layers/detection_group_accuracy_layer.cpp.
    """

    field = "detection_group_accuracy_param"
    bottoms = (3, 3)
    grouped = True
    least_side = 1.0
