"""The arithmetic of YOLO's grids: boxes of predictions, what is found in them, and true boxes.

Predictions are arrays (N, A, 4 + …, H, W): for each of A anchors of each cell the numbers of a box, then others. Boxes
here have a center and sides, (x, y, w, h), as shares of the image. Sources: Redmon and Farhadi 2017 and 2018;
eric612/MobileNet-YOLO src/caffe/util/bbox_util.cpp.
"""

import numpy as np

from ...detection.boxes import areas, suppress
from ...layers.base.layer import Layer


def anchor_sizes(layer: Layer, least: int) -> np.ndarray:
    """Widths and heights (A, 2) from ``biases``. Errors: fewer than ``least``, sizes of 0 or less."""
    sizes = np.array(layer.p.biases, float)
    if len(sizes) < 2 * least or not (sizes > 0).all():
        found = f"{len(sizes)} values from {sizes.min():g}" if len(sizes) else "none"
        field = ("biases", 0) if len(sizes) else ("biases",)
        raise layer.error("bad biases", *field, expected=f"{2 * least} sizes above 0", found=found)
    return sizes[: len(sizes) // 2 * 2].reshape(-1, 2)


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    """Over axis 2."""
    e = np.exp(x - x.max(2, keepdims=True))
    return e / e.sum(2, keepdims=True)


def cells(height: int, width: int) -> np.ndarray:
    """The column and row (2, H, W) of each cell."""
    return np.array(np.meshgrid(np.arange(width), np.arange(height)), float)


def boxes(predictions: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """The boxes (N, A, 4, H, W) of predictions. anchors (A, 2): widths and heights as shares of the image."""
    height, width = predictions.shape[3:]
    grid = np.array([width, height], float)[:, None, None]
    centers = (cells(height, width) + sigmoid(predictions[:, :, :2])) / grid
    with np.errstate(over="ignore"):
        sizes = np.exp(predictions[:, :, 2:4]) * anchors[None, :, :, None, None]
    return np.concatenate([centers, sizes], 2)


def rows(values: np.ndarray) -> np.ndarray:
    """Numbers (N, A, K, H, W) as rows (N, H · W · A, K): cell by cell, anchor by anchor."""
    n, a, k, height, width = values.shape
    return values.transpose(0, 3, 4, 1, 2).reshape(n, height * width * a, k)


def corners(boxes: np.ndarray) -> np.ndarray:
    """Boxes (N, A, 4, H, W) as (xmin, ymin, xmax, ymax)."""
    with np.errstate(invalid="ignore"):
        return np.concatenate([boxes[:, :, :2] - boxes[:, :, 2:] / 2, boxes[:, :, :2] + boxes[:, :, 2:] / 2], 2)


def detections(
    boxes: np.ndarray, scores: np.ndarray, least: float, overlap: float, inclusive: bool = False
) -> np.ndarray:
    """The boxes of an image that stay, best first: rows (M, 6) of class + 1, score, xmin, ymin, xmax, ymax.

    boxes (R, 4): corners. scores (R, K): of each class. A box stays where its score is above ``least`` (inclusive: or
    equal) and its IoU with each better box, of any class, is below ``overlap``. Boxes that are not finite, or have no
    area, do not count.
    """
    usable = np.isfinite(boxes).all(1)
    usable[usable] = areas(boxes[usable]) > 0
    chosen = ((scores >= least) if inclusive else (scores > least)) & usable[:, None]
    box, kind = np.nonzero(chosen)
    score = scores[box, kind]
    stays = suppress(boxes[box], score, float(np.nextafter(overlap, -1)))
    return np.column_stack([kind[stays] + 1, score[stays], boxes[box[stays]]]).reshape(-1, 6)


def truths(labels: np.ndarray, batch: int) -> list[np.ndarray]:
    """The true boxes of each image: rows (M, 5) of class, x, y, w, h.

    labels: (1, 1, M, 8), rows of image, class + 1, instance, xmin, ymin, xmax, ymax, difficult, as AnnotatedData has
    them (an image below 0: no box); or T rows of class, x, y, w, h for each image, the first with w or x 0 being the
    end. Boxes whose center is outside the image, or that have no area, do not count.
    """
    if labels.ndim == 4 and labels.shape[:2] == (1, 1) and labels.shape[3] == 8:
        table = labels.reshape(-1, 8).astype(float)
        sides, middle = table[:, 5:7] - table[:, 3:5], (table[:, 5:7] + table[:, 3:5]) / 2
        every = np.column_stack([table[:, 1] - 1, middle, sides])
        images = [every[table[:, 0] == i] for i in range(batch)]
    else:
        images = []
        for table in labels.reshape(batch, -1, 5).astype(float):
            ends = np.flatnonzero((table[:, 1] == 0) | (table[:, 3] == 0))
            images.append(table[: ends[0]] if len(ends) else table)
    return [t[((t[:, 1:3] >= 0) & (t[:, 1:3] < 1) & (t[:, 3:] > 0) & (t[:, 3:] < np.inf)).all(1)] for t in images]


def overlaps(a: np.ndarray, b: np.ndarray, kind: str = "IOU") -> np.ndarray:
    """IoU, or GIOU, DIOU or CIOU, of boxes (..., 4) and (..., 4), broadcast. DIOU: with the distance to the power of
    0.6, as its source has it. NaN where both boxes have no area."""
    low, high = a[..., :2] - a[..., 2:] / 2, a[..., :2] + a[..., 2:] / 2
    other_low, other_high = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    sides = np.minimum(high, other_high) - np.maximum(low, other_low)
    common = np.where((sides >= 0).all(-1), sides.prod(-1), 0)
    union = a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - common
    with np.errstate(invalid="ignore", divide="ignore"):
        iou = common / union
        around = np.maximum(high, other_high) - np.minimum(low, other_low)
        if kind == "GIOU":
            return iou - (around.prod(-1) - union) / around.prod(-1)
        if kind in ("DIOU", "CIOU"):
            distance = ((a[..., :2] - b[..., :2]) ** 2).sum(-1) / (around**2).sum(-1)
            if kind == "DIOU":
                return iou - distance**0.6
            shape = 4 / np.pi**2 * (np.arctan(b[..., 2] / b[..., 3]) - np.arctan(a[..., 2] / a[..., 3])) ** 2
            return iou - distance - shape * shape / (1 - iou + shape + 1e-6)
    return iou


def overlap_slopes(box: np.ndarray, truth: np.ndarray, kind: str) -> np.ndarray:
    """How IoU, or GIOU, DIOU or CIOU, of a box (4) and a true box (4) changes with x, y, w and h of the box, as
    MobileNet-YOLO has it: the slopes of w and h are twice the derivatives of IoU, DIOU is that with the plain distance,
    and the intersection is a product of two sides even where these are negative."""
    low, high, true_low, true_high = (f(b) for b in (box, truth) for f in (_low, _high))
    sides = np.minimum(high, true_high) - np.maximum(low, true_low)  # of the intersection, (w, h)
    own, crossed = box[2:], sides[::-1]
    area, common = own.prod(), sides.prod()
    union = area + truth[2:].prod() - common
    at_low, at_high = low > true_low, high < true_high
    d_common = np.array([-crossed * at_low, crossed * at_high])  # by low and by high (x, y)
    d_union = np.array([-own[::-1], own[::-1]]) - d_common
    slopes = (union * d_common - common * d_union) / union**2 if union > 0 else np.zeros((2, 2))
    around = np.maximum(high, true_high) - np.minimum(low, true_low)
    apart = (sides <= 0).any()
    if kind == "GIOU" and around.prod() > 0:
        d_around = np.array([-around[::-1] * (low < true_low), around[::-1] * (high > true_high)])
        hull = around.prod()
        added = (hull * d_union - union * d_around) / hull**2
        slopes = added if apart else slopes + added
    gradients = np.concatenate([slopes[0] + slopes[1], slopes[1] - slopes[0]])
    if kind in ("DIOU", "CIOU"):
        added = _distance_slopes(box, truth, kind, common / union)
        gradients = added if apart else gradients + added
    return gradients


def _low(box: np.ndarray) -> np.ndarray:
    return box[:2] - box[2:] / 2


def _high(box: np.ndarray) -> np.ndarray:
    return box[:2] + box[2:] / 2


def _distance_slopes(box: np.ndarray, truth: np.ndarray, kind: str, iou: float) -> np.ndarray:
    """What DIOU and CIOU add to the slopes of IoU."""
    low, high, true_low, true_high = (f(b) for b in (box, truth) for f in (_low, _high))
    around, gap = np.maximum(high, true_high) - np.minimum(low, true_low), truth[:2] - box[:2]
    diagonal, distance = (around**2).sum(), (gap**2).sum()
    below, above = (low < true_low).astype(float), (high > true_high).astype(float)
    of_center = (2 * gap * diagonal - 2 * around * (above - below) * distance) / diagonal**2
    of_size = around * (above + below) * distance / diagonal**2
    if kind == "CIOU":
        turn = np.arctan(truth[2] / truth[3]) - np.arctan(box[2] / box[3])
        shape = 4 / np.pi**2 * turn * turn
        of_size = of_size + shape / (1 - iou + shape + 1e-6) * 8 / np.pi**2 * turn * box[[3, 2]] * [1, -1]
    return np.concatenate([of_center, of_size])
