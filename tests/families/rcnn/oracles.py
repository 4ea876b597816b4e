"""Oracles of the layers of region detectors: loops in float64, written from the papers and the sources that the layers
name."""

import math

import numpy as np


def away(v: float) -> int:
    """C's round."""
    return int(math.copysign(math.floor(abs(v) + 0.5), v))


def clip(v: int, size: int) -> int:
    return min(max(v, 0), size)


def roi_pooling(x, rois, high, wide, scale, pad=0.0):
    y = np.zeros((len(rois), x.shape[1], high, wide))
    height, width = x.shape[2:]
    for r, (image, x1, y1, x2, y2) in enumerate(rois):
        dx, dy = (x2 - x1 + 1) * pad, (y2 - y1 + 1) * pad
        left, top, right, bottom = (away(v * scale) for v in (x1 - dx, y1 - dy, x2 + dx, y2 + dy))
        rows, columns = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i in range(high):
            a, b = clip(top + i * rows // high, height), clip(top - (-(i + 1) * rows // high), height)
            for j in range(wide):
                c, d = clip(left + j * columns // wide, width), clip(left - (-(j + 1) * columns // wide), width)
                if b > a and d > c:
                    y[r, :, i, j] = x[int(image), :, a:b, c:d].max((1, 2))
    return y


def position_pooling(x, rois, outputs, group, scale):
    y = np.zeros((len(rois), outputs, group, group))
    height, width = x.shape[2:]
    for r, (image, x1, y1, x2, y2) in enumerate(rois):
        spans = []
        for low, high in ((y1, y2), (x1, x2)):
            start, end = away(low) * scale, (away(high) + 1) * scale
            spans.append((start, max(end - start, 0.1) / group))
        for i in range(group):
            a, b = (clip(f(spans[0][0] + k * spans[0][1]), height) for f, k in ((math.floor, i), (math.ceil, i + 1)))
            for j in range(group):
                c, d = (clip(f(spans[1][0] + k * spans[1][1]), width) for f, k in ((math.floor, j), (math.ceil, j + 1)))
                if b > a and d > c:
                    for o in range(outputs):
                        y[r, o, i, j] = x[int(image), (o * group + i) * group + j, a:b, c:d].mean()
    return y


def align(x, rois, high, wide, scale, pad=0.0):
    height, width = x.shape[2:]
    y = np.zeros((len(rois), x.shape[1], high + 1, wide + 1))
    for r, (image, x1, y1, x2, y2) in enumerate(rois):
        dx, dy = (x2 - x1 + 1) * pad, (y2 - y1 + 1) * pad
        left, right = (x1 - dx) * scale - 0.5, (x2 + dx) * scale - 0.5
        top, bottom = (y1 - dy) * scale - 0.5, (y2 + dy) * scale - 0.5
        if right <= left or bottom <= top:
            continue
        for i in range(high + 1):
            for j in range(wide + 1):
                v, u = top + i * (bottom - top) / high, left + j * (right - left) / wide
                if not (-0.5 <= v <= height - 0.5 and -0.5 <= u <= width - 0.5):
                    continue
                v, u = min(max(v, 0), height - 1), min(max(u, 0), width - 1)
                a, c = int(v), int(u)
                b, d = min(a + 1, height - 1), min(c + 1, width - 1)
                plane = x[int(image)]
                upper = plane[:, a, c] * (1 - (u - c)) + plane[:, a, d] * (u - c)
                lower = plane[:, b, c] * (1 - (u - c)) + plane[:, b, d] * (u - c)
                y[r, :, i, j] = upper * (1 - (v - a)) + lower * (v - a)
    return y


def anchors(ratios, scales, stride, height, width, base=16):
    """{(row, column, anchor): (x1, y1, x2, y2)}."""
    actual = {}
    for row in range(height):
        for column in range(width):
            k = 0
            for ratio in ratios:
                w = away(math.sqrt(base * base / ratio))
                h = away(w * ratio)
                for scale in scales:
                    cx, cy = (base - 1) / 2 + column * stride, (base - 1) / 2 + row * stride
                    a, b = (w * scale - 1) / 2, (h * scale - 1) / 2
                    actual[row, column, k] = (cx - a, cy - b, cx + a, cy + b)
                    k += 1
    return actual


def overlap(a, b) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0]) + 1
    high = min(a[3], b[3]) - max(a[1], b[1]) + 1
    common = max(wide, 0) * max(high, 0)
    areas = [(c[2] - c[0] + 1) * (c[3] - c[1] + 1) for c in (a, b)]
    return common / (areas[0] + areas[1] - common)


def moved(box, move):
    w, h = box[2] - box[0] + 1, box[3] - box[1] + 1
    cx, cy = box[0] + w / 2 + move[0] * w, box[1] + h / 2 + move[1] * h
    w, h = w * math.exp(move[2]), h * math.exp(move[3])
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def offset(box, target):
    w, h = box[2] - box[0] + 1, box[3] - box[1] + 1
    v, u = target[2] - target[0] + 1, target[3] - target[1] + 1
    return (
        (target[0] + v / 2 - box[0] - w / 2) / w,
        (target[1] + u / 2 - box[1] - h / 2) / h,
        math.log(v / w),
        math.log(u / h),
    )


