"""Rows of the table of layers: the stages of a cascade, what trains them and what they find."""

import numpy as np
from families.cascade.rows import DEVIATION, MEAN, NORMAL, decoded, some_boxes
from layers.layer_row import Row, share

SHARED = NORMAL.replace("bbox_reg_param {", "bbox_reg_param { cls_aware: false")
GT = np.array([[0, 4, 5, 33, 30, 2, 0, 0], [1, 20, 8, 60, 41, 1, 0, 1], [1, 2, 2, 19, 15, 3, 0, 0],
               [0, 50, 50, 70, 80, 1, 1, 0], [-1.0] * 8])  # fmt: skip
SIZES = np.array([[90.0, 100.0]])


def iou(a, b):
    """Both corners are pixels of a box; boxes between which pixels end do not overlap."""
    sides = [min(a[2 + i], b[2 + i]) - max(a[i], b[i]) for i in (0, 1)]
    common = (sides[0] + 1) * (sides[1] + 1) if min(sides) >= 0 else 0
    return common / (sum((box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b)) - common)


def objects(rng, shape):
    rows = GT.copy()
    rows[:4, 1:5] += rng.uniform(-0.5, 0.5, (4, 4))
    return rows[: shape[0]]


def rois(rng, shape):
    """Boxes around the objects, and one far from them."""
    near = GT[[0, 1, 2, 3, 0, 1], :5] + rng.uniform(-3, 3, (6, 5)) * (0, 1, 1, 1, 1)
    near[4:, 1:] += (25, 25, 25, 25)
    return np.concatenate([near, [[0, 80, 2, 90, 20]]])[: shape[0]]


def matched(box, known):
    """The index and the overlap of the object that a box overlaps most; None: no object in the image."""
    mine = [(iou(box[1:], row[1:5]), -i) for i, row in enumerate(known) if row[0] == box[0]]
    return (-max(mine)[1], max(mine)[0]) if mine else (None, 0.0)


def encoded(box, known):
    """What moves a box to an object."""
    (x, y, w, h), (gx, gy, gw, gh) = (
        ((b[0] + b[2] + 1) / 2, (b[1] + b[3] + 1) / 2, b[2] - b[0] + 1, b[3] - b[1] + 1) for b in (box, known)
    )
    offset = np.array([(gx - x) / w, (gy - y) / h, np.log(gw / w), np.log(gh / h)])
    return (offset - MEAN) / DEVIATION


def stage_targets(columns, least=0.5, highest=10.0):
    """All boxes of objects, then all of background, of which fg_fraction is a quarter and weights are overlaps."""

    def oracle(boxes, known):
        known = [row for row in known if row[0] != -1]
        every = [*boxes, *(row[:5] for row in known)]
        actual, background = [], []
        for box in every:
            at, common = matched(box, known)
            if at is not None and common >= 0.5:
                if not known[at][6]:
                    actual.append((box, known[at], common))
            elif 0 <= common < 0.4:
                background.append((box, None, 0.0))
        rows = actual + background
        targets, weights = np.zeros((2, len(rows), columns, 4))
        matches, labels = np.zeros((len(rows), 6)), np.zeros(len(rows))
        scores = np.ones(len(rows))
        for i, (box, one, common) in enumerate(actual):
            labels[i], scores[i] = one[5], common
            column = min(int(one[5]), columns - 1)
            targets[i, column] = encoded(box[1:], one[1:5])
            weights[i, column] = least <= common <= highest
            matches[i] = [one[5], *one[1:5], common]
        if actual:
            scores[: len(actual)] *= 0.25 * len(rows) / scores[: len(actual)].sum()
            scores[len(actual) :] *= 0.75 * len(rows) / max(1, len(background))
        flat = weights.reshape(len(rows), -1)
        chosen = np.array([box for box, _, _ in rows])
        return [chosen, labels, targets.reshape(len(rows), -1), flat, flat, matches, scores]

    return oracle


TARGETS = "batch_size: -1 cls_num: 4 num_img_per_batch: 2 bg_thr_hg: 0.4 bg_thr_lw: 0 iou_weighted: true"


def matches(rng, shape):
    """Labels, boxes and overlaps; one is background, one is an object's own box."""
    rows = np.column_stack([rng.permutation([1, 2, 3, 0, 1]), some_boxes(rng, (5,))[:, 1:], rng.uniform(0, 0.9, 5)])
    rows[rng.integers(5), 5] = 1
    return rows[: shape[0]]


def accuracy(columns):
    def oracle(offsets, boxes, known):
        before, after = [], []
        for offset, box, row in zip(offsets, boxes, known, strict=True):
            if row[0] < 1 or row[5] > 0.975:
                continue
            at = 4 * min(int(row[0]), columns - 1)
            moved = decoded(np.concatenate([np.zeros(4), offset[at : at + 4]])[None], box[None])[0][0, 1:]
            after.append(iou(moved, row[1:5]))
            before.append(iou(box[1:], row[1:5]))
        return [np.full((1, 1, 1, 1), np.mean(v) if v else -1) for v in (after, before)]

    return oracle


def one_image(rng, shape):
    rows = some_boxes(rng, shape)
    rows[:, 0] = 0
    return rows


