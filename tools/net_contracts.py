"""Layers that only valid data reach: boxes, priors, objects, anchors. What they read, with values that suit it."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
MEANS = "bbox_reg_param { " + "bbox_mean: 0.125 " * 4 + "bbox_std: 0.5 bbox_std: 0.25 bbox_std: 0.5 bbox_std: 1 }"
SIDE = 48.0  # pixels of a picture, of which boxes in pixels are boxes


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 2, shape)


def shares(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.05, 0.95, shape)


def corners(rng: np.random.Generator, count: int, side: float) -> np.ndarray:
    """Boxes (count, 4) within a square."""
    low = rng.uniform(0, 0.6, (count, 2))
    return side * np.concatenate([low, low + rng.uniform(0.1, 0.4, (count, 2))], 1)


def regions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image (0 or 1) and box in pixels."""
    return np.column_stack([rng.integers(0, 2, shape[0]), corners(rng, shape[0], SIDE)])


def of_one_image(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return regions(rng, shape) * (0, 1, 1, 1, 1)


def objects(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of box in pixels and class, 1 or 2."""
    return np.column_stack([corners(rng, shape[0], SIDE), rng.integers(1, 3, shape[0])])


def matches(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, box in pixels."""
    boxes = corners(rng, shape[0], SIDE)
    return np.column_stack([rng.integers(0, 2, shape[0]), rng.integers(0, 4, shape[0]), boxes])


def size(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of height, width, scale."""
    return np.ones(shape) * (SIDE, SIDE, 1)


def sides(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of height and width."""
    return np.full(shape, SIDE)


def priors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Boxes and their variances, as PriorBox makes them."""
    count = shape[2] // 4
    return np.stack([corners(rng, count, 1).reshape(-1), np.tile([0.1, 0.1, 0.2, 0.3], count)])[None]


def annotations(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, instance, box, difficult."""
    count = shape[2]
    rows = np.zeros((count, 8))
    rows[:, 0], rows[:, 1] = np.arange(count) % 2, 1 + rng.integers(0, 2, count)
    rows[:, 3:7], rows[:, 7] = corners(rng, count, 1), rng.integers(0, 2, count)
    return rows.reshape(shape)


def detections(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, score, box, the classes and the scores in order."""
    count = shape[2]
    rows = np.zeros((count, 7))
    rows[:, 1], rows[:, 2] = 1 + np.arange(count) * 2 // count, np.sort(rng.random(count))[::-1]
    rows[:, 3:] = corners(rng, count, 1)
    return rows.reshape(shape)


def truths(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of class, x, y, width, height; two in each image, then zeros."""
    table = np.zeros((shape[0], shape[1] // 5, 5))
    table[:, :2, 0] = rng.integers(0, 3, table[:, :2, 0].shape)
    table[:, :2, 1:] = rng.uniform(0.1, 0.6, table[:, :2, 1:].shape)
    return table.reshape(shape)


def frames(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Maps of class (0: none), box by its center and sides in pixels, overlap: some objects near their cells."""
    maps = np.zeros(shape)
    rows, columns = np.indices(shape[2:])
    kinds = rng.integers(1, 3, maps[:, 0].shape) * (rng.random(maps[:, 0].shape) < 0.4)
    kinds[0, 0, 0] = 1
    maps[:, 0], maps[:, 5] = kinds, np.where(kinds, rng.uniform(0.5, 1, kinds.shape), rng.uniform(0, 0.7, kinds.shape))
    maps[:, 1], maps[:, 2] = (8 * (cells + rng.uniform(0.2, 0.8, kinds.shape)) for cells in (columns, rows))
    maps[:, 3:5] = rng.uniform(10, 30, maps[:, 3:5].shape)
    return maps


@dataclass(frozen=True)
class Contract:
    """A layer's fields as text, its bottoms (shape, values) and how many tops it has."""

    fields: str
    bottoms: tuple[tuple[tuple[int, ...], Draw], ...]
    tops: int = 1


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    step = Contract("", (((1, 3, 2), normal), ((1, 3, 8), normal), ((1, 3), bits)), 2)
    changes = ((2, 42, 1, 1), normal)
    flow = Contract("augmentation_param { crop_width: 4 crop_height: 3 }", (((2, 2, 5, 6), normal), changes, changes))
    return {"LSTMUnit": step, "FlowAugmentation": flow} | _of_grids(rng) | _of_regions() | _of_cascades(rng)


def _of_grids(rng: random.Random) -> dict[str, Contract]:
    """Of SSD and of YOLO."""
    height, width, boxes = rng.choice((2, 3, 5)), rng.choice((3, 4)), rng.choice((3, 6))
    code, share = rng.choice(("CORNER", "CENTER_SIZE", "CORNER_SIZE")), rng.random() < 0.7
    places = boxes * 4 * (1 if share else 3)
    ssd = f"num_classes: 3 code_type: {code} share_location: {str(share).lower()}"
    blobs = ((2, places), normal), ((2, boxes * 3), normal), ((1, 2, boxes * 4), priors)
    mining = rng.choice(("NONE", "MAX_NEGATIVE", "HARD_EXAMPLE")) if share else "NONE"
    losses = f"loc_loss_type: {rng.choice(('L2', 'SMOOTH_L1'))} conf_loss_type: {rng.choice(('SOFTMAX', 'LOGISTIC'))}"
    grid, anchors = ((2, 16, height, width), normal), "biases: 1 biases: 1.5 biases: 2 biases: 0.75"
    yolo = f"num_classes: 3 num_box: 2 confidence_threshold: 0.2 nms_threshold: 0.3 {anchors}"
    far = "biases: 8 biases: 12 biases: 16 biases: 6"
    multibox = f"multibox_loss_param {{ {ssd} {losses} mining_type: {mining} }}"
    return {
        "MultiBoxLoss": Contract(multibox, (*blobs, ((1, 1, 6, 8), annotations))),
        "MultiBoxFocalLoss": Contract(multibox, (*blobs, ((1, 1, 6, 8), annotations))),
        "DetectionOutput": Contract(f"detection_output_param {{ {ssd} }}", blobs),
        "DetectionEvaluate": Contract(
            "detection_evaluate_param { num_classes: 3 }", (((1, 1, 7, 7), detections), ((1, 1, 6, 8), annotations))
        ),
        "EvalDetection": Contract(
            f"eval_detection_param {{ side: 3 num_class: 3 num_object: 2 threshold: 0.25 {anchors} }}",
            (((2, 16, 3, 3), normal), ((1, 1, 5, 8), annotations)),
        ),
        "RegionLoss": Contract(
            f"region_loss_param {{ num: 2 num_class: 3 object_scale: 5 coord_scale: 2 thresh: 0.3 {anchors} }}",
            (grid, ((2, 15), truths)),
        ),
        "Yolov3": Contract(
            f"yolov3_param {{ num: 2 num_class: 3 anchors_scale: 8 thresh: 0.3 mask: 0 mask: 1 {far} }}",
            (grid, ((2, 15), truths)),
        ),
        "YoloDetectionOutput": Contract(f"yolo_detection_output_param {{ {yolo} }}", (grid,)),
        "Yolov3DetectionOutput": Contract(
            "yolov3_detection_output_param { num_classes: 3 num_box: 1 confidence_threshold: 0.2 nms_threshold: 0.3 "
            f"mask: 0 mask: 1 anchors_scale: 16 anchors_scale: 16 {far} }}",
            (((2, 8, 3, 4), normal), ((2, 8, 2, 2), normal)),
        ),
    }


def _of_regions() -> dict[str, Contract]:
    """Of region detectors."""
    region, ratios = ((4, 5), regions), "ratio: [0.5, 1] scale: [1, 2] feat_stride: 8"
    return {
        "PSROIPooling": Contract(
            "psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 }",
            (((2, 8, 6, 6), normal), region),
        ),
        "PSROIAlign": Contract(
            "psroi_align_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 }",
            (((2, 8, 6, 6), normal), region),
        ),
        "ROIWarping": Contract(
            "roi_warping_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.125 }", (((2, 3, 6, 6), normal), region)
        ),
        "DeformablePSROIPooling": Contract(
            "deformable_psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 trans_std: 0.1 }",
            (((2, 8, 6, 6), normal), region, ((4, 2, 2, 2), normal)),
        ),
        "DeformableConvolution": Contract(
            "deformable_convolution_param { num_output: 2 kernel_size: 3 pad: 1 deformable_group: 1 }",
            (((2, 3, 5, 6), normal), ((2, 18, 5, 6), normal)),
        ),
        "Proposal": Contract(
            f"proposal_param {{ {ratios} min_size: 6 pre_nms_topn: 100 post_nms_topn: 12 nms_thresh: 0.5 }}",
            (((2, 8, 6, 6), shares), ((2, 16, 6, 6), normal), ((2, 3), size)),
            2,
        ),
        "AnchorTarget": Contract(
            f"anchor_target_param {{ {ratios} batch_size: 1000 fg_fraction: 1 }}",
            (((1, 8, 6, 6), normal), ((4, 5), objects), ((1, 3), size)),
            4,
        ),
        "RoIDetectionOutput": Contract(
            "roi_detection_output_param { nms_threshold: 0.4 keep_top_k: 6 confidence_threshold: 0.2 }",
            (((5, 5), of_one_image), ((5, 4), shares), ((5, 16), normal), ((1, 3), size)),
        ),
        "BoxAnnotatorOHEM": Contract(
            "box_annotator_ohem_param { roi_per_img: 2 }",
            (((7, 5), regions), ((7, 1, 1, 1), shares), ((7, 1, 1, 1), bits), ((7, 8, 1, 1), normal)),
            2,
        ),
    }


def _of_cascades(rng: random.Random) -> dict[str, Contract]:
    """Of cascades of detectors."""
    height, width = rng.choice((2, 3, 5)), rng.choice((3, 4))
    cells = "cls_num: 3 field_w: 20 field_h: 16"
    one, several = f"{cells} downsample_rate: 8", f"{cells} stride: 8"
    maps = ((2, 7, 3, 4), normal), ((2, 6, 3, 4), frames)
    divided = ((2, 3, 3, 4), normal), ((2, 4, 3, 4), normal), ((2, 6, 3, 4), frames)
    sample, mine = rng.choice(("all", "bootstrap")), rng.choice(("mixture", "bootstrap"))
    group = "box_group_param { field_w: 20 field_h: 16 stride: 8 }"
    return {
        "BoxGroupOutput": Contract(
            f"box_group_output_param {{ {group} fg_thr: 0.25 min_size: 8 }} {MEANS}",
            (((2, 3, height, width), shares), ((2, 4, height, width), normal)),
            2,
        ),
        "DecodeBBox": Contract(MEANS, (((5, 8), normal), ((5, 5), regions))),
        "ScaleRoute": Contract(
            "scale_route_param { low_scale: 9 high_scale: 15 }", (((9, 5), regions), ((9, 2, 3), normal)), 2
        ),
        "FrcnnOutput": Contract(
            f"frcnn_output_param {{ conf_thr: 0.25 iou_thr: 0.25 max_det_num: 4 }} {MEANS}",
            (((6, 3), shares), ((6, 12), normal), ((6, 5), of_one_image), ((1, 2), sides)),
        ),
        "DetectionLoss": Contract(f'detection_loss_param {{ {one} sample_mode: "{sample}" }}', maps),
        "DetectionGroupLoss": Contract(
            f'detection_group_loss_param {{ {several} neg_mining_type: "{mine}" }} {MEANS}', divided
        ),
        "DetectionAccuracy": Contract(f"detection_accuracy_param {{ {one} top_k: 2 bg_threshold: 0.25 }}", maps, 2),
        "DetectionGroupAccuracy": Contract(f"detection_group_accuracy_param {{ {several} }} {MEANS}", divided, 2),
        "BboxAccuracy": Contract(MEANS, (((5, 16), normal), ((5, 5), regions), ((5, 6), matches)), 2),
    }
