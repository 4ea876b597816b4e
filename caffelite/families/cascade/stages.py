"""The arithmetic of cascades of detectors (MS-CNN, Cascade R-CNN), and the fields that it reads.

Boxes are (xmin, ymin, xmax, ymax). Sources: Cai et al. 2016 and 2018; zhaoweicai/mscnn
src/caffe/layers/box_output_layer.cpp and src/caffe/util/math_functions.cpp; zhaoweicai/cascade-rcnn
src/caffe/util/bbox_util.cpp.
"""

import numpy as np

from ...detection.boxes import areas, by_score, intersections
from ...layers.base.layer import Layer

KINDS = ("IOU", "IOMU", "IOFU")
MATCHES = 0.975  # a box that overlaps its object by more is the object's own


def decode_map(
    offsets: np.ndarray,
    anchor: tuple[float, float],
    stride: float,
    ratios: tuple[float, float],
    normal: tuple[np.ndarray, np.ndarray],
    pixels: bool,
) -> np.ndarray:
    """The boxes (H · W, 4) of offsets (4, H, W) from fields of the size of ``anchor`` around each cell.

    ratios: the largest ratio of sizes, and the inverse of the largest offset of a center in sizes of the field. normal:
    deviation and mean of the offsets. pixels: the maximum is the last pixel.
    """
    height, width = offsets.shape[1:]
    deviation, mean = (values.reshape(4, 1, 1) for values in normal)
    moved, size = offsets * deviation + mean, np.array(anchor, float).reshape(2, 1, 1)
    cells = np.array(np.meshgrid(np.arange(width), np.arange(height)), float)
    centers = np.clip(moved[:2], -1 / ratios[1], 1 / ratios[1]) * size + (cells + 0.5) * stride
    sizes = size * np.exp(np.clip(moved[2:], -np.log(ratios[0]), np.log(ratios[0])))
    low = centers - sizes / 2
    return np.concatenate([low, low + sizes - pixels]).reshape(4, -1).T


def decode_boxes(offsets: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """The boxes (..., 4) that offsets (..., 4) make of boxes (..., 4); both corners are pixels that belong to a box."""
    sizes = boxes[..., 2:] - boxes[..., :2] + 1
    with np.errstate(over="ignore", invalid="ignore"):
        moved = sizes * np.exp(offsets[..., 2:])
        low = offsets[..., :2] * sizes + (boxes[..., :2] + boxes[..., 2:]) / 2 - (moved - 1) / 2
        return np.concatenate([low, low + moved - 1], -1)


def paired_overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union (R) of each box of a (R, 4) with that of b (R, 4); both corners belong to a box. 0 where
    a number is not finite."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sides = np.minimum(a[:, 2:], b[:, 2:]) - np.maximum(a[:, :2], b[:, :2])
        common = np.where((sides >= 0).all(1), (sides + 1).prod(1), 0)
        ratio = common / (areas(a, True) + areas(b, True) - common)
    return np.where(np.isfinite(ratio), ratio, 0)


def hardest(losses: np.ndarray, images: np.ndarray, each: int, most: int) -> np.ndarray:
    """The ascending indices of ``most`` of the boxes (R): of each image the ``each`` of the highest losses, then the
    highest of all others; of equal losses the last."""
    order = np.lexsort((np.arange(len(losses)), losses))[::-1]
    rank = np.empty(len(losses), int)
    for image in np.unique(images):
        own = order[images[order] == image]
        rank[own] = np.arange(len(own))
    chosen = np.concatenate([order[rank[order] < each], order[rank[order] >= each]])
    return np.sort(chosen[:most])


def suppress(boxes: np.ndarray, threshold: float, kind: str, pixels: bool) -> np.ndarray:
    """The indices of boxes (M, 4), best first, that overlap no better one that stays by more than the threshold. kind:
    the intersection is divided by the union (IOU), the smaller box (IOMU) or the better one (IOFU)."""
    own, stays, rest = areas(boxes, pixels), [], np.arange(len(boxes))
    while len(rest):
        best, rest = rest[0], rest[1:]
        stays.append(best)
        common = intersections(boxes[best : best + 1], boxes[rest], pixels)[0]
        if kind == "IOMU":
            whole = np.minimum(own[best], own[rest])
        elif kind == "IOFU":
            whole = np.full(len(rest), own[best])
        else:
            whole = own[best] + own[rest] - common
        ratio = np.divide(common, whole, out=np.zeros(len(rest)), where=whole > 0)
        rest = rest[ratio <= threshold]
    return np.array(stays, np.intp)


def proposals(
    boxes: np.ndarray, scores: np.ndarray, threshold: float, kind: str, pixels: bool, before: int, after: int
) -> np.ndarray:
    """The indices of the boxes that stay, best first. before, after: how many at most before and after suppression, 0:
    all."""
    order = by_score(scores, before or -1)
    stays = order[suppress(boxes[order], threshold, kind, pixels)]
    return stays[:after] if after else stays


def routed(boxes: np.ndarray, low: float, high: float, middle: float) -> np.ndarray:
    """The indices of boxes (R, 4) with a scale √area from ``low`` to below ``high``; else of the one nearest to
    ``middle`` by ratio. Both corners belong to a box."""
    scale = np.sqrt(areas(boxes, True))
    chosen = np.flatnonzero((scale >= low) & (scale < high))
    if len(chosen):
        return chosen
    with np.errstate(divide="ignore"):
        gap = np.abs(np.log2(scale / middle))
    return np.array([np.argmin(np.where(np.isnan(gap), np.inf, gap))])


def normalization(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of box offsets (4): 0 and 1 unless bbox_reg_param has both. Errors: not 4 of them, a deviation
    of 0 or less."""
    p = layer.spec.bbox_reg_param
    mean, deviation = np.array(p.bbox_mean, float), np.array(p.bbox_std, float)
    if not len(mean) or not len(deviation):
        return np.zeros(4), np.ones(4)
    if len(mean) != 4 or len(deviation) != 4 or not (deviation > 0).all():
        found = f"{len(mean)} means, {len(deviation)} deviations from {deviation.min():g}"
        expected = "4 of bbox_mean and 4 of bbox_std above 0"
        raise layer.error("a bad bbox_reg_param", "bbox_reg_param", expected=expected, found=found, outer=True)
    return mean, deviation


def check_nms_type(layer: Layer) -> None:
    """Errors: an unknown nms_type."""
    if layer.p.nms_type not in KINDS:
        expected, found = " or ".join(f'"{kind}"' for kind in KINDS), f'"{layer.p.nms_type}"'
        raise layer.error("an unknown nms_type", "nms_type", expected=expected, found=found)
