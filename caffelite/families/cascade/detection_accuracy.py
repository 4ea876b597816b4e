"""DetectionAccuracy and DetectionGroupAccuracy: accuracies of maps."""

from __future__ import annotations

import numpy as np

from ...layers import require
from ...layers.layer import Shape, register
from . import field_maps, stages
from .field_layer import FieldLayer, Maps


class FieldAccuracy(FieldLayer):
    """Scores of a batch of maps; -1 where there is nothing to count."""

    tops = (1, 2)
    differentiable = divisible_axes = False
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
        accuracies = [right[cells].mean() if cells.any() else -1.0 for cells in (counted, objects)]
        self.dev.upload(y[0], np.array(accuracies).reshape(1, 1, 1, 2))
        if len(y) > 1:
            self.dev.upload(y[1], np.array(self._overlap(maps, objects)).reshape(1, 1, 1, 1))

    def _overlap(self, maps: Maps, objects: np.ndarray) -> float:
        """The mean IoU of predicted and true boxes."""
        normal, ratios = (self.deviation, self.mean), (self.p.field_whr, self.p.field_xyr)
        overlaps = []
        for i, field in enumerate(self.fields_of_maps(len(objects))):
            indices = objects[i].reshape(-1)
            anchor = (field.width, field.height)
            boxes = stages.decode_map(maps.offsets[i], anchor, field.stride, ratios, normal, False)[indices]
            middle, sides = np.split(maps.targets[i].reshape(4, -1).T[indices], 2, axis=1)
            true = np.concatenate([middle - sides / 2, middle + sides / 2], 1)
            overlaps.append(field_maps.overlaps_of_pairs(boxes, true, self.least_side))
        values = np.concatenate(overlaps)
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
        require.value(self, "top_k", 1 <= self.p.top_k <= self.p.cls_num, f"1 to {self.p.cls_num}")


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
