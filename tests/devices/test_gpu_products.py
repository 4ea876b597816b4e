"""Matrix products by cuBLAS, with a stand-in for the library."""

import ctypes
import sys

import numpy as np
import pytest
from devices.host.backend import HostBackend, decoded, encoded
from devices.host.cupy import array, fake_cudnn, fake_cupy, host_product

from caffelite import devices
from caffelite.devices import open_device
from caffelite.devices.cuda import backend, blas, cudnn
from caffelite.errors import CaffeliteError


@pytest.fixture(autouse=True)
def nothing_open():
    """Devices of the last test are not given again."""
    devices._opened.__dict__.clear()


def fake_gemm(
    handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc, compute, algorithm
):
    """cuBLAS's own words: everything by columns."""
    assert type_a == type_b and algorithm == -1
    assert compute == {0: 77, 1: 70, 2: 68, 14: 68}[type_a]
    alpha, beta = (v._obj.value for v in (alpha, beta))
    kinds = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}

    def matrix(address, kind, rows, columns, ld):
        kind = np.dtype(kinds[kind])
        raw = (ctypes.c_char * (columns * ld * kind.itemsize)).from_address(address)
        return np.frombuffer(raw, kind).reshape(columns, ld)[:, :rows].T

    left = decoded(matrix(a, type_a, *((k, m) if op_a else (m, k)), lda))
    right = decoded(matrix(b, type_b, *((n, k) if op_b else (k, n)), ldb))
    out = matrix(c, type_c, m, n, ldc)
    actual = alpha * (left.T if op_a else left) @ (right.T if op_b else right) + (beta * decoded(out) if beta else 0)
    out[...] = encoded(actual, out.dtype)
    return 0


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    "kind, out", [("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("uint16", "float32")]
)
def test_products_by_rows(trans_a, trans_b, add, kind, out, seed):
    rng = np.random.default_rng(seed)
    m, n, k = 3, 5, 4
    shapes = (k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n)
    a, b = (array(encoded(rng.normal(size=s), np.dtype(kind)), kind) for s in shapes)
    c = array(rng.normal(size=(m, n)), out)
    expected = np.array(c)
    HostBackend().matmul(*(v.view(np.ndarray) for v in (a, b)), expected, m, n, k, trans_a, trans_b, add)
    product = blas.Blas.__new__(blas.Blas)
    product._handle = None
    product._bind(fake_gemm, strict=False)
    product(a, b, c, m, n, k, trans_a, trans_b, add)
    np.testing.assert_allclose(c, expected, rtol=1e-5)


@pytest.mark.parametrize("strict, compute", [(False, 77), (True, 68)])
def test_tf32_and_strict_float32(strict, compute):
    """cuBLAS multiplies TF32 numbers, or all of float32 where that was asked for."""
    asked, product = [], blas.Blas.__new__(blas.Blas)
    product._handle = None
    product._bind(lambda *arguments: asked.append(arguments[-2]) or 0, strict)
    one = array(np.ones((1, 1)))
    product(one, one, one, 1, 1, 1, False, False, False)
    assert asked == [compute]


def test_a_product_that_fails():
    product = blas.Blas.__new__(blas.Blas)
    product._handle = None
    one = array(np.ones((1, 1)))
    product._bind(lambda *arguments: 13, strict=False)
    with pytest.raises(CaffeliteError, match="cublasGemmEx failed; found cuBLAS status 13"):
        product(one, one, one, 1, 1, 1, False, False, False)


def test_strictness_reaches_cublas(monkeypatch):
    strict = []
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, flag: strict.append(flag))
    monkeypatch.setattr(cudnn, "frontend", fake_cudnn)
    for precision in ("tf32", "fp32", "fp16", "bf16", None):
        assert open_device(0, precision=precision).precision == (precision or "tf32")
        devices._opened.__dict__.clear()
    assert strict == [False, True, False, False, False]


def test_precision_of_a_device_without_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(backend, "Blas", lambda cupy, stream, strict: host_product)
    monkeypatch.setattr(cudnn, "frontend", fake_cudnn)
    assert open_device(0).precision == "tf32" and not open_device(0).deterministic
    assert not open_device(precision="tf32").traits.half  # a CPU takes it for fp32
    with pytest.raises(CaffeliteError, match="fp16 is for GPUs; found the CPU; use -precision bf16"):
        open_device(precision="fp16")
