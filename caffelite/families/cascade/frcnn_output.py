"""FrcnnOutput: what a stage of a cascade finds."""

from __future__ import annotations

import math

import numpy as np

from ...detection import boxes
from ...detection.saving import Saving
from ...layers import require
from ...layers.layer import Layer, Shape, register
from ...layers.state import Writing
from ...layers.varying import Varying
from ...prototxt import resolve
from . import stages
from .offsets import check_boxes, check_nms_type, normalisation

COLUMNS = 7  # image, x1, y1, x2, y2, class, score


@register
class FrcnnOutput(Writing, Varying, Layer):
    """The objects that a stage of a cascade finds in an image: probabilities (R, K), offsets (R, W), boxes (R, 5) or
    (R, 6), image, x1, y1, x2, y2, score, and sizes (1, 2), height and width → (D + 1, 7), rows image, x1, y1, x2, y2,
    class, probability, in pixels.

    The first row is (0, -1, …). Offsets · bbox_std + bbox_mean of bbox_reg_param move the boxes; W is 4 · K, or 8,
    those of background first, where cls_aware is false. Of each class but 0 boxes of conf_thr (0) or more enter
    non-maximum suppression by iou_thr (0.5) and nms_type; the max_det_num best stay, 0: all. D depends on the data. NaN
    is never detected. Files are written where save_output_param names a folder. No gradients. Errors: other shapes,
    boxes of other images than 0. Source: zhaoweicai/cascade-rcnn src/caffe/layers/frcnn_output_layer.cpp.
    """

    field = "frcnn_output_param"
    bottoms = (4, 4)
    constant_bottoms = frozenset(range(4))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        check_nms_type(self)
        for name in ("conf_thr", "iou_thr"):
            require.value(self, name, math.isfinite(getattr(self.p, name)), "a finite number")
        self.mean, self.deviation = normalisation(self)
        self.writes = bool(self.p.save_output_param.output_directory)
        self._saving: Saving | None = None

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        scores, offsets, rois, sizes = bottoms
        self.classes = math.prod(scores[1:])
        require.fits(self, bottoms, 0, scores and self.classes >= 2, "R×classes, 2 or more")
        self.rois = scores[0]
        width = 4 * self.classes if self.spec.bbox_reg_param.cls_aware else 8
        if offsets[:1] != scores[:1] or math.prod(offsets[1:]) != width:
            raise self.bottom_error(1, "does not fit", expected=f"{self.rois}×{width}", found=list(offsets))
        if math.prod(rois[1:]) != 6:
            check_boxes(self, rois, 2)
        require.fits(self, bottoms, 2, rois[:1] == scores[:1], f"{self.rois} boxes")
        require.fits(self, bottoms, 3, math.prod(sizes) == 2, "1×2: height, width")
        self.columns, most = width // 4, self.rois * (self.classes - 1)
        self.count = 1 + (min(most, self.p.max_det_num) if self.p.max_det_num else most)
        return [(self.count, COLUMNS)]

    def forward(self, x: list, y: list) -> None:
        scores, offsets, rois, sizes = (self.dev.download(array).astype(float) for array in x)
        scores, rois, (height, width) = scores.reshape(self.rois, -1), rois.reshape(self.rois, -1), sizes.reshape(2)
        if (rois[:, 0] != 0).any():
            raise self.error(f'bottom "{self.spec.bottom[2]}" has boxes of several images', expected="image 0")
        moves = offsets.reshape(self.rois, self.columns, 4) * self.deviation + self.mean
        moved = stages.decode_boxes(moves, rois[:, None, 1:5])
        with np.errstate(invalid="ignore"):
            moved = np.concatenate([np.maximum(moved[..., :2], 0), np.minimum(moved[..., 2:], (width, height))], -1)
        detections = self._detections(scores, moved)
        if self.writes:
            self._save(detections, height, width)
        rows = np.concatenate([[[0.0, *[-1.0] * (COLUMNS - 1)]], detections])
        if len(rows) != self.count:
            self.count = len(rows)
            y = self.resize([(self.count, COLUMNS)])
        self.dev.upload(y[0], rows.reshape(y[0].shape))

    def _detections(self, scores: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """The rows (D, 7) by class and falling probability. moved: (R, 2 or K, 4)."""
        parts = [np.zeros((0, COLUMNS))]
        for label in range(1, self.classes):
            mine = moved[:, min(label, self.columns - 1)]
            usable = np.where(np.isfinite(mine).all(1), scores[:, label], np.nan)
            order = boxes.by_score(usable, above=np.nextafter(self.p.conf_thr, -np.inf))
            stays = order[stages.suppress(mine[order], self.p.iou_thr, self.p.nms_type, True)]
            head, tail = np.zeros(len(stays)), np.full(len(stays), label)
            parts.append(np.column_stack([head, mine[stays], tail, scores[stays, label]]))
        rows, most = np.concatenate(parts), self.p.max_det_num
        if 0 < most < len(rows):
            rows = rows[np.sort(np.argsort(-rows[:, 6], kind="stable")[:most])]
        return rows

    def _save(self, detections: np.ndarray, height: float, width: float) -> None:
        if self._saving is None:
            self._saving = Saving(self.p.save_output_param, self.locate.at(self.field, "save_output_param"), resolve)
        corners = detections[:, 1:5] / ([width, height] * 2)
        self._saving.add(np.column_stack([detections[:, 0], detections[:, 5:], corners]))
