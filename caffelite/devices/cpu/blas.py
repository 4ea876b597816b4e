"""Matrix products inside compiled kernels: SciPy's BLAS called by address, row-major."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

_NO, _YES = ord("N"), ord("T")


_BLAS = "scipy.linalg.cython_blas"


def _load_blas() -> None:
    """Loads SciPy's BLAS module without the rest of scipy.linalg, which would double the time of the import. Later
    imports of scipy.linalg find it."""
    import scipy

    folder = os.path.join(os.path.dirname(scipy.__file__), "linalg")
    spec = PathFinder.find_spec(_BLAS, [folder])
    if spec is None or spec.loader is None or _BLAS in sys.modules:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[_BLAS] = module


def address(dtype) -> int:
    """The address of BLAS gemm for float32 or float64; kernels take it as an argument, which keeps them cacheable."""
    _load_blas()
    return get_cython_function_address(_BLAS, "sgemm" if dtype == "float32" else "dgemm")


@intrinsic
def _fortran_gemm(typingctx, fn, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    real, i = alpha, types.int32
    signature = types.void(
        types.intp, types.uint8, types.uint8, i, i, i, real, types.intp, i, types.intp, i, real, types.intp, i
    )

    def codegen(context, builder, sig, args):
        pointer = cgutils.voidptr_t
        passed = []
        for position, value in enumerate(args[1:], 1):
            if position in (7, 9, 12):
                passed.append(builder.inttoptr(value, pointer))
            else:
                passed.append(builder.bitcast(cgutils.alloca_once_value(builder, value), pointer))
        gemm = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), [pointer] * 13).as_pointer())
        builder.call(gemm, passed)
        return context.get_dummy_value()

    return signature, codegen


@njit(nogil=True, cache=True)
def gemm(fn, trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc):
    """C (m×n) = op(A) op(B) + beta C, all row-major; a, b, c are addresses, lda, ldb, ldc row lengths in memory; beta
    carries the type."""
    _fortran_gemm(
        fn,
        types.uint8(_YES if trans_b else _NO),
        types.uint8(_YES if trans_a else _NO),
        types.int32(n),
        types.int32(m),
        types.int32(k),
        type(beta)(1),
        b,
        types.int32(ldb),
        a,
        types.int32(lda),
        beta,
        c,
        types.int32(ldc),
    )
