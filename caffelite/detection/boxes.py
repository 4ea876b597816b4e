"""Arithmetic of boxes: area, intersection over union, encoding against priors, non-maximum suppression.

A box is four numbers (xmin, ymin, xmax, ymax) along the last axis of an array. Where ``pixels`` is true, both corners
are pixels that belong to the box, so that a side is max - min + 1; else a side is max - min. A box whose maximum is
below its minimum is empty. The functions named ``rcnn_…`` are those of R-CNN: a box reaches from min to max + 1, and
boxes less than a pixel apart still overlap. Sources: weiliu89/caffe (branch ssd) src/caffe/util/bbox_util.cpp;
rbgirshick/py-faster-rcnn lib/nms and lib/fast_rcnn/bbox_transform.py.
"""

import math

import numpy as np

BLOCK = 256  # boxes that suppression compares at once
CORNER, CENTER_SIZE, CORNER_SIZE = 1, 2, 3  # the values of PriorBoxParameter.CodeType
LARGEST_GROWTH = 60.0  # of the logarithm of a side, in R-CNN: beyond it float32 has no number


def areas(boxes: np.ndarray, pixels: bool = False) -> np.ndarray:
    """The areas (...) of boxes (..., 4); 0 for an empty box."""
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    return np.where((width < 0) | (height < 0), 0, (width + pixels) * (height + pixels))


def rounded(value: float | np.floating) -> int:
    """To the nearest integer, halves away from 0, as C's round."""
    return int(math.copysign(math.floor(abs(float(value)) + 0.5), value))


def intersections(a: np.ndarray, b: np.ndarray, pixels: bool = False) -> np.ndarray:
    """The areas (N, M) of the intersections of boxes (N, 4) with boxes (M, 4)."""
    # Coordinate by coordinate, each contiguous: many times faster than over the last axis
    left, top, right, bottom = np.ascontiguousarray(a.T)[:, :, None]
    other = np.ascontiguousarray(b.T)
    width = np.minimum(right, other[2]) - np.maximum(left, other[0])
    height = np.minimum(bottom, other[3]) - np.maximum(top, other[1])
    return np.where((width >= 0) & (height >= 0), (width + pixels) * (height + pixels), 0)


def overlaps(a: np.ndarray, b: np.ndarray, pixels: bool = False) -> np.ndarray:
    """Intersection over union (N, M) of boxes (N, 4) and (M, 4); 0 where a box is empty, has no area or is NaN."""
    common = intersections(a, b, pixels)
    union = areas(a, pixels)[:, None] + areas(b, pixels)[None] - common
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = common / union
    return np.where((common > 0) & (union > 0), ratio, 0)


def rcnn_overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union (N, M) of boxes (N, 4 or more) and (M, 4 or more), as R-CNN computes it."""
    sides = np.minimum(a[:, None, 2:4], b[None, :, 2:4]) - np.maximum(a[:, None, :2], b[None, :, :2]) + 1
    common = np.maximum(sides, 0).prod(-1)
    areas = [(boxes[:, 2:4] - boxes[:, :2] + 1).prod(-1) for boxes in (a, b)]
    return common / (areas[0][:, None] + areas[1][None] - common)


def coverages(a: np.ndarray, b: np.ndarray, pixels: bool = False) -> np.ndarray:
    """The share (N, M) of each box a (N, 4) that a box b (M, 4) covers; 0 for boxes without area."""
    common, own = intersections(a, b, pixels), areas(a, pixels)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = common / own
    return np.where((common > 0) & (own > 0), ratio, 0)


def clip(boxes: np.ndarray, width: float = 1, height: float = 1) -> np.ndarray:
    """The boxes (..., 4) cut at 0 and at width and height."""
    return np.clip(boxes, 0, np.array([width, height, width, height], boxes.dtype))


def rcnn_clip(boxes: np.ndarray, height: float, width: float) -> np.ndarray:
    """The boxes (N, 4) with corners on pixels of an image."""
    most = np.array([width - 1, height - 1] * 2, boxes.dtype)
    return np.maximum(np.minimum(boxes, most), 0)


def project(boxes: np.ndarray, region: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes (N, 4) in the coordinates of a region (4) of their image, in which the region is 0 to 1, cut at its sides;
    and (N) which of them have some area in it."""
    sides = region[2:] - region[:2]
    moved = clip((boxes - np.tile(region[:2], 2)) / np.tile(sides, 2))
    within = (boxes[:, :2] < region[2:]).all(-1) & (boxes[:, 2:] > region[:2]).all(-1)
    return moved, within & (areas(moved) > 0)


def centers_and_sizes(boxes: np.ndarray, pixels: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The centers (..., 2) and sides (..., 2) of boxes. pixels: the center is min + side / 2, as in R-CNN."""
    sizes = boxes[..., 2:] - boxes[..., :2] + pixels
    return boxes[..., :2] + sizes / 2, sizes


def from_centers(centers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Boxes (..., 4) from centers and sides."""
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], -1)


def encode(
    boxes: np.ndarray, priors: np.ndarray, variances: np.ndarray | None, code: int, pixels: bool = False
) -> np.ndarray:
    """The offsets (..., 4) of boxes from priors. variances: by which offsets are divided (..., 4), or None.

    code: CORNER, CENTER_SIZE or CORNER_SIZE. Boxes and, except for CORNER, priors must have area.
    """
    if code == CENTER_SIZE:
        center, size = centers_and_sizes(boxes, pixels)
        prior_center, prior_size = centers_and_sizes(priors, pixels)
        with np.errstate(divide="ignore", invalid="ignore"):
            offsets = np.concatenate([(center - prior_center) / prior_size, np.log(size / prior_size)], -1)
    else:
        offsets = boxes - priors
        if code == CORNER_SIZE:
            offsets = offsets / np.tile(priors[..., 2:] - priors[..., :2], 2)
    return offsets if variances is None else offsets / variances


