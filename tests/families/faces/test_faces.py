"""Layers for faces whose gradients are not the derivatives, what they do to their weights, and their mistakes."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, feed, forward, inputs, judged, layer, mistaken, over, slopes, wrong

from caffelite.devices import open_device
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError

LABELS = np.array([0.0, 2, 1, 2, 2])


@pytest.fixture(params=["cpu", pytest.param("host", marks=pytest.mark.host)])
def dev(request):
    return open_device(None, "float64") if request.param == "cpu" else GPU(0, "float64", HostBackend())


def features(kind: str, body: str = "", label: bool = True, tops: str = "y") -> str:
    """A layer over features of 5 samples, and their labels."""
    return over(kind, body, tops, x=(5, 4), **({"label": (5,)} if label else {}))


def gradients(dev, rng, text: str):
    """x, the weights after the pass, the gradient of y, and the gradients of x and of the weights."""
    net = bind(judged(text), dev=dev, keep=True)
    dev.upload(net.params.data, rng.normal(size=net.params.size))
    forward(net, x=rng.normal(size=(5, 4)), label=LABELS, t=rng.normal(size=(5, 3)))
    net.backward()
    y, t = (dev.download(net.blobs[name]) for name in "yt")
    dx = dev.download(slopes(net))
    weights = dev.download(net.params.blobs[0])
    actual = dev.download(net.params.diff)[: weights.size].reshape(weights.shape)
    return dev.download(net.blobs["x"]), weights, (y - t) / 5, dx, actual


@pytest.mark.parametrize(("kind", "m"), [("SINGLE", 1), ("DOUBLE", 2), ("TRIPLE", 3), ("QUADRUPLE", 4)])
def test_margin_gradients_are_those_of_sphereface(dev, rng, kind, m):
    body = f"num_output: 3 type: {kind} base: 3 gamma: 1 power: 1"
    x, w, dy, dx, dw = gradients(dev, rng, features("MarginInnerProduct", body))
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1)
    np.testing.assert_allclose(dw, dy.T @ x, rtol=1e-9, atol=1e-12)
    number, expected = 3 / 2, dy @ w
    for i, label in enumerate(LABELS.astype(int)) if m > 1 else ():
        length = np.linalg.norm(x[i])
        cosine = x[i] @ w[label] / length
        angle = np.arccos(cosine)
        k = np.floor(m * angle / np.pi)
        psi = (-1) ** k * np.cos(m * angle) - 2 * k
        of_cosine = (-1) ** k * m * np.sin(m * angle) / np.sin(angle)
        # d(|x| psi)/dx = of_cosine w + (psi - cosine of_cosine) x / |x|: both factors to a joint length of 1
        factors = np.array([of_cosine, (psi - cosine * of_cosine) / length])
        factors /= np.linalg.norm(factors)
        own = (factors[0] * w[label] + factors[1] * x[i] + number * w[label]) / (1 + number)
        expected[i] += dy[i, label] * (own - w[label])
    np.testing.assert_allclose(dx, expected, rtol=1e-9, atol=1e-12)


def test_centers_move_to_the_mean_of_their_samples(dev, rng):
    text = features("CenterLoss", "center_loss_param { num_output: 4 } loss_weight: 0.008")
    net = bind("force_backward: true\n" + text, dev=dev, keep=True)
    x, c = rng.normal(size=(5, 4)), rng.normal(size=(4, 4))
    dev.upload(net.params.data, c.reshape(-1))
    forward(net, x=x, label=LABELS)
    net.backward()
    expected = [(c[n] - x[n == LABELS]).sum(0) / (1 + (n == LABELS).sum()) for n in range(4)]
    actual = dev.download(net.params.diff)[:16].reshape(4, 4)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dev.download(slopes(net)), 0.008 * (x - c[LABELS.astype(int)]) / 5, rtol=1e-6)
    factor = dev.zeros(1)
    dev.fill(factor, 8)
    net.scale_losses(factor)
    net.backward()
    np.testing.assert_allclose(dev.download(net.params.diff)[:16].reshape(4, 4), 8 * actual, rtol=1e-9, atol=1e-12)


def test_rows_learn_from_samples_of_their_class_alone(dev, rng):
    x, w, dy, dx, dw = gradients(dev, rng, features("InnerDistance", "num_output: 3 update_center_only: true"))
    gap = 2 * (x[:, None] - w[None]) * dy[:, :, None]
    np.testing.assert_allclose(dx, gap.sum(1), rtol=1e-9, atol=1e-12)
    own = np.arange(3) == LABELS[:, None]
    np.testing.assert_allclose(dw, -(gap * own[:, :, None]).sum(0), rtol=1e-9, atol=1e-12)


def test_inner_product_of_unit_rows(dev, rng):
    body = "num_output: 3 normalize: true bias_term: false"
    x, w, dy, dx, dw = gradients(dev, rng, features("InnerProduct", body, label=False))
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(dx, dy @ w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(dw, dy.T @ x, rtol=1e-9, atol=1e-12)


def test_inner_product_with_stored_transposed_blob(dev, rng):
    net = bind(over("InnerProduct", "transpose: true", x=(5, 4), w=(4, 3), b=(3,)), dev=dev)
    x, w, b = rng.normal(size=(5, 4)), rng.normal(size=(4, 3)), rng.normal(size=3)
    forward(net, x=x, w=w, b=b)
    np.testing.assert_allclose(dev.download(net.blobs["y"]), x @ w + b)


MARGIN = "num_output: 3 type: DOUBLE base: 1000 gamma: 0.12 lambda_min: 5"


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("MarginInnerProduct", MARGIN, lambda i: max(5, 1000 / (1 + 0.12 * (i + 1)))),
        (
            "LabelSpecificAdd",
            "bias_base: -0.1 bias_gamma: 0.01 bias_power: -1 bias_min: -0.5 bias_max: 1",
            lambda i: max(-0.5, -0.1 + 1 / (1 + 0.01 * i) - 1),
        ),
        (
            "LabelSpecificRescale",
            "positive_weight_base: 9 gamma: 0.5 iteration: 4 positive_weight_min: 1",
            lambda i: max(1, 9 / (1 + 0.5 * (i + 5))),
        ),
    ],
)
def test_numbers_follow_the_iteration(dev, kind, body, expected):
    """A pass depends on its iteration and not on the passes before it, so that a resumed run continues exactly."""
    net = bind(features(kind, body, tops="y number"), dev=dev)
    feed(net, x=np.ones((5, 4)), label=LABELS)
    for iteration in (0, 7, 3, 500):
        net.forward(iteration)
        assert dev.download(net.blobs["number"]) == pytest.approx(expected(iteration), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("MarginInnerProduct", MARGIN),
        ("InnerProduct", "num_output: 3 normalize: true"),
        ("InnerDistance", "num_output: 3 normalize: true"),
    ],
)
def test_only_training_changes_stored_weights(dev, rng, kind, body):
    text = features(kind, body, label=kind == "MarginInnerProduct")
    start, actual = rng.normal(size=(3, 4)), {}
    for phase in ("TEST", "TRAIN"):
        net = bind(text, phase, dev=dev)
        dev.upload(net.params.blobs[0], start)
        forward(net, x=np.ones((5, 4)), label=LABELS)
        actual[phase] = dev.download(net.params.blobs[0]), dev.download(net.blobs["y"])
    np.testing.assert_array_equal(actual["TEST"][0], start)
    np.testing.assert_allclose(np.linalg.norm(actual["TRAIN"][0], axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(actual["TEST"][1], actual["TRAIN"][1])


def test_a_sample_of_zeros_has_no_angle(dev):
    net = bind(judged(features("MarginInnerProduct", MARGIN)), dev=dev, keep=True)
    dev.upload(net.params.data, np.ones(net.params.size))
    forward(net, x=np.zeros((5, 4)), label=LABELS, t=np.ones((5, 3)))
    net.backward()
    assert (dev.download(net.blobs["y"]) == 0).all()
    assert np.isfinite(dev.download(slopes(net))).all()


@pytest.mark.parametrize("label", [3, -1, 0.5, np.nan])
@pytest.mark.parametrize(("kind", "body"), [("MarginInnerProduct", MARGIN), ("CenterLoss", "num_output: 3")])
def test_labels_outside_the_classes(kind, body, label):
    net = bind(features(kind, body))
    forward(net, x=np.ones((5, 4)), label=np.where(np.arange(5) == 3, label, 0))
    with pytest.raises(CaffeliteError, match=r'in bottom "label" is no class .sample 3 of the batch.'):
        net.check_faults()


CONTRAST = [  # distances of three samples to three classes; labels 0, 1, 1
    [0.5, 0.25, 0.75],
    [0.1, 2.0, 0.4],
    [0.9, 0.2, 0.6],
]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", [[1, -1, -1], [-1, 1, -1], [-1, 1, -1]]),
        ("positive_first: true positive_upper_bound: 1", [[1, -1, -1], [0, 1, 0], [-1, 1, -1]]),
        ("max_negative_only: true", [[1, -1, 0], [-1, 1, 0], [0, 1, -1]]),
        ("max_positive_only: true", [[0, -1, -1], [-1, 0, -1], [-1, 1, -1]]),
        ("normalize_negative: 0.5", [[1, -0.25, -0.25], [-0.25, 1, -0.25], [-0.25, 1, -0.25]]),
        ("positive_outlier_thresh: 1.5", [[1, -1, -1], [-1, 0, -1], [-1, 1, -1]]),
    ],
)
def test_terms_of_the_contrastive_loss(more, expected):
    text = over("GeneralContrastiveLoss", more, "l m", x=(3, 3), label=(3,))
    net = bind("force_backward: true\n" + text, keep=True)
    forward(net, x=np.array(CONTRAST), label=np.array([0.0, 1, 1]))
    net.backward()
    np.testing.assert_allclose(slopes(net), np.array(expected) / 3, rtol=1e-6)


def test_running_mean_of_the_contrastive_loss_moves_its_margin():
    body = "add_intra_mae: true max_negative_margin: 0.03"
    net = bind(over("GeneralContrastiveLoss", body, "l m", x=(1, 2), label=(1,)))
    feed(net, x=np.array([[2.0, 0.5]]), label=np.array([0.0]))
    means, losses = [], []
    for _ in range(3):
        net.forward()
        means.append(float(net.blobs["m"][2]))
        losses.append(float(net.blobs["l"]))
    assert means == pytest.approx([0.02, 0.03, 0.03]) and losses == pytest.approx([2.5, 2.52, 2.53])
    carried = net.graph.nodes[-1].layer.carried
    assert len(carried) == 1 and carried[0][0] == pytest.approx(0.03), "a snapshot has the mean"


test_mistakes = mistaken(
    wrong("MarginInnerProduct", "", "num_output must be positive", (5, 4), (5,), at="layer"),
    wrong("CenterLoss", "", "num_output must be positive", (5, 4), (5,), at="layer"),
    wrong("Insanity", "lb: 3 ub: @2", "a bad range"),
    wrong("Insanity", "lb: @0", "a bad range"),
    wrong("InnerDistance", "", "num_output must be positive", (5, 4), at="layer"),
    wrong("InnerDistance", 'num_output: 2 distance_type: @"L3"', "an unknown distance_type", (5, 4)),
    wrong("Normalize", 'normalize_param { normalize_type: @"L0" }', "an unknown normalize_type", (5, 4)),
    wrong("Flip", "", "is no batch of images", (5, 4), at=0),
)


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        ("MarginInnerProduct", "num_output: 3 base: 1 gamma: -1 power: 1", "-1"),
        ("LabelSpecificAdd", "bias_base: 0 bias_gamma: -3 bias_power: 0.5", "-3"),
        ("LabelSpecificRescale", "positive_weight_base: 1 gamma: 9 power: -999", "9"),
    ],
)
def test_a_schedule_that_gives_no_number(kind, body, found):
    net = bind(features(kind, body))
    with pytest.raises(CaffeliteError, match=f"is no finite number at i = .*found {found}$"):
        for iteration in range(2):
            net.forward(iteration)


def test_a_fixed_gradient_of_a_norm_is_not_divided(rng):
    """NormFace's fix_gradient: dx is |x| times the derivative."""
    slopes = []
    x = rng.normal(size=(2, 3))
    for fixed in ("false", "true"):
        text = "force_backward: true\n" + over("Normalize", f"normalize_param {{ fix_gradient: {fixed} }}", x=x.shape)
        net = bind(text + inputs(t=x.shape) + layer("EuclideanLoss", "y", "t", tops="l"))
        forward(net, x=x, t=np.zeros(x.shape) + [1, 2, 3])
        net.backward()
        slopes.append(np.array(net.dev.download(net.diff[net.graph.values["x"]])))
    np.testing.assert_allclose(slopes[1], slopes[0] * np.linalg.norm(x, axis=1, keepdims=True), rtol=1e-5)


test_mistakes_of_large_margins = mistaken(
    wrong("LargeMarginInnerProduct", "", "num_output must be positive", (4, 2), (4,), at="layer", tops="y l")
)
