"""EvalDetection: which of the boxes of YOLO's grid are right."""

from __future__ import annotations

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes, precision
from ...layers import require
from ...layers.detection_base import DetectionJudge
from ...layers.layer import Shape, register
from . import grids

LEAST_SCORE = 0.005  # Darknet's
SCORES = pb.EvalDetectionParameter


@register
class EvalDetection(DetectionJudge):
    """Which boxes of YOLO's grid are right: predictions (N, A·(5 + K), S, S), as of RegionLoss, and objects
    (1, 1, G, 8) → (N, K + S²·A·4): the number of objects of each class, then rows (class, score, right, wrong); the
    other rows are 0.

    A third bottom, the images, is not read. S = side, K = num_class, A = num_object; ``biases`` has width and height of
    each anchor, in cells. A box has its likeliest class; its score is the probability of an object (OBJ), of the class
    (PROB), or the product (MULTIPLY). A box is dropped if its overlap with a better one, of any class, is nms or more
    (below 0: none is), or its score below 0.005. It is right if the object of its class that it overlaps most is
    overlapped by threshold or more, and was not found by a better box. As a net's output in a test it is reported as
    one number, the mean average precision over all batches. It runs on the host. Errors: shapes that do not fit, a
    label that is no class. Source: intel/caffe src/caffe/layers/eval_detection_layer.cpp, which does not count boxes of
    too little overlap as wrong, unless the image has no object of their class.
    """

    field = "eval_detection_param"
    bottoms = (2, 3)
    differentiable = False
    requires_host = True
    ap_version = "Integral"

    def setup(self) -> None:
        p = self.p
        for name in ("side", "num_class", "num_object"):
            require.positive(self, name)
        require.value(self, "threshold", p.threshold > 0, "above 0")
        sizes = np.array(p.biases, float)
        if len(sizes) != 2 * p.num_object or not (sizes > 0).all():
            expected = f"{2 * p.num_object} numbers above 0: width and height of each anchor"
            found = f"{len(sizes)} from {sizes.min():g}" if len(sizes) else "none"
            raise self.error("bad biases", "biases", *([0] if len(sizes) else []), expected=expected, found=found)
        self.anchors = sizes.reshape(-1, 2) / p.side

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        p, shape = self.p, bottoms[0]
        channels = p.num_object * (p.num_class + 5)
        if len(shape) != 4 or shape[1:] != (channels, p.side, p.side):
            raise self.bottom_error(0, "does not fit", expected=f"N×{channels}×{p.side}×{p.side}", found=list(shape))
        if len(bottoms[1]) != 4 or bottoms[1][:2] != (1, 1) or bottoms[1][3] != 8:
            raise self.bottom_error(1, "has no objects", expected="1×1×G×8", found=list(bottoms[1]))
        self.grid = shape[0], p.num_object, p.num_class + 5, p.side, p.side
        return [(shape[0], p.num_class + p.side**2 * p.num_object * 4)]

    def forward(self, x: list, y: list) -> None:
        n, classes = self.grid[0], self.p.num_class
        predictions = self.dev.download(x[0]).reshape(self.grid).astype(float)
        known = grids.truths(self.dev.download(x[1]), n)
        out = np.zeros((n, classes + self.p.side**2 * self.p.num_object * 4))
        for i, (detections, objects) in enumerate(zip(self._boxes(predictions), known, strict=True)):
            self._check(i, objects)
            out[i, :classes] = np.bincount(objects[:, 0].astype(int), minlength=classes)
            rows = self._judged(detections, objects)
            out[i, classes : classes + rows.size] = rows.ravel()
        self.dev.upload(y[0], out)

    def _check(self, item: int, objects: np.ndarray) -> None:
        label = objects[:, 0]
        bad = ~((label >= 0) & (label < self.p.num_class) & (label == np.floor(label)))
        if bad.any():
            what = f"has a label that is no class of objects (item {item} of the batch)"
            expected = f"an integer from 1 to {self.p.num_class}"
            raise self.bottom_error(1, what, expected=expected, found=f"{label[bad][0] + 1:g}")

    def _boxes(self, predictions: np.ndarray) -> list[np.ndarray]:
        """Of each image, rows (M, 6) of class, score and corners, the best first."""
        corners = grids.rows(grids.corners(grids.boxes(predictions, self.anchors)))
        shares = grids.rows(grids.softmax(predictions[:, :, 5:]))
        score = grids.rows(grids.sigmoid(predictions[:, :, 4:5]))[..., 0]
        if self.p.score_type != SCORES.OBJ:
            score = shares.max(2) * (score if self.p.score_type == SCORES.MULTIPLY else 1)
        overlap = np.nextafter(self.p.nms, -1) if self.p.nms >= 0 else np.inf
        detections = []
        for own, likely, one in zip(corners, shares.argmax(2), score, strict=True):
            usable = np.flatnonzero(np.isfinite(own).all(1) & np.isfinite(one))
            stays = usable[boxes.suppress(own[usable], one[usable], float(overlap))]
            rows = np.column_stack([likely[stays], one[stays], own[stays]])
            detections.append(rows[rows[:, 1] >= LEAST_SCORE])
        return detections

    def _judged(self, detections: np.ndarray, objects: np.ndarray) -> np.ndarray:
        """Rows (M, 4) of class, score, right and wrong, by class."""
        parts, known = [np.zeros((0, 4))], boxes.from_centers(objects[:, 1:3], objects[:, 3:5])
        for label in np.unique(detections[:, 0]):
            mine, truths = detections[detections[:, 0] == label], known[objects[:, 0] == label]
            easy = np.zeros(len(truths), bool)
            right, _ = precision.judge(mine[:, 2:], mine[:, 1], truths, easy, self.p.threshold)
            parts.append(np.column_stack([mine[:, :2], right, ~right]))
        return np.concatenate(parts)

    def judged_rows(self, values: np.ndarray) -> np.ndarray:
        """The values of the top as rows (R, 5) of a DetectionEvaluate."""
        classes, table = self.p.num_class, values.reshape(self.grid[0], -1)
        counts = [(-1, label, count, -1, -1) for label, count in enumerate(table[:, :classes].sum(0))]
        judged = table[:, classes:].reshape(-1, 4)
        judged = judged[judged[:, 2:].any(1)]
        return np.concatenate([np.array(counts, float), np.column_stack([np.zeros(len(judged)), judged])])