def found(columns, least, threshold, most):
    """Of each class but 0 the boxes that overlap no better one by more than the threshold."""

    def oracle(scores, offsets, boxes, sizes):
        rows, (height, width) = [], sizes[0]
        for label in range(1, scores.shape[1]):
            stays = []
            for i in sorted(np.flatnonzero(scores[:, label] >= least), key=lambda i: -scores[i, label]):
                at = 4 * min(label, columns - 1)
                box = decoded(np.concatenate([np.zeros(4), offsets[i, at : at + 4]])[None], boxes[i : i + 1])[0][0, 1:]
                box = [max(0, box[0]), max(0, box[1]), min(width, box[2]), min(height, box[3])]
                if all(iou(other[1:5], box) <= threshold for other in stays):
                    stays.append([0, *box, label, scores[i, label]])
            rows += stays
        best = sorted(range(len(rows)), key=lambda i: -rows[i][6])[: most or len(rows)]
        return [np.array([[0.0, *[-1.0] * 6], *(rows[i] for i in sorted(best))])]

    return oracle


def mined(losses, boxes, other):
    kept = []
    for image in (0, 1):
        order = [i for i in np.argsort(-losses.reshape(-1)) if boxes[i, 0] == image]
        kept += order[:3]
    others = [i for i in np.argsort(-losses.reshape(-1)) if i not in kept]
    kept = sorted((kept + others)[:6])
    return [boxes[kept], other[kept]]


def detections(rng, shape):
    """A row of each image without a detection, and detections near objects."""
    near = GT[[0, 0, 1, 2, 1], :6] + rng.uniform(-2, 2, (5, 6)) * (0, 1, 1, 1, 1, 0)
    near[1, 1:5] += 2
    near[4, 1:5] += 15
    rows = np.column_stack([near, rng.permutation(5) / 7 + 0.1])
    return np.concatenate([[[0.0, *[-1] * 6], [1.0, *[-1] * 6]], rows])[: shape[0]]


def evaluated(hits, known, sizes):
    known = [row for row in known if row[0] != -1]
    rows = [[-1, c, sum(row[5] == c and not row[7] for row in known), -1, -1] for c in (1, 2, 3)]
    taken = set()
    for image in (0, 1):
        for label in (1, 2, 3):
            mine = [hit for hit in hits if hit[0] == image and hit[5] == label]
            for hit in sorted(mine, key=lambda hit: -hit[6]):
                same = [i for i, row in enumerate(known) if row[0] == image and row[5] == label]
                best = max(same, key=lambda i: iou(hit[1:5], known[i][1:5]), default=None)
                right = best is not None and iou(hit[1:5], known[best][1:5]) >= 0.5
                if right and known[best][7]:
                    rows.append([image, label, hit[6], 0, 0])
                    continue
                right &= best not in taken
                taken |= {best} if right else set()
                rows.append([image, label, hit[6], right, not right])
    rows += [[-1, 1, 0, -1, -1]] * (3 + len(hits) - len(rows))
    return [np.array(rows, float)]


def losses(rng, shape):
    return rng.permutation(shape[0]).reshape(shape) / shape[0]


def of_images(rng, shape):
    rows = some_boxes(rng, shape)
    rows[:, 0] = rng.permutation([0, 0, *[1] * shape[0]][: shape[0]])
    return rows


def sizes(rng, shape):
    return np.resize(SIZES, shape)


MAP = "stride: 2 field_w: 2 field_h: 2"
FED = [np.arange(72.0).reshape(1, 3, 4, 6), np.arange(36.0).reshape(1, 6, 2, 3), GT, np.array([4.0, 6, 5])]
EVALUATED = [FED[0], GT, np.array([[4.0, 6.0]]), FED[3]]

ROWS = [
    Row("DetectionData", f"batch_size: 1 {MAP} output_gt_boxes: true", lambda: FED[:3], tops=3, source=FED),
    Row("EvalData", "batch_size: 1", lambda: EVALUATED[:3], tops=3, source=EVALUATED),
    Row(
        "ProposalTarget of a cascade",
        f"proposal_target_param {{ {TARGETS} }} {NORMAL}",
        stage_targets(4),
        [((7, 5), rois), ((5, 8), objects)],
        tops=7,
    ),
    Row(
        "ProposalTarget of a cascade, shared",
        f"proposal_target_param {{ {TARGETS} bbox_thr_lw: 0.7 bbox_thr_hg: 0.9 }} {SHARED}",
        stage_targets(2, 0.7, 0.9),
        [((7, 5), rois), ((5, 8), objects)],
        tops=7,
    ),
    Row("BboxAccuracy", NORMAL, accuracy(4), [(5, 16), ((5, 5), some_boxes), ((5, 6), matches)], tops=2),
    Row("BboxAccuracy shared", SHARED, accuracy(2), [(5, 8), ((5, 5), some_boxes), ((5, 6), matches)], tops=2),
    Row(
        "FrcnnOutput",
        f"frcnn_output_param {{ conf_thr: 0.25 iou_thr: 0.25 max_det_num: 4 }} {NORMAL}",
        found(3, 0.25, 0.25, 4),
        [((6, 3), share), (6, 12), ((6, 5), one_image), ((1, 2), sizes)],
    ),
    Row(
        "FrcnnOutput shared",
        f"frcnn_output_param {{ conf_thr: 0.5 }} {SHARED}",
        found(2, 0.5, 0.5, 0),
        [((6, 3), share), (6, 8), ((6, 5), one_image), ((1, 2), sizes)],
    ),
    Row(
        "DetectionEvaluate of a cascade",
        "num_classes: 4 evaluate_difficult_gt: false",
        evaluated,
        [((7, 7), detections), ((5, 8), objects), ((2, 2), sizes)],
    ),
    Row(
        "HardMining",
        "num_image: 2 num_roi_per_image: 3",
        mined,
        [((8, 1), losses), ((8, 5), of_images), (8, 2, 3)],
        tops=2,
    ),
]
