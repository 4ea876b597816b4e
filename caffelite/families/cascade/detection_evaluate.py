"""DetectionEvaluate of cascades."""

import math

import numpy as np

from ...layers.base import require
from ...layers.base.detection_base import DetectionEvaluation
from ...layers.base.layer import Shape, register_variant


@register_variant(lambda spec: len(spec.bottom) > 2)
class CascadeDetectionEvaluate(DetectionEvaluation):
    """The same for cascades: detections (D, 7), image, x1, y1, x2, y2, class, score, objects (G, 8), image, x1, y1, x2,
    y2, class, ignored, difficult, and sizes (N, 2) of the images, height and width → (C - 1 + D, 5). Boxes are scaled
    from these sizes to those in name_size_file. Source: zhaoweicai/cascade-rcnn
    src/caffe/layers/detection_evaluate_layer.cpp.
    """

    type = "DetectionEvaluate"
    bottoms = (3, 3)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, (name, width) in enumerate((("D", 7), ("G", 8), ("N", 2))):
            require.fits(self, bottoms, i, bottoms[i] and math.prod(bottoms[i][1:]) == width, f"{name}×{width}")
        return [(len(self.labels) + bottoms[0][0], 5)]

    @staticmethod
    def ssd_rows(detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Detections and objects in the columns of ``DetectionEvaluate``."""
        return detections.reshape(-1, 7)[:, [0, 5, 6, 1, 2, 3, 4]], known.reshape(-1, 8)[:, [0, 5, 6, 1, 2, 3, 4, 7]]

    def judged_items(self, detections: np.ndarray) -> np.ndarray:
        """The images of all rows: FrcnnOutput writes one for each image."""
        return np.unique(detections[detections[:, 0] != -1, 0])

    def forward(self, x: list, y: list) -> None:
        self._net_sizes = self.dev.download(x[2]).reshape(-1, 2)
        super().forward(x, y)

    def in_pixels(self, item: int, detections: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        if not self._sizes:
            return detections, known, True
        if not 0 <= item < len(self._net_sizes):
            what = f'has a detection of image {item}, bottom "{self.spec.bottom[2]}" has no size of it'
            raise self.bottom_error(0, what, expected=f"0 to {len(self._net_sizes) - 1}")
        height, width = np.array(self.next_size()) / self._net_sizes[item]
        scale = np.array([width, height] * 2, detections.dtype)
        detections, known = detections.copy(), known.copy()
        for rows in (detections, known):
            rows[:, 3:7] *= scale
        return detections, known, True
