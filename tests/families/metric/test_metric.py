"""Metric learning: PyTorch's triplets, samples in one place, mistakes."""

import itertools

import numpy as np
import pytest
from textnet import bind, feed, inputs, layer, mistaken, over, run, slopes


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
    (layer("TripletLoss", "x", "x", "@z"), "does not fit"),
    (layer("TripletLoss", "x", "@s", "x"), "does not fit"),
    (layer("LiftedStructSimilaritySoftmaxLoss", "x", "@l"), "does not fit"),
    (layer("HashingLoss", "x", "@l"), "does not fit"),
    before=X,
)
