"""YOLO's layers: gradients that are no derivatives, kinds of IoU, degenerate boxes, mistakes; Reorg as OpenCV's."""

import cv2
import numpy as np
import pytest
from families.yolo.rows import BIASES, OUTPUT, OUTPUT_3, REGION, V3, region_errors, true_boxes, yolo_errors
from textnet import bind, body_of, forward, mistaken, over, slopes, wrong

from caffelite.errors import CaffeliteError
from caffelite.families.yolo import grids

SHAPE = (2, 16, 3, 4)


def loss_net(kind: str, body: str, labels: tuple[int, ...] = (2, 15)):
    text = over(kind, f"{body_of(kind, body)} loss_weight: 2", "l", x=SHAPE, label=labels)
    return bind("force_backward: true\n" + text, keep=True)


def gradient(net, x, label) -> np.ndarray:
    forward(net, x=x, label=label)
    net.backward()
    return slopes(net)


def test_region_gradient_is_the_errors(rng):
    x, label = rng.normal(size=SHAPE), true_boxes(rng, (2, 15))
    actual = gradient(loss_net("RegionLoss", REGION), x, label)
    np.testing.assert_allclose(actual, region_errors(x, label, True).reshape(SHAPE), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("logic", [False, True])
def test_yolo_gradient_is_the_errors(rng, logic):
    x, label = rng.normal(size=SHAPE), true_boxes(rng, (2, 15))
    body = V3 + f" use_logic_gradient: {'true' if logic else 'false'}"
    actual = gradient(loss_net("Yolov3", body), x, label)
    expected = yolo_errors(x, label)
    if logic:
        s = 1 / (1 + np.exp(-x.reshape(expected.shape)))
        expected[:, :, [0, 1, 4, 5, 6, 7]] *= (s * (1 - s))[:, :, [0, 1, 4, 5, 6, 7]]
    np.testing.assert_allclose(actual, expected.reshape(SHAPE), rtol=1e-9, atol=1e-12)


def differences(value, box) -> np.ndarray:
    """The derivatives of value(box) by finite differences."""
    return np.array([(value(box + step) - value(box - step)) / 2e-7 for step in np.eye(4) * 1e-7])


@pytest.mark.parametrize("kind", ["IOU", "GIOU", "DIOU", "CIOU"])
def test_slopes_of_iou(rng, kind):
    """Of boxes that overlap: the derivatives, as MobileNet-YOLO changes them.

    IoU: twice the derivatives by width and height. The distance d² / c² of DIOU and CIOU: the change of c has the wrong
    sign for x and y. The shape term of CIOU: without the divisor w² + h².
    """
    for _ in range(20):
        truth = np.concatenate([rng.uniform(0.4, 0.6, 2), rng.uniform(0.2, 0.5, 2)])
        box = truth + rng.uniform(-0.1, 0.1, 4)
        plain = "GIOU" if kind == "GIOU" else "IOU"
        expected = differences(lambda b, t=truth, k=plain: float(grids.overlaps(b, t, k)), box) * [1, 1, 2, 2]
        if kind in ("DIOU", "CIOU"):

            def diagonal(b, t=truth):
                high = np.maximum(b[:2] + b[2:] / 2, t[:2] + t[2:] / 2)
                return ((high - np.minimum(b[:2] - b[2:] / 2, t[:2] - t[2:] / 2)) ** 2).sum()

            d, c = ((box[:2] - truth[:2]) ** 2).sum(), diagonal(box)
            of_d = differences(lambda b, t=truth: ((b[:2] - t[:2]) ** 2).sum(), box)
            expected += -of_d / c + differences(diagonal, box) * d / c**2 * [-1, -1, 1, 1]
        if kind == "CIOU":
            turn = np.arctan(truth[2] / truth[3]) - np.arctan(box[2] / box[3])
            shape = 4 / np.pi**2 * turn**2
            factor = shape / (1 - float(grids.overlaps(box, truth)) + shape + 1e-6) * 8 / np.pi**2 * turn
            expected += np.array([0, 0, factor * box[3], -factor * box[2]])
        np.testing.assert_allclose(grids.overlap_slopes(box, truth, kind), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["IOU", "GIOU", "DIOU", "CIOU"])
@pytest.mark.parametrize("accumulate", [True, False])
def test_iou_losses_of_a_box_that_is_there_twice(rng, kind, accumulate):
    x, truth = rng.normal(size=SHAPE), np.array([2, 0.4, 0.45, 16 / 32, 6 / 24])  # the size of the anchor (2, 0.75)
    label = np.zeros((2, 3, 5))
    label[1, :2] = truth
    more = f"iou_normalizer: 4 max_delta: 1.5 accumulate: {'true' if accumulate else 'false'} iou_thresh: 1"
    net = loss_net("Yolov3", f"{V3} iou_loss: {kind} {more}")
    actual = gradient(net, x, label.reshape(2, 15)).reshape(2, 2, 8, 3, 4)
    t = x.reshape(2, 2, 8, 3, 4)[1, 0, :, 1, 1]
    s = 1 / (1 + np.exp(-t))
    box = np.array([(1 + s[0]) / 4, (1 + s[1]) / 3, np.exp(t[2]) * 2 / 4, np.exp(t[3]) * 0.75 / 3])
    slopes = 4 * grids.overlap_slopes(box, truth[1:], kind) * [1, 1, np.exp(t[2]), np.exp(t[3])]
    np.testing.assert_allclose(actual[1, 0, :4, 1, 1], -np.clip(slopes, -1.5, 1.5) * (1 + accumulate), rtol=1e-9)
    actual[1, 0, :, 1, 1] = 0
    assert (actual[:, :, :4] == 0).all(), "no other prediction learns a box"
    iou = float(grids.overlaps(box, truth[1:], "DIOU" if kind == "IOU" else kind))
    errors = gradient(net, x, label.reshape(2, 15)).reshape(2, 2, 8, 3, 4)[:, :, 4:]
    assert float(net.blobs["l"]) == pytest.approx(((errors**2).sum() + 4 * (1 - iou)) / 2)


def test_focal_loss_of_classes(rng):
    x, label = rng.normal(size=SHAPE), np.zeros((2, 3, 5))
    label[0, 0] = [1, 0.4, 0.45, 16 / 32, 6 / 24]
    net = loss_net("Yolov3", f"{V3} use_focal_loss: true class_scale: 3")
    actual = gradient(net, x, label.reshape(2, 15)).reshape(2, 2, 8, 3, 4)[0, 0, 5:, 1, 1]
    p = 1 / (1 + np.exp(-x.reshape(2, 2, 8, 3, 4)[0, 0, 5:, 1, 1]))
    focal = -(1 - p[1]) * (2 * p[1] * np.log(p[1]) + p[1] - 1)
    np.testing.assert_allclose(actual, 3 * (p - [0, 1, 0]) * 0.5 * focal, rtol=1e-9)


def test_labels_of_annotated_data(rng):
    """Rows of image, class + 1, instance and corners are the same boxes."""
    x, label = rng.normal(size=SHAPE), true_boxes(rng, (2, 15))
    rows = [[-1.0] * 8]
    for image, table in enumerate(label.reshape(2, 3, 5)):
        for kind, px, py, w, h in table[:2]:
            rows.append([image, kind + 1, 0, px - w / 2, py - h / 2, px + w / 2, py + h / 2, 0])
    annotated = np.reshape(rows, (1, 1, 5, 8))
    nets = [loss_net("Yolov3", V3, shape) for shape in ((2, 15), (1, 1, 5, 8))]
    actual = [gradient(net, x, given).copy() for net, given in zip(nets, (label, annotated), strict=True)]
    np.testing.assert_allclose(*actual, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "body"), [("RegionLoss", REGION), ("Yolov3", V3)])
