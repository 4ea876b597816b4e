"""Layers of region detectors: OpenCV's numbers, degenerate boxes, random samples, shapes that vary."""

import cv2
import numpy as np
import pytest
from devices.arrays import MAKE, blank, put
from families.rcnn import oracles
from textnet import bind, feed, forward, inputs, layer, over

from caffelite.detection import boxes
from caffelite.devices import detection_ops
from caffelite.errors import CaffeliteError

KINDS = ["cpu", pytest.param("host", marks=pytest.mark.host)]  # the table of layers runs on a GPU too
ANCHORS = "feat_stride: 16 ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32"


def opencv(kind: str, body: str, **arrays: np.ndarray) -> np.ndarray:
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip("OpenCV 5 reads no Caffe nets")
    text = ""
    for name, array in arrays.items():
        dims = " ".join(f"input_dim: {d}" for d in (*array.shape, 1, 1)[:4])
        text += f'input: "{name}" {dims}\n'
    text += layer(kind, *arrays, body=body)
    net = cv2.dnn.readNetFromCaffe(np.frombuffer(text.encode(), np.uint8))
    for name, array in arrays.items():
        net.setInput(array, name)
    return net.forward()


def drawn_boxes(rng, count: int, width: int, height: int, image: int = 0) -> np.ndarray:
    x, y = (np.sort(rng.uniform(-0.1 * side, 1.1 * side, (2, count)), 0) for side in (width, height))
    return np.stack([np.full(count, image), x[0], y[0], x[1], y[1]], 1).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_pooling_equals_opencv(kind, seed):
    rng, dev = np.random.default_rng(seed), MAKE[kind]("float32")
    x, rois = rng.normal(size=(1, 12, 20, 24)).astype(np.float32), drawn_boxes(rng, 40, 384, 320)
    grid = "pooled_h: 6 pooled_w: 5 spatial_scale: 0.0625"
    groups = "output_dim: 3 group_size: 2 spatial_scale: 0.0625"
    for method, shape, kind_of_layer, body in (
        ("MAX", (40, 12, 6, 5), "ROIPooling", grid),
        ("POSITION", (40, 3, 2, 2), "PSROIPooling", groups),
    ):
        op, y = dev.build(detection_ops.RegionPooling(method, x.shape, shape, 0.0625)), blank(dev, shape)
        op.forward(put(dev, x), put(dev, rois), y, blank(dev, shape, np.int32))
        expected = opencv(kind_of_layer, body, data=x, rois=rois)
        np.testing.assert_allclose(dev.download(y), expected, rtol=1e-5, atol=1e-5)


def test_proposals_equal_opencv(seed):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(18 * 14 * 20).reshape(1, 18, 14, 20).astype(np.float32) / 5040
    moves = (0.3 * rng.normal(size=(1, 36, 14, 20))).astype(np.float32)
    info = np.array([[224, 320, 1]], np.float32)
    body = f"{ANCHORS} min_size: 1 pre_nms_topn: 600 post_nms_topn: 40"
    expected = opencv("Proposal", body, s=scores, m=moves, i=info)
    net = bind(over("Proposal", body, s=scores.shape, m=moves.shape, i=info.shape), dev=MAKE["cpu"]("float32"))
    forward(net, s=scores, m=moves, i=info)
    actual = net.blobs["y"]
    assert actual.shape == (40, 5)
    np.testing.assert_allclose(actual, expected.reshape(-1, 5)[:40], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["MAX", "POSITION", "ALIGN"])
def test_degenerate_boxes(kind, method, seed):
    """Outside of the image, inverted, of a point, and not finite."""
    rng, dev = np.random.default_rng(seed), MAKE[kind]("float64")
    rois = np.array([[0, 500, 500, 600, 600], [0, -90, -90, -20, -20], [1, 40, 30, 9, 8], [0, 20, 20, 20, 20],
                     [1, -1000, -1000, 1000, 1000]], float)  # fmt: skip
    bad = np.array([[0, np.nan, 0, 9, 9], [1, 0, 0, np.inf, 9], [0, 0, 0, 1e30, 1e30]])
    x, shape = rng.normal(size=(2, 8, 7, 6)), (8, 2, 2, 2) if method == "POSITION" else (8, 8, 2, 2)
    op = dev.build(detection_ops.RegionPooling(method, x.shape, shape, 0.1))
    y, index, dx = blank(dev, shape), blank(dev, shape, np.int32), blank(dev, x.shape)
    every = put(dev, np.concatenate([rois, bad]))
    op.forward(put(dev, x), every, y, index)
    expected = {
        "MAX": lambda: oracles.roi_pooling(x, rois, 2, 2, 0.1),
        "POSITION": lambda: oracles.position_pooling(x, rois, 2, 2, 0.1),
        "ALIGN": lambda: oracles.align(x, rois, 1, 1, 0.1),
    }[method]()
    np.testing.assert_allclose(dev.download(y)[:5], expected, rtol=1e-12, atol=1e-12)
    assert not dev.download(y)[5:].any() and not dev.download(op.bad)[0]
    op.backward(put(dev, np.ones(shape)), every, index, dx)
    assert np.isfinite(dev.download(dx)).all()
    op.forward(put(dev, x), put(dev, np.array([[0, 0, 0, 9, 9], [2, 0, 0, 9, 9], *rois, *rois[:1]])), y, index)
    assert dev.download(op.bad)[0] == 2 and not dev.download(y)[1].any()


