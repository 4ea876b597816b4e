"""RNN and LSTM compared with a loop in NumPy; where sequences start; the recurrent state; what is static and what is
exposed."""

import engines
import numpy as np
import pytest
import reference
import textnet
from layers.layer_row import FILL
from textnet import assert_slope, bind, feed, forward, mistaken, over, run, wrong

T, N, K, D = 5, 3, 4, 2
CONT = np.ones((T, N))
CONT[0], CONT[2, 1], CONT[3] = 0, 0, [1, 0, 1]


KINDS = {"RNN": (reference.rnn, 1), "LSTM": (reference.lstm, 2)}
every_kind = pytest.mark.parametrize("kind", KINDS)


def net_text(kind: str, static: bool, exposed: bool, judged: bool = True, batch: int = N) -> str:
    states = KINDS[kind][1] if exposed else 0
    below = {"x": (T, batch, 2, 2), "cont": (T, batch)} | ({"s": (batch, 3)} if static else {})
    below |= {f"s{i}": (1, batch, D) for i in range(states)}
    tops = ["y", *(f"y{i}" for i in range(states))]
    body = f"num_output: {D} {FILL} {'expose_hidden: true' if exposed else ''}"
    text = over(kind, body, " ".join(tops), **below)
    return textnet.judged(text, **{f"t_{top}": top for top in tops}) if judged else text


def draw(net, rng) -> dict[str, np.ndarray]:
    fed = {v.name: rng.normal(size=v.shape) for node in net.graph.feeds for v in node.tops}
    return fed | {"cont": CONT[:, : fed["cont"].shape[1]]}


@every_kind
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("exposed", [False, True])
def test_forward_and_gradient(kind, static, exposed, rng):
    net = bind(net_text(kind, static, exposed), keep=True)
    loop, states = KINDS[kind]
    fed = draw(net, rng)
    if exposed:
        fed["cont"] = np.maximum(CONT, [[1, 0, 1]])  # some go on from the state that is given
    net.params.data[...] = rng.normal(size=net.params.size)
    run(net, **fed)
    begin = [fed[f"s{i}"][0] if exposed else np.zeros((N, D)) for i in range(states)]
    actual = loop(fed["x"], fed["cont"], fed.get("s"), begin, net.params.blobs)
    np.testing.assert_allclose(net.blobs["y"], actual[0], rtol=1e-10)
    for i in range(states if exposed else 0):
        np.testing.assert_allclose(net.blobs[f"y{i}"][0], actual[1 + i], rtol=1e-10)

    moved = [n for n in fed if n in "xs" or (n[0] == "s" and exposed)]
    assert net.graph.values["cont"] not in net.diff
    assert_slope(net, moved, rng)


@every_kind
@pytest.mark.parametrize("keep", [False, True])
def test_the_state_goes_on_from_pass_to_pass(kind, keep, rng):
    """Two passes of T steps are one of 2T, as long as cont says so."""
    net = bind(net_text(kind, False, False, judged=False), keep=keep)
    loop, states = KINDS[kind]
    parts = [draw(net, rng) for _ in range(2)]
    parts[1]["cont"] = np.maximum(CONT, np.array([1, 0, 1]) * (np.arange(T) == 0)[:, None])
    x, cont = (np.concatenate([p[name] for p in parts]) for name in ("x", "cont"))
    expected = loop(x, cont, None, [np.zeros((N, D))] * states, net.params.blobs)[0]
    for i, part in enumerate(parts):
        forward(net, **part)
        np.testing.assert_allclose(net.blobs["y"], expected[i * T : (i + 1) * T], rtol=1e-10)


@every_kind
def test_a_sequence_starts_clean(kind, rng):
    """What came before cont = 0, a NaN even, is forgotten."""
    net = bind(net_text(kind, False, False, judged=False))
    fed = draw(net, rng)
    forward(net, **fed)
    clean = net.blobs["y"].copy()
    fed["x"][:2, 1] = np.nan
    forward(net, **fed)
    corrupted = net.blobs["y"]
    assert np.isnan(corrupted[:2, 1]).all()
    np.testing.assert_array_equal(corrupted[2:, 1], clean[2:, 1])
    np.testing.assert_array_equal(corrupted[:, [0, 2]], clean[:, [0, 2]])


