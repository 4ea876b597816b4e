"""Rows of the table of layers: region detectors."""

import numpy as np
from families.rcnn import oracles
from layers.layer_row import Row, distinct, labels

RATIOS, SCALES = (0.5, 1.0, 2.0), (1.0, 2.0)
ANCHORS = "ratio: [0.5, 1, 2] scale: [1, 2] feat_stride: 8"
MAP = 5, 6


def boxes(rng, shape):
    """Boxes of a map of 6×5 at stride 4: the first of image 0, others of image 1, no corner near a rounding."""
    rows = np.array([[0, 1, 2, 18, 21], [1, 5, 2, 13, 9], [1, 1, 9, 14, 22], [1, 6, 6, 9, 9]], float)
    return rows[: shape[0]] + [0, 0.3, 0.3, 0.3, 0.3]


def info(rng, shape):
    return np.full(shape, 1.0) * (40, 48, 1)


def objects(rng, shape):
    rows = np.array([[4, 5, 22, 20, 2], [25, 8, 46, 37, 1], [0, 22, 12, 38, 3], [0, 0, 0, 0, -1]], float)
    return rows[: shape[0]]


def candidates(rng, shape):
    near = np.array([[0, 5, 5, 20, 22], [0, 24, 10, 44, 36], [0, 30, 0, 44, 12], [0, 0, 0, 47, 39], [0, 2, 20, 13, 36]])
    return near[: shape[0]] + 0.25 * (np.arange(5) > 0)


def images(rng, shape):
    rows = np.zeros(shape)
    rows[:, 0, 0, 0] = np.arange(shape[0]) % 2
    return rows


def proposals(scores, moves, size):
    given = {"least": 6, "before": 100, "after": 12, "threshold": 0.5}
    return oracles.propose(scores, moves, size, RATIOS, SCALES, 8, **given)


def real(rows):
    return rows[rows[:, 4] >= 1]


def hard_softmax(x, label):
    kept = label != 2
    top = x - x.max(1, keepdims=True)
    each = np.log(np.exp(top).sum(1)) - np.take_along_axis(top, label.astype(int)[:, None], 1)[:, 0]
    prob = np.exp(top) / np.exp(top).sum(1, keepdims=True)
    return [(each * kept).sum() / max(1, kept.sum()), prob, (each * kept)[:, None]]


def hard_smooth(a, b, w):
    far = np.abs(w * (a - b))
    each = np.where(far < 1, far * far / 2, far - 0.5)
    return [each.sum() / (len(a) * a[0, 0].size), each.sum(1, keepdims=True)]


def annotated(rois, losses, label, weights):
    kept = np.zeros(len(rois), bool)
    for image in (0, 1):
        mine = [i for i in range(len(rois)) if rois[i, 0, 0, 0] == image]
        kept[sorted(mine, key=lambda i: -losses[i, 0, 0, 0])[:2]] = True
    return [np.where(kept[:, None, None, None], label, -1), weights * kept[:, None, None, None]]


FED = [np.arange(36.0).reshape(1, 3, 3, 4), np.array([[3.0, 4.0, 1.0]]), np.array([[0.0, 1, 2, 2, 1]])]

ROWS = [
    Row(
        "ROIPooling",
        "pooled_h: 3 pooled_w: 2 spatial_scale: 0.25",
        lambda x, rois: oracles.roi_pooling(x, rois, 3, 2, 0.25),
        [((2, 3, 6, 5), distinct), ((4, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "ROIPooling of enlarged boxes",
        "pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 pad_ratio: 0.3",
        lambda x, rois: oracles.roi_pooling(x, rois, 3, 2, 0.25, 0.3),
        [((2, 3, 6, 5), distinct), ((4, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "PSROIPooling",
        "output_dim: 2 group_size: 2 spatial_scale: 0.25",
        lambda x, rois: oracles.position_pooling(x, rois, 2, 2, 0.25),
        [(2, 8, 6, 5), ((4, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "ROIAlign",
        "pooled_h: 2 pooled_w: 3 spatial_scale: 0.25 pad_ratio: 0.0625",
        lambda x, rois: oracles.align(x, rois, 2, 3, 0.25, 0.0625),
        [(2, 3, 6, 5), ((4, 5), boxes)],
        constant=(1,),
    ),
    Row(
        "Proposal",
        f"{ANCHORS} min_size: 6 pre_nms_topn: 100 post_nms_topn: 12 nms_thresh: 0.5",
        lambda *x: proposals(*x),
        [((2, 12, *MAP), distinct), ((2, 24, *MAP), lambda rng, shape: 0.2 * rng.normal(size=shape)), ((2, 3), info)],
        tops=2,
    ),
    Row(
        "AnchorTarget",
        f"{ANCHORS} batch_size: 1000 fg_fraction: 1",
        lambda x, found, size: oracles.anchor_targets(x.shape, real(found), size, RATIOS, SCALES, 8),
        [(1, 12, *MAP), ((4, 5), objects), ((1, 3), info)],
        tops=4,
    ),
    Row(
        "ProposalTarget",
        "num_classes: 4 batch_size: -1",
        lambda rois, found: oracles.proposal_targets(rois, real(found), 4),
        [((5, 5), candidates), ((3, 5), objects)],
        tops=5,
    ),
    Row(
        "SoftmaxWithLossOHEM",
        "loss_param { ignore_label: 2 }",
        hard_softmax,
        [(4, 3, 2, 1), ((4, 2, 1), labels(3, 2))],
        tops=3,
    ),
    Row(
        "SmoothL1LossOHEM",
        "",
        hard_smooth,
        [(3, 4, 1, 2), ((3, 4, 1, 2), lambda rng, s: 3 + rng.random(s)), ((3, 4, 1, 2), labels(2))],
        tops=2,
    ),
    Row(
        "BoxAnnotatorOHEM",
        "roi_per_img: 2",
        annotated,
        [((7, 5, 1, 1), images), ((7, 1, 1, 1), distinct), ((7, 1, 1, 1), labels(3)), (7, 8, 1, 1)],
        tops=2,
    ),
    Row(
        "RoIDetectionOutput",
        "nms_threshold: 0.4 keep_top_k: 6 confidence_threshold: 0.2",
        lambda *x: oracles.detections(*x, least=0.2, threshold=0.4, most=6),
        [((5, 5), candidates), ((5, 4), distinct), (5, 16), ((1, 3), info)],
    ),
    Row("RoIData", 'source: "boxes.json"', lambda: FED, tops=3, source=FED),
]