def test_boxes_that_do_not_count(rng, kind, body):
    """No boxes at all, a center outside the image, no height, a height that is infinite: as if there were none."""
    net, x = loss_net(kind, body), rng.normal(size=SHAPE)
    empty = gradient(net, x, np.zeros((2, 15))).copy()
    assert np.isfinite(empty).all() and np.abs(empty).max() > 0
    for box in ([1, 1.5, 0.5, 0.2, 0.2], [1, -0.1, 0.5, 0.2, 0.2], [1, 0.5, 0.5, 0.2, 0], [1, 0.5, 0.5, 0.2, np.inf]):
        np.testing.assert_array_equal(gradient(net, x, np.tile(box, 6).reshape(2, 15)), empty)
    net.check_faults()
    forward(net, x=np.full(SHAPE, np.nan), label=np.tile([1, 0.5, 0.5, 0.2, 0.2], 6).reshape(2, 15))
    assert np.isnan(net.blobs["l"]), "a NaN is not hidden"
    forward(net, x=x, label=np.tile([3, 0.5, 0.5, 0.2, 0.2], 6).reshape(2, 15))
    with pytest.raises(CaffeliteError, match='"label" has class 3 of a box of sample 0; expected classes 0 to 2'):
        net.check_faults()


def output_net(kind: str, body: str, *shapes: tuple[int, ...]):
    return bind(over(kind, body, **{f"x{i}": shape for i, shape in enumerate(shapes)}), "TEST")


