"""Weighted losses: PyTorch's, weights from a file, labels out of range, mistakes."""

import numpy as np
import pytest
from textnet import bind, forward, inputs, layer, mistaken, run, slopes

from caffelite.errors import CaffeliteError


def judged(kind, body="", **arrays):
    """The loss of these bottoms, and the slopes of the first."""
    shapes = {name: array.shape for name, array in arrays.items()}
    net = bind("force_backward: true\n" + inputs(**shapes) + layer(kind, *arrays, body=body), keep=True)
    return run(net, **arrays), slopes(net)


@pytest.mark.parametrize("gamma", [0, 0.5, 2])
def test_pytorch_has_the_same_focal_loss(rng, gamma):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    x, label = rng.normal(size=(6, 4, 3)), rng.integers(0, 4, (6, 3))
    scores = torch.tensor(x, requires_grad=True)
    log_p = scores.log_softmax(1).gather(1, torch.tensor(label)[:, None])
    expected = -(0.25 * (1 - log_p.exp()) ** gamma * log_p).mean()
    expected.backward()
    actual, slope = judged("FocalLoss", f"gamma: {gamma}", x=x, t=label.astype(float))
    assert actual == pytest.approx(expected.item(), rel=1e-12)
    np.testing.assert_allclose(slope, scores.grad.numpy(), rtol=1e-10, atol=1e-15)


def test_pytorch_has_the_same_weighted_log_loss(rng):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    x, label, w = rng.normal(size=(6, 4)), rng.integers(0, 4, 6), rng.random(6)
    scores = torch.tensor(x, requires_grad=True)
    each = torch.nn.functional.cross_entropy(scores, torch.tensor(label), reduction="none")
    expected = (each * torch.tensor(w)).sum() / max(1, w.sum())
    expected.backward()
    actual, slope = judged("WeightedSoftmaxWithLoss", x=x, t=label.astype(float), w=w)
    assert actual == pytest.approx(expected.item(), rel=1e-12)
    np.testing.assert_allclose(slope, scores.grad.numpy(), rtol=1e-10, atol=1e-15)


def test_a_certain_label_has_no_focal_loss_and_a_finite_slope():
    actual, slope = judged("FocalLoss", "gamma: 0.5", x=np.array([[900.0, 0], [0, 900]]), t=np.array([0.0, 1]))
    assert actual == 0 and not slope.any()


def test_equal_maps_overlap_fully():
    maps = np.arange(12.0).reshape(2, 2, 3) % 2
    assert judged("DiceCoefLoss", x=maps, t=maps)[0] == pytest.approx(0, abs=1e-15)


def test_ranks_have_weights_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.txt").write_text("2\n0\n1\n")
    arrays = {"x": np.array([[1.0, 0, 5, -5, 0, 0]]), "t": np.array([1.0])}
    body, expected = 'weight_file: "w.txt" k: 3', 2 * np.log(1 + np.e) + np.log(2)
    assert judged("OrdinalRegressionLoss", body, **arrays)[0] == pytest.approx(expected, rel=1e-12)
    (tmp_path / "w.txt").write_text("2\n0\n")
    message = r"w\.txt: layer .layer. .* weights are missing; expected 3 numbers, found 2"
    with pytest.raises(CaffeliteError, match=message):
        judged("OrdinalRegressionLoss", body, **arrays)


@pytest.mark.parametrize(
    ("kind", "wrong", "range_"),
    [("FocalLoss", 3, "0 to 2"), ("FocalLoss", 0.5, "0 to 2"), ("MultiSoftmaxLoss", 0, "1 to 3")],
)
def test_labels_out_of_range(kind, wrong, range_):
    net = bind(inputs(x=(2, 3), t=(2,)) + layer(kind, "x", "t"))
    forward(net, x=np.zeros((2, 3)), t=np.array([1, wrong]))
    message = f'a label in bottom "t" is no class .sample 1 of the batch.; expected integers {range_}'
    with pytest.raises(CaffeliteError, match=message):
        net.check_faults()


X = inputs(x=(4, 3), z=(3, 3), l=(4,), m=(4, 4), w=(3,), t=(3, 4))


test_mistakes = mistaken(
    (layer("FocalLoss", "x", "l", body="gamma: @-1"), "a bad gamma"),
    (layer("FocalLoss", "x", "l", body="type: @LINEAR"), "type LINEAR is not supported"),
    (layer("FocalLoss", "x", "@w"), "does not fit"),
    (layer("WeightedSoftmaxWithLoss", "x", "l", "@w"), "does not fit"),
    (layer("WeightedSigmoidCrossEntropyLoss", "x", "x", "@w"), "does not fit"),
    (layer("DiceCoefLoss", "x", "@t"), "does not fit"),
    (layer("SigmoidCrossEntropyBalanceLoss", "x", "@w"), "does not fit"),
    (layer("SigmoidCrossEntropyBalanceLoss", "x", "@t"), "does not fit"),
    (layer("DiceCoefLoss", "x", "x", body="generalization: MULTICLASS ignore_label: @3"), "a bad ignore_label"),
    (layer("OrdinalRegressionLoss", "@x", "l"), "does not fit"),
    (layer("OrdinalRegressionLoss", "m", "@w"), "does not fit"),
    (layer("AngleLoss", "x", "@m"), "does not fit"),
    before=X,
)
