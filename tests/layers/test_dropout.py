"""Dropout: what it draws, and what that depends on."""

import numpy as np
import pytest
from textnet import bind, feed, inputs, layer, over, run, slopes

SHAPE = (50, 400)


def net(name: str = "drop", ratio: float = 0.3, phase: str = "TRAIN", seed: int = 1):
    dropout = layer("Dropout", "x", body=f"loss_weight: 1 dropout_param {{ dropout_ratio: {ratio} }}", name=name)
    made = bind("force_backward: true\n" + inputs(x=SHAPE) + dropout, phase, seed=seed)
    feed(made, x=np.ones(SHAPE))
    return made


def drawn(made, iteration: int = 0, part: int = 0) -> np.ndarray:
    made.forward(iteration, part)
    return made.blobs["y"].copy()


@pytest.mark.parametrize("ratio", [0, 0.3, 0.9])
def test_train_keeps_a_share_and_scales_it(ratio):
    y = drawn(net(ratio=ratio))
    kept = y != 0
    np.testing.assert_allclose(y[kept], 1 / (1 - ratio), rtol=1e-6)
    assert kept.mean() == pytest.approx(1 - ratio, abs=6 * np.sqrt(ratio * (1 - ratio) / kept.size))
    assert y.mean() == pytest.approx(1, abs=6 * np.sqrt(ratio / (1 - ratio) / y.size) + 1e-6)


@pytest.mark.parametrize("ratio", [0, 0.3, 0.9])
def test_without_scale_train_what_stays_is_not_scaled(ratio):
    scaled, plain = net(ratio=ratio), net(ratio=f"{ratio} scale_train: false")
    np.testing.assert_array_equal(drawn(plain, 2), drawn(scaled, 2) != 0)
    run(plain, 2)
    np.testing.assert_array_equal(slopes(plain), drawn(plain, 2))


def test_draws_do_not_hang_together():
    kept = drawn(net(ratio=0.5)) != 0
    for a, b in ((kept[1:], kept[:-1]), (kept[:, 1:], kept[:, :-1])):
        assert (a & b).mean() == pytest.approx(0.25, abs=6 * np.sqrt(3 / 16 / a.size))


def test_backward_uses_the_mask_of_forward():
    made = net()
    run(made, 4)
    np.testing.assert_array_equal(slopes(made), drawn(made, 4))


def test_test_is_the_identity():
    np.testing.assert_array_equal(drawn(net(phase="TEST")), np.ones(SHAPE))


def test_draws_depend_on_seed_layer_iteration_and_part_alone():
    first = drawn(net(), 3, 1)
    np.testing.assert_array_equal(first, drawn(net(), 3, 1))
    again = net()
    drawn(again, 2)
    np.testing.assert_array_equal(first, drawn(again, 3, 1))
    for other in (drawn(net(seed=2), 3, 1), drawn(net("else"), 3, 1), drawn(net(), 2, 1), drawn(net(), 3, 0)):
        assert (first != other).mean() > 0.3


def test_parts_of_a_batch_are_its_samples():
    """Two micro-batches draw what one batch of twice the size would."""
    whole, half = (bind(over("Dropout", x=(rows, 8))) for rows in (4, 2))
    feed(whole, x=np.ones((4, 8)))
    feed(half, x=np.ones((2, 8)))
    np.testing.assert_array_equal(drawn(whole, 5), np.concatenate([drawn(half, 5, 0), drawn(half, 5, 1)]))
