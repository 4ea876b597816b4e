"""The GPU's kernels of detectors, run by the host from the first thread to the last and back, choose what the CPU
chooses."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, forward, over, slopes

from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError

pytestmark = pytest.mark.host

IMAGES, PRIORS, CLASSES, ROWS = 3, 90, 4, 14


@pytest.fixture(params=[False, True], ids=["first to last", "last to first"])
def gpu(request):
    return GPU(0, "float32", HostBackend(backwards=request.param))


def boxes(rng, count):
    """Corners on a grid, so that many boxes and overlaps are equal."""
    low = rng.integers(-1, 6, (count, 2)) / 8
    return np.concatenate([low, low + rng.integers(1, 5, (count, 2)) / 8], 1)


def objects(rng, images=IMAGES, difficult=0.3):
    """Rows of some images in any order, some of them of none."""
    rows = np.full((ROWS, 8), -1.0)
    rows[:, 0] = rng.integers(-1, images, ROWS)
    rows[:, 1], rows[:, 2] = rng.integers(1, CLASSES, ROWS), 0
    rows[:, 3:7], rows[:, 7] = boxes(rng, ROWS), rng.random(ROWS) < difficult
    return rows


DRAWN = {
    "some": objects,
    "of one image": lambda rng: objects(rng, 1),
    "none": lambda rng: np.full((ROWS, 8), -1.0),
    "all difficult": lambda rng: objects(rng, difficult=2),
}


def loss_bottoms(rng, rows, sets=1):
    scores = rng.normal(size=(IMAGES, PRIORS, CLASSES))
    scores[:, 1::2] = scores[:, ::2]  # equal losses
    priors = np.stack([boxes(rng, PRIORS).reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], PRIORS)])
    return {
        "offsets": rng.normal(size=(IMAGES, PRIORS * 4 * sets)),
        "scores": scores.reshape(IMAGES, -1),
        "priors": priors[None],
        "objects": rows.reshape(1, 1, ROWS, 8),
    }


def net_of(kind, body, fed, dev=None):
    text = over(kind, body, **{name: values.shape for name, values in fed.items()})
    net = bind("force_backward: true " + text, dtype="float32", dev=dev, keep=True)
    forward(net, **fed)
    return net


CASES = {
    "corners": "",
    "centers": "code_type: CENTER_SIZE overlap_threshold: 0.3 neg_overlap: 0.4 neg_pos_ratio: 2",
    "sides": "code_type: CORNER_SIZE match_type: BIPARTITE loc_loss_type: L2 loc_weight: 2",
    "easy": "use_difficult_gt: false conf_loss_type: LOGISTIC",
    "all": "mining_type: NONE conf_loss_type: LOGISTIC",
    "crossing": "ignore_cross_boundary_bbox: true encode_variance_in_target: true overlap_threshold: 0.2",
    "few": "neg_pos_ratio: 0.4 overlap_threshold: 0",
    "many": "neg_pos_ratio: 1000",
    "sets": "share_location: false mining_type: NONE",
}


@pytest.mark.parametrize("drawn", DRAWN)
@pytest.mark.parametrize("case", CASES)
def test_multibox_loss_as_on_the_cpu(case, drawn, gpu, seed):
    """The same priors are matched and mined: gradients are 0 in the same places. Without logarithms those of offsets
    are equal bit for bit; those of scores but for exp and the order of a sum over classes."""
    rng = np.random.default_rng(seed)
    fed = loss_bottoms(rng, DRAWN[drawn](rng), CLASSES if case == "sets" else 1)
    body = f"multibox_loss_param {{ num_classes: {CLASSES} {CASES[case]} }}"
    nets = [net_of("MultiBoxLoss", body, fed, dev) for dev in (None, gpu)]
    assert not nets[1].requires_host
    for net in nets:
        net.backward()
    losses = [net.dev.download(net.blobs["y"]) for net in nets]
    offsets, scores = ([net.dev.download(slopes(net, name)) for net in nets] for name in ("offsets", "scores"))
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert np.array_equal(scores[0] == 0, scores[1] == 0)
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-7)
    if case == "centers":
        np.testing.assert_allclose(*offsets, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(*offsets)
    assert (drawn == "none") or offsets[0].any() or (drawn, case) == ("all difficult", "easy")


@pytest.mark.parametrize("label", [0, CLASSES, 1.5])
def test_a_label_that_is_no_class_is_reported(label, gpu, seed):
    rng = np.random.default_rng(seed)
    rows = objects(rng)
    rows[5, :2] = 1, label
    net = net_of("MultiBoxLoss", f"multibox_loss_param {{ num_classes: {CLASSES} }}", loss_bottoms(rng, rows), gpu)
    with pytest.raises(CaffeliteError, match=r'row 5 of bottom "objects" has a label that is no class of objects'):
        net.check_faults()


def test_a_net_that_has_diverged_has_no_loss(gpu, seed):
    rng = np.random.default_rng(seed)
    fed = loss_bottoms(rng, DRAWN["none"](rng))
    fed["offsets"][1, 7] = np.nan
    net = net_of("MultiBoxLoss", f"multibox_loss_param {{ num_classes: {CLASSES} }}", fed, gpu)
    assert np.isnan(gpu.download(net.blobs["y"]))


GRID, REGION = (3, 16, 4, 5), "num: 2 num_class: 3 biases: 1 biases: 1.5 biases: 2 biases: 0.75"
OF_REGION = {
    "default": "",
    "scales": "object_scale: 5 coord_scale: 2 class_scale: 3 noobject_scale: 0.25 thresh: 0.1",
    "plain": "rescore: 0 bias_match: 1",
    "of images": "",
}


@pytest.mark.parametrize("case", OF_REGION)
def test_region_loss_as_on_the_cpu(case, gpu, seed):
    """Bit for bit, as both compute in double; several boxes have one prediction."""
    rng = np.random.default_rng(seed)
    rows = objects(rng)
    rows[:, 1] = rng.integers(1, 4, ROWS)
    label = rows.reshape(1, 1, ROWS, 8)
    if case == "of images":
        table = np.zeros((3, 4, 5))
        table[:, :3, 0] = rng.integers(0, 3, (3, 3))
        table[:, :3, 1:] = rng.choice([0.2, 0.21, 0.6, 1.2], (3, 3, 4))
        label = table.reshape(3, 20)
    fed = {"x": rng.normal(size=GRID), "label": label}
    nets = [
        net_of("RegionLoss", f"region_loss_param {{ {REGION} {OF_REGION[case]} }}", fed, dev) for dev in (None, gpu)
    ]
    assert not nets[1].requires_host
    for net in nets:
        net.backward()
    errors = [net.dev.download(net.diff[net.graph.values["x"]]) for net in nets]
    np.testing.assert_allclose(*errors, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(*[net.dev.download(net.blobs["y"]) for net in nets], rtol=1e-6)


def test_a_class_that_is_none_is_reported(gpu, seed):
    rng = np.random.default_rng(seed)
    label = np.tile([0, 4, 0, 0.1, 0.1, 0.5, 0.5, 0], (2, 1)).reshape(1, 1, 2, 8)
    net = net_of("RegionLoss", f"region_loss_param {{ {REGION} }}", {"x": rng.normal(size=GRID), "label": label}, gpu)
    with pytest.raises(CaffeliteError, match='"label" has a class that is none in row 0; expected classes 0 to 2'):
        net.check_faults()


OUTPUTS = {
    "corners": "",
    "centers": "code_type: CENTER_SIZE nms_param { nms_threshold: 0.3 top_k: 70 } confidence_threshold: 0.2",
    "sides": "code_type: CORNER_SIZE variance_encoded_in_target: true keep_top_k: 9 nms_param { nms_threshold: 0 }",
    "best": "nms_param { nms_threshold: 0.5 top_k: 1 }",
    "no background": "background_label_id: -1 nms_param { nms_threshold: 1 }",
    "none": "confidence_threshold: 100",
    "sets": "share_location: false nms_param { nms_threshold: 0.25 top_k: 65 }",
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_detections_as_on_the_cpu(case, gpu, seed):
    """The same boxes in the same order, among equal scores and equal boxes; corners are equal but for exp."""
    rng = np.random.default_rng(seed)
    fed = loss_bottoms(rng, objects(rng), CLASSES if case == "sets" else 1)
    del fed["objects"]
    fed["offsets"] = np.round(fed["offsets"])
    fed["scores"][0, :40] = np.nan
    body = f"detection_output_param {{ num_classes: {CLASSES} {OUTPUTS[case]} }}"
    net, other = (net_of("DetectionOutput", body, fed, dev) for dev in (None, gpu))
    assert other.graph.nodes[-1].layer.op
    expected, actual = (n.dev.download(n.blobs["y"]) for n in (net, other))
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual[..., :3], expected[..., :3])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6 if case == "centers" else 0)


PROPOSALS = {
    "some": "nms_thresh: 0.5 pre_nms_topn: 300 post_nms_topn: 40 min_size: 4",
    "small": "min_size: 60 pre_nms_topn: 100 post_nms_topn: 100",
    "few": "pre_nms_topn: 70 post_nms_topn: 3 nms_thresh: 0.1 min_size: 0",
}


@pytest.mark.parametrize(("kind", "case"), [*(("Proposal", case) for case in PROPOSALS), ("Python", "")])
def test_proposals_as_on_the_cpu(case, kind, gpu, seed):
    """The same boxes in the same order, among equal scores; corners are equal but for exp. Nothing of the second image
    is finite."""
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=(2, 18, 7, 9)), 1)
    scores[1] = np.nan
    fed = {"scores": scores, "offsets": np.round(rng.normal(size=(2, 36, 7, 9)) / 4, 1)}
    fed["offsets"][0, 4, 3, 3] = np.inf
    fed["info"] = np.array([[110, 140, 1.5], [100, 100, 1]])
    python = 'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "\'feat_stride\': 16" }'
    body = python if kind == "Python" else f"proposal_param {{ feat_stride: 16 {PROPOSALS[case]} }}"
    net, other = (net_of(kind, body, fed, dev) for dev in (None, gpu))
    assert other.graph.nodes[-1].layer.op
    expected, actual = (n.dev.download(n.blobs["y"]) for n in (net, other))
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-4)
