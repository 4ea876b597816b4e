"""Layers of text lines: sequences of several lengths, PyTorch's loss, sequences that cannot be spelled, mistakes."""

import numpy as np
import pytest
from families.text.rows import log_probability
from textnet import bind, feed, forward, inputs, layer, mistaken, over, run, slopes

from caffelite.errors import CaffeliteError

T, N, C = 12, 5, 6


def loss_net(kind, shapes, body="", scale=1.0):
    return bind("force_backward: true\n" + over(kind, f"loss_weight: {scale} {body}", **shapes), keep=True)


def sequences(rng, blank):
    """Scores, the number of steps and the labels of each sequence; the labels of one repeat."""
    steps, ends = rng.integers(8, T + 1, N), rng.integers(1, 5, N)
    classes = np.delete(np.arange(C), blank)
    lines = [classes[rng.integers(0, C - 1, end)] for end in ends]
    lines[1][:] = lines[1][0]
    return rng.normal(size=(T, N, C)), steps, lines


def filled(lines, width, value):
    rows = np.full((len(lines), width), float(value))
    for row, line in zip(rows, lines, strict=True):
        row[: len(line)] = line
    return rows


@pytest.mark.parametrize("blank", [0, 2, C - 1])
def test_pytorch_has_the_same_loss_and_slopes(rng, blank):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    x, steps, lines = sequences(rng, blank)
    scores = torch.tensor(x, requires_grad=True)
    flat, ends = torch.tensor(np.concatenate(lines)), torch.tensor([len(line) for line in lines])
    each = torch.nn.functional.ctc_loss(scores.log_softmax(2), flat, torch.tensor(steps), ends, blank, "none")
    (3 * each.sum()).backward()
    shapes = {"x": x.shape, "s": (N,), "e": (N,), "l": (5, N)}
    net = loss_net("WarpCTCLoss", shapes, f"ctc_loss_param {{ blank_index: {blank} }}", 3)
    feed(net, x=x, s=steps, e=ends.numpy(), l=filled(lines, 5, 0).T)
    assert run(net) == pytest.approx(3 * each.mean().item(), rel=1e-12)
    np.testing.assert_allclose(slopes(net), scores.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_forms_of_one_batch_agree(rng):
    """Lengths, indicators, and labels filled up by blanks."""
    x, steps, lines = sequences(rng, 0)
    actual = {}
    for kind, form in (("WarpCTCLoss", 4), ("WarpCTCLoss", 3), ("CTCLoss", 3), ("WarpCTCLoss", 2), ("CtcLoss", 2)):
        steps = steps if form > 2 else np.full(N, T)
        fed = {"x": x}
        if form == 4:
            fed |= {"s": steps, "e": np.array([len(line) for line in lines]), "l": filled(lines, 5, -7).T}
        elif form == 3:
            fed |= {"s": (np.arange(T)[:, None] % steps != 0) * 1.0, "l": filled(lines, 5, -1).T}
        else:
            fed |= {"l": filled(lines, 5, 0)}
        body = "" if form == 2 else "ctc_loss_param { blank_index: 0 }"
        net = loss_net(kind, {name: array.shape for name, array in fed.items()}, body)
        actual[kind, form] = run(net, **fed), slopes(net).copy()
        net.check_faults()
        assert not actual[kind, form][1][np.arange(T)[:, None] >= steps].any(), "nothing after the end"
    for one, other in ((("WarpCTCLoss", 4), ("WarpCTCLoss", 3)), (("WarpCTCLoss", 3), ("CTCLoss", 3))):
        assert actual[one][0] == actual[other][0]
        np.testing.assert_array_equal(actual[one][1], actual[other][1])
    assert actual["WarpCTCLoss", 2][0] == actual["CtcLoss", 2][0] != actual["CTCLoss", 3][0]


def test_first_steps_alone_count(rng):
    x, label = rng.normal(size=(6, 1, 3)), np.array([[1.0, 0, 2]])
    net = loss_net("CtcLoss", {"x": x.shape, "l": (1, 3)}, "ctc_loss_param { time_step: 4 alphabet_size: 3 }")
    assert run(net, x=x, l=label) == pytest.approx(-log_probability(x[:4, 0], [1, 2], 0))


def test_a_sequence_that_is_too_short_has_no_loss(rng):
    """Of 1 1 in two steps: a blank between both needs a third."""
    net = loss_net("CtcLoss", {"x": (2, 2, 3), "l": (2, 2)})
    x = rng.normal(size=(2, 2, 3))
    assert run(net, x=x, l=np.array([[1.0, 1], [1, 2]])) == pytest.approx(-log_probability(x[:, 1], [1, 2], 0) / 2)
    assert not slopes(net)[:, 0].any() and slopes(net)[:, 1].any()


def test_labels_that_repeat_can_be_collapsed(rng):
    x, starts = rng.normal(size=(4, 1, 3)), np.ones((4, 1))
    shapes, body = {"x": x.shape, "s": (4, 1), "l": (4, 1)}, "ctc_loss_param { preprocess_collapse_repeated: true }"
    net = loss_net("CTCLoss", shapes, body)
    feed(net, x=x, s=starts, l=np.array([[1.0], [1], [0], [-1]]))
    assert run(net) == pytest.approx(-log_probability(x[:, 0], [1, 0], 2))


def test_certain_scores_stay_finite():
    """e^-2000 is 0 in float64."""
    x = np.zeros((40, 1, 3))
    x[:, :, 0] = 2000
    net = loss_net("CtcLoss", {"x": x.shape, "l": (1, 2)})
    assert run(net, x=x, l=np.array([[1.0, 2]])) == pytest.approx(4000, rel=1e-2) and np.isfinite(slopes(net)).all()


@pytest.mark.parametrize(
    ("fed", "message"),
    [
        ({"l": [[1.0, 7]]}, 'a label in bottom "l" is no class .sequence 0 of the batch, 7.; expected integers 0 to 2'),
        ({"l": [[1.0, -1]]}, 'a label in bottom "l" is no class'),
        ({"l": [[1.0, np.nan]]}, 'a label in bottom "l" is no class'),
        ({"s": [9.0]}, "sequence 0 of the batch has 9 steps; expected 0 to 4"),
        ({"s": [np.nan]}, "sequence 0 of the batch has nan steps"),
        ({"e": [3.0]}, "sequence 0 of the batch has 3 labels; expected 0 to 2"),
    ],
)
def test_sequences_that_make_no_sense(fed, message):
    start = {"x": np.zeros((4, 1, 3)), "s": [4.0], "e": [2.0], "l": [[1.0], [1]]} if "l" not in fed else {}
    fed = {"x": np.zeros((4, 1, 3))} | start | fed
    arrays = {name: np.array(value) for name, value in fed.items()}
    net = loss_net("WarpCTCLoss", {name: array.shape for name, array in arrays.items()})
    run(net, **arrays)
    with pytest.raises(CaffeliteError, match=message):
        net.check_faults()


def test_scores_that_are_nan_are_never_right():
    net = bind(over("LabelsequenceAccuracy", x=(1, 1, 3), l=(1, 1)), "TEST")
    for scores, accuracy in (([0.0, 1, 0], 1), ([0, np.nan, 0], 0)):
        forward(net, x=np.array([[scores]]), l=np.array([[1.0]]))
        assert net.blobs["y"] == accuracy


def test_decoder_of_several_sequences():
    """Each ends where its next one starts; without merging, repeated classes remain."""
    for merge, expected in (("true", [[1, -1, -1, -1], [1, 0, -1, -1]]), ("false", [[1, 1, -1, -1], [1, 0, 0, -1]])):
        text = over("CTCGreedyDecoder", f"ctc_merge_repeated: {merge}", "y z", x=(4, 2, 3), s=(4, 2))
        net = bind(text, "TEST")
        x = np.eye(3)[[[1, 1], [1, 0], [0, 0], [0, 2]]] * 5.0
        forward(net, x=x, s=np.array([[0.0, 0], [1, 1], [0, 1], [1, 1]]))
        np.testing.assert_array_equal(net.blobs["y"][..., 0, 0], expected)
        np.testing.assert_array_equal(net.blobs["z"].reshape(-1), [-10, -20])


X = inputs(x=(4, 2, 3), l=(2, 5), m=(7,))


test_mistakes = mistaken(
    (layer("CtcLoss", "@l", "x"), "has other axes"),
    (layer("CtcLoss", "x", "@m"), "does not fit"),
    (layer("CtcLoss", "x", "l", body="blank_label: @3"), "blank_label is no class"),
    (layer("CtcLoss", "x", "l", body="alphabet_size: @4"), "a bad alphabet_size"),
    (layer("CtcLoss", "x", "l", body="time_step: @5"), "a bad time_step"),
    (layer("WarpCTCLoss", "x", "l", body="blank_index: @5"), "blank_index is no class"),
    (layer("WarpCTCLoss", "x", "@l", "l"), "does not fit"),
    (layer("CTCLoss", "x", "@l", "l"), "does not fit"),
    (layer("CTCLoss", "x", "l", "l", body="output_delay: @1"), "output_delay is not supported"),
    (layer("CTCGreedyDecoder", "x", "@m"), "does not fit"),
    (layer("CTCGreedyDecoder", "x", body="blank_index: @3"), "blank_index is no class"),
    (layer("LabelsequenceAccuracy", "x", "@l"), "does not fit"),
    ("@" + layer("ContinuationIndicator"), "time_step must be positive"),
    (layer("ContinuationIndicator", body="@continuation_indicator_param { time_step: 3 }"), "batch_size must be"),
    (layer("CTCGreedyDecoder", "x", "l", tops="y @z"), "has 2 tops for 2 bottoms"),
    before=X,
)
