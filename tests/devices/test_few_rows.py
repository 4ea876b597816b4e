"""Products of a few rows with large weights: compared with float64, and that threads do not change them."""

import engines
import numpy as np
import pytest

from caffelite.devices import algorithms, ops
from caffelite.devices.cpu.few_rows import FewRowsProduct

# M, K, N: rows that fill registers and not, one and several blocks of columns
PROBLEMS = [(4, 1088, 12), (7, 64, 8), (16, 2112, 20), (1, 1024, 4), (1, 64, 4)]


@pytest.fixture(scope="module")
def dev():
    return engines.with_onednn()


def problem(seed, m, k, n):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (n, k), (n,), (m, n))]


def passes(dev, x, w, b, dy):
    """(y, dx, dw - 1), dw added to ones."""
    op = FewRowsProduct(dev, *x.shape, len(w))
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.ones_like(w)
    op.forward(x, w, b, y)
    op.backward(x, w, dy, dx, dw, add=True)
    return y, dx, dw - 1


@pytest.mark.parametrize("size", PROBLEMS, ids=str)
def test_all_passes_compared_with_float64(dev, seed, size):
    arrays = problem(seed, *size)
    x, w, b, dy = (a.astype(np.float64) for a in arrays)
    for actual, expected in zip(passes(dev, *arrays), (x @ w.T + b, dy @ w, dy.T @ x), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-6 * np.abs(expected).max() + 1e-6)


def test_relu_no_bias_and_gradients_that_are_not_wanted(dev, seed):
    x, w, _, dy = problem(seed, *PROBLEMS[1])
    op = FewRowsProduct(dev, *x.shape, len(w))
    plain, fused, dx, dw = np.empty_like(dy), np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    op.forward(x, w, None, plain)
    op.forward(x, w, None, fused, 0.25)
    np.testing.assert_array_equal(fused, np.where(plain > 0, plain, np.float32(0.25) * plain))
    before = x.copy(), w.copy()
    op.backward(x, w, dy, dx, None, False)
    op.backward(x, w, dy, None, dw, False)
    np.testing.assert_allclose(dx, dy @ w, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dw, dy.T @ x, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(w, before[1])


def test_threads_do_not_change_results(seed):
    engines.assert_alike_in_threads(lambda dev: passes(dev, *problem(seed, *PROBLEMS[2])))


def test_a_layer_takes_them_where_weights_are_large(dev, monkeypatch, seed):
    monkeypatch.setattr(algorithms, "FEW_ROWS_WEIGHTS", 1 << 8)
    x, w, b, dy = problem(seed, *PROBLEMS[0])
    op = dev.build(ops.InnerProduct(*x.shape, len(w)))
    assert op._few_rows
    y, db = np.empty_like(dy), np.empty_like(b)
    dx, dw = np.empty_like(x), np.empty_like(w)
    op.forward(x, w, b, y, 0.0)
    np.testing.assert_allclose(y, np.maximum(x @ w.T + b, 0), rtol=1e-4, atol=1e-4)
    op.backward(x, w, dy, dx, dw, db)
    np.testing.assert_allclose(db, dy.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw, dy.T @ x, rtol=1e-4, atol=1e-4)
    assert dev.build(ops.InnerProduct(64, 1088, 12))._few_rows is None
