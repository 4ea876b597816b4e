"""The layers of detectors box by box, in loops over plain numbers, after the formulas of SSD (Liu et al. 2016)."""

import math

import numpy as np


def area(b):
    return max(0.0, b[2] - b[0]) * max(0.0, b[3] - b[1])


def iou(a, b):
    common = area([max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])])
    return common / (area(a) + area(b) - common) if common > 0 else 0.0


def prior_boxes(sizes, offset=0.5, step=None, image=None, clip=False, variance=(0.1,) * 4):
    """sizes: (width, height) of each box, in pixels, and optionally how many steps it is to the right and below. clip:
    how many of these boxes are cut at the sides of the image, or True."""

    def oracle(feature, picture):
        rows, columns = feature.shape[2:]
        high, wide = image or picture.shape[2:]
        step_y, step_x = step or (high / rows, wide / columns)
        actual = []
        for r in range(rows):
            for c in range(columns):
                for i, (w, h, *shift) in enumerate(sizes):
                    right, below = shift or (0, 0)
                    x, y = (c + offset + right) * step_x, (r + offset + below) * step_y
                    box = [(x - w / 2) / wide, (y - h / 2) / high, (x + w / 2) / wide, (y + h / 2) / high]
                    actual += [min(1, max(0, v)) for v in box] if clip is True or i < clip else box
        return [np.array([actual, list(variance) * (len(actual) // 4)])[None]]

    return oracle


def encoded(box, prior, variance, code):
    w, h = prior[2] - prior[0], prior[3] - prior[1]
    if code == "CENTER_SIZE":
        actual = [
            ((box[0] + box[2]) - (prior[0] + prior[2])) / 2 / w,
            ((box[1] + box[3]) - (prior[1] + prior[3])) / 2 / h,
            math.log((box[2] - box[0]) / w),
            math.log((box[3] - box[1]) / h),
        ]
    else:
        scale = [w, h, w, h] if code == "CORNER_SIZE" else [1] * 4
        actual = [(b - p) / s for b, p, s in zip(box, prior, scale, strict=True)]
    return [f / v for f, v in zip(actual, variance, strict=True)]


def decoded(offset, prior, variance, code):
    w, h = prior[2] - prior[0], prior[3] - prior[1]
    o = [a * v for a, v in zip(offset, variance, strict=True)]
    if code == "CENTER_SIZE":
        x, y = (prior[0] + prior[2]) / 2 + o[0] * w, (prior[1] + prior[3]) / 2 + o[1] * h
        half = math.exp(o[2]) * w / 2, math.exp(o[3]) * h / 2
        return [x - half[0], y - half[1], x + half[0], y + half[1]]
    scale = [w, h, w, h] if code == "CORNER_SIZE" else [1] * 4
    return [p + a * s for a, p, s in zip(o, prior, scale, strict=True)]


def matched(candidates, objects, threshold):
    """The object of each candidate, or -1: first the pairs of largest overlap, then by the threshold."""
    table = {(i, j): iou(c, o) for i, c in enumerate(candidates) for j, o in enumerate(objects)}
    actual = [-1] * len(candidates)
    free = {j for j in range(len(objects))}
    for _, i, j in sorted((-v, i, j) for (i, j), v in table.items() if v > 1e-6):
        if j in free and actual[i] < 0:
            actual[i] = j
            free.discard(j)
    best = [max(table[i, j] for j in range(len(objects))) for i in range(len(candidates))]
    for i in range(len(candidates)):
        if threshold is not None and actual[i] < 0 and best[i] >= threshold:
            actual[i] = max(range(len(objects)), key=lambda j: (table[i, j], -j))
    return actual, best


def score_loss(scores, label, logistic, focal=None):
    """focal: (alpha, gamma) of a focal loss."""
    if focal:
        p = math.exp(scores[label]) / sum(math.exp(s) for s in scores)
        return -focal[0] * (1 - p) ** focal[1] * math.log(p)
    if logistic:
        total = 0.0
        for c, s in enumerate(scores):
            total += math.log(1 + math.exp(-s if c == label else s))
        return total
    return math.log(sum(math.exp(s - max(scores)) for s in scores)) + max(scores) - scores[label]


MULTIBOX = {
    "code": "CORNER", "mining": "MAX_NEGATIVE", "ratio": 3.0, "least": 0.5, "logistic": False, "squares": False,
    "weight": 1.0, "threshold": 0.5, "difficult": True, "separate": False, "predicted": False, "in_target": False,
    "inside": False, "cross": True, "samples": 64, "divisor": None, "joined": False, "sure": 0.01,
    "focal": None,
}  # fmt: skip


class Image:
    """An image of a batch: its predictions, and the objects in it. o: options as in MULTIBOX."""

    def __init__(self, o, offsets, scores, boxes, variances, rows, sure=None):
        self.o, self.offsets, self.scores, self.boxes, self.variances = o, offsets, scores, boxes, variances
        self.sure = sure
        self.coding = np.ones_like(variances) if o["in_target"] else variances
        self.labels, self.objects = [int(r[1]) for r in rows], [r[3:7] for r in rows]
        self.count = len(boxes)
        self.candidates = boxes
        if o["predicted"]:
            self.candidates = [self.decoded(k) for k in range(self.count)]
        self.out = [not o["cross"] and any(v < 0 or v > 1 for v in c) for c in self.candidates]
        self.found, self.best = [-1] * self.count, [0.0] * self.count
        if rows:
            _, self.best = matched(self.candidates, self.objects, o["threshold"])
            keep = [k for k in range(self.count) if not self.out[k]]
            some, _ = matched([self.candidates[k] for k in keep], self.objects, o["threshold"])
            for k, f in zip(keep, some, strict=True):
                self.found[k] = f

    def decoded(self, k):
        return decoded(self.offsets[k, 0], self.boxes[k], self.coding[k], self.o["code"])

    def location(self, k):
        o, j = self.o, self.found[k]
        target = encoded(self.objects[j], self.boxes[k], self.coding[k], o["code"])
        given = self.offsets[k, self.labels[j] if o["separate"] else 0]
        total = 0.0
        for a, t, v, c in zip(given, target, self.variances[k], self.candidates[k], strict=True):
            d = (a - t) / (v if o["in_target"] else 1)
            if not (o["inside"] and (c < 0 or c > 1)):
                total += d * d / 2 if o["squares"] or abs(d) < 1 else abs(d) - 0.5
        return total

    def confidence(self, k, focal=None):
        o = self.o
        none = -1 if o["mining"] == "NONE" and o["logistic"] else 0
        label = self.labels[self.found[k]] if self.found[k] >= 0 else none
        return score_loss(self.scores[k].tolist(), label, o["logistic"], focal)

    def loss(self):
        """The sum, and the number of matched priors in it."""
        o, every = self.o, range(self.count)
        chosen, total = [k for k in every if self.found[k] >= 0], 0.0
        if o["mining"] == "NONE":
            total = sum(self.confidence(k, o["focal"]) for k in every)
        elif self.objects and o["mining"] == "MAX_NEGATIVE":
            others = [k for k in every if self.found[k] < 0 and self.best[k] < o["least"] and not self.out[k]]
            others = [k for k in others if self.sure is None or self.sure[k]]
            others = sorted(others, key=lambda k: -self.confidence(k))[: int(len(chosen) * o["ratio"])]
            total = sum(self.confidence(k, o["focal"]) for k in chosen + others)
        elif self.objects:
            both = {k: self.confidence(k) + (self.location(k) if self.found[k] >= 0 else 0) for k in every}
            hard = sorted(both, key=lambda k: -both[k])[: o["samples"]]
            chosen = [k for k in chosen if k in hard]
            total = sum(self.confidence(k) for k in hard if self.found[k] >= 0 or not self.out[k])
        return total + o["weight"] * sum(self.location(k) for k in chosen), len(chosen)


def multibox(classes, **options):
    o = MULTIBOX | options

    def oracle(offsets, scores, priors, rows, objectness=None, moves=None):
        n, (boxes, variances) = len(offsets), priors.reshape(2, -1, 4)
        p = len(boxes)
        offsets, scores = offsets.reshape(n, p, -1, 4), scores.reshape(n, p, classes)
        total, positives = 0.0, 0
        for i in range(n):
            mine = [r for r in rows.reshape(-1, 8) if r[0] == i and (o["difficult"] or not r[7])]
            if o["joined"]:
                mine = [[*r[:1], min(r[1], 1), *r[2:]] for r in mine]
            anchors, sure = boxes, None
            if moves is not None:
                coding = np.ones_like(variances) if o["in_target"] else variances
                each = zip(moves[i].reshape(-1, 4), boxes, coding, strict=True)
                anchors = np.array([decoded(*one, o["code"]) for one in each])
            if objectness is not None:
                sure = objectness[i].reshape(-1, 2)[:, 1] >= o["sure"]
            loss, count = Image(o, offsets[i], scores[i], anchors, variances, mine, sure).loss()
            total, positives = total + loss, positives + count
        return [total / (o["divisor"](n, p) if o["divisor"] else max(1, positives))]

    return oracle


def detections(
    classes, code="CORNER", threshold=0.3, most=None, keep=None, above=-math.inf, eta=1.0, separate=False, clip=False
):
    def oracle(offsets, scores, priors, *_):
        n, (boxes, variances) = len(offsets), priors.reshape(2, -1, 4)
        p = len(boxes)
        offsets, scores = offsets.reshape(n, p, -1, 4), scores.reshape(n, p, classes)
        rows = []
        for i in range(n):
            mine = []
            for c in range(1, classes):
                actual = [decoded(offsets[i, k, c if separate else 0], boxes[k], variances[k], code) for k in range(p)]
                actual = np.clip(actual, 0, 1).tolist() if clip else actual
                order = sorted((k for k in range(p) if scores[i, k, c] > above), key=lambda k, c=c: -scores[i, k, c])
                stays, limit = [], threshold
                for k in order[:most]:
                    if all(iou(actual[k], actual[s]) <= limit for s in stays):
                        stays.append(k)
                        limit *= eta if limit > 0.5 else 1
                mine += [[i, c, scores[i, k, c], *actual[k]] for k in stays]
            if keep is not None and len(mine) > keep:
                least = sorted((m[2] for m in mine), reverse=True)[keep - 1]
                mine = [m for m in mine if m[2] >= least]
            rows += mine
        return [np.array(rows or [[i, *[-1] * 6] for i in range(n)], float).reshape(1, 1, -1, 7)]

    return oracle


def evaluated(classes, threshold=0.5, difficult=True):
    def oracle(found, known):
        found, known = found.reshape(-1, 7), known.reshape(-1, 8)
        rows = []
        for c in range(1, classes):
            count = sum(1 for k in known if k[0] != -1 and k[1] == c and (difficult or not k[7]))
            rows.append([-1, c, count, -1, -1])
        for item in sorted({f[0] for f in found if f[1] != -1}):
            for c in range(1, classes):
                mine = sorted((f for f in found if f[0] == item and f[1] == c), key=lambda f: -f[2])
                objects, seen = [k for k in known if k[0] == item and k[1] == c], set()
                for f in mine:
                    overlaps = [iou(f[3:7], k[3:7]) for k in objects]
                    best = int(np.argmax(overlaps)) if overlaps else -1
                    right, wrong = 0, 1
                    if overlaps and overlaps[best] >= threshold:
                        right, wrong = int(best not in seen), int(best in seen)
                        if objects[best][7] and not difficult:
                            right = wrong = 0
                        seen.add(best)
                    rows.append([item, c, f[2], right, wrong])
        return [np.array(rows, float).reshape(1, 1, -1, 5)]

    return oracle
