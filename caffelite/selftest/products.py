"""Checks of matrix products, one row per precision: both operands transposed or not, sums, batches."""

from __future__ import annotations

import functools
import itertools

from ..devices.dtypes import BFLOAT16
from ..devices.protocol import Device
from ..errors import CaffeliteError
from .bench import Bench, Skipped, compare, put, rng

TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}
M, N, K, BATCH = 70, 45, 200, 3


def _products(bench: Bench, precision: str) -> str:
    dev = supported(bench, precision)
    if bench.number is None:
        return _inner_product(dev, TOLERANCE[precision])
    errors = []
    for trans_a, trans_b, add, batch in itertools.product((False, True), (False, True), (False, True), (1, BATCH)):
        draw = rng()
        a, b, c = (draw.normal(size=shape) for shape in ((batch, M, K), (batch, K, N), (batch, M, N)))
        left, right, out = (
            put(dev, v) for v in (a.swapaxes(1, 2) if trans_a else a, b.swapaxes(1, 2) if trans_b else b, c)
        )
        if dev.traits.half:
            narrow, _ = dev.conversions()
            halves = [dev.empty(v.shape, dev.half_dtype) for v in (left, right)]
            for wide, half in zip((left, right), halves, strict=True):
                narrow(wide, half)
            left, right = halves
        dev.backend.matmul(left, right, out, M, N, K, trans_a, trans_b, add, batch)
        errors.append(compare("a product", dev.download(out), a @ b + (c if add else 0), TOLERANCE[precision]))
    return f"{len(errors)} forms, off by up to {max(errors):.1e}"


def _inner_product(dev: Device, tolerance: float) -> str:
    """On a CPU, by the operation that layers use: y = x wᵀ and its gradients."""
    draw, errors = rng(), []
    for transpose in (False, True):
        x, w, dy = draw.normal(size=(M, K)), draw.normal(size=(K, N) if transpose else (N, K)), draw.normal(size=(M, N))
        op, there, y = (
            dev.inner_product(M, K, N, transpose, half=dev.traits.half),
            [put(dev, v) for v in (x, w, dy)],
            dev.empty((M, N)),
        )
        kept = (dev.empty((M, K), BFLOAT16),) if dev.traits.half else ()
        op.forward(there[0], there[1], None, y, None, *kept)
        turned = w if transpose else w.T
        errors.append(compare("a product", dev.download(y), x @ turned, tolerance))
        dx, dw = dev.empty(x.shape), dev.empty(w.shape)
        x_there, w_there, dy_there = there
        op.backward(kept[0] if kept else x_there, w_there, dy_there, dx, dw, None)
        errors.append(compare("the bottom's gradient", dev.download(dx), dy @ turned.T, tolerance))
        errors.append(
            compare("the weights' gradient", dev.download(dw), x.T @ dy if transpose else dy.T @ x, tolerance)
        )
    return f"{len(errors)} products, off by up to {max(errors):.1e}"


def supported(bench: Bench, precision: str, deterministic: bool = False):
    """The device at a precision. Errors: ``Skipped`` where it has none such."""
    if bench.number is None and precision in ("tf32", "fp16"):
        raise Skipped(f"a CPU has no {precision}")
    if bench.number is not None and precision == "bf16":
        capability = bench.device().backend.capability
        if tuple(capability) < (8, 0):
            raise Skipped("bf16 needs compute capability 8.0, found " + ".".join(map(str, capability)))
    try:
        return bench.device(precision, deterministic=deterministic)
    except CaffeliteError as error:
        if bench.number is None and precision == "bf16":  # no oneDNN, or a processor without AVX-512
            raise Skipped(error.what) from None
        raise


def _check(precision: str):
    check = functools.partial(_products, precision=precision)
    check.__doc__ = f"matrix products, {precision}"
    return check


CHECKS = tuple(map(_check, TOLERANCE))
