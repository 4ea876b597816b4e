"""Rows of the table of layers: maps of fields, cell by cell in loops over plain numbers."""

import math

import numpy as np
from families.cascade.rows import NORMAL
from layers.layer_row import Row

MEAN, DEVIATION = np.full(4, 0.125), np.array([0.5, 0.25, 0.5, 1])
PLAIN = (np.zeros(4), np.ones(4))
FIELD, STRIDE, CLASSES = (20.0, 16.0), 8, 3


def labels(classes=CLASSES, share=0.4):
    """Label maps (M, 6, H, W) with objects near their cells; the first cell has one."""

    def draw(rng, shape):
        out = np.zeros(shape)
        for m, r, c in np.ndindex(shape[0], *shape[2:]):
            first = (m, r, c) == (0, 0, 0)
            label = rng.integers(1, classes) if first or rng.random() < share else 0
            center = (np.array([c, r]) + 0.5) * STRIDE + rng.uniform(-0.3, 0.3, 2) * FIELD
            sides = FIELD * np.exp(rng.uniform(-0.6, 0.6, 2))
            overlap = rng.uniform(0.5, 1) if label else rng.uniform(0, 0.7)
            out[m, :, r, c] = [label, *center, *sides, overlap]
        return out

    return draw


def predictions(classes):
    """Scores without ties, and offsets within their limits."""

    def draw(rng, shape):
        actual = rng.uniform(-0.3, 0.3, shape)
        scores = actual[:, :classes]
        scores[...] = rng.permutation(scores.size).reshape(scores.shape) / scores.size * 4
        return actual

    return draw


def target(label_map, r, c, field, normal):
    x, y, w, h = label_map[1:5, r, c]
    raw = [
        (x - (c + 0.5) * STRIDE) / field[0],
        (y - (r + 0.5) * STRIDE) / field[1],
        math.log(max(w, 2) / field[0]),
        math.log(max(h, 2) / field[1]),
    ]
    return [(v - m) / s for v, m, s in zip(raw, *normal, strict=True)]


def limits(normal, ratios):
    mean, deviation = normal
    actual = []
    for i in range(4):
        first = i // 2 * 2
        limit = 1 / ratios[1] if i < 2 else math.log(ratios[0])
        middle, scale = mean[first : first + 2].mean(), math.sqrt(deviation[first] * deviation[first + 1])
        actual.append(((-limit - middle) / scale, (limit - middle) / scale))
    return actual


def loss_of(scores, offsets, maps, fields, chosen, weight, factor=1.0, normal=PLAIN, ratios=(2, 2), squares=False):
    """chosen: the cells (map, row, column) in the loss; weight(cell): of its score."""
    of_scores = of_offsets = 0.0
    count, boxes = 0, 0
    for m, r, c in chosen:
        label, own = int(maps[m, 0, r, c]), scores[m, :, r, c]
        share = math.exp(own[label] - own.max()) / sum(math.exp(v - own.max()) for v in own)
        of_scores -= math.log(share) * weight((m, r, c))
        count += 1
        if label:
            wanted = target(maps[m], r, c, fields[m % len(fields)], normal)
            bounds = limits(normal, ratios) if ratios else [(-math.inf, math.inf)] * 4
            for given, t, (low, high) in zip(offsets[m, :, r, c], wanted, bounds, strict=True):
                d = abs(min(high, max(low, given)) - t)
                of_offsets += d * d / 2 if squares or d < 1 else d - 0.5
                boxes += 1
    second = factor * of_offsets / max(1, boxes)
    return [np.array([of_scores / max(1, count) + second, second]).reshape(1, 1, 1, 2)]


def cells(maps):
    return list(np.ndindex(maps.shape[0], *maps.shape[2:]))


def objects_of(maps):
    return [cell for cell in cells(maps) if maps[cell[0], 0, cell[1], cell[2]] > 0]


def candidates_of(maps, threshold):
    at = [(m, r, c) for m, r, c in cells(maps)]
    return [(m, r, c) for m, r, c in at if maps[m, 0, r, c] == 0 and maps[m, 5, r, c] < threshold]


def balanced(maps, objects, others, multiple, own=None):
    """The weight of a cell by its kind, with own weights of objects."""
    own = own or (lambda cell: 1.0)
    total, summed = len(objects) + len(others), sum(own(cell) for cell in objects)
    share = 1 / (1 + multiple)

    def weight(cell):
        if maps[cell[0], 0, cell[1], cell[2]] > 0:
            return own(cell) * share * total / summed
        return (1 - share) * total / len(others)

    return weight


def every_cell(x, maps):
    """sample_mode ALL, balanced, with objects weighted by their IoU."""
    objects, others = objects_of(maps), candidates_of(maps, 0.5)
    weight = balanced(maps, objects, others, 4, lambda cell: maps[cell[0], 5, cell[1], cell[2]])
    x = x[:, :CLASSES], x[:, CLASSES:]
    return loss_of(*x, maps, [FIELD], objects + others, weight, 2.0, (MEAN, DEVIATION))