def test_box_of_no_image_is_reported():
    net = bind(over("ROIPooling", "pooled_h: 1 pooled_w: 1", x=(2, 1, 4, 4), r=(2, 5)))
    forward(net, x=np.ones((2, 1, 4, 4)), r=np.array([[1, 0, 0, 3, 3], [2, 0, 0, 3, 3]]))
    with pytest.raises(CaffeliteError, match='box 1 of bottom "r" is of no image; "x" has images 0 to 1'):
        net.check_faults()


def proposal_net(more: str = "", kind: str = "native"):
    kind_of_layer, body = "Proposal", f"feat_stride: 8 ratio: 1 scale: [1, 2] {more}"
    if kind == "python":
        kind_of_layer = "Python"
        body = (
            'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "'
            f"'feat_stride': 8 \\n'scales': !!python/tuple [1, 2]\\n'ratios': [1]\" }} proposal_param {{ {more} }}"
        )
    return bind(over(kind_of_layer, body, "rois scores", s=(1, 4, 3, 4), m=(1, 8, 3, 4), i=(1, 3)))


def test_proposals_without_a_usable_box():
    """Scores that are NaN, offsets that are not finite, and images smaller than min_size."""
    net = proposal_net()
    for fed in (
        {"s": np.full((1, 4, 3, 4), np.nan), "m": 0, "i": [[24, 32, 1]]},
        {"s": 1, "m": np.full((1, 8, 3, 4), np.nan), "i": [[24, 32, 1]]},
    ):
        forward(net, **{name: np.asarray(value, float) for name, value in fed.items()})
        assert net.blobs["rois"].tolist() == [[0, 0, 0, 31, 23]] and net.blobs["scores"].tolist() == [0]


def test_boxes_below_min_size(seed):
    """The native layer gives them the score 0, the Python layer drops them."""
    rng = np.random.default_rng(seed)
    fed = {"s": rng.random((1, 4, 3, 4)), "m": 0.1 * rng.normal(size=(1, 8, 3, 4)), "i": np.array([[24.0, 32, 1]])}
    more = "min_size: 20 nms_thresh: 0.5"
    for kind in ("native", "python"):
        net = proposal_net(more, kind)
        forward(net, **fed)
        rows, scores = oracles.propose(fed["s"], fed["m"], fed["i"], (1,), (1, 2), 8, least=20, before=6000, after=300,
                                       threshold=0.5, drop=kind == "python")  # fmt: skip
        assert (0 in scores) == (kind == "native")
        np.testing.assert_allclose(net.blobs["rois"], rows, rtol=1e-9)
        np.testing.assert_allclose(net.blobs["scores"].reshape(-1), scores, rtol=1e-9)
        assert net.blobs["scores"].ndim == (1 if kind == "native" else 2)


def test_suppression_equals_the_plain_rule(seed):
    rng = np.random.default_rng(seed)
    rows = drawn_boxes(rng, 200, 100, 80)[:, 1:].astype(float)
    kept = []
    for i, row in enumerate(rows):
        if all(oracles.overlap(row, rows[j]) <= 0.4 for j in kept):
            kept.append(i)
    assert boxes.rcnn_suppress(rows, 0.4, 1000).tolist() == kept
    assert boxes.rcnn_suppress(rows, 0.4, 3).tolist() == kept[:3]
    assert boxes.rcnn_suppress(rows[:0], 0.4, 3).tolist() == []