def propose(scores, moves, info, ratios, scales, stride, *, least, before, after, threshold, drop=False):
    """Rows (image, x1, y1, x2, y2) and scores."""
    rows, values = [], []
    for n in range(len(scores)):
        count = scores.shape[1] // 2
        height, width, scale = info[n][:3]
        actual = []
        for (row, column, k), box in anchors(ratios, scales, stride, *scores.shape[2:]).items():
            box = moved(box, moves[n, 4 * k : 4 * k + 4, row, column])
            box = tuple(min(max(v, 0), most - 1) for v, most in zip(box, (width, height) * 2, strict=True))
            score = scores[n, count + k, row, column]
            if min(box[2] - box[0], box[3] - box[1]) + 1 < least * scale:
                if drop:
                    continue
                score = 0
            actual.append((score, box))
        actual.sort(key=lambda pair: -pair[0])
        kept = []
        for score, box in actual[:before]:
            if len(kept) < after and all(overlap(box, other) <= threshold for _, other in kept):
                kept.append((score, box))
        rows += [(n, *box) for _, box in kept]
        values += [score for score, _ in kept]
    return np.array(rows), np.array(values)


def anchor_targets(shape, objects, info, ratios, scales, stride, positive=0.7, negative=0.3):
    """Labels, offsets, inside and outside weights, of all anchors: no sampling."""
    _, channels, height, width = shape
    count = channels // 2
    inside = {
        key: box
        for key, box in anchors(ratios, scales, stride, height, width).items()
        if box[0] >= 0 and box[1] >= 0 and box[2] < info[0][1] and box[3] < info[0][0]
    }
    common = {key: [overlap(box, o) for o in objects] for key, box in inside.items()}
    best = [max((c[g] for c in common.values()), default=0) for g in range(len(objects))]
    labels = np.full((1, 1, count * height, width), -1.0)
    targets, weights, outer = (np.zeros((1, 4 * count, height, width)) for _ in range(3))
    for (row, column, k), box in inside.items():
        actual = common[row, column, k]
        label = 0 if max(actual) < negative else -1
        if max(actual) >= positive or any(f == b > 0 for f, b in zip(actual, best, strict=True)):
            label = 1
        labels[0, 0, k * height + row, column] = label
        targets[0, 4 * k : 4 * k + 4, row, column] = offset(box, objects[int(np.argmax(actual))])
        weights[0, 4 * k : 4 * k + 4, row, column] = label == 1
        outer[0, 4 * k : 4 * k + 4, row, column] = label >= 0
    return [labels, targets, weights, outer / max(1, (labels >= 0).sum())]


def proposal_targets(rois, objects, classes, std=(0.1, 0.1, 0.2, 0.2)):
    """All boxes, objects first: rows, labels, offsets and weights."""
    every = [tuple(r[1:]) for r in rois] + [tuple(o[:4]) for o in objects]
    nearest = [max(range(len(objects)), key=lambda g, box=box: overlap(box, objects[g])) for box in every]
    actual = [overlap(box, objects[g]) >= 0.5 for box, g in zip(every, nearest, strict=True)]
    order = [i for i, f in enumerate(actual) if f] + [i for i, f in enumerate(actual) if not f]
    labels = np.array([objects[nearest[i]][4] if actual[i] else 0 for i in order])
    targets, weights = np.zeros((2, len(order), 4 * classes))
    for row, i in enumerate(order):
        if actual[i]:
            at = 4 * int(labels[row])
            targets[row, at : at + 4] = np.array(offset(every[i], objects[nearest[i]])) / std
            weights[row, at : at + 4] = 1
    return [np.array([(0, *every[i]) for i in order]), labels, targets, weights, weights]


def detections(rois, scores, moves, info, *, least, threshold, most, std=(0.1, 0.1, 0.2, 0.2)):
    """Rows (image, class, score, xmin, ymin, xmax, ymax)."""
    rows = []
    for image, (height, width, *_) in enumerate(info):
        mine = []
        for label in range(1, scores.shape[1]):
            actual = []
            for r in range(len(rois)):
                if rois[r, 0] == image and scores[r, label] >= least:
                    box = moved(rois[r, 1:], moves[r, 4 * label : 4 * label + 4] * std)
                    box = [min(max(v, 0), m) for v, m in zip(box, (width, height) * 2, strict=True)]
                    actual.append((scores[r, label], box))
            kept = []
            for score, box in sorted(actual, key=lambda pair: -pair[0]):
                if all(overlap(box, other) <= threshold for _, other in kept):
                    kept.append((score, box))
            mine += [(image, label, s, b[0] / width, b[1] / height, b[2] / width, b[3] / height) for s, b in kept]
        least_kept = sorted((row[2] for row in mine), reverse=True)[:most][-1:] or [0]
        rows += [row for row in mine if row[2] >= least_kept[0]]
    return np.array(rows)[None, None]
