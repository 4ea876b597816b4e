"""Domain adaptation and metric learning: schedules, PyTorch's triplets, samples in one place, mistakes."""

import itertools

import numpy as np
import pytest
from textnet import bind, feed, inputs, judged, layer, mistaken, over, run, slopes


@pytest.mark.parametrize(
    ("body", "factors"),
    [
        ("lower_bound: 0.5 upper_bound: 2 max_iter: 4 alpha: 3", {0: 0.5, 2: 1.452723, 4: 1.857722, 9: 1.857722}),
        ("max_iter: 10 threshold_iter: 5", {0: 0, 5: 0, 6: 0.321513, 20: 0.999909}),
    ],
)
def test_gradients_are_reversed_more_and_more(body, factors, caplog):
    net = bind(judged(over("GradientScaler", body, x=(2, 3))), keep=True)
    said = any("threshold_iter delays λ, as in MADA" in line for line in caplog.messages)
    assert said == ("threshold_iter" in body), "two forks have two schedules"
    x = np.arange(6.0).reshape(2, 3)
    feed(net, x=x, t=0)
    for iteration, factor in factors.items():
        run(net, iteration)
        np.testing.assert_allclose(slopes(net, "x"), -factor * x / 2, rtol=1e-5)


def test_pytorch_has_the_same_triplets(rng):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    fed = {name: rng.normal(size=(7, 5)) for name in "apn"}
    net = bind("force_backward: true\n" + over("TripletLoss", a=(7, 5), p=(7, 5), n=(7, 5)), keep=True)
    actual = run(net, **fed)
    blobs = {name: torch.tensor(array, requires_grad=True) for name, array in fed.items()}
    squared = {"distance_function": lambda a, b: ((a - b) ** 2).sum(1), "margin": 1.0}
    loss = torch.nn.functional.triplet_margin_with_distance_loss(*blobs.values(), **squared) / 2
    loss.backward()
    assert actual == pytest.approx(loss.item(), rel=1e-12)
    for name, blob in blobs.items():
        np.testing.assert_allclose(slopes(net, name), blob.grad.numpy(), rtol=1e-10, atol=1e-15)


def test_samples_in_one_place_and_of_one_class():
    text = over("LiftedStructSimilaritySoftmaxLoss", x=(4, 2), l=(4,))
    net = bind("force_backward: true\n" + text, keep=True)
    feed(net, x=np.array([[1.0, 2], [1, 2], [1, 2], [4, 6]]), l=np.array([0.0, 0, 1, 1]))
    assert run(net) > 0 and np.isfinite(slopes(net, "x")).all()
    assert run(net, l=np.full(4, 7.0)) == 0 and not slopes(net, "x").any()


def test_hashing_gradient_is_that_of_the_fork(rng):
    codes, labels, margin, tradeoff = rng.normal(size=(6, 3)), np.array([0.0, 1, 0, 2, 1, 0]), 4, 0.5
    text = "force_backward: true\n" + inputs(x=(6, 3), l=(6,))
    net = bind(text + layer("HashingLoss", "x", "l", body=f"bi_margin: {margin} tradeoff: {tradeoff}"), keep=True)
    run(net, x=codes, l=labels)
    expected = np.where((codes >= 1) | ((codes <= 0) & (codes >= -1)), 1, -1) * tradeoff / 6
    for i, j in itertools.permutations(range(6), 2):
        gap = codes[i] - codes[j]
        if labels[i] == labels[j] or gap @ gap < margin:
            expected[i] += (1 if labels[i] == labels[j] else -1) * gap / 30
    np.testing.assert_allclose(slopes(net, "x"), expected, rtol=1e-12)


X = inputs(x=(4, 3), z=(4, 2), l=(3,), s=(2, 6), v=())


test_mistakes = mistaken(
    (layer("GradientScaler", "x", body="lower_bound: @2"), "a bad lower_bound"),
    (layer("GradientScaler", "x", body="alpha: @-1"), "a bad alpha"),
    (layer("GradientScaler", "x", body="max_iter: @0"), "a bad max_iter"),
    (layer("CORALLoss", "x", "@z"), "does not fit"),
    (layer("CORALLoss", "x", "@v"), "has no channels"),
    (layer("TripletLoss", "x", "x", "@z"), "does not fit"),
    (layer("TripletLoss", "x", "@s", "x"), "does not fit"),
    (layer("LiftedStructSimilaritySoftmaxLoss", "x", "@l"), "does not fit"),
    (layer("HashingLoss", "x", "@l"), "does not fit"),
    before=X,
)
