"""Matrix products by cuBLAS."""

import ctypes

import numpy as np

from ...errors import CaffeliteError
from .installation import bring_libraries, first_line


class Blas:
    """cuBLAS on a handle of our own: CuPy's refuses to be captured.

    Numbers of 16 bits are multiplied exactly and added up in float32; float32 ones as TF32, or in full where strict.
    """

    WORKSPACE = 32 << 20  # bytes; a fixed workspace makes results reproducible, also in graphs
    TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint16": 14}  # cudaDataType_t; bfloat16 is stored as uint16
    FLOAT, TF32, DOUBLE = 68, 77, 70  # cublasComputeType_t
    DEFAULT = -1  # cublasGemmAlgo_t

    def __init__(self, cupy, stream, strict: bool = False):
        name = f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}"
        try:
            from cupy_backends.cuda.libs import cublas  # noqa: F401  finds and loads the library, wherever it was installed

            self._library = ctypes.CDLL(name)
        except (ImportError, OSError) as mistake:
            what, remedy = f"{name} cannot be loaded", bring_libraries(cupy)
            raise CaffeliteError(what, found=first_line(mistake), remedy=remedy) from mistake
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream.ptr))
        self._space = cupy.empty(self.WORKSPACE, np.uint8)
        space = ctypes.c_void_p(self._space.data.ptr), ctypes.c_size_t(self.WORKSPACE)
        self._call("cublasSetWorkspace_v2", self._handle, *space)
        self._bind(self._library["cublasGemmEx"], strict)

    def _bind(self, product, strict: bool) -> None:
        """product: cuBLAS's function."""
        i, pointer = ctypes.c_int, ctypes.c_void_p
        product.argtypes = [pointer, i, i, i, i, i, pointer, *[pointer, i, i] * 2, pointer, pointer, i, i, i, i]
        self._product, self._float = product, self.FLOAT if strict else self.TF32
        self._scalars = {real: [ctypes.byref(real(v)) for v in (0, 1)] for real in (ctypes.c_float, ctypes.c_double)}

    def _call(self, function: str, *arguments) -> None:
        self._check(function, self._library[function](*arguments))

    @staticmethod
    def _check(function: str, status: int) -> None:
        if status:
            raise CaffeliteError(f"{function} failed", found=f"cuBLAS status {status}")

    def __call__(self, a, b, c, m, n, k, trans_a, trans_b, add) -> None:
        types = [self.TYPES[v.dtype.name] for v in (b, a, c)]
        double = c.dtype == np.float64
        compute = self.DOUBLE if double else self._float if types[0] == 0 else self.FLOAT
        zero, one = self._scalars[ctypes.c_double if double else ctypes.c_float]
        # cuBLAS counts by columns: the transposed product of the operands in the other order.
        head = self._handle, int(trans_b), int(trans_a), n, m, k, one
        left, right = (b.data.ptr, types[0], k if trans_b else n), (a.data.ptr, types[1], m if trans_a else k)
        out = one if add else zero, c.data.ptr, types[2], n
        self._check("cublasGemmEx", self._product(*head, *left, *right, *out, compute, self.DEFAULT))