@every_kind
def test_sequences_do_not_mix(kind, rng):
    one, all_ = (bind(net_text(kind, False, False, judged=False, batch=n)) for n in (1, N))
    fed = draw(all_, rng)
    one.params.data[...] = all_.params.data
    feed(all_, **fed)
    feed(one, x=fed["x"][:, :1], cont=fed["cont"][:, :1])
    for net in (one, all_):
        net.forward()
    np.testing.assert_allclose(one.blobs["y"][:, 0], all_.blobs["y"][:, 0], rtol=1e-12)


@pytest.mark.parametrize("static", [False, True])
def test_bf16_is_near(static, rng):
    """Gradients of parameters and of x, in bfloat16 products and in full; x is not what backward reads."""
    actual = []
    for precision in ("bf16", "fp32"):
        net = bind(net_text("LSTM", static, True, batch=8), dev=engines.with_onednn(precision), keep=True)
        assert any(getattr(node.layer, "rounds_bottoms", bool)() for node in net.graph.nodes) == (precision == "bf16")
        rng = np.random.default_rng(7)
        feed(net, **{v.name: rng.normal(size=v.shape) for node in net.graph.feeds for v in node.tops})
        feed(net, cont=rng.random((T, 8)) < 0.8)
        net.params.data[...] = rng.normal(size=net.params.size) / 2
        net.clear_loss()
        net.forward()
        if precision == "bf16":
            net.blobs["x"].fill(np.nan)
        net.backward()
        of_bottoms = [net.diff[v].ravel() for v in net.diff if v.name in ("x", "s0", "s1")]
        actual.append(np.concatenate([net.params.diff, *of_bottoms]))
    half, full = actual
    assert (half != full).any()
    np.testing.assert_allclose(half, full, atol=0.02 * np.abs(full).max())


@every_kind
@pytest.mark.parametrize("static", [False, True])
def test_parameters_in_caffes_order(kind, static):
    g = {"RNN": 1, "LSTM": 4}[kind] * D
    expected = [(g, 4), (g,), *([(g, 3)] if static else []), (g, D), *([(D, D), (D,)] if kind == "RNN" else [])]
    assert [b.shape for b in bind(net_text(kind, static, False, judged=False)).params.blobs] == expected


WIDE, NARROW, TWO = (T, N, K), (T, N), "num_output: 2"
OPEN = "num_output: 2 expose_hidden: true"


test_mistakes = mistaken(
    wrong("RNN", "@recurrent_param { }", "num_output must be positive", WIDE, NARROW),
    wrong("RNN", TWO, 'bottom "x0" is no batch of sequences; expected T×N×...', (T,), (T,), at=0),
    wrong("LSTM", TWO, 'bottom "x1" does not fit; expected [5, 3], found [5, 2]', WIDE, (T, 2), at=1),
    wrong("LSTM", TWO, 'bottom "x2" does not fit; expected [3, 9], found [2, 9]', WIDE, NARROW, (2, 9), at=2),
    wrong("LSTM", TWO, "has 4 bottoms; expected x, cont[, x_static]", WIDE, NARROW, (N,), (N,), at=3),
    wrong("LSTM", OPEN, "has 2 bottoms; expected x, cont[, x_static], h_0, c_0", WIDE, NARROW, at=1, tops="y h c"),
    wrong("RNN", OPEN, "has 1 tops; expected h, h_T", WIDE, NARROW, (1, N, 2), tops="@y"),
    wrong("RNN", OPEN, "expected [1, 3, 2], found [1, 3, 3]", WIDE, NARROW, (1, N, 3), at=2, tops="y h"),
    wrong("LSTMUnit", "", "is no state; expected 1×N×D", (2, N, D), (1, N, 8), (1, N), at=0, tops="c h"),
    wrong("LSTMUnit", "", "expected [1, 3, 8], found [1, 3, 6]", (1, N, D), (1, N, 6), (1, N), at=1, tops="c h"),
)
