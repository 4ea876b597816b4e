"""RoIDetectionOutput: the objects that a region detector finds."""

import math

import numpy as np

from ...detection import boxes
from ...layers.base import require
from ...layers.base.detection_base import DetectingLayer
from ...layers.base.layer import Shape, register
from ...layers.base.state import Varying
from .proposal import MEAN, STD, four


@register
class RoIDetectionOutput(Varying, DetectingLayer):
    """The objects in images: boxes (R, 5), image, x1, y1, x2, y2, probabilities (R, K), offsets (R, 4·K), or (R, 8) for
    all classes, and im_info (N, 3) → (1, 1, D, 7), rows (image, class, score, xmin, ymin, xmax, ymax), corners as
    shares of the image.

    Offsets times bbox_std plus bbox_mean move the boxes. Of each class but 0 the boxes of confidence_threshold or more
    enter non-maximum suppression by nms_threshold; the keep_top_k best of an image stay. D varies, and is R · (K - 1)
    at most; without any object there is one row (0, -1, …). NaN is never detected. No gradients. The rows are those of
    DetectionOutput. Source: rbgirshick/py-faster-rcnn lib/fast_rcnn/test.py.
    """

    field = "roi_detection_output_param"
    bottoms = (4, 4)
    constant_bottoms = frozenset(range(4))
    differentiable = False
    requires_host = True

    def setup(self) -> None:
        require.shares(self, "nms_threshold", "confidence_threshold")
        require.positive(self, "keep_top_k")
        self.mean, self.std = np.array(four(self, "bbox_mean", MEAN)), np.array(four(self, "bbox_std", STD))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        rois, scores, offsets, info = bottoms
        require.boxes(self, bottoms, 0)
        self.rois, self.classes = rois[0], math.prod(scores[1:])
        require.fits(self, bottoms, 1, scores[:1] == rois[:1] and self.classes >= 2, f"{rois[0]}×classes")
        if offsets[:1] != rois[:1] or math.prod(offsets[1:]) not in (8, 4 * self.classes):
            expected = f"{rois[0]}×{4 * self.classes}, or {rois[0]}×8"
            raise self.bottom_error(2, "does not fit", expected=expected, found=list(offsets))
        require.fits(self, bottoms, 3, info and math.prod(info[1:]) >= 3, "N×3: height, width, scale")
        self.columns, self.images = math.prod(offsets[1:]) // 4, info[0]
        return [(1, 1, max(1, min(self.images * self.p.keep_top_k, self.rois * (self.classes - 1))), 7)]

    @property
    def detected_classes(self) -> int:
        """The classes of detections, with the background, class 0."""
        return self.classes

    def forward(self, x: list, y: list) -> None:
        rois, scores, offsets, info = (self.dev.download(blob) for blob in x)
        rois, scores = rois.reshape(self.rois, 5), scores.reshape(self.rois, self.classes)
        moves = offsets.reshape(self.rois, self.columns, 4) * self.std + self.mean
        detections = []
        for image, size in enumerate(info.reshape(self.images, -1)):
            mine = rois[:, 0] == image
            detections.append(self._image(image, rois[mine, 1:], scores[mine], moves[mine], *size[:2]))
        rows = np.concatenate(detections)
        if not len(rows):
            rows = np.array([[0, -1, 0, 0, 0, 0, 0]])
        self.write_tops(y, [rows[None, None]])

    def _image(
        self, image: int, rois: np.ndarray, scores: np.ndarray, moves: np.ndarray, height: float, width: float
    ) -> np.ndarray:
        parts = [np.zeros((0, 7))]
        most = np.array([width, height] * 2)
        for label in range(1, self.classes):
            chosen = np.flatnonzero(scores[:, label] >= self.p.confidence_threshold)
            chosen = chosen[np.argsort(-scores[chosen, label], kind="stable")]
            with np.errstate(invalid="ignore", over="ignore"):
                corners = boxes.rcnn_decode(
                    rois[chosen].astype(np.float64), moves[chosen, min(label, self.columns - 1)]
                )
                corners = np.maximum(np.minimum(corners, most), 0)
            finite = np.isfinite(corners).all(1)
            chosen, corners = chosen[finite], corners[finite]
            stays = boxes.rcnn_suppress(corners, self.p.nms_threshold, len(corners))
            rows = np.zeros((len(stays), 7))
            rows[:, 0], rows[:, 1], rows[:, 2] = image, label, scores[chosen[stays], label]
            rows[:, 3:] = corners[stays] / np.maximum(most, 1)  # 0 where zeros replace data
            parts.append(rows)
        every = np.concatenate(parts)
        if len(every) > self.p.keep_top_k:
            every = every[np.sort(np.argsort(-every[:, 2], kind="stable")[: self.p.keep_top_k])]
        return every
