"""Rows of the table of layers: detectors."""

import math

import numpy as np
from families.ssd.oracles import decoded, detections, evaluated, multibox, prior_boxes
from layers.layer_row import Row, off_kinks

PRIORS, CLASSES = 6, 3
FEATURE, PICTURE = (2, 4, 2, 3), (2, 3, 20, 30)
VARIANCES = "variance: 0.125 variance: 0.125 variance: 0.25 variance: 0.375"


def priors(rng, shape):
    """Boxes of which each has area, some of them partly outside of the image, and variances."""
    actual = np.empty(shape)
    count = shape[2] // 4
    low = rng.uniform(-0.1, 0.5, (count, 2))
    actual[:, 0] = np.concatenate([low, low + rng.uniform(0.2, 0.6, (count, 2))], 1).reshape(-1)
    actual[:, 1] = np.tile([0.1, 0.1, 0.2, 0.3], count)
    return actual


def objects(rng, shape):
    """Objects of the images 0 and 1, a difficult one, and a row without one."""
    rows = np.empty((shape[2], 8))
    low = rng.uniform(0, 0.5, (len(rows), 2))
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 7] = np.arange(len(rows)) % 2, 1 + np.arange(len(rows)) % 2, 0, 0
    rows[:, 3:7] = np.concatenate([low, low + rng.uniform(0.2, 0.5, (len(rows), 2))], 1)
    rows[2, 7], rows[-1] = 1, -1
    return rows.reshape(shape)


