"""BboxAccuracy: how well boxes overlap their objects."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Layer, Shape, register
from . import stages
from .offsets import check_boxes, normalisation


@register
class BboxAccuracy(Layer):
    """The mean overlap of moved boxes with their objects: offsets (R, W), boxes (R, 5), image, x1, y1, x2, y2, matched
    objects (R, 6), label, x1, y1, x2, y2, overlap → the mean overlap of the moved boxes, and optionally that of the
    boxes, (1, 1, 1, 1) each; -1 without objects.

    Rows of label 0 and those that already overlap by more than 0.975 do not count. The offsets of a label are in
    columns 4 · label to 4 · label + 3; W is 8 where bbox_reg_param has cls_aware: false. A box that is not finite
    overlaps nothing. No gradients. Errors: other shapes. Source: zhaoweicai/cascade-rcnn
    src/caffe/layers/bbox_accuracy_layer.cpp.
    """

    field = "bbox_reg_param"
    bottoms, tops = (3, 3), (1, 2)
    constant_bottoms = frozenset(range(3))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        self.mean, self.deviation = normalisation(self)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        offsets, rois, matches = bottoms
        check_boxes(self, rois, 1)
        width = math.prod(offsets[1:])
        if offsets[:1] != rois[:1] or width % 4 or not width or (not self.p.cls_aware and width != 8):
            expected = f"{rois[0]}×{'(4 · classes)' if self.p.cls_aware else 8}"
            raise self.bottom_error(0, "does not fit", expected=expected, found=list(offsets))
        require.fits(self, bottoms, 2, matches[:1] == rois[:1] and math.prod(matches[1:]) >= 6, f"{rois[0]}×6")
        return [(1, 1, 1, 1)] * len(self.spec.top)

    def forward(self, x: list, y: list) -> None:
        offsets, rois, matches = (self.dev.download(array).astype(float).reshape(len(array), -1) for array in x)
        counted = (matches[:, 0] > 0) & ~(matches[:, -1] > stages.MATCHES)
        offsets, rois, matches = offsets[counted], rois[counted, 1:], matches[counted]
        columns = matches[:, 0].astype(int)
        if not self.p.cls_aware:
            columns = np.minimum(columns, 1)
        classes = offsets.shape[1] // 4
        if len(columns) and columns.max() >= classes:
            what = f'a label in bottom "{self.spec.bottom[2]}" is no class'
            raise self.error(what, expected=f"1 to {classes - 1}", found=int(columns.max()))
        moves = offsets.reshape(len(offsets), classes, 4)[np.arange(len(columns)), columns]
        moved = stages.decode_boxes(moves * self.deviation + self.mean, rois)
        for top, predictions in zip(y, (moved, rois), strict=False):
            mean = stages.paired_overlaps(predictions, matches[:, 1:5]).mean() if len(predictions) else -1.0
            self.dev.upload(top, np.full(top.shape, mean, self.dev.dtype))
