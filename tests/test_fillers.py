"""Fillers: what each draws, and that it draws the same for the same key."""

import math

import numpy as np
import pytest
from textnet import bind, inputs, layer, mistakes, over

from caffelite import caffelite_pb2 as pb
from caffelite.layers.base import fillers

SHAPE = (40, 30, 5, 4)  # 24,000 numbers; 600 inputs to a unit, 800 outputs
ROOM = 6 / math.sqrt(math.prod(SHAPE))  # six standard errors


def fill(shape=SHAPE, key="layer", index=0, seed=7, **fields) -> np.ndarray:
    return fillers.fill(pb.FillerParameter(**fields), shape, fillers.generator(seed, "filler", key, index))


def uniform_between(values, low, high):
    width = high - low
    assert low <= values.min() < low + width / 100 and high - width / 100 < values.max() <= high
    assert values.mean() == pytest.approx((low + high) / 2, abs=ROOM * width)
    assert values.std() == pytest.approx(width / math.sqrt(12), rel=ROOM)


def normal(values, mean, std):
    assert values.mean() == pytest.approx(mean, abs=ROOM * std)
    assert values.std() == pytest.approx(std, rel=ROOM)
    assert np.mean(np.abs(values - mean) < std) == pytest.approx(0.6827, abs=ROOM)


def test_constant():
    assert (fill() == 0).all()
    assert (fill(type="constant", value=2.5) == np.float32(2.5)).all()


def test_uniform():
    uniform_between(fill(type="uniform"), 0, 1)
    uniform_between(fill(type="uniform", min=-3, max=-1), -3, -1)
    assert (fill(type="uniform", min=2, max=2) == 2).all()


def test_gaussian():
    normal(fill(type="gaussian"), 0, 1)
    normal(fill(type="gaussian", mean=5, std=0.25), 5, 0.25)
    assert (fill(type="gaussian", mean=5, std=0) == 5).all()


def test_sparse_gaussian():
    values = fill(shape=(50, 400), type="gaussian", std=2, sparse=5)
    assert np.mean(values != 0) == pytest.approx(0.1, abs=6 * math.sqrt(0.1 * 0.9 / values.size))
    assert values[values != 0].std() == pytest.approx(2, rel=0.1)
    assert (fill(type="gaussian", sparse=0) == 0).all()
    assert (fill(type="gaussian", sparse=40) != 0).all()


def test_diagonal():
    values = fill(shape=(3, 2, 1, 2), type="diagonal", diag_val=[3])
    assert values[0, 0].tolist() == [[1.5, 1.5]] and values[1, 1].tolist() == [[0.5, 0.5]]
    assert np.count_nonzero(values) == 4


def test_gaussian_unitball():
    values = fill(type="gaussian_unitball").reshape(len(fill(type="gaussian_unitball")), -1)
    np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, rtol=1e-5)
    assert (values < 0).any() and (values > 0).any()


def test_positive_unitball():
    values = fill(type="positive_unitball")
    assert values.min() >= 0
    np.testing.assert_allclose(values.reshape(40, -1).sum(1), 1, rtol=1e-5)
    assert values.std() == pytest.approx(1 / 600 / math.sqrt(3), rel=0.05)


FANS = [("FAN_IN", 600), ("FAN_OUT", 800), ("AVERAGE", 700), (None, 600)]


@pytest.mark.parametrize(("norm", "fan"), FANS)
def test_xavier(norm, fan):
    norm = {} if norm is None else {"variance_norm": pb.FillerParameter.VarianceNorm.Value(norm)}
    uniform_between(fill(type="xavier", **norm), -math.sqrt(3 / fan), math.sqrt(3 / fan))


@pytest.mark.parametrize(("norm", "fan"), FANS)
def test_msra(norm, fan):
    norm = {} if norm is None else {"variance_norm": pb.FillerParameter.VarianceNorm.Value(norm)}
    normal(fill(type="msra", **norm), 0, math.sqrt(2 / fan))
    normal(fill(type="msra", scale=0.5, **norm), 0, math.sqrt(2 / fan) / 2)
    normal(fill(type="msra", alpha=2, **norm), 0, math.sqrt(2 / fan / 5))


def test_fans_of_vectors_and_matrices():
    assert np.abs(fill((5000,), type="xavier")).max() == pytest.approx(math.sqrt(3), rel=1e-3)
    out = pb.FillerParameter.FAN_OUT
    assert np.abs(fill((500, 20), type="xavier", variance_norm=out)).max() == pytest.approx(
        math.sqrt(3 / 500), rel=1e-3
    )


@pytest.mark.parametrize(
    ("kernel", "tent"), [(4, [0.25, 0.75, 0.75, 0.25]), (3, [0.5, 1, 0.5]), (1, [1]), (2, [0.5, 0.5])]
)
def test_bilinear(kernel, tent):
    values = fill((2, 3, kernel, kernel), type="bilinear")
    np.testing.assert_allclose(values, np.broadcast_to(np.outer(tent, tent), values.shape), atol=1e-7)


