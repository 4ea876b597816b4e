"""Rows of the table of layers: cascades of detectors."""

import numpy as np
from layers.layer_row import Row, off_kinks

FIELDS = ((20.0, 16.0), (40.0, 30.0))  # width and height of each map's
NORMAL = "bbox_reg_param { " + "bbox_mean: 0.125 " * 4 + "bbox_std: 0.5 bbox_std: 0.25 bbox_std: 0.5 bbox_std: 1 }"
MEAN, DEVIATION = 0.125, np.array([0.5, 0.25, 0.5, 1])


def overlap(a, b, pixels, kind):
    sides = [min(a[2 + i], b[2 + i]) - max(a[i], b[i]) + pixels for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    one, two = ((box[2] - box[0] + pixels) * (box[3] - box[1] + pixels) for box in (a, b))
    return common / {"IOU": one + two - common, "IOMU": min(one, two), "IOFU": one}[kind]


def box(offset, cell, field, stride, pixels):
    """The box of an offset from a field: offsets within ±1/2 of it, sides within twice and half of it."""
    t = offset * DEVIATION + MEAN
    sides = np.array(field) * np.clip(np.exp(t[2:]), 0.5, 2)
    low = np.clip(t[:2], -0.5, 0.5) * field + (np.array(cell) + 0.5) * stride - sides / 2
    return [*low, *(low + sides - pixels)]


def output(found, batch, threshold, pixels, kind, most):
    """found: (image, score, box)."""
    rows = []
    for image in range(batch):
        stays = []
        for _, score, corners in sorted((f for f in found if f[0] == image), key=lambda f: -f[1]):
            if all(overlap(other, corners, pixels, kind) <= threshold for _, other in stays):
                stays.append((score, corners))
        rows += [[image, *corners, score] for score, corners in stays[:most]]
    table = np.array(rows or [[0, 1, 1, 10, 10, 0]], float)
    return [table[:, :5], table if rows else np.zeros((1, 6))]


def of_maps(threshold, kind, most, least):
    def oracle(*maps):
        actual = []
        for x, field, stride in zip(maps, FIELDS, (8, 16), strict=True):
            n, _, h, w = x.shape
            for b, j, i in np.ndindex(n, h, w):
                score = x[b, 1:-4, j, i].max() - x[b, 0, j, i]
                corners = box(x[b, -4:, j, i], (i, j), field, stride, 0)
                low = np.maximum(corners[:2], 0)
                high = low + np.minimum(np.array(corners[2:]) - corners[:2], np.array([w, h]) * stride - low)
                if score >= least and (high - low >= 8).all():
                    actual.append((b, score, [*low, *high]))
        return output(actual, len(maps[0]), threshold, 0, kind, most)

    return oracle


def of_groups(threshold, groups):
    """groups: the fields and the stride of each."""

    def oracle(*blobs):
        actual = []
        for m, (fields, stride) in enumerate(groups):
            scores, offsets = blobs[2 * m : 2 * m + 2]
            _, _, h, w = scores.shape
            for at, j, i in np.ndindex(len(scores), h, w):
                corners = box(offsets[at, :, j, i], (i, j), fields[at % len(fields)], stride, 1)
                low, high = np.maximum(corners[:2], 0), np.minimum(corners[2:], np.array([w, h]) * stride)
                if 1 - scores[at, 0, j, i] >= 0.25 and (high - low + 1 >= 8).all():
                    actual.append((at // len(fields), 1 - scores[at, 0, j, i], [*low, *high]))
        return output(actual, len(blobs[0]) // len(groups[0][0]), threshold, 1, "IOU", None)

    return oracle


def some_boxes(rng, shape):
    corners = rng.uniform(0, 40, (shape[0], 2))
    return np.column_stack([rng.integers(0, 2, shape[0]), corners, corners + rng.uniform(5, 60, (shape[0], 2))])


def decoded(offsets, boxes):
    actual = []
    for t, (image, x0, y0, x1, y1) in zip(offsets, boxes, strict=True):
        dx, dy, dw, dh = t[4:] * DEVIATION + MEAN
        w, h = x1 - x0 + 1, y1 - y0 + 1
        cx, cy, w2, h2 = (x0 + x1) / 2 + dx * w, (y0 + y1) / 2 + dy * h, w * np.exp(dw), h * np.exp(dh)
        actual.append([image, cx - (w2 - 1) / 2, cy - (h2 - 1) / 2, cx + (w2 - 1) / 2, cy + (h2 - 1) / 2])
    return [np.array(actual)]


def routed(low, high, middle):
    def oracle(boxes, other):
        scale = np.sqrt((boxes[:, 3] - boxes[:, 1] + 1) * (boxes[:, 4] - boxes[:, 2] + 1))
        chosen = (scale >= low) & (scale < high)
        if not chosen.any():
            chosen = np.arange(len(boxes)) == np.argmin(np.abs(np.log(scale / middle)))
        return [boxes[chosen], other[chosen]]

    return oracle


def probabilities(rng, shape):
    return rng.uniform(0.05, 0.95, shape)


def fields(*which):
    return " ".join(f"field_w: {FIELDS[i][0]:.0f} field_h: {FIELDS[i][1]:.0f}" for i in which)


MAPS = [((2, 7, 4, 5), off_kinks), ((2, 7, 2, 3), off_kinks)]
BOXES = f"{fields(0, 1)} downsample_rate: 8 downsample_rate: 16 min_size: 8"

FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


ROWS = [
    Row(
        "BoxOutput",
        f"box_output_param {{ {BOXES} iou_thr: 0.25 }} {NORMAL}",
        of_maps(0.25, "IOU", None, 0),
        MAPS,
        tops=2,
    ),
    Row(
        "BoxOutput of smaller boxes",
        f'box_output_param {{ {BOXES} fg_thr: 0.5 nms_type: "IOMU" max_post_nms_num: 3 }} {NORMAL}',
        of_maps(0.5, "IOMU", 3, 0.5),
        MAPS,
        tops=2,
    ),
    Row(
        "BoxOutput without boxes",
        f'box_output_param {{ {BOXES} fg_thr: 90 nms_type: "IOFU" }} {NORMAL}',
        of_maps(0.5, "IOFU", None, 90),
        MAPS,
        tops=2,
    ),
    Row(
        "BoxGroupOutput",
        f"box_group_output_param {{ box_group_param {{ {fields(0)} stride: 8 }} fg_thr: 0.25 min_size: 8 }} {NORMAL}",
        of_groups(0.5, ((FIELDS[:1], 8),)),
        [((2, 3, 3, 4), probabilities), (2, 4, 3, 4)],
        tops=2,
    ),
    Row("DecodeBBox", NORMAL, decoded, [(5, 8), ((5, 5), some_boxes)], phase="TEST"),
    Row(
        "ScaleRoute",
        "low_scale: 24 high_scale: 36",
        routed(24, 36, np.sqrt(24 * 36)),
        [((9, 5), some_boxes), (9, 2, 3)],
        tops=2,
    ),
    Row("ScaleRoute nearest", "low_scale: 900", routed(900, np.inf, 900), [((9, 5), some_boxes), (9, 2, 3)], tops=2),
    Row("ImageGtData", "field_w: 8 field_h: 8 downsample_rate: 4", lambda: FED, tops=2, source=FED),
]
