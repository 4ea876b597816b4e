"""Average precision of detections: VOC 2007 and 2012, the plain integral, COCO.

Sources: weiliu89/caffe (branch ssd) src/caffe/util/bbox_util.cpp (ComputeAP); cocodataset/cocoapi
PythonAPI/pycocotools/cocoeval.py.
"""

from collections.abc import Iterable

import numpy as np

from .boxes import areas, intersections, overlaps

VERSIONS = "11point", "MaxIntegral", "Integral"
COCO_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).round(2).tolist())
COCO_RECALLS = np.linspace(0, 1, 101)
COCO_MOST = 100  # detections of an image and class


def curve(scores: np.ndarray, hits: np.ndarray, positives: int) -> tuple[np.ndarray, np.ndarray]:
    """Precision (N) and recall (N) of the detections up to each one, by falling score. hits (N): which are right;
    positives: the number of objects, above 0."""
    right = np.cumsum(hits[np.argsort(-scores, kind="stable")])
    return right / np.arange(1, len(right) + 1), right / positives


def average_precision(scores: np.ndarray, hits: np.ndarray, positives: int, version: str = "Integral") -> float:
    """The average precision of a class, from 0 to 1; 0 without detections or objects.

    version: "11point" (VOC 2007: the mean of the best precision from each recall 0, 0.1, … 1 on), "MaxIntegral" (VOC
    2012: the area under the precision made monotonic), "Integral" (the area under the precision) or "COCO" (as
    MaxIntegral, at 101 recalls).
    """
    if not positives or not len(scores):
        return 0.0
    precision, recall = curve(scores, hits, positives)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    if version == "11point":
        from_recall = [best[recall >= r - 1e-9] for r in np.linspace(0, 1, 11)]
        return float(sum(part[0] if len(part) else 0 for part in from_recall) / 11)
    if version == "COCO":
        indices = np.searchsorted(recall, COCO_RECALLS, side="left")
        return float(np.append(best, 0)[indices].mean())
    steps = np.diff(recall, prepend=0)
    return float((steps * (best if version == "MaxIntegral" else precision)).sum())


def mean_precision(rows: np.ndarray, version: str) -> tuple[float, dict[int, float]]:
    """The mean of the average precisions of all classes, and each class's; of rows (R, 5) as DetectionEvaluate makes
    them in any number of passes: (-1, class, objects, -1, -1) and (image, class, score, right, wrong)."""
    counts: dict[int, int] = {}
    for _, label, count, _, _ in rows[rows[:, 0] == -1]:
        counts[int(label)] = counts.get(int(label), 0) + int(count)
    evaluated = rows[(rows[:, 0] != -1) & ((rows[:, 3] != 0) | (rows[:, 4] != 0))]
    each = {
        label: average_precision(mine[:, 2], mine[:, 3], count, version)
        for label, count in sorted(counts.items())
        for mine in (evaluated[evaluated[:, 1] == label],)
    }
    return (sum(each.values()) / len(each) if each else 0.0), each


def judge(
    detections: np.ndarray,
    scores: np.ndarray,
    known: np.ndarray,
    difficult: np.ndarray,
    threshold: float,
    pixels: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Which detections (N, 4) of an image and class are right (N), and which count (N), as in VOC.

    In the order of falling scores each detection is compared with the object (M, 4) that it overlaps most. It is right
    if that is at least ``threshold`` and the object has no detection yet. It does not count if the object is difficult.
    """
    right, counted = np.zeros(len(detections), bool), np.ones(len(detections), bool)
    if not len(known):
        return right, counted
    table, taken = overlaps(detections, known, pixels), np.zeros(len(known), bool)
    for i in np.argsort(-scores, kind="stable"):
        best = table[i].argmax()
        if table[i, best] >= threshold:
            counted[i] = not difficult[best]
            right[i] = not (taken[best] or difficult[best])
            taken[best] = True
    return right, counted


def judge_coco(
    detections: np.ndarray, scores: np.ndarray, known: np.ndarray, ignored: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same as in COCO: a detection takes the free object that it overlaps most, of those that count before those
    that are ignored (crowds, difficult ones), which any number may take; of ignored ones the share of the detection
    counts."""
    right, counted = np.zeros(len(detections), bool), np.ones(len(detections), bool)
    order = np.argsort(-scores, kind="stable")
    counted[order[COCO_MOST:]] = False
    if not len(known):
        return right, counted
    table, taken = overlaps(detections, known), np.zeros(len(known), bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = intersections(detections, known) / areas(detections)[:, None]
    crowd = np.where(np.isfinite(share), share, 0)
    for i in order[:COCO_MOST]:
        free = np.where(taken | ignored, -1, table[i])
        if free.max() >= min(threshold, 1 - 1e-10):
            taken[free.argmax()] = right[i] = True
        elif (ignored & (crowd[i] >= threshold)).any():
            counted[i] = False
    return right, counted


Image = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # boxes, scores; objects, difficult: of one class


def class_precision(images: Iterable[Image], version: str, threshold: float) -> tuple[float, np.ndarray, np.ndarray]:
    """The average precision of a class over images, and its curve (precision, recall). version: as
    ``average_precision``."""
    scores, hits, positives = [], [], 0
    compare = judge_coco if version == "COCO" else judge
    for detections, values, known, difficult in images:
        right, counted = compare(detections, values, known, difficult, threshold)
        scores.append(values[counted])
        hits.append(right[counted])
        positives += int((~difficult).sum())
    all_scores, all_hits = np.concatenate([np.zeros(0), *scores]), np.concatenate([np.zeros(0), *hits])
    value = average_precision(all_scores, all_hits, positives, version)
    if not positives:
        return value, np.zeros(0), np.zeros(0)
    return value, *curve(all_scores, all_hits, positives)
