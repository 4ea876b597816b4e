"""The CPU's inner products by oneDNN and by BLAS, against the float64 oracle."""

import itertools

import engines
import numpy as np
import pytest
import reference
from devices.arrays import blank, close, put, to_bfloat16

from caffelite.devices import ops

NAN = float("nan")


@pytest.fixture(scope="module", params=["onednn", "plain"])
def engine(request):
    if request.param == "plain":
        return engines.without_onednn()
    return engines.with_onednn("bf16" if request.param == "bf16" else "fp32")


# Transposed ones first: oneDNN keeps primitives, and takes one of weights in the other order where a size is 1.
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize(
    "m, k, n",
    [(1, 1, 1), (1, 300, 7), (64, 33, 1), (3, 8, 1), (1, 9, 1), (4, 1, 1), (1, 1, 6)]
    + [(5, 1, 17), (17, 50, 130), (3, 513, 64)],
)
@pytest.mark.parametrize("engine", ["onednn", "plain", "bf16"], indirect=True)
def test_inner_product(engine, rng, m, k, n, transpose, request):
    half = request.node.callspec.params["engine"] == "bf16"
    x, w, b, dy = (rng.normal(size=s) for s in ((m, k), (n, k), (n,), (m, n)))
    op = engine.build(ops.InnerProduct(m, k, n, transpose, half))
    turn = (lambda a: a.T) if transpose else (lambda a: a)
    there, y = (put(engine, x), put(engine, turn(w))), blank(engine, (m, n))
    given, db, kept = put(engine, dy), dy.sum(0), [blank(engine, (m, k), "uint16")] if half else []
    x, w, dy = (to_bfloat16(x), to_bfloat16(w), to_bfloat16(dy)) if half else (x, w, dy)
    for bias, slope in itertools.product((b, None), (None, 0.0, 0.1)):
        op.forward(*there, None if bias is None else put(engine, bias), y, slope, *kept)
        close(engine, y, reference.leaky(x @ w.T + (0 if bias is None else bias), slope), 20)
    there, dw = (kept[0] if half else there[0], there[1]), dy.T @ x
    for wanted in itertools.product((True, False), repeat=3):
        for add_w, add_b in itertools.product((False, True), repeat=2):
            out = [blank(engine, (m, k)), put(engine, turn(np.full(dw.shape, 3.0))), put(engine, np.full(n, -2.0))]
            out = [array if want else None for array, want in zip(out, wanted, strict=True)]
            op.backward(*there, given, *out, add_w, add_b)
            for actual, expected in zip(out, (dy @ w, turn(dw + 3 * add_w), db - 2 * add_b), strict=True):
                if actual is not None:
                    close(engine, actual, expected, 20)


def test_inner_product_runs_on_any_arrays(engine, rng):
    """Other arrays at other addresses, in turn: none is remembered."""
    op = engine.build(ops.InnerProduct(3, 5, 4))
    for _ in range(3):
        for _ in range(2):
            x, w, y = rng.normal(size=(3, 5)), rng.normal(size=(4, 5)), blank(engine, (3, 4))
            op.forward(put(engine, x), put(engine, w), None, y)
            close(engine, y, x @ w.T, 10)


@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_fused_relu_keeps_nan(engine, slope):
    """max(NaN, 0) is NaN in Caffe."""
    x, y = put(engine, [[NAN, 1], [1, 1], [-1, -1]]), blank(engine, (3, 1))
    op = engine.build(ops.InnerProduct(3, 2, 1))
    for bias in (None, put(engine, [0.0])):
        op.forward(x, put(engine, [[1.0, 1.0]]), bias, y, slope)
        np.testing.assert_allclose(engine.download(y).reshape(-1), [NAN, 2, -2 * slope])
