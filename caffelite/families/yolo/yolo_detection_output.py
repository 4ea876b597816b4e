"""The boxes that YOLO finds: YoloDetectionOutput (version 2) and Yolov3DetectionOutput."""

from __future__ import annotations

import numpy as np

from ...layers import require
from ...layers.detection_base import DetectingLayer
from ...layers.layer import Shape, register
from ...layers.varying import Varying
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

    def anchor_sizes(self, indices: list[int] | range) -> np.ndarray:
        """Widths and heights (A, 2) from ``biases``. Errors: an index without a size, sizes of 0 or less."""
        sizes, least = np.array(self.p.biases, float), 2 * (max(indices) + 1)
        if len(sizes) < least or not (sizes > 0).all():
            found = f"{len(sizes)} values from {sizes.min():g}" if len(sizes) else "none"
            field = ("biases", 0) if len(sizes) else ("biases",)
            raise self.error("bad biases", *field, expected=f"{least} sizes above 0", found=found)
        return sizes[: len(sizes) // 2 * 2].reshape(-1, 2)[list(indices)]

    def setup(self) -> None:
        require.positive(self, "num_classes")
        require.positive(self, "num_box", "the anchors of a cell")

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
        if y[0].shape != (1, 1, len(rows), 7):
            y = self.resize([(1, 1, len(rows), 7)])
        self.dev.upload(y[0], rows.reshape(y[0].shape))

    inclusive = False  # whether a confidence of the threshold itself counts


@register
class YoloDetectionOutput(YoloOutput):
    """The boxes of YOLOv2: box centre (cell + σ(x)) / grid, size e^x · anchor / grid; confidence σ(object) · the
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
        return self.anchor_sizes(range(self.p.num_box))

    def boxes(self, predictions: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        corners = grids.corners(grids.boxes(predictions, anchors))
        scores = grids.sigmoid(predictions[:, :, 4:5]) * grids.softmax(predictions[:, :, 5:])
        best = scores == scores.max(2, keepdims=True)
        first = best & (np.cumsum(best, 2) == 1)  # a box has one class, the first of equals
        return grids.rows(corners), grids.rows(np.where(first, scores, -np.inf))


@register
class Yolov3DetectionOutput(YoloOutput):
    """The boxes of YOLOv3: box centre (cell + σ(x)) / grid, size e^x · anchor / image; confidence σ(object) · σ(class).

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
                what = f"too few of {name}"
                raise self.error(what, name, expected=f"{least} values", found=len(getattr(p, name)))

    def anchors(self, index: int) -> np.ndarray:
        p, group = self.p, len(self.p.mask) // self.p.mask_group_num
        return self.anchor_sizes(p.mask[index * group : index * group + p.num_box]) / p.anchors_scale[index]

    def boxes(self, predictions: np.ndarray, anchors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        certain: np.ndarray | float
        if self.p.gaussian_box:
            certain, first = 1 - grids.sigmoid(predictions[:, :, 1:8:2]).mean(2, keepdims=True), 9
            corners = predictions[:, :, 0:8:2]
        else:
            certain, first = 1.0, 5
            corners = predictions[:, :, :4]
        scores = (
            certain * grids.sigmoid(predictions[:, :, first - 1 : first]) * grids.sigmoid(predictions[:, :, first:])
        )
        return grids.rows(grids.corners(grids.boxes(corners, anchors))), grids.rows(scores)
