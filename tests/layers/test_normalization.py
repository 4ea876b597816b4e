"""What the battery's rows cannot say of normalization: moments that are stored, and second bottoms."""

import numpy as np
import pytest
from textnet import bind, feed, forward, inputs, judged, over, run, slopes, wired

from caffelite.errors import CaffeliteError

SHAPE = (4, 3, 2, 5)


def norm(body: str = "", tops: str = "y") -> str:
    return over("BatchNorm", f"batch_norm_param {{ {body} }}", tops, x=SHAPE)


def test_running_moments(rng):
    """Sums that fade by moving_average_fraction each pass; the variances with m / (m - 1)."""
    net, kept, m = bind(norm("moving_average_fraction: 0.75")), [np.zeros(3), np.zeros(3), np.zeros(1)], 4 * 2 * 5
    for _ in range(3):
        x = rng.normal(2, 3, SHAPE)
        forward(net, x=x)
        for blob, seen in zip(kept, (x.mean((0, 2, 3)), x.var((0, 2, 3)) * m / (m - 1), 1), strict=True):
            blob[...] = 0.75 * blob + seen
    for blob, expected in zip(net.params.blobs, kept, strict=True):
        np.testing.assert_allclose(blob, expected, rtol=1e-12)


def test_one_number_a_channel_has_no_infinite_variance():
    net = bind(over("BatchNorm", x=(1, 2)))
    forward(net, x=np.ones((1, 2)))
    assert (net.params.blobs[1] == 0).all() and (net.blobs["y"] == 0).all()


@pytest.mark.parametrize(("phase", "body"), [("TEST", ""), ("TRAIN", "use_global_stats: true")])
def test_stored_moments(phase, body, rng):
    net, x = bind(norm(body), phase), rng.normal(size=SHAPE)
    mean, variance, factor = rng.normal(size=3), 0.5 + rng.random(3), 2.5
    for blob, values in zip(net.params.blobs, (mean, variance, factor), strict=True):
        blob[...] = values
    forward(net, x=x)
    expected = (x - mean[:, None, None] / factor) / np.sqrt(variance[:, None, None] / factor + 1e-5)
    np.testing.assert_allclose(net.blobs["y"], expected, rtol=1e-10)
    assert [b.copy().tolist() for b in net.params.blobs] == [mean.tolist(), variance.tolist(), [factor]], "they stay"


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
@pytest.mark.parametrize("value", [0.0, 2.0])
def test_learnt_scale_and_bias(phase, value, rng):
    """Against a Scale layer after it: the same loss and gradients, also where a scale is 0 and y has lost x."""
    one = norm("scale_bias: true", "s")
    two = norm(tops="n") + wired("Scale", "n", "s", "bias_term: true")
    fed = {"x": rng.normal(size=SHAPE), "t": rng.normal(size=(4, 2))}
    start = [rng.normal(size=3), 0.5 + rng.random(3), np.array([2.5]), np.array([value, 1, 3]), rng.normal(size=3)]
    start += [rng.normal(size=(2, 30)), rng.normal(size=2)]
    actual = []
    for text in (one, two):
        net = bind(judged(text + wired("InnerProduct", "s", "y", "num_output: 2")), phase, keep=True)
        for blob, values in zip(net.params.blobs, start, strict=True):
            blob[...] = values
        feed(net, **fed)
        for _ in range(2):
            loss = run(net)
        actual.append([loss, net.params.diff.copy(), slopes(net), *net.params.blobs[:3]])
    for mine, theirs in zip(*actual, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(actual[0][1]) == 68, "all that learn"


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        ("scale_bias: true", 5),
        ("scale_bias: false bias_filler { }", 3),
        ("use_weight_bias: true", 5),
        ("use_weight_bias: true bias_term: false", 4),
        ("use_weight_bias: false filler { }", 3),
        ("bias_term: false", 3),
        ("scale_filler { value: 2 }", 5),
    ],
)
def test_scale_and_bias_that_are_configured(body, shapes):
    net = bind(norm(body))
    assert len(net.params.blobs) == shapes
    assert [b.max() for b in net.params.blobs[3:]] == [2.0 if "filler" in body else 1.0, 0.0][: shapes - 3]


def test_rates_of_a_learnt_scale():
    body = "param { } param { } param { } param { lr_mult: 3 } param { decay_mult: 0 }"
    text = over("BatchNorm", body + " batch_norm_param { scale_bias: true }", x=SHAPE)
    actual = bind(text).graph.parameters
    assert [(p.lr_mult, p.decay_mult) for p in actual] == [(0, None)] * 3 + [(3, None), (None, 0)]


FREE = "param { } " * 3 + 'param { name: "s" } param { name: "b" }'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("BatchNorm", "batch_norm_param { scale_bias: true } " + FREE),
        ("Normalize", 'norm_param { across_spatial: false channel_shared: false } param { name: "s" }'),
    ],
)
def test_gradients_of_shared_parameters_add_up(kind, body, rng):
    """Of two layers that do the same, twice that of one."""
    layers = [wired(kind, "x", f"y{i}", body) + wired("EuclideanLoss", f"y{i} t", f"loss{i}") for i in range(2)]
    fed, actual = {"x": rng.normal(size=SHAPE), "t": rng.normal(size=SHAPE)}, []
    for count in (1, 2):
        net = bind(inputs(x=SHAPE, t=SHAPE) + "".join(layers[:count]))
        run(net, **fed)
        actual.append([net.params.diffs[i].copy() for i, p in enumerate(net.graph.parameters) if p.name])
    for one, two in zip(*actual, strict=True):
        np.testing.assert_allclose(two, 2 * one, rtol=1e-12)
    assert all(np.abs(one).min() > 0 for one in actual[0])