ANCHOR = "feat_stride: 8 ratio: 1 scale: [1, 2] batch_size: 12 positive_overlap: 0.4"
SAMPLED = "rois labels to w v"
TARGET = inputs(s=(1, 4, 6, 8), g=(3, 5), i=(1, 3), r=(40, 5))
TARGET += layer("AnchorTarget", "s", "g", "i", body=ANCHOR, tops="l a b c", name="t")
TARGET += layer("ProposalTarget", "r", "g", body="num_classes: 4 batch_size: 8", tops=SAMPLED, name="p")


@pytest.fixture(scope="module")
def target_net():
    return bind(TARGET, seed=5)


def target_inputs(rng) -> dict[str, np.ndarray]:
    objects = np.array([[8, 8, 30, 30, 2], [30, 4, 50, 20, 3], [0, 0, 0, 0, -1]], float)
    rois = drawn_boxes(rng, 40, 64, 48).clip(0).astype(float)
    rois[:12, 1:] = np.tile(objects[:2, :4], (6, 1)) + rng.uniform(-2, 2, (12, 4))
    return {"s": np.zeros((1, 4, 6, 8)), "g": objects, "i": np.array([[48.0, 64, 1]]), "r": rois}


def test_samples_depend_on_the_iteration(target_net, seed):
    feed(target_net, **target_inputs(np.random.default_rng(seed)))
    seen = []
    for iteration in (0, 1, 2, 1):
        target_net.forward(iteration)
        blobs = target_net.blobs
        labels = blobs["l"].copy()
        assert (labels >= 0).sum() == 12 and 0 < (labels == 1).sum() <= 6
        np.testing.assert_allclose(blobs["c"][blobs["c"] > 0], 1 / 12)
        assert blobs["labels"].shape == (8,) and (blobs["labels"] > 0).sum() == 2
        assert ((blobs["w"] > 0).sum(1) == 4 * (blobs["labels"] > 0)).all() and (blobs["w"] == blobs["v"]).all()
        seen.append((labels.tobytes(), blobs["rois"].tobytes()))
    assert seen[1] == seen[3] and len(set(seen)) == 3
    other = bind(TARGET, seed=6)
    feed(other, **target_inputs(np.random.default_rng(seed)))
    other.forward(1)
    assert other.blobs["rois"].tobytes() != seen[1][1], "the seed counts"


def test_no_object_makes_everything_background(target_net, seed):
    fed = target_inputs(np.random.default_rng(seed))
    fed["g"][:, 4] = -1
    forward(target_net, **fed)
    assert (target_net.blobs["l"] <= 0).all() and not target_net.blobs["b"].any()
    assert not target_net.blobs["labels"].any() and not target_net.blobs["w"].any()


def test_fewer_boxes_than_the_sample_shrink_it():
    text = over("ProposalTarget", "num_classes: 3 batch_size: 30 bg_thresh_lo: 0.2", SAMPLED, r=(40, 5), g=(1, 5))
    net = bind(text + layer("Power", "labels", body="scale: 2", tops="after"))
    rois = np.tile(np.array([0, 100, 100, 110, 110.0]), (40, 1))
    rois[:5, 1:] = [0, 0, 20, 14]
    for objects, count in (([0, 0, 20, 20, 2], 6), ([100, 100, 110, 110, 1], 8)):
        forward(net, r=rois, g=np.array([objects], float))
        assert net.blobs["rois"].shape == (count, 5) and net.blobs["after"].shape == (count,)


def test_a_label_that_is_no_class(target_net, seed):
    fed = target_inputs(np.random.default_rng(seed))
    fed["g"][0, 4] = 4
    feed(target_net, **fed)
    with pytest.raises(CaffeliteError, match=r'a label in bottom "g" is no class; expected 1 to 3, found 4'):
        target_net.forward()


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("ROIPooling", "", "pooled_h must be positive"),
        ("ROIPooling", "pooled_h: 1 pooled_w: 1 spatial_scale: 0", "a bad spatial_scale"),
        ("ROIAlign", "pooled_h: 1 pooled_w: 1 pad_ratio: -1", "a bad pad_ratio"),
        ("PSROIPooling", "output_dim: 3 group_size: 2 spatial_scale: 1", "12 channels"),
        ("ProposalTarget", "num_classes: 1", "a bad num_classes"),
        ("ProposalTarget", "num_classes: 2 bbox_std: 1", "a bad bbox_std"),
    ],
)
def test_mistakes(kind, body, message):
    with pytest.raises(CaffeliteError, match=message):
        bind(over(kind, body, SAMPLED if kind == "ProposalTarget" else "y", x=(1, 4, 5, 5), r=(3, 5)))