def found(rng, shape):
    """Detections of image 0 near its objects and elsewhere; equal boxes too."""
    rows = np.empty((shape[2], 7))
    low = np.repeat(rng.uniform(0, 0.5, ((len(rows) + 1) // 2, 2)), 2, 0)[: len(rows)]
    rows[:, 0], rows[:, 1] = 0, np.sort(1 + np.arange(len(rows)) % 2)
    rows[:, 2] = np.concatenate([np.sort(rng.random((rows[:, 1] == c).sum()))[::-1] for c in (1, 2)])
    rows[:, 3:] = np.concatenate([low, low + 0.3], 1)
    return rows.reshape(shape)


LOSS = [((2, PRIORS * 4), off_kinks), ((2, PRIORS * CLASSES), off_kinks), ((1, 2, PRIORS * 4), priors)]
LOSS.append(((1, 1, 6, 8), objects))
SEPARATE = [((2, PRIORS * 4 * CLASSES), off_kinks), *LOSS[1:]]
DETECTION = LOSS[:3]


def loss(text, name, bottoms=LOSS, more="", **options):
    """Without objects of image 1 a batch of one tests the same."""
    body = f"multibox_loss_param {{ num_classes: {CLASSES} {text} }} {more}"
    return Row(f"MultiBoxLoss {name}", body, multibox(CLASSES, **options), bottoms, constant=(2, 3))


def focal(text, name, parameters, **options):
    """parameters: alpha and gamma."""
    power = "focal_loss_param {{ alpha: {} gamma: {} }}".format(*parameters)
    body = f"multibox_loss_param {{ num_classes: {CLASSES} {text} }} {power}"
    oracle = multibox(CLASSES, focal=parameters, **options)
    return Row(f"MultiBoxFocalLoss {name}", body, oracle, LOSS, constant=(2, 3))


def refining(text, name, more, classes=CLASSES, **options):
    """One of RefineDet's two losses. more: the bottoms from the anchors."""
    bottoms = [LOSS[0], ((2, PRIORS * classes), off_kinks), *LOSS[2:], *more]
    body = f"multibox_loss_param {{ num_classes: {classes} objectness_score: 0.5 {text} }}"
    oracle = multibox(classes, sure=0.5, **options)
    return Row(f"MultiBoxLoss {name}", body, oracle, bottoms, constant=range(2, len(bottoms)))


def output(text, name, bottoms=DETECTION, **options):
    body = f"detection_output_param {{ num_classes: {CLASSES} {text} }}"
    return Row(f"DetectionOutput {name}", body, detections(CLASSES, **options), bottoms, constant=(2,))


def refined(offsets, scores, priors, objectness, moves):
    """Image by image: the priors moved, those without an object left out."""
    rows, scores, objectness = [], scores.reshape(-1, PRIORS, CLASSES), objectness.reshape(-1, PRIORS, 2)
    for i in range(len(offsets)):
        boxes, variances = priors.reshape(2, -1, 4)
        moved = priors.copy()
        moved[0, 0] = np.concatenate(
            [decoded(*each, "CENTER_SIZE") for each in zip(moves[i].reshape(-1, 4), boxes, variances, strict=True)]
        )
        mine = np.where(objectness[i, :, 1:] < 0.25, [1, 0, 0], scores[i])
        (top,) = detections(CLASSES, "CENTER_SIZE", above=0.05)(offsets[i : i + 1], mine[None], moved)
        rows += [[i, *row[1:]] for row in top[0, 0] if row[1] >= 0]
    return [np.array(rows).reshape(1, 1, -1, 7)]


def outlined(count):
    """TextBoxes++: as without outlines, each row with that of its box. count: numbers of an outline."""

    def oracle(offsets, scores, priors):
        offsets = offsets.reshape(len(offsets), PRIORS, 4 + count)
        (top,) = detections(CLASSES, "CENTER_SIZE", above=0.4)(offsets[..., :4].copy(), scores, priors)
        rows = []
        for row in top[0, 0]:
            each = offsets[int(row[0])]
            boxes, variances = priors.reshape(2, PRIORS, 4)
            k = next(
                k
                for k in range(PRIORS)
                if np.allclose(decoded(each[k, :4], boxes[k], variances[k], "CENTER_SIZE"), row[3:])
            )
            (left, low, right, high), (vx, vy, _, vh) = boxes[k], variances[k]
            w, h, code = right - left, high - low, each[k, 4:]
            points = (
                [(left, low), (right, low), (right, high), (left, high)]
                if count == 8
                else [((left + right) / 2, (low + high) / 2)] * 2
            )
            outline = [
                p + v * c * s for p, v, c, s in zip(np.ravel(points), [vx, vy] * 4, code, [w, h] * 4, strict=False)
            ]
            rows.append([*row, *outline, *([math.exp(vh * code[4]) * h] if count == 5 else [])])
        return [np.array(rows).reshape(1, 1, -1, 7 + count)]

    return oracle


def sure(rng, shape):
    """Scores of objects from 0 to 1, the first of which is high."""
    values = rng.random(shape)
    values[:, 1] = 0.9
    return values


ROOT = math.sqrt(2)
ANCHORS = [((2, PRIORS * 2), sure), (LOSS[0][0], off_kinks)]
CENTERS = "code_type: CENTER_SIZE overlap_threshold: 0.3 neg_overlap: 0.6"
MATCHED = {"code": "CENTER_SIZE", "threshold": 0.3, "least": 0.6}
IN_VARIANCES = MATCHED | {"in_target": True}
FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


ROWS = [
    *(
        Row(
            f"DetectionOutput of TextBoxes++, {count} values",
            f"num_classes: {CLASSES} code_type: CENTER_SIZE use_polygon: {kind} confidence_threshold: 0.4 "
            "nms_param { nms_threshold: 0.3 }",
            outlined(count),
            [(2, PRIORS * (4 + count)), ((2, PRIORS * CLASSES), sure), DETECTION[2]],
            constant=(2,),
        )
        for kind, count in (("true", 8), ("false", 5))
    ),
    Row(
        "PriorBox of TextBoxes++",
        "min_size: 6 max_size: 10 flip: false denser_prior_boxes: true",
        prior_boxes([(side, side, 0, below) for side in (6, math.sqrt(60)) for below in (0, 0.5)]),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox with rows before columns",
        "min_size: 6 yx_order: true",
        lambda *x: prior_boxes([(6, 6)])(*x)[0].reshape(1, 2, -1, 4)[..., [1, 0, 3, 2]].reshape(1, 2, -1),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of OpenCV",
        "min_size: 6 max_size: 10 flip: false additional_y_offset: true",
        prior_boxes([(side, side, 0, below) for side in (6, math.sqrt(60)) for below in (0, 0.5)]),
        [FEATURE, PICTURE],
    ),
    focal("mining_type: NONE " + CENTERS, "of all priors", (0.25, 2), mining="NONE", **MATCHED),
    focal(CENTERS, "of hard negatives", (0.5, 1.5), **MATCHED),
    focal("mining_type: NONE " + CENTERS, "without a power", (2, 0), mining="NONE", **MATCHED),
    refining(CENTERS, "of RefineDet", ANCHORS, **MATCHED),
    refining(CENTERS + " encode_variance_in_target: true", "of RefineDet, in variances", ANCHORS, **IN_VARIANCES),
    refining(CENTERS, "of anchors' scores", ANCHORS[:1], **MATCHED),
    refining(CENTERS, "of RefineDet's anchors", (), classes=2, joined=True, **MATCHED),
    Row(
        "DetectionOutput of RefineDet",
        f"num_classes: {CLASSES} code_type: CENTER_SIZE objectness_score: 0.25 confidence_threshold: 0.05 "
        "nms_param { nms_threshold: 0.3 }",
        refined,
        [DETECTION[0], ((2, PRIORS * CLASSES), sure), DETECTION[2], ((2, PRIORS * 2), sure), DETECTION[0]],
    ),
    Row(
        "PriorBox",
        "variance: 0.5 min_size: 6 max_size: 10 aspect_ratio: 2 aspect_ratio: 1 aspect_ratio: 0.5 clip: true",
        prior_boxes(
            [(6, 6), (math.sqrt(60), math.sqrt(60)), (6 * ROOT, 6 / ROOT), (6 / ROOT, 6 * ROOT)],
            clip=True,
            variance=(0.5,) * 4,
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of given steps",
        f"min_size: 6 min_size: 9.5 aspect_ratio: 2 flip: false {VARIANCES} img_h: 40 img_w: 25 step_h: 7 "
        "step_w: 8 offset: 0.25",
        prior_boxes(
            [(6, 6), (6 * ROOT, 6 / ROOT), (9.5, 9.5), (9.5 * ROOT, 9.5 / ROOT)],
            offset=0.25,
            step=(7, 8),
            image=(40, 25),
            variance=(0.125, 0.125, 0.25, 0.375),
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of TextBoxes",
        "min_size: 6 max_size: 10 aspect_ratio: 2 flip: false clip: true second_offset_h: 1",
        prior_boxes(
            [
                size + shift
                for size in [(6, 6), (math.sqrt(60), math.sqrt(60)), (6 * ROOT, 6 / ROOT)]
                for shift in [(0, 0), (0, 0.5)]
            ],
            clip=True,
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of FaceBoxes",
        "min_size: 8 min_size: 16 min_size: 7 aspect_ratio: 2 flip: false density: 4 density: 1 density: "
        "3 step_h: 7 step_w: 8",
        prior_boxes(
            [
                *((7, 7, x, y) for y in (-0.5, -0.25, 0, 0.25) for x in (-0.5, -0.25, 0, 0.25)),
                (8 * ROOT, 8 / ROOT),
                (15, 15),
                (16 * ROOT, 16 / ROOT),
                *((6, 6, x, y) for y in (-1 / 3, 0, 1 / 3) for x in (-1 / 3, 0, 1 / 3)),
                (7 * ROOT, 7 / ROOT),
            ],
            step=(7, 8),
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of fixed sizes",
        "fixed_size: 9 fixed_size: 6 density: 2 density: 1 aspect_ratio: 2 flip: false min_size: 5 step_h: 7 step_w: 8",
        prior_boxes(
            [
                *((w, h, x / 8, y / 7) for w, h in [(9, 9), (9 * ROOT, 9 / ROOT)] for y in (-2, 2) for x in (-2, 2)),
                *[(6, 6), (6 * ROOT, 6 / ROOT), (5, 5), (5 * ROOT, 5 / ROOT)],
            ],
            step=(7, 8),
            clip=10,
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBox of fixed ratios",
        "fixed_size: 8 density: 3 fixed_ratio: 1 fixed_ratio: 4 step: 10",
        prior_boxes(
            [(w, h, x / 10, y / 10) for w, h in [(8, 8), (16, 4)] for y in (-3, -1, 1) for x in (-3, -1, 1)],
            step=(10, 10),
            clip=True,
        ),
        [FEATURE, PICTURE],
    ),
    Row(
        "PriorBoxClustered",
        f"width: 7.5 height: 3 width: 4 height: 11.25 step: 9 {VARIANCES}",
        prior_boxes([(7.5, 3), (4, 11.25)], step=(9, 9), variance=(0.125, 0.125, 0.25, 0.375)),
        [FEATURE, PICTURE],
    ),
    loss("", "corners"),
    loss(
        "code_type: CENTER_SIZE overlap_threshold: 0.3 neg_overlap: 0.3 neg_pos_ratio: 1",
        "centers",
        code="CENTER_SIZE",
        threshold=0.3,
        least=0.3,
        ratio=1,
    ),
    loss(
        "code_type: CORNER_SIZE loc_loss_type: L2 loc_weight: 2 match_type: BIPARTITE",
        "squares",
        code="CORNER_SIZE",
        squares=True,
        weight=2,
        threshold=None,
    ),
    loss("conf_loss_type: LOGISTIC use_difficult_gt: false", "logistic", logistic=True, difficult=False),
    loss(
        "mining_type: NONE",
        "of all",
        mining="NONE",
        more="loss_param { normalization: FULL }",
        divisor=lambda n, p: n * p,
    ),
    loss(
        "mining_type: NONE conf_loss_type: LOGISTIC",
        "logistic of all",
        mining="NONE",
        logistic=True,
        more="loss_param { normalization: BATCH_SIZE }",
        divisor=lambda n, p: n,
    ),
    loss(
        "mining_type: HARD_EXAMPLE sample_size: 4 overlap_threshold: 0.1",
        "hard examples",
        mining="HARD_EXAMPLE",
        samples=4,
        threshold=0.1,
    ),
    loss("share_location: false mining_type: NONE", "a box for each class", SEPARATE, mining="NONE", separate=True),
    loss("use_prior_for_matching: false overlap_threshold: 0.2", "matching predictions", predicted=True, threshold=0.2),
    loss(
        "encode_variance_in_target: true code_type: CENTER_SIZE",
        "variances in targets",
        in_target=True,
        code="CENTER_SIZE",
    ),
    loss("bp_inside: true", "inside", inside=True),
    loss("ignore_cross_boundary_bbox: true overlap_threshold: 0.2", "no crossing", cross=False, threshold=0.2),
    output("", "corners"),
    output("clip: true", "that end at the border", clip=True),
    output(
        "code_type: CENTER_SIZE nms_param { nms_threshold: 0.6 eta: 0.9 } confidence_threshold: 0.1",
        "centers",
        code="CENTER_SIZE",
        threshold=0.6,
        eta=0.9,
        above=0.1,
    ),
    output("nms_param { top_k: 4 } keep_top_k: 3 code_type: CORNER_SIZE", "few", most=4, keep=3, code="CORNER_SIZE"),
    output("share_location: false", "a box for each class", [SEPARATE[0], *DETECTION[1:]], separate=True),
    output("confidence_threshold: 100", "nothing", above=100),
    Row(
        "DetectionEvaluate",
        f"num_classes: {CLASSES} overlap_threshold: 0.2",
        evaluated(CLASSES, 0.2),
        [((1, 1, 7, 7), found), ((1, 1, 6, 8), objects)],
    ),
    Row(
        "DetectionEvaluate without difficult ones",
        f"num_classes: {CLASSES} overlap_threshold: 0.1 evaluate_difficult_gt: false",
        evaluated(CLASSES, 0.1, False),
        [((1, 1, 9, 7), found), ((1, 1, 8, 8), objects)],
    ),
    Row("AnnotatedData", "", lambda: FED, tops=2, source=FED),
]
