"""BboxAccuracy and DecodeBBox: boxes moved by their offsets."""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from ...layers.base.state import Varying
from . import stages
from .stages import normalization


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
        self.mean, self.deviation = normalization(self)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        offsets, rois, matches = bottoms
        require.boxes(self, bottoms, 1)
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
            self.dev.upload(top, np.asarray(mean))


@register
class DecodeBBox(Varying, Layer):
    """The boxes of the next stage: offsets of the class "object" applied to boxes.

    offsets (R, 8), those of background first, boxes (R, 5), rows of image, xmin, ymin, xmax, ymax, and in TRAIN
    optionally matched true boxes (R, C), their IoU last; top (M, 5), M = R in TEST. TRAIN drops boxes whose maximum is
    below their minimum, and those whose IoU is gt_iou_thr (0.95) or more. bbox_reg_param: mean and deviation of
    offsets. Errors: other shapes; no box is left. As in zhaoweicai/mscnn, src/caffe/layers/decode_bbox_layer.cpp
    (also in zhaoweicai/cascade-rcnn).
    """

    field = "decode_bbox_param"
    bottoms = (2, 3)
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        self.mean, self.deviation = normalization(self)
        if len(self.spec.bottom) > 2 and self.phase != pb.TRAIN:
            raise self.error("has true boxes in TEST", "bottom", 2, expected="2 bottoms", outer=True)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        offsets, boxes = bottoms[:2]
        require.boxes(self, bottoms, 1)
        if not offsets or offsets[0] != boxes[0] or math.prod(offsets[1:]) != 8:
            raise self.bottom_error(0, "does not fit", expected=[boxes[0], 8], found=list(offsets))
        require.fits(self, bottoms, 2, len(bottoms) <= 2 or bottoms[2][:1] == boxes[:1], f"{boxes[0]} rows")
        self.trailing = boxes[1:]
        return [boxes]

    def forward(self, x: list, y: list) -> None:
        offsets, boxes = (self.dev.download(array).astype(float).reshape(len(array), -1) for array in x[:2])
        decoded = stages.decode_boxes(offsets[:, 4:] * self.deviation + self.mean, boxes[:, 1:])
        valid = np.ones(len(decoded), bool)
        if self.phase == pb.TRAIN:
            valid &= (decoded[:, :2] <= decoded[:, 2:]).all(1)
            if len(x) > 2:
                valid &= self.dev.download(x[2]).reshape(len(decoded), -1)[:, -1] < self.p.gt_iou_thr
        if not valid.any():
            raise CaffeliteError(f'layer "{self.name}" (DecodeBBox): no box of the batch is left')
        rows = np.column_stack([boxes[:, 0], decoded])[valid]
        self.write_tops(y, [rows.reshape(len(rows), *self.trailing)])
