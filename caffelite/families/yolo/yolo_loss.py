"""The losses of YOLO: RegionLoss (version 2) and Yolov3."""

import math
from typing import NamedTuple

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices import detection_ops
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.layer import Layer, Shape, register
from . import grids


class Cell(NamedTuple):
    """Where a true box is learned: the image, the anchor of the grid, the row and the column."""

    image: int
    anchor: int
    row: int
    column: int


class YoloLoss(Layer):
    """loss of predictions (N, A·(5 + K), H, W) and true boxes.

    ``errors`` gives what the predictions are changed by; the gradient is it · loss weight / N, and the loss the sum of
    its squares / N unless the type says otherwise. A true box is learned by one anchor of the cell that its center is
    in, or by several.
    """

    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False
    divisible_axes = False

    def setup(self) -> None:
        require.positive(self, "num_class", "num")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape, channels = bottoms[0], self.p.num * (5 + self.p.num_class)
        if len(shape) != 4 or shape[1] != channels:
            expected = f"['N', {channels}, 'H', 'W']: {self.p.num} predictions of 5 + {self.p.num_class} numbers"
            raise self.bottom_error(0, "does not fit", expected=expected, found=f"shape {list(shape)}")
        rows = len(bottoms[1]) == 4 and bottoms[1][:2] == (1, 1) and bottoms[1][3] == 8
        if not rows and math.prod(bottoms[1]) % (5 * shape[0]):
            expected = f"[1, 1, M, 8], or rows of 5 numbers for each of {shape[0]} samples"
            raise self.bottom_error(1, "has no boxes", expected=expected, found=f"shape {list(bottoms[1])}")
        n, _, h, w = shape
        self.grid = n, self.p.num, 5 + self.p.num_class, h, w
        self.saved_shapes["errors"] = (shape, None)
        return [()]

    def build(self, dev: Device) -> None:
        self._bad: str | None = None
        self._scale = dev.map(Formula("e * (dloss / n)", ("e",), ("dloss",), constants=("n",)), n=self.grid[0])

    def errors(self, predictions: np.ndarray, truths: list[np.ndarray]) -> tuple[np.ndarray, float]:
        """The errors, like predictions (N, A, 5 + K, H, W), and the loss · N; truths: rows (M, 5) of each image."""
        raise NotImplementedError

    def forward(self, x: list, y: list) -> None:
        predictions = self.dev.download(x[0]).reshape(self.grid).astype(float)
        truths = grids.truths(self.dev.download(x[1]), self.grid[0])
        for image, table in enumerate(truths):
            wrong = ~((table[:, 0] >= 0) & (table[:, 0] < self.p.num_class))
            if wrong.any() and not self._bad:
                self._bad = f"class {table[wrong][0, 0]:g} of a box of sample {image}"
        truths = [t[(t[:, 0] >= 0) & (t[:, 0] < self.p.num_class)] for t in truths]
        errors, loss = self.errors(predictions, truths)
        self.dev.upload(self.saved["errors"], errors.reshape(x[0].shape))
        self.dev.upload(y[0], np.asarray(loss / self.grid[0]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._scale(self.saved["errors"], dy[0], dx[0])

    def faults(self) -> str | None:
        expected = f"expected classes 0 to {self.p.num_class - 1}"
        return self._bad and f'bottom "{self.spec.bottom[1]}" has {self._bad}; {expected}'

    def cell(self, image: int, anchor: int, truth: np.ndarray) -> Cell:
        return Cell(image, anchor, int(truth[2] * self.grid[3]), int(truth[1] * self.grid[4]))


def slope(activated: np.ndarray | float) -> np.ndarray | float:
    """The derivative of a sigmoid by its value."""
    return activated * (1 - activated)


@register
class RegionLoss(YoloLoss):
    """The loss of YOLOv2: squares of the errors of box, object and classes, times their scales.

    predictions (N, A·(5 + K), H, W), A = num (5), K = num_class (20), box, object and classes of each anchor; true
    boxes (1, 1, M, 8) of AnnotatedData, or rows of class, x, y, w, h (N, T·5); loss (). A prediction whose IoU with a
    true box exceeds thresh (0.2) has no error of "no object". The anchor of a true box is the one of the most similar
    size (of predicted boxes without bias_match). rescore (default): the target of "object" is the IoU; else 1, and box
    errors are multiplied by 2 - w · h. Scales: object_scale 1, noobject_scale 0.5, class_scale 1, coord_scale 5. The
    gradient is errors / N, not the derivative of the loss. Errors: other channels, missing biases, coords other than 4,
    classes out of range, a softmax_tree or class_map. As in eric612/MobileNet-YOLO,
    src/caffe/layers/region_loss_layer.cpp; that of intel/caffe has the same fields and another loss.
    """

    field = "region_loss_param"

    def setup(self) -> None:
        super().setup()
        require.value(self, "coords", self.p.coords == 4, 4)
        for name in filter(self.p.HasField, ("softmax_tree", "class_map")):
            remedy = (
                f"drop {name}: MobileNet-YOLO's Caffe ignores it, and the loss of Intel's, which reads it, is another"
            )
            raise self.error(f"{name} is not supported", name, remedy=remedy)
        self.sizes = grids.anchor_sizes(self, self.p.num)[: self.p.num]

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        label = bottoms[1]
        self.wide = len(label) == 4 and label[:2] == (1, 1) and label[3] == 8
        self.rows = label[2] if self.wide else math.prod(label) // (5 * bottoms[0][0])
        return super().shapes(bottoms)

    def build(self, dev: Device) -> None:
        super().build(dev)
        p = self.p
        op = detection_ops.RegionLoss(
            shape=self.grid,
            rows=self.rows,
            wide=self.wide,
            anchors=tuple((float(w), float(h)) for w, h in self.sizes),
            threshold=p.thresh,
            noobject_scale=p.noobject_scale,
            object_scale=p.object_scale,
            class_scale=p.class_scale,
            coord_scale=p.coord_scale,
            rescore=p.rescore,
            bias_match=p.bias_match,
        )
        self.op = dev.build(op)

    def forward(self, x: list, y: list) -> None:
        if self.op:
            self.op.forward(x[0], x[1], self.saved["errors"], y[0])
        else:
            super().forward(x, y)

    def faults(self) -> str | None:
        if self.op and (row := int(self.dev.download(self.op.bad)[0])):
            self._bad = f"a class that is none in row {row - 1}"
        return super().faults()

    def errors(self, predictions: np.ndarray, truths: list[np.ndarray]) -> tuple[np.ndarray, float]:
        p, errors = self.p, np.zeros(predictions.shape)
        grid = np.array([self.grid[4], self.grid[3]], float)
        boxes = grids.boxes(predictions, self.sizes / grid).transpose(0, 1, 3, 4, 2)
        offsets, objects = grids.sigmoid(predictions[:, :, :2]), grids.sigmoid(predictions[:, :, 4])
        classes = grids.softmax(predictions[:, :, 5:])
        errors[:, :, 4] = p.noobject_scale * objects * slope(objects)
        for image, table in enumerate(truths):
            for truth in table:
                matched = grids.overlaps(boxes[image], truth[1:]) > p.thresh
                errors[image, :, 4][matched] = 0
        for image, table in enumerate(truths):
            for truth in table:
                cell = self.cell(image, self._anchor(boxes[image], truth), truth)
                at = cell.image, cell.anchor, slice(None), cell.row, cell.column
                here = at[0], at[1], at[3], at[4]
                iou, offset = float(grids.overlaps(boxes[here], truth[1:])), offsets[at]
                scale = p.coord_scale * (1 if p.rescore else 2 - truth[3] * truth[4])
                target = truth[1:3] * grid - [cell.column, cell.row]
                size = np.log(truth[3:] * grid / self.sizes[cell.anchor])
                own = errors[at]
                own[:2] = -scale * (target - offset) * slope(offset)
                own[2:4] = -scale * (size - predictions[at][2:4])
                own[4] = -p.object_scale * ((iou if p.rescore else 1) - objects[here]) * slope(objects[here])
                own[5:] = -p.class_scale * ((np.arange(p.num_class) == int(truth[0])) - classes[at])
        return errors, float((errors**2).sum())

    def _anchor(self, boxes: np.ndarray, truth: np.ndarray) -> int:
        """The anchor whose size is the most similar to that of a true box."""
        grid = np.array([self.grid[4], self.grid[3]], float)
        cell = self.cell(0, 0, truth)
        sizes = self.sizes / grid if self.p.bias_match else boxes[:, cell.row, cell.column, 2:]
        return int(np.argmax(np.nan_to_num(grids.overlaps(_centered(sizes), _centered(truth[None, 3:])), nan=0.0)))


def _centered(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(sizes.shape), sizes], -1)


@register
class Yolov3(YoloLoss):
    """The loss of YOLOv3 for one grid: errors of box, object and classes.

    predictions (N, A·(5 + K), H, W), A = num (5), K = num_class (20), box, object and classes of each anchor of mask;
    true boxes (1, 1, M, 8) of AnnotatedData, or rows of class, x, y, w, h (N, T·5); loss (). biases: sizes of the
    anchors of all grids in pixels; anchors_scale: pixels of a cell. A prediction whose IoU with a true box exceeds
    thresh (0.2) has no error of "no object". A true box is learned by the anchor of the most similar size of all grids,
    if it is of this one, and by others of this grid whose size has an IoU above iou_thresh (0.5). Box errors: MSE
    (default) of the numbers, times coord_scale (5) · (2 - w · h); or slopes of IOU, GIOU, DIOU, CIOU, times
    iou_normalizer, limited to ±max_delta. Class errors: σ(class) - target, targets smoothed by label_smooth_eps (0.1),
    times class_scale; use_focal_loss: without smoothing. use_logic_gradient multiplies the errors of sigmoids by their
    slopes. The loss is the sum of squared errors / N; for IoU, of those of object and classes, + iou_normalizer · the
    mean of 1 - IoU. The gradient is errors / N, not the derivative of the loss. Errors: other channels, missing biases
    or masks, classes out of range. As in eric612/MobileNet-YOLO, src/caffe/layers/yolov3_layer.cpp; there the best
    anchor learns a true box twice where mask does not start at 0, here once.
    """

    field = "yolov3_param"
    requires_host = True

    def setup(self) -> None:
        super().setup()
        if len(self.p.mask) < self.p.num:
            found = len(self.p.mask)
            raise self.error("too few of mask", "mask", expected=f"{self.p.num} indices of anchors", found=found)
        self.mask = list(self.p.mask[: self.p.num])
        self.sizes = grids.anchor_sizes(self, max(self.mask) + 1)
        self.kind = pb.Yolov3Parameter.IOU_LOSS.Name(self.p.iou_loss)
        if not self.p.anchors_scale:
            raise self.error("anchors_scale must be positive", "anchors_scale")

    def errors(self, predictions: np.ndarray, truths: list[np.ndarray]) -> tuple[np.ndarray, float]:
        p, activated = self.p, grids.sigmoid(predictions)
        self._image = np.array([self.grid[4], self.grid[3]], float) * p.anchors_scale  # its width and height
        boxes = grids.boxes(predictions, self.sizes[self.mask] / self._image).transpose(0, 1, 3, 4, 2)
        kind = "IOU" if self.kind == "MSE" else self.kind
        errors: np.ndarray = np.zeros(predictions.shape)
        errors[:, :, 4] = activated[:, :, 4]
        for image, table in enumerate(truths):
            for truth in table:
                errors[image, :, 4][grids.overlaps(boxes[image], truth[1:], kind) > p.thresh] = 0
        missing = []
        for image, table in enumerate(truths):
            for truth in table:
                for anchor in self._anchors(truth, kind):
                    cell = self.cell(image, anchor, truth)
                    missing.append(1 - self._learn(cell, truth, predictions, activated, boxes, errors))
        if self.kind == "MSE":
            loss = (errors**2).sum()
        else:
            loss = (errors[:, :, 4:] ** 2).sum() + (p.iou_normalizer * np.mean(missing) if missing else 0)
        if p.use_logic_gradient:
            sloped = [0, 1, *range(4, 5 + p.num_class)]
            errors[:, :, sloped] *= slope(activated[:, :, sloped])
        return errors, float(loss)

    def _anchors(self, truth: np.ndarray, kind: str) -> list[int]:
        """The anchors of this grid that learn a true box, by index in mask."""
        similar = grids.overlaps(_centered(self.sizes / self._image), _centered(truth[3:].reshape(1, -1)), kind)
        best = int(np.argmax(similar)) if similar.max() > 0 else -1
        chosen = [self.mask.index(best)] if best in self.mask else []
        if self.p.iou_thresh < 1:
            chosen += [own for own, i in enumerate(self.mask) if i != best and similar[i] > self.p.iou_thresh]
        return chosen

    def _learn(
        self,
        cell: Cell,
        truth: np.ndarray,
        predictions: np.ndarray,
        activated: np.ndarray,
        boxes: np.ndarray,
        errors: np.ndarray,
    ) -> float:
        """Sets the errors of the prediction that learns a true box; returns its IoU, of the kind of the loss."""
        p, at = self.p, (cell.image, cell.anchor, slice(None), cell.row, cell.column)
        own, box = errors[at], boxes[cell.image, cell.anchor, cell.row, cell.column]
        if self.kind == "MSE":
            scale, grid = p.coord_scale * (2 - truth[3] * truth[4]), self._image / p.anchors_scale
            own[:2] = -scale * (truth[1:3] * grid - [cell.column, cell.row] - activated[at][:2])
            size = np.log(truth[3:] * self._image / self.sizes[self.mask[cell.anchor]])
            own[2:4] = -scale * (size - predictions[at][2:4])
            iou = float(grids.overlaps(box, truth[1:]))
        else:
            slopes = grids.overlap_slopes(box, truth[1:], self.kind)
            with np.errstate(over="ignore", invalid="ignore"):
                slopes[2:] *= np.exp(predictions[at][2:4])
            slopes = np.nan_to_num(slopes * p.iou_normalizer, nan=0.0, posinf=0.0, neginf=0.0)
            limited = np.clip(slopes, -p.max_delta, p.max_delta)
            own[:4] = (own[:4] if p.accumulate else 0) - limited
            iou = float(grids.overlaps(box, truth[1:], "DIOU" if self.kind == "IOU" else self.kind))
        own[4] = -(1 - activated[at][4]) * (p.object_scale if p.use_logic_gradient else 1)
        self._learn_class(int(truth[0]), activated[at][5:], own[5:])
        return iou

    def _learn_class(self, kind: int, scores: np.ndarray, own: np.ndarray) -> None:
        p = self.p
        targets = (np.arange(p.num_class) == kind) * 1.0
        smoothed = targets * (1 - p.label_smooth_eps) + 0.5 * p.label_smooth_eps
        if own[kind]:  # another true box has the same prediction
            own[kind] = -p.class_scale * (smoothed[kind] - scores[kind])
        elif p.use_focal_loss:
            score = scores[kind] + 1e-15
            focal = -(1 - score) * (2 * score * math.log(score) + score - 1)
            own[:] = -p.class_scale * (targets - scores) * 0.5 * focal
        else:
            own[:] = -p.class_scale * (smoothed - scores)