def hardest_of_classes(x, maps):
    """sample_mode bootstrap: for each class twice as many of the highest scores as it has objects, at least 4."""
    others = set()
    for m in range(len(maps)):
        mine = [cell for cell in candidates_of(maps, 0.25) if cell[0] == m]
        for known in range(1, CLASSES):
            wanted = max(4, 2 * int((maps[m, 0] == known).sum()))
            ranked = sorted(mine, key=lambda cell: -x[cell[0], known, cell[1], cell[2]])  # noqa: B023
            others |= set(ranked[:wanted])
    x = x[:, :CLASSES], x[:, CLASSES:]
    return loss_of(*x, maps, [FIELD], objects_of(maps) + sorted(others), lambda cell: 1.0, ratios=(2, 2), squares=True)


def hardest_of_group(scores, offsets, maps):
    """neg_mining_type bootstrap: the least background, twice as many as objects, at least 6 of an image."""
    chosen, others = objects_of(maps), []
    for m in range(len(maps)):
        own = np.exp(scores[m] - scores[m].max(0))
        share = own[0] / own.sum(0)
        mine = [cell for cell in candidates_of(maps, 0.5) if cell[0] == m]
        ranked = sorted(mine, key=lambda cell: share[cell[1], cell[2]])  # noqa: B023
        others += ranked[: max(6, 2 * sum(cell[0] == m for cell in chosen))]
    weight = balanced(maps, chosen, others, 2)
    return loss_of(scores, offsets, maps, [FIELD], chosen + others, weight, 0.5, (MEAN, DEVIATION), None)


def accuracy(scores, offsets, maps, top, threshold, ratios, normal=PLAIN, least=0.0):
    counted, right, right_objects, overlaps = 0, 0, 0, []
    for m, r, c in cells(maps):
        label = int(maps[m, 0, r, c])
        if not label and maps[m, 5, r, c] >= threshold:
            continue
        counted += 1
        best = sorted(range(scores.shape[1]), key=lambda k: -scores[m, k, r, c])[:top]  # noqa: B023
        right += label in best
        if label:
            right_objects += label in best
            t = offsets[m, :, r, c] * normal[1] + normal[0]
            x, y = (min(1 / ratios[1], max(-1 / ratios[1], v)) for v in t[:2])
            w, h = (s * min(ratios[0], max(1 / ratios[0], math.exp(v))) for v, s in zip(t[2:], FIELD, strict=True))
            x, y = x * FIELD[0] + (c + 0.5) * STRIDE, y * FIELD[1] + (r + 0.5) * STRIDE
            gx, gy, gw, gh = maps[m, 1:5, r, c]
            sides = [
                min(a + s / 2, b + t / 2) - max(a - s / 2, b - t / 2) for a, s, b, t in ((x, w, gx, gw), (y, h, gy, gh))
            ]
            common = sides[0] * sides[1] if min(sides) > 0 and min(sides) >= least else 0
            overlaps.append(common / (w * h + gw * gh - common))
    actual = [right / counted, right_objects / len(overlaps)]
    return [np.array(actual).reshape(1, 1, 1, 2), np.array(sum(overlaps) / len(overlaps)).reshape(1, 1, 1, 1)]


def of_one(x, maps):
    return accuracy(x[:, :CLASSES], x[:, CLASSES:], maps, 2, 0.25, (2, 4))


def of_group(scores, offsets, maps):
    return accuracy(scores, offsets, maps, 1, 0.5, (2, 4), (MEAN, DEVIATION), 1.0)


ONE = f"cls_num: {CLASSES} field_w: {FIELD[0]:.0f} field_h: {FIELD[1]:.0f} downsample_rate: {STRIDE}"
GROUP = ONE.replace("downsample_rate", "stride")
X = [((2, CLASSES + 4, 3, 4), predictions(CLASSES)), ((2, 6, 3, 4), labels())]
XS = [((2, CLASSES, 3, 4), predictions(CLASSES)), ((2, 4, 3, 4), predictions(0)), ((2, 6, 3, 4), labels())]


def loss(kind, body, bottoms, oracle, name=""):
    """exact: the second number of the top has no gradient, as in the forks."""
    constant = (len(bottoms) - 1,)
    return Row(f"{kind} {name}", body, oracle, bottoms, constant=constant, exact=False)


ROWS = [
    loss(
        "DetectionLoss",
        f'detection_loss_param {{ {ONE} sample_mode: "all" iou_weighted: true pos_neg_weighted: true lambda: 2 }} '
        f"{NORMAL}",
        X,
        every_cell,
    ),
    loss(
        "DetectionLoss",
        f'detection_loss_param {{ {ONE} sample_mode: "bootstrap" bg_multiple: 2 bg_threshold: 0.25 bb_smooth: false }}',
        X,
        hardest_of_classes,
        "of the hardest",
    ),
    loss(
        "DetectionGroupLoss",
        f'detection_group_loss_param {{ {GROUP} neg_mining_type: "bootstrap" bg_multiple: 2 min_num_neg: 6 lambda: 0.5 '
        f"pos_neg_weighted: true }} {NORMAL}",
        XS,
        hardest_of_group,
    ),
    Row("DetectionAccuracy", f"{ONE} top_k: 2 bg_threshold: 0.25", of_one, X, tops=2),
    Row("DetectionGroupAccuracy", f"detection_group_accuracy_param {{ {GROUP} }} {NORMAL}", of_group, XS, tops=2),
]