def test_nothing_stored_is_no_division_by_zero():
    net = bind(norm(), "TEST")
    forward(net, x=np.full(SHAPE, 2.0))
    np.testing.assert_allclose(net.blobs["y"], 2 / np.sqrt(1e-5))


def test_moments_of_this_batch_in_test(rng):
    net, x = bind(norm("use_global_stats: false"), "TEST"), rng.normal(size=SHAPE)
    forward(net, x=x)
    np.testing.assert_allclose(net.blobs["y"].mean((0, 2, 3)), 0, atol=1e-12)


@pytest.mark.parametrize("body", ["", "use_global_stats: true"])
@pytest.mark.parametrize("top", ["x", "y"])
def test_gradient_with_stored_moments_and_in_place(body, top, rng):
    net, x, t = bind(judged(norm(body, top), t=top)), rng.normal(size=SHAPE), rng.normal(size=SHAPE)
    for blob in net.params.blobs:
        blob[...] = 0.5 + rng.random(blob.shape)
    value = net.graph.nodes[0].tops[0]

    def loss(x):
        stored = net.params.data.copy()
        out = run(net, x=x, t=t)
        net.params.data[...] = stored
        return out

    loss(x)
    gradient = net.diff[value].copy()
    step = rng.normal(size=SHAPE) * 1e-5
    assert (loss(x + step) - loss(x - step)) / 2 == pytest.approx((gradient * step).sum(), rel=1e-6)
    assert (net.params.diff == 0).all()


def test_nan_stays_in_its_channel():
    net, x = bind(norm()), np.arange(120.0).reshape(SHAPE)
    x[0, 1] = np.nan
    forward(net, x=x)
    assert np.isnan(net.blobs["y"]).all((0, 2, 3)).tolist() == [False, True, False]
    assert not np.isnan(net.blobs["y"][:, ::2]).any()


@pytest.mark.parametrize("kind", ["Scale", "Bias"])
@pytest.mark.parametrize(("axis", "shape"), [(1, (3,)), (-2, (2, 5)), (2, (2,)), (0, SHAPE), (0, ())])
def test_a_second_bottom_at_any_axis(kind, axis, shape, rng):
    net = bind(judged(over(kind, f"axis: {axis}", x=SHAPE, s=shape)), keep=True)
    fed = {"x": rng.normal(size=SHAPE), "s": rng.normal(size=shape), "t": rng.normal(size=SHAPE)}
    run(net, **fed)
    spread = fed["s"].reshape((1,) * (axis % 4) + shape + (1,) * (4 - axis % 4 - len(shape)))
    expected = fed["x"] * spread if kind == "Scale" else fed["x"] + spread
    np.testing.assert_allclose(net.blobs["y"], expected, rtol=1e-12)
    dy = (expected - fed["t"]) / 4
    np.testing.assert_allclose(slopes(net), dy * spread if kind == "Scale" else dy, rtol=1e-10)
    each = dy * fed["x"] if kind == "Scale" else dy
    others = tuple(a for a in range(4) if not axis % 4 <= a < axis % 4 + len(shape))
    np.testing.assert_allclose(slopes(net, "s"), each.sum(others), rtol=1e-10)


def test_numbers_that_name_no_row():
    net = bind(over("Embed", "input_dim: 4 num_output: 2", x=(2, 3)))
    for bad in (4, -1, np.nan):
        forward(net, x=np.array([[0, 3, 1], [2, bad, 4]]))
        message = r'layer "layer" .Embed.: a number in bottom "x" names no row .at .1, 1..; expected integers 0 to 3'
        with pytest.raises(CaffeliteError, match=message):
            net.check_faults()


def test_running_moments_of_parts_of_the_batch(rng):
    """Intel's stats_batch_size: as if each part came after the other."""
    x = rng.normal(2, 3, SHAPE)
    whole = bind(over("BatchNorm", x=(2, *SHAPE[1:])))
    parts = bind(norm("stats_batch_size: 2"))
    forward(parts, x=x)
    for part in (x[:2], x[2:]):
        forward(whole, x=part)
    for one, other in zip(whole.params.blobs, parts.params.blobs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    bind(norm("stats_batch_size: 3"), "TEST")
    with pytest.raises(CaffeliteError, match="a bad stats_batch_size; expected a divisor of 4 samples, found 3"):
        bind(norm("stats_batch_size: 3"))


def test_batch_norm_of_parts_adds_no_other_blob(rng):
    """A sum and a ReLU behind it stay layers of their own: its passes are those of parts."""
    text = norm("stats_batch_size: 2 use_weight_bias: true") + (
        'layer { name: "s" type: "Eltwise" bottom: "y" bottom: "x" top: "s" }'
        'layer { name: "r" type: "ReLU" bottom: "s" top: "s" }'
    )
    nets = [bind(text, dtype="float32", fuse=fuse) for fuse in (True, False)]
    x = rng.normal(2, 3, SHAPE)
    for net in nets:
        forward(net, x=x)
    fused, separate = ([values.copy() for _, _, values in net.outputs()] for net in nets)
    halves = [(h - h.mean((0, 2, 3), keepdims=True)) / h.std((0, 2, 3), keepdims=True) for h in (x[:2], x[2:])]
    expected = np.maximum(np.concatenate(halves) + x, 0)
    np.testing.assert_array_equal(fused, separate)
    np.testing.assert_allclose(fused[0].reshape(SHAPE), expected, atol=1e-4)
