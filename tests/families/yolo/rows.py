"""Rows of the table of layers: YOLO."""

import numpy as np
from layers.layer_row import Row

ANCHORS = ((1.0, 1.5), (2.0, 0.75))
BIASES = " ".join(f"biases: {v}" for size in ANCHORS for v in size)
PREDICTIONS = (2, 2 * 8, 3, 4)  # 2 anchors, 3 classes, 3 × 4 cells


def true_boxes(rng, shape):
    """Rows of class, x, y, w, h; two in each image, then zeros."""
    table = np.zeros((shape[0], shape[1] // 5, 5))
    table[:, :2, 0] = rng.integers(0, 3, table[:, :2, 0].shape)
    table[:, :2, 1:3] = rng.uniform(0.05, 0.95, table[:, :2, 1:3].shape)
    table[:, :2, 3:] = rng.uniform(0.1, 0.6, table[:, :2, 3:].shape)
    return table.reshape(shape)


def reorg(stride, reverse=False):
    """Index by index: Darknet's loop over the channels and places of the bottom's shape."""

    def oracle(x):
        n, c, h, w = x.shape
        y, few = np.zeros(x.size), c // stride**2
        flat = x.reshape(-1)
        for b, k, j, i in np.ndindex(n, c, h, w):
            here = i + w * (j + h * (k + c * b))
            offset = k // few
            column, row = i * stride + offset % stride, j * stride + offset // stride
            there = column + w * stride * (row + h * stride * (k % few + few * b))
            if reverse:
                y[there] = flat[here]
            else:
                y[here] = flat[there]
        shape = (n, few, h * stride, w * stride) if reverse else (n, c * stride**2, h // stride, w // stride)
        return [y.reshape(shape)]

    return oracle


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def iou(a, b):
    """Of boxes x, y, w, h."""
    sides = [
        min(a[i] + a[2 + i] / 2, b[i] + b[2 + i] / 2) - max(a[i] - a[2 + i] / 2, b[i] - b[2 + i] / 2) for i in (0, 1)
    ]
    common = sides[0] * sides[1] if min(sides) >= 0 else 0.0
    return common / (a[2] * a[3] + b[2] * b[3] - common)


def grid(x, anchors, classes):
    """The predictions of each image, cell and anchor: (image, row, column, anchor, numbers, box)."""
    n, _, h, w = x.shape
    table = x.reshape(n, len(anchors), -1, h, w)
    for b, j, i, a in np.ndindex(n, h, w, len(anchors)):
        t = table[b, a, :, j, i]
        width, height = np.exp(t[2]) * anchors[a][0], np.exp(t[3]) * anchors[a][1]
        yield b, j, i, a, t, ((i + sigmoid(t[0])) / w, (j + sigmoid(t[1])) / h, width, height)


def suppressed(found, batch, overlap):
    """Rows of image, class + 1, score, corners; found: (image, class, score, box)."""
    rows = []
    for b in range(batch):
        stays = []
        for _, kind, score, box in sorted((f for f in found if f[0] == b), key=lambda f: -f[2]):
            if all(iou(box, other) < overlap for other in stays):
                stays.append(box)
                x, y, w, h = box
                rows.append([b, kind + 1, score, x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    return np.array(rows or [[b] + 6 * [-1.0] for b in range(batch)]).reshape(1, 1, -1, 7)


def version_2(least, overlap):
    def oracle(*grids):
        actual = []
        for x in grids:
            anchors = np.array(ANCHORS) / [x.shape[3], x.shape[2]]
            for b, _, _, _, t, box in grid(x, anchors, 3):
                odds = np.exp(t[5:])
                score = sigmoid(t[4]) * odds / odds.sum()
                if score.max() >= least:
                    actual.append((b, int(np.argmax(score)), score.max(), box))
        return [suppressed(actual, len(grids[0]), overlap)]

    return oracle


def version_3(least, overlap, scale):
    def oracle(*grids):
        actual = []
        for g, x in enumerate(grids):
            anchors = np.array(ANCHORS)[[g]] * 8 / scale / np.array([x.shape[3], x.shape[2]])
            for b, _, _, _, t, box in grid(x, anchors, 3):
                for kind, score in enumerate(sigmoid(t[4]) * sigmoid(t[5:])):
                    if score > least:
                        actual.append((b, kind, score, box))
        return [suppressed(actual, len(grids[0]), overlap)]

    return oracle


def region_errors(x, label, rescore):
    """What the loss of version 2 squares; scales 5, 0.5, 1, 2 and thresh 0.3."""
    n, _, h, w = x.shape
    anchors, errors = np.array(ANCHORS) / [w, h], np.zeros((n, 2, 8, h, w))
    truths = [[t for t in table if t[3]] for table in label.reshape(n, -1, 5)]
    boxes = {}
    for b, j, i, a, t, box in grid(x, anchors, 3):
        boxes[b, j, i, a] = t, box
        o = sigmoid(t[4])
        if all(iou(box, truth[1:]) <= 0.3 for truth in truths[b]):
            errors[b, a, 4, j, i] = 0.5 * o * o * (1 - o)
    for b, table in enumerate(truths):
        for kind, x0, y0, w0, h0 in table:
            i, j = int(x0 * w), int(y0 * h)
            a = int(np.argmax([iou((0, 0, *size), (0, 0, w0, h0)) for size in anchors]))
            t, box = boxes[b, j, i, a]
            px, py, o = sigmoid(t[0]), sigmoid(t[1]), sigmoid(t[4])
            scale = 2 * (1 if rescore else 2 - w0 * h0)
            odds = np.exp(t[5:]) / np.exp(t[5:]).sum()
            errors[b, a, :, j, i] = [
                scale * (px - (x0 * w - i)) * px * (1 - px),
                scale * (py - (y0 * h - j)) * py * (1 - py),
                scale * (t[2] - np.log(w0 / anchors[a][0])),
                scale * (t[3] - np.log(h0 / anchors[a][1])),
                5 * (o - (iou(box, (x0, y0, w0, h0)) if rescore else 1)) * o * (1 - o),
                *(odds - (np.arange(3) == kind)),
            ]
    return errors


def region_loss(rescore):
    return lambda x, label: [(region_errors(x, label, rescore) ** 2).sum() / len(x)]


def yolo_errors(x, label, smooth=0.125):
    """What the loss of version 3 with MSE squares; 2 of 3 anchors, 8 pixels a cell, coord_scale 2, thresh 0.3."""
    n, _, h, w = x.shape
    every = np.array([*ANCHORS, (3, 3)]) / [w, h]
    errors = np.zeros((n, 2, 8, h, w))
    truths = [[t for t in table if t[3]] for table in label.reshape(n, -1, 5)]
    boxes = {}
    for b, j, i, a, t, box in grid(x, every[1:], 3):
        boxes[b, j, i, a] = t, box
        if all(iou(box, truth[1:]) <= 0.3 for truth in truths[b]):
            errors[b, a, 4, j, i] = sigmoid(t[4])
    for b, table in enumerate(truths):
        for kind, x0, y0, w0, h0 in table:
            i, j = int(x0 * w), int(y0 * h)
            similar = [iou((0, 0, *size), (0, 0, w0, h0)) for size in every]
            for a in (0, 1):
                if int(np.argmax(similar)) != a + 1 and similar[a + 1] <= 0.5:
                    continue
                t, _ = boxes[b, j, i, a]
                scale, own = 2 * (2 - w0 * h0), np.arange(3) == kind
                first = errors[b, a, 5 + int(kind), j, i] == 0
                targets = own * (1 - smooth) + smooth / 2
                errors[b, a, :5, j, i] = [
                    scale * (sigmoid(t[0]) - (x0 * w - i)),
                    scale * (sigmoid(t[1]) - (y0 * h - j)),
                    scale * (t[2] - np.log(w0 / every[a + 1][0])),
                    scale * (t[3] - np.log(h0 / every[a + 1][1])),
                    sigmoid(t[4]) - 1,
                ]
                classes = errors[b, a, 5:, j, i]
                classes[own | first] = (sigmoid(t[5:]) - targets)[own | first]
    return errors


REGION = f"num: 2 num_class: 3 object_scale: 5 coord_scale: 2 thresh: 0.3 {BIASES}"
V3 = (
    "num: 2 num_class: 3 anchors_scale: 8 coord_scale: 2 thresh: 0.3 label_smooth_eps: 0.125 mask: 1 mask: 2 "
    + " ".join(f"biases: {8 * v}" for size in (*ANCHORS, (3, 3)) for v in size)
)
OUTPUT = f"num_classes: 3 num_box: 2 confidence_threshold: 0.2 nms_threshold: 0.3 {BIASES}"
OUTPUT_3 = (
    "num_classes: 3 num_box: 1 confidence_threshold: 0.2 nms_threshold: 0.3 mask: 0 mask: 1 anchors_scale: 16 "
    "anchors_scale: 16 " + " ".join(f"biases: {8 * v}" for size in ANCHORS for v in size)
)


def objects(rng, shape):
    """Rows of image, class, instance, corners, difficult; the last is none."""
    table = np.zeros(shape)
    table[0, 0, :, 0], table[0, 0, -1, 0] = np.arange(shape[2]) % 2, -1
    table[0, 0, :, 1] = rng.integers(1, 4, shape[2])
    table[0, 0, :, 3:5] = rng.uniform(0, 0.5, (shape[2], 2))
    table[0, 0, :, 5:7] = table[0, 0, :, 3:5] + rng.uniform(0.2, 0.5, (shape[2], 2))
    return table


def judged(score, overlap):
    """Index by index; boxes x, y, w, h."""

    def oracle(x, known):
        out = np.zeros((len(x), 3 + 9 * 2 * 4))
        truths = [(int(r[0]), int(r[1]) - 1, (*((r[3:5] + r[5:7]) / 2), *(r[5:7] - r[3:5]))) for r in known[0, 0]]
        for b, row in enumerate(out):
            mine = [t for t in truths if t[0] == b]
            for _, kind, _ in mine:
                row[kind] += 1
            actual = []
            for image, _, _, _, t, box in grid(x, np.array(ANCHORS) / 3, 3):
                odds = np.exp(t[5:]) / np.exp(t[5:]).sum()
                if image == b:
                    actual.append((int(odds.argmax()), score(sigmoid(t[4]), odds.max()), box))
            stays = []
            for kind, value, box in sorted(actual, key=lambda f: -f[1]):
                if all(iou(box, other[2]) < overlap for other in stays):
                    stays.append((kind, value, box))
            taken, at = set(), 3
            for kind, value, box in sorted(stays, key=lambda s: (s[0], -s[1])):
                if value < 0.005:
                    continue
                best = max((t for t in mine if t[1] == kind), key=lambda t: iou(box, t[2]), default=None)
                right = best is not None and iou(box, best[2]) >= 0.25 and best not in taken
                taken |= {best} if best is not None and iou(box, best[2]) >= 0.25 else set()
                row[at : at + 4] = kind, value, right, not right
                at += 4
        return [out]

    return oracle


def eval_row(kind, score, nms):
    p = f"side: 3 num_class: 3 num_object: 2 threshold: 0.25 nms: {nms} score_type: {kind} {BIASES}"
    return Row(
        f"EvalDetection {kind.lower()}",
        p,
        judged(score, nms if nms >= 0 else 2),
        [(*PREDICTIONS[:2], 3, 3), ((1, 1, 5, 8), objects)],
        constant=(0, 1),
        phase="TEST",
    )


ROWS = [
    Row("Reorg", "stride: 2", reorg(2), [(2, 8, 4, 6)]),
    Row("Reorg back", "stride: 3 reverse: true", reorg(3, True), [(2, 18, 2, 1)]),
    Row("YoloDetectionOutput", OUTPUT, version_2(0.2, 0.3), [PREDICTIONS, (2, 16, 2, 2)]),
    Row(
        "YoloDetectionOutput without boxes",
        f"yolo_detection_output_param {{ {OUTPUT} }}".replace("threshold: 0.2", "threshold: 0.99"),
        version_2(0.99, 0.3),
        [PREDICTIONS],
    ),
    Row("Yolov3DetectionOutput", OUTPUT_3, version_3(0.2, 0.3, 16), [(2, 8, 3, 4), (2, 8, 2, 2)]),
    Row("RegionLoss", REGION, region_loss(True), [PREDICTIONS, ((2, 15), true_boxes)], constant=(1,), exact=False),
    Row(
        "RegionLoss without rescore",
        f"{REGION} rescore: 0",
        region_loss(False),
        [PREDICTIONS, ((2, 15), true_boxes)],
        constant=(1,),
        exact=False,
    ),
    Row(
        "Yolov3",
        V3,
        lambda x, label: (yolo_errors(x, label) ** 2).sum() / len(x),
        [PREDICTIONS, ((2, 15), true_boxes)],
        constant=(1,),
        exact=False,
    ),
    eval_row("MULTIPLY", lambda o, c: o * c, 0.45),
    eval_row("OBJ", lambda o, c: o, 0.3),
    eval_row("PROB", lambda o, c: c, -1),
]
