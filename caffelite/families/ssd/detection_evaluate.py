"""DetectionEvaluate: which detections are right."""

from __future__ import annotations

import numpy as np

from ...layers.detection_base import DetectionEvaluation
from ...layers.layer import Shape, register


@register
class DetectionEvaluate(DetectionEvaluation):
    """Which detections in images (N, C, H, W) are right: detections (1, 1, D, 7) as DetectionOutput makes them, objects
    (1, 1, G, 8) as MultiBoxLoss reads them → (1, 1, C - 1 + D, 5).

    First a row (-1, class, objects, -1, -1) for each class, then (item, class, score, right, wrong) for each detection;
    both are 0 where it finds a difficult object and evaluate_difficult_gt is false. A detection is right if the object
    of its class that it overlaps most is overlapped by overlap_threshold (default 0.5) or more and was not found by one
    of a higher score. As a net's output in a test it is reported as one number, the mean average precision over all
    batches. With name_size_file boxes are compared in pixels. It runs on the host. Errors: no num_classes, a label that
    is no class of objects. Source: weiliu89/caffe (branch ssd) src/caffe/layers/detection_evaluate_layer.cpp.
    """

    bottoms = (2, 2)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, width in enumerate((7, 8)):
            if len(bottoms[i]) != 4 or bottoms[i][:2] != (1, 1) or bottoms[i][3] != width:
                raise self.bottom_error(i, "does not fit", expected=f"1×1×D×{width}", found=list(bottoms[i]))
        return [(1, 1, len(self.labels) + bottoms[0][2], 5)]

    @staticmethod
    def ssd_rows(detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections (D, 7) and objects (G, 8) in the columns above, of the values of the bottoms."""
        return detections.reshape(-1, 7), known.reshape(-1, 8)

    def judged_items(self, detections: np.ndarray) -> np.ndarray:
        """The images of detections (D, 7), in ascending order."""
        return np.unique(detections[detections[:, 1] != -1, 0])