def decode(
    offsets: np.ndarray, priors: np.ndarray, variances: np.ndarray | None, code: int, pixels: bool = False
) -> np.ndarray:
    """The boxes (..., 4) that have these offsets from priors: the inverse of ``encode`` (of pixels: not rounded, and
    max is center + side / 2, as in R-CNN)."""
    if variances is not None:
        offsets = offsets * variances
    if code == CENTER_SIZE:
        prior_center, prior_size = centers_and_sizes(priors, pixels)
        with np.errstate(over="ignore"):
            size = np.exp(offsets[..., 2:]) * prior_size
        with np.errstate(invalid="ignore"):
            return from_centers(offsets[..., :2] * prior_size + prior_center, size)
    if code == CORNER_SIZE:
        offsets = offsets * np.tile(priors[..., 2:] - priors[..., :2], 2)
    return priors + offsets


def rcnn_encode(boxes: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The offsets (N, 4) that move each box to its target, in units of the box: x, y, log width, log height."""
    return encode(targets[:, :4], boxes[:, :4], None, CENTER_SIZE, pixels=True)


def rcnn_decode(boxes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The boxes (N, 4) moved by offsets. The maximum is a pixel further than ``rcnn_encode`` undoes, as in R-CNN."""
    growth = np.minimum(offsets[:, 2:], offsets.dtype.type(LARGEST_GROWTH))
    return decode(np.concatenate([offsets[:, :2], growth], 1), boxes[:, :4], None, CENTER_SIZE, pixels=True)


def by_score(scores: np.ndarray, most: int = -1, above: float = -np.inf) -> np.ndarray:
    """The indices of scores above a threshold, highest first, of equal ones the lowest index first. most: how many at
    most, -1: all. A NaN is above nothing."""
    chosen = np.flatnonzero(scores > above)
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    return chosen[:most] if most > -1 else chosen


def suppress(
    boxes: np.ndarray,
    scores: np.ndarray,
    threshold: float,
    *,
    most: int = -1,
    above: float = -np.inf,
    eta: float = 1,
    pixels: bool = False,
    most_kept: int = -1,
) -> np.ndarray:
    """Non-maximum suppression: the indices of the boxes (N, 4) that stay, highest score first.

    A box is dropped where it overlaps one of a higher score that stays by more than the threshold. most, above: only
    the first boxes of ``by_score`` are looked at. eta: below 1, each box that stays multiplies the threshold by it, as
    long as that is above 0.5. most_kept: stop when so many stay, -1: never.
    """
    order = by_score(scores, most, above)
    if eta < 1:
        return _suppress_adaptively(boxes, order, threshold, eta, pixels, most_kept)
    boxes, left = boxes[order], np.ones(len(order), bool)
    stays: list[int] = []
    # Blocks of a table of all overlaps: faster than a row at a time, and small enough for a cache
    for start in range(0, len(order), BLOCK):
        block = boxes[start : start + BLOCK]
        own = overlaps(block, block, pixels) > threshold
        mine: list[int] = []
        for i in np.flatnonzero(left[start : start + BLOCK]).tolist():
            if len(stays) + len(mine) == most_kept:
                break
            if left[start + i]:
                mine.append(i)
                left[start + i + 1 : start + len(block)] &= ~own[i, i + 1 :]
        stays += [start + i for i in mine]
        if len(stays) == most_kept:
            break
        later = start + BLOCK + np.flatnonzero(left[start + BLOCK :])
        if len(later) and mine:
            left[later[(overlaps(block[mine], boxes[later], pixels) > threshold).any(0)]] = False
    return order[stays]


def _suppress_adaptively(
    boxes: np.ndarray, order: np.ndarray, threshold: float, eta: float, pixels: bool, most_kept: int
) -> np.ndarray:
    stays: list[int] = []
    for index in order:
        if len(stays) == most_kept:
            break
        if (overlaps(boxes[index : index + 1], boxes[stays], pixels) <= threshold).all():
            stays.append(index)
            if threshold > 0.5:
                threshold *= eta
    return np.array(stays, np.intp)


def rcnn_suppress(boxes: np.ndarray, threshold: float, most: int) -> np.ndarray:
    """Non-maximum suppression as in R-CNN: the indices of at most ``most`` boxes, which come best first, that overlap
    no better one by more than ``threshold``."""
    x1, y1, x2, y2 = (np.ascontiguousarray(boxes[:, k]) for k in range(4))
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    left = np.arange(len(boxes))
    chosen: list[int] = []
    while len(left) and len(chosen) < most:
        best, left = left[0], left[1:]
        chosen.append(best)
        width = np.minimum(x2[best], x2[left]) - np.maximum(x1[best], x1[left]) + 1
        height = np.minimum(y2[best], y2[left]) - np.maximum(y1[best], y1[left]) + 1
        common = np.maximum(width, 0) * np.maximum(height, 0)
        left = left[~(common / (areas[best] + areas[left] - common) > threshold)]
    return np.array(chosen, np.intp)