@pytest.mark.parametrize("kind", sorted(fillers.FILLERS))
def test_every_filler_depends_on_its_key_alone(kind):
    first = fill(type=kind, shape=(6, 5, 4, 4))
    assert first.dtype == np.float32 and first.shape == (6, 5, 4, 4) and first.flags.c_contiguous
    np.testing.assert_array_equal(first, fill(type=kind, shape=(6, 5, 4, 4)))
    if kind not in ("constant", "bilinear", "diagonal"):
        for other in ({"seed": 8}, {"key": "other"}, {"index": 1}):
            assert not np.array_equal(first, fill(type=kind, shape=(6, 5, 4, 4), **other))


def test_any_seed_is_a_seed():
    assert not np.array_equal(fill(seed=-1, type="uniform"), fill(seed=2**63, type="uniform"))


def test_initial_values_do_not_depend_on_other_layers():
    body = 'inner_product_param { num_output: 3 weight_filler { type: "msra" } }'
    a, b = (layer("InnerProduct", "x", body=body, tops=name, name=name) for name in "ab")
    alone = bind(inputs(x=(1, 4)) + b)
    both = bind(inputs(x=(1, 4)) + a + b)
    np.testing.assert_array_equal(alone.params.blobs[0], both.params.blobs[2])
    assert not np.array_equal(both.params.blobs[0], both.params.blobs[2])
    assert not np.array_equal(alone.params.blobs[0], bind(inputs(x=(1, 4)) + b, seed=2).params.blobs[0])


@pytest.mark.parametrize(
    ("filler", "message"),
    [
        ('type: @"gausian"', 'unknown filler type "gausian"'),
        ('type: @"gausian"', 'did you mean "gaussian"?'),
        (
            'type: "xavier" sparse: @3',
            'the filler "xavier" does not support sparse weights; use type "gaussian", or drop sparse',
        ),
        ('type: "gaussian" sparse: @-2', "a bad sparse; expected -1 (off), or at most the number of outputs, found -2"),
        ('type: "gaussian" sparse: @7', "a bad sparse"),
        (
            'type: "gaussian" std: @-1',
            "a bad gaussian filler; expected std of 0 or more, both finite, found mean 0, std -1",
        ),
        ('type: "gaussian" std: @nan', "a bad gaussian filler"),
        (
            'type: "uniform" min: @2',
            "the uniform filler has no range; expected min at most max, both finite, found min 2, max 1",
        ),
        ('type: "uniform" max: inf min: @0', "the uniform filler has no range"),
        ('type: "xavier" alpha: @0.25', 'the filler "xavier" does not read alpha; use type "msra", or drop alpha'),
        ('type: "msra" scale: @-1', "a bad msra filler; expected a finite scale of 0 or more, found -1"),
        ('type: @"gabor"', 'unknown filler type "gabor"; expected one of bilinear, constant'),
        (
            'type: @"bilinear"',
            "the bilinear filler cannot fill this blob; expected 4 axes and a square kernel, found shape [6, 5]",
        ),
    ],
)
def test_mistakes(filler, message):
    body = f"inner_product_param {{ num_output: 6 weight_filler {{ {filler} }} }}"
    mistakes(over("InnerProduct", body, x=(1, 5)), message)
    body = f"dummy_data_param {{ shape {{ dim: 6 dim: 5 }} data_filler {{ {filler} }} }}"
    mistakes(over("DummyData", body), message)


@pytest.mark.parametrize("kind", ["xavier", "msra", "positive_unitball"])
def test_a_single_number_has_no_fan(kind):
    body = f'dummy_data_param {{ shape {{ }} data_filler {{ type: @"{kind}" }} }}'
    mistakes(over("DummyData", body), f'the filler "{kind}" cannot fill a single number')


@pytest.mark.parametrize("kind", ["uniform", "gaussian", "xavier", "msra"])
def test_pieces_are_the_whole(kind, monkeypatch):
    """What is drawn piece by piece is what is drawn at once."""
    f = pb.FillerParameter(type=kind, std=0.5)
    whole = fillers.fill(f, (7, 5, 3), np.random.default_rng(1))
    monkeypatch.setattr(fillers, "PIECE", 16)
    actual = list(fillers.pieces(f, (7, 5, 3), np.random.default_rng(1)))
    assert [start for start, _ in actual] == list(range(0, 105, 16))
    np.testing.assert_array_equal(np.concatenate([values for _, values in actual]).reshape(7, 5, 3), whole)


@pytest.mark.parametrize(
    "words", ["uniform", "gaussian", "gaussian sparse: 2", "xavier", "msra", "positive_unitball", "constant"]
)
@pytest.mark.parametrize("shape", [(6, 3, 2), (6,)])
def test_rows_by_themselves(words, shape):
    """A row is drawn from its own key, so halves of a batch are the batch."""
    kind, _, sparse = words.partition(" sparse: ")
    f = pb.FillerParameter(type=kind, std=0.5, value=3, sparse=int(sparse or -1))
    whole = fillers.fill_rows(f, shape, lambda i: fillers.generator(1, "x", i))
    assert whole.shape == shape and whole.dtype == np.float32
    if not sparse and len(shape) > 1:
        later = fillers.fill_rows(f, (3, *shape[1:]), lambda i: fillers.generator(1, "x", 3 + i))
        np.testing.assert_array_equal(whole[3:], later)
    if kind not in ("constant", "positive_unitball"):
        assert len(np.unique(whole)) > (1 if sparse else whole.size - 1)
