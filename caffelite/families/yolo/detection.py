"""The detections of YOLO's nets, and which of them are right."""

import numpy as np

from ... import caffelite_pb2 as pb
from ...detection import boxes, precision
from ...layers.base import require
from ...layers.base.detection_base import DetectingLayer, DetectionJudge
from ...layers.base.layer import Shape, register
from ...layers.base.state import Varying
from . import grids


class YoloOutput(Varying, DetectingLayer):
    """The boxes of grids of predictions: (1, 1, M, 7), rows of image, class + 1, confidence, xmin, ymin, xmax, ymax.

    M depends on the data; until the first pass it is the number of predictions. Where nothing is found there is one row
    for each image, its index followed by -1.
    """

    bottoms = (1, None)
    differentiable = False
    requires_host = True

    def anchors(self, index: int) -> np.ndarray:
        """The widths and heights (A, 2) of the anchors of a bottom, as shares of its image."""
        raise NotImplementedError

    def boxes(self, predictions: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Boxes (N, M, 4) and the confidences (N, M, K) of their classes, of predictions (N, A, 5 + K, H, W)."""
        raise NotImplementedError

    @property
    def detected_classes(self) -> int:
        """The classes of detections, with the background, class 0."""
        return self.p.num_classes + 1

    def numbers(self) -> int:
        """The numbers of a prediction."""
        return 5 + self.p.num_classes

    def setup(self) -> None:
        require.positive(self, "num_classes")
        require.positive(self, "num_box", meaning="the anchors of a cell")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        count, self.grids = 0, []
        for i, shape in enumerate(bottoms):
            channels = self.p.num_box * self.numbers()
            if len(shape) != 4 or shape[1] != channels or shape[0] != bottoms[0][0]:
                expected = f"{[bottoms[0][0] if bottoms[0] else 'N', channels, 'H', 'W']}: {self.p.num_box} predictions"
                raise self.bottom_error(i, "does not fit", expected=expected, found=f"shape {list(shape)}")
            n, _, h, w = shape
            self.grids.append((n, self.p.num_box, self.numbers(), h, w))
            count += n * self.p.num_box * h * w
        if self.p.nms_threshold > 1:  # nothing is suppressed: a box can stay for each class
            count *= self.p.num_classes
        self.sizes = [self.anchors(i) / np.array([g[4], g[3]]) for i, g in enumerate(self.grids)]
        self.batch = bottoms[0][0]
        return [(1, 1, max(count, self.batch), 7)]

    def forward(self, x: list, y: list) -> None:
        outputs = [
            self.boxes(self.dev.download(array).reshape(grid).astype(float), sizes)
            for array, grid, sizes in zip(x, self.grids, self.sizes, strict=True)
        ]
        boxes, scores = (np.concatenate(parts, 1) for parts in zip(*outputs, strict=True))
        detections = [
            grids.detections(b, s, self.p.confidence_threshold, self.p.nms_threshold, self.inclusive)
            for b, s in zip(boxes, scores, strict=True)
        ]
        rows = np.concatenate([np.column_stack([np.full(len(k), i), k]) for i, k in enumerate(detections)])
        if not len(rows):
            rows = np.column_stack([np.arange(self.batch), np.full((self.batch, 6), -1.0)])
        self.write_tops(y, [rows.reshape(1, 1, -1, 7)])

    inclusive = False  # whether a confidence of the threshold itself counts


@register
class YoloDetectionOutput(YoloOutput):
    """The boxes of YOLOv2: box center (cell + σ(x)) / grid, size e^x · anchor / grid; confidence σ(object) · the
    largest of softmax(classes).

    bottoms (N, C, H, W), grids of one image, C = A·(5 + K), A = num_box (5), K = num_classes (20); top (1, 1, M, 7),
    see YoloOutput. A box stays where its confidence is at least confidence_threshold (0.01) and its IoU with each
    better box of its image, of any class, is below nms_threshold (0.45). biases: sizes of the anchors in cells. Errors:
    other
    channels, missing biases, coords other than 4. As in eric612/MobileNet-YOLO,
    src/caffe/layers/yolo_detection_output_layer.cpp, which treats a batch as one image; here each image has its own
    boxes.
    """

    field = "yolo_detection_output_param"
    inclusive = True

    def setup(self) -> None:
        super().setup()
        require.value(self, "coords", self.p.coords == 4, 4)

    def anchors(self, index: int) -> np.ndarray:
        return grids.anchor_sizes(self, self.p.num_box)[: self.p.num_box]

    def boxes(self, predictions: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        corners = grids.corners(grids.boxes(predictions, anchors))
        scores = grids.sigmoid(predictions[:, :, 4:5]) * grids.softmax(predictions[:, :, 5:])
        best = scores == scores.max(2, keepdims=True)
        first = best & (np.cumsum(best, 2) == 1)  # a box has one class, the first of equals
        return grids.rows(corners), grids.rows(np.where(first, scores, -np.inf))


@register
class Yolov3DetectionOutput(YoloOutput):
    """The boxes of YOLOv3: box center (cell + σ(x)) / grid, size e^x · anchor / image; confidence σ(object) · σ(class).

    bottoms (N, C, H, W), one for each of the mask_group_num (2) grids, C = A·(5 + K), A = num_box (3), K = num_classes
    (20); top (1, 1, M, 7), see YoloOutput. A box stays where its confidence is above confidence_threshold (0.01) and
    its IoU with each better box of its image, of any class, is below nms_threshold (0.45). biases: sizes of all anchors
    in pixels; mask: those of each grid; anchors_scale: the pixels of a cell of each grid. gaussian_box: 8 numbers for a
    box, each coordinate with the σ of its deviation; the confidence is multiplied by 1 - the mean of these. Errors:
    other channels, missing biases, masks or scales. As in eric612/MobileNet-YOLO,
    src/caffe/layers/yolov3_detection_output_layer.cpp, which treats a batch as one image; here each image has its own
    boxes.
    """

    field = "yolov3_detection_output_param"

    def numbers(self) -> int:
        return 5 + 4 * self.p.gaussian_box + self.p.num_classes

    def setup(self) -> None:
        super().setup()
        p, grids = self.p, len(self.spec.bottom)
        if p.mask_group_num != grids:
            raise self.error("a grid for each bottom", "mask_group_num", expected=grids, found=p.mask_group_num)
        for name, least in (("mask", grids * p.num_box), ("anchors_scale", grids)):
            if len(getattr(p, name)) < least:
                raise self.error(f"too few of {name}", name, expected=f"{least} values", found=len(getattr(p, name)))

    def anchors(self, index: int) -> np.ndarray:
        p, group = self.p, len(self.p.mask) // self.p.mask_group_num
        own = p.mask[index * group : index * group + p.num_box]
        return grids.anchor_sizes(self, max(own) + 1)[list(own)] / p.anchors_scale[index]

    def boxes(self, predictions: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        certain: np.ndarray | float
        if self.p.gaussian_box:
            certain, first = 1 - grids.sigmoid(predictions[:, :, 1:8:2]).mean(2, keepdims=True), 9
            corners = predictions[:, :, 0:8:2]
        else:
            certain, first = 1.0, 5
            corners = predictions[:, :, :4]
        objects, classes = predictions[:, :, first - 1 : first], predictions[:, :, first:]
        scores = certain * grids.sigmoid(objects) * grids.sigmoid(classes)
        return grids.rows(grids.corners(grids.boxes(corners, anchors))), grids.rows(scores)


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
        require.positive(self, "side", "num_class", "num_object")
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
