"""Rounding errors of weight and bias gradients, by each algorithm and instruction set, beside those of BLAS."""

import os
import subprocess
import sys
from pathlib import Path

import engines
import numpy as np
import pytest
import reference
from engines import last

from caffelite.devices import Window, algorithms, ops
from caffelite.devices.cpu.few_rows import FewRowsProduct

BOUND = 4  # times BLAS's root mean square error
PADDED = Window((3, 3), pad=(1, 1))
# (algorithm, x, outputs, window, groups): sums over thousands of pixels, in blocks of images and of rows
PROBLEMS = {
    "first layer": ("direct", (24, 3, 28, 28), 16, Window((5, 5), pad=(2, 2)), 1),
    "few channels": ("direct", (64, 20, 12, 12), 50, Window((5, 5)), 1),
    "wide": ("direct", (24, 16, 20, 20), 32, PADDED, 1),
    "stride": ("direct", (16, 16, 32, 32), 16, Window((3, 3), (2, 2), (1, 1)), 1),
    "dilation": ("direct", (8, 16, 28, 28), 16, Window((3, 3), pad=(2, 2), dilation=(2, 2)), 1),
    "groups": ("direct", (16, 12, 28, 28), 18, PADDED, 2),
    "rows of images": ("direct", (2, 3, 90, 70), 16, PADDED, 1),
    "rows, stride, dilation": ("direct", (1, 2, 150, 99), 8, Window((3, 2), (2, 1), (1, 0), (3, 1)), 1),
    "5x5 of each channel": ("direct", (8, 16, 28, 28), 16, Window((5, 5), pad=(2, 2)), 16),
    "1x1": ("direct", (16, 16, 20, 20), 24, Window((1, 1)), 1),
    "product": ("product", (16, 16, 20, 20), 24, Window((1, 1)), 1),
    "winograd2": ("winograd2", (24, 16, 28, 28), 16, PADDED, 1),
    "depthwise": ("depthwise", (32, 16, 28, 28), 16, PADDED, 16),
    "depthwise, stride": ("depthwise", (32, 16, 56, 28), 16, Window((3, 3), (2, 2), (1, 1)), 16),
}


def error(found, expected):
    return np.sqrt(np.mean((found - expected) ** 2))


def ratios(name):
    """Errors of dw and db, as multiples of BLAS's."""
    algorithm, shape, outputs, window, groups = PROBLEMS[name]
    rng, y = np.random.default_rng(1), (shape[0], outputs, *window.outputs(shape[2:]))
    w = np.zeros((outputs, shape[1] // groups, *window.kernel), np.float32)
    x, dy = (rng.standard_normal(s).astype(np.float32) for s in (shape, y))
    expected = reference.convolution_backward(*(a.astype(np.float64) for a in (x, w, dy)), window, groups)[1:]
    plain, ours = (np.zeros_like(w), np.zeros(outputs, np.float32)), (np.ones_like(w), np.ones(outputs, np.float32))
    engines.without_onednn().build(ops.Convolution(shape, y, window, groups)).backward(x, w, dy, None, *plain)
    op = engines.with_onednn().build(ops.Convolution(shape, y, window, groups, channels_last=True, algorithm=algorithm))
    op.backward(last(x), w, last(dy), None, *ours, False, False)
    assert getattr(op, "taken", {}).get("weight gradient", "direct") == algorithm
    twice = ours[0].copy()
    op.backward(last(x), w, last(dy), None, twice, None, True)
    np.testing.assert_allclose(twice, 2 * ours[0], rtol=1e-5, atol=1e-5 * np.abs(twice).max())
    return [error(a, e) / error(b, e) for a, b, e in zip(ours, plain, expected, strict=True)]


@pytest.mark.parametrize("name", PROBLEMS)
def test_errors_are_nearly_those_of_blas(name):
    assert max(ratios(name)) <= BOUND


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["AVX2", "SSE41"])
def test_errors_on_processors_with_fewer_instructions(isa):
    if engines.with_onednn().threads and sys.platform != "linux":
        pytest.skip("oneDNN's instruction sets are those of x86")
    code = "import test_weight_gradients as t; print([n for n in t.PROBLEMS if max(t.ratios(n)) > t.BOUND])"
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("m, k, n", [(2000, 40, 24), (64, 800, 500), (4096, 16, 1)])
def test_errors_of_inner_products(m, k, n):
    rng = np.random.default_rng(1)
    x, w, dy = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (m, n)))
    expected = dy.astype(np.float64).T @ x, dy.astype(np.float64).sum(0)
    errors = []
    for dev in (engines.with_onednn(), engines.without_onednn()):
        dw, db = np.empty_like(w), np.empty(n, np.float32)
        dev.build(ops.InnerProduct(m, k, n)).backward(x, w, dy, None, dw, db)
        errors.append([error(a, e) for a, e in zip((dw, db), expected, strict=True)])
    assert all(a <= BOUND * b for a, b in zip(*errors, strict=True))


def test_errors_of_products_of_few_rows():
    rng, (m, k, n) = np.random.default_rng(1), (algorithms.FEW_ROWS, 128, 16)
    x, w, dy = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (m, n)))
    dw, plain = np.empty_like(w), np.empty_like(w)
    FewRowsProduct(engines.with_onednn(), m, k, n).backward(x, w, dy, None, dw, False)
    engines.without_onednn().build(ops.InnerProduct(m, k, n)).backward(x, w, dy, None, plain, None)
    expected = dy.astype(np.float64).T @ x
    assert error(dw, expected) <= BOUND * error(plain, expected)
