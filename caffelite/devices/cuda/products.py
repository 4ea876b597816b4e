"""The GPU's inner products."""

from collections.abc import Callable

from .. import ops
from ..window import Window
from .convolution import Convolution
from .formula_kernels import FormulaKernels
from .operations import Biased
from .registry import implements


@implements(ops.InnerProduct)
class InnerProduct:
    """The forward pass of float32 takes the fastest of cuBLAS with a kernel for bias and ReLU, a kernel that makes few
    numbers with both, and cuDNN, as a convolution of one pixel with both in its epilogue; the first without choices."""

    def __init__(self, device: FormulaKernels, op: ops.InnerProduct):
        m, n, k = self._sizes = op.m, op.n, op.k
        self._transpose, self._half = op.transpose, op.half
        self._device, self._matmul, self._bias = device, device.backend.matmul, Biased(device, m, n, 1)
        self._round, _ = device.conversions()
        self._few = device.kernel("reductions", "product_few", 32 * m * n, m, n, k)
        pixel = ops.Convolution((m, k, 1, 1), (m, n, 1, 1), Window((1, 1)), channels_last=True)
        self._fused = Convolution(device, pixel)

    def _rounded(self, *arrays) -> list:
        """Arrays in the workspace, of 16-bit numbers; None stays."""
        kind, at, views = self._device.half_dtype, 0, []
        space = self._device.workspace(sum(a.size + 128 for a in arrays if a is not None), kind)
        for array in arrays:
            views.append(None if array is None else space[at : at + array.size].reshape(array.shape))
            if array is not None:
                self._round(array, views[-1])
                at += -(-array.size // 128) * 128
        return views

    def forward(self, x, w, b, y, slope: float | None = None, rounded_x=None) -> None:
        if self._half:
            self._round(x, rounded_x)
            x, (w,) = rounded_x, self._rounded(w)

        def product() -> None:
            self._matmul(x, w, y, *self._sizes, trans_b=not self._transpose)
            self._bias.forward(y, b, slope)

        def fused() -> None:
            self._fused.in_one_plan(x, w, b, y, slope)

        if self._half or self._transpose:
            return product()
        engine, fusible = self._device.engine, b is not None and slope in (None, 0)
        ways: dict[str, Callable[[], None]] = {"product": product}
        ways["few"] = lambda: self._few(x, w, b, y, float(slope or 0), slope is not None)
        if engine.choices and fusible and engine.plan(self._fused.problem("forward", y, True, slope == 0)):
            ways["fused"] = fused
        sizes, rectified = "x".join(map(str, self._sizes)), "" if slope is None else f" slope{slope:g}"
        ways[engine.choose(f"product {sizes} {y.dtype.name}{' biased' * (b is not None)}{rectified}", ways)]()
        return None

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        m, n, k = self._sizes
        if self._half:
            rounded, w = self._rounded(dy, w if dx is not None else None)
        else:
            rounded = dy

        def weights() -> None:
            if self._transpose:
                self._matmul(x, rounded, dw, k, n, m, trans_a=True, add=add_w)
            else:
                self._matmul(rounded, x, dw, n, k, m, trans_a=True, add=add_w)

        def biases() -> None:
            self._bias.backward(dy, db, add_b)

        def bottom() -> None:
            self._matmul(rounded, w, dx, m, k, n, trans_b=self._transpose)

        passes = ((weights, dw), (biases, db), (bottom, dx))
        self._device.run_concurrently(m * n * k, *(one for one, wanted in passes if wanted is not None))