def test_detections_follow_the_data(rng):
    """From many boxes to none and back, within the memory planned at first."""
    net = output_net("YoloDetectionOutput", OUTPUT, SHAPE)
    rows = []
    for level in (5.0, -50.0, 5.0):
        x = rng.normal(size=SHAPE)
        x.reshape(2, 2, 8, 3, 4)[:, :, 4] = level
        forward(net, x0=x)
        rows.append(net.blobs["y"].copy())
    assert rows[0].shape[2] > 2 and rows[2].shape[2] > 2
    np.testing.assert_array_equal(rows[1], [[[[0, *[-1] * 6], [1, *[-1] * 6]]]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e9])
def test_predictions_that_are_not_finite_give_no_boxes(value):
    net = output_net("Yolov3DetectionOutput", OUTPUT_3, (1, 8, 3, 4), (1, 8, 2, 2))
    x = np.full((1, 8, 3, 4), 3.0)
    x[0, 2:4] = value
    forward(net, x0=x, x1=np.full((1, 8, 2, 2), -50.0))
    np.testing.assert_array_equal(net.blobs["y"], [[[[0, *[-1] * 6]]]])


def test_gaussian_boxes():
    body = OUTPUT_3.replace("mask: 1", "").replace("anchors_scale: 16 anchors_scale: 16", "anchors_scale: 16")
    net = output_net("Yolov3DetectionOutput", body + " mask_group_num: 1 gaussian_box: true", (1, 12, 1, 1))
    x = np.zeros((1, 12, 1, 1))
    x[0, :, 0, 0] = [0, 1, 0.5, 1, 0.25, 1, -0.25, 1, 4, 5, -9, -9]
    forward(net, x0=x)
    s = 1 / (1 + np.exp(-np.array([1.0, 0.5, 4, 5])))
    w, h = np.exp(0.25) * 0.5, np.exp(-0.25) * 0.75
    row = [0, 1, (1 - s[0]) * s[2] * s[3], 0.5 - w / 2, s[1] - h / 2, 0.5 + w / 2, s[1] + h / 2]
    np.testing.assert_allclose(net.blobs["y"], [[[row]]], rtol=1e-9)


LABELS = (2, 15)

test_mistakes = mistaken(
    wrong("Reorg", "", "stride must be positive", SHAPE, at="layer"),
    wrong(
        "Reorg",
        "stride: 2",
        "does not divide into squares; expected channels that 4 divides; height and width that 2 divides",
        SHAPE,
        at=0,
    ),
    wrong(
        "RegionLoss",
        f'{REGION} softmax_tree: @"tree"',
        "softmax_tree is not supported; drop softmax_tree: MobileNet-YOLO",
        SHAPE,
        LABELS,
    ),
    wrong("RegionLoss", f"num: 2 num_class: 3 {BIASES} coords: @3", "a bad coords", SHAPE, LABELS),
    wrong("RegionLoss", "num: 2 num_class: 3 biases: @1", "bad biases; expected 4 sizes above 0", SHAPE, LABELS),
    wrong(
        "RegionLoss", f"num: 2 num_class: 4 {BIASES}", "does not fit; expected ['N', 18, 'H', 'W']", SHAPE, LABELS, at=0
    ),
    wrong("RegionLoss", REGION, "has no boxes", SHAPE, (2, 7), at=1),
)
test_mistakes_of_output = mistaken(
    wrong("YoloDetectionOutput", "num_box: 2 num_classes: 3 biases: @0", "bad biases", SHAPE), phase="TEST"
)


@pytest.mark.parametrize(("shape", "stride"), [((1, 8, 4, 6), 2), ((1, 9, 3, 6), 3), ((1, 32, 4, 8), 4)])
def test_reorg_equals_opencv(shape, stride, rng):
    """OpenCV reads the stride from Darknet's files alone."""
    size = "".join(f"{name}={n}\n" for name, n in zip(("channels", "height", "width"), shape[1:], strict=True))
    darknet = f"[net]\n{size}\n[reorg]\nstride={stride}\n".encode()
    other = cv2.dnn.readNetFromDarknet(np.frombuffer(darknet, np.uint8))
    x = rng.normal(size=shape).astype(np.float32)
    other.setInput(x)
    net = bind(over("Reorg", f"stride: {stride}", x=shape), "TEST", dtype="float32")
    forward(net, x=x)
    np.testing.assert_allclose(net.blobs["y"], other.forward(), atol=1e-5)
