"""Convolutions by cuDNN's plans; without a plan, by columns and matrix products."""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable

import numpy as np

from ..formula import Formula
from ..window import Window
from . import operations
from .cudnn import Plan, Problem
from .formula_kernels import FormulaKernels
from .memory import pitch

log = logging.getLogger("caffelite")
PASSES = {"forward": "its forward pass", "dgrad": "its bottom's gradient", "wgrad": "its weights' gradient"}
LINE = 256  # bytes: parts of the workspace start at multiples of it


class Convolution:
    """y (N, M, OH, OW) = w (M, C/groups, kh, kw) * x (N, C, H, W) + b (M).

    name: the layer's, for warnings. last: x, y and their gradients are channels_last; they may then have 16 bits, all
    in one dtype. Weights, bias and their gradients are float32 in Caffe's order; the run converts them to the order
    of the plan. Plans are chosen in the first runs, which show the arguments in use; later runs allocate nothing.
    With channels_last, y and dy may be slices of wider rows; they are copied where cuDNN has no plan for slices. A ReLU
    is fused only by plans that propagate NaN and infinity, as Caffe does: else a diverged net would not be noticed.
    """

    def __init__(
        self,
        device: FormulaKernels,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        groups: int = 1,
        last: bool = False,
        name: str = "",
    ):
        self._device, self._last, self._name = device, last, name
        self._warned: set[str] = set()  # kinds of problems that have no plan
        self._shapes = x, (y[1], x[1] // groups, *window.kernel), y, window
        m, c, p = y[1], x[1] // groups, math.prod(window.kernel)
        self._work = math.prod(y) * c * p  # multiply-adds of a pass
        self._turns = last and c > 1 and p > 1  # else both orders are one
        sizes = (m, c, p) if self._turns else (m, c * p, 1)
        self._pack, self._unpack = (
            device.kernel("weights", name, m * c * p, *sizes) for name in ("pack_weights", "unpack_weights")
        )
        pixels = math.prod(y[2:])
        self._bias = operations.Biased(device, *((y[0] * pixels, m, 1) if last else (y[0], m, pixels)))
        # For problems without a plan; another for the weights' gradient, which may run concurrently with the bottom's.
        self._wholes: dict[str, object] = {}  # contiguous arrays that replace slices, by kind of problem
        self._plain = functools.cache(
            lambda aside=False: (ReorderedConvolution if last else operations.Convolution)(device, x, y, window, groups)
        )

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        biased = b is not None
        if not y.flags.c_contiguous:
            rectified = biased and slope == 0
            if (slope is not None and not rectified) or not self._forward(x, w, b, y, biased, rectified):
                self.forward(x, w, b, whole := self._whole("forward", y), slope)
                self._device.assign(whole, y)
            return
        for epilogue in dict.fromkeys(((biased, biased and slope == 0), (biased, False), (False, False))):
            if self._forward(x, w, b, y, *epilogue):
                self._bias.forward(y, None if epilogue[0] else b, None if epilogue[1] else slope)
                return
        self._tell(self._problem("forward", y))
        self._plain().forward(x, w, b, y, slope)

    def _forward(self, x, w, b, y, biased: bool, rectified: bool) -> bool:
        """The convolution with so much of what follows it fused; whether there is a plan for that."""
        problem = self._problem("forward", y, biased, rectified)
        offset, put = self._weights(w, b if biased else None, problem.numbers)

        def keeps_nonfinite(run: Callable) -> bool:
            """Whether the fused ReLU makes no number of NaN, and none of infinity."""
            image, weights, bias = (self._device.empty(a.shape, a.dtype) for a in (x, w, b))
            load = self._weights(weights, bias, problem.numbers)[1]
            for array in (image, weights):
                self._device.fill(array, 0)
            outputs = []
            for value in (math.nan, math.inf):
                self._device.fill(bias, value)
                run(lambda space: ((image, *load(space)), y))
                outputs.append(self._first(y))
            return math.isnan(outputs[0]) and outputs[1] == math.inf

        return self._run(problem, offset, lambda space: ((x, *put(space)), y), keeps_nonfinite if rectified else None)

    def _first(self, y) -> float:
        """The first number of an array, fetched."""
        first = y[(0,) * (y.ndim - 1)][:1]
        return float(self._device.download(self._device.to_float32(first) if first.dtype.itemsize == 2 else first)[0])

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        """dx, dw, db: None where not wanted; add_w, add_b: add to what is there."""

        def weights() -> None:
            self._weight_gradient(x, w, dy, dw, add_w)

        def biases() -> None:
            self._bias.backward(dy, db, add_b)

        def bottom() -> None:
            self._bottom_gradient(x, w, dy, dx)

        parts = ((weights, dw), (biases, db), (bottom, dx))
        self._device.run_concurrently(self._work, *(part for part, wanted in parts if wanted is not None))

    def _bottom_gradient(self, x, w, dy, dx) -> None:
        problem = self._problem("dgrad", dy)
        offset, load = self._weights(w, None, problem.numbers)
        if not self._run(problem, offset, lambda space: ((dy, *load(space)), dx)):
            if problem.pitch:
                return self._bottom_gradient(x, w, self._gathered("dgrad", dy), dx)
            self._tell(problem)
            self._plain().backward(x, w, dy, dx, None, None)

    def _weight_gradient(self, x, w, dy, dw, add: bool) -> None:
        problem = self._problem("wgrad", dy)
        dtype = np.dtype(problem.numbers)
        fresh = (
            add or self._turns or dtype.itemsize == 2
        )  # cuDNN overwrites, with numbers of dy's type in its own order

        def load(space):
            return (x, dy), self._device.view(space, 0, dw.shape, dtype) if fresh else dw

        if not self._run(problem, _room(dw.size, dtype), load):
            if problem.pitch:
                return self._weight_gradient(x, w, self._gathered("wgrad", dy), dw, add)
            self._tell(problem)
            self._plain(True).backward(x, w, dy, None, dw, None, add)
        elif fresh:
            self._unpack(load(self._device.workspace(dw.nbytes, np.uint8))[1], dw, add)

    def _whole(self, kind: str, like):
        """A contiguous array for the values of a slice."""
        if kind not in self._wholes:
            self._wholes[kind] = self._device.empty(like.shape, like.dtype)
        return self._wholes[kind]

    def _gathered(self, kind: str, array):
        """A copy of a slice, in one piece."""
        self._device.assign(array, whole := self._whole(kind, array))
        return whole

    def _tell(self, problem: Problem) -> None:
        """Logs once for each kind that it has no plan."""
        if problem.kind not in self._warned:
            self._warned.add(problem.kind)
            reason = self._device.engine.why_none(problem)
            log.warning(
                'layer "%s": %s runs as matrix products, more slowly, not on cuDNN: %s',
                self._name,
                PASSES[problem.kind],
                reason,
            )

    def _problem(self, kind: str, like, biased: bool = False, rectified: bool = False) -> Problem:
        return Problem(kind, *self._shapes, biased, rectified, self._last, like.dtype.name, pitch(like))

    def _weights(self, w, b, numbers: str):
        """How much of the workspace the weights and the bias need as a plan takes them, and what puts them there."""
        dtype = np.dtype(numbers)
        half = dtype.itemsize == 2
        if not half and not self._turns:
            return 0, lambda space: (w, b)[: 1 + (b is not None)]
        cut = _room(w.size, dtype)

        def load(space):
            packed = self._device.view(space, 0, w.shape, dtype)
            if not half or b is None:
                self._pack(w, None, packed, None)
                return (packed, b)[: 1 + (b is not None)]
            packed_bias = self._device.view(space, cut, b.shape, dtype)
            self._pack(w, b, packed, packed_bias)
            return packed, packed_bias

        return cut + (_room(b.size, dtype) if half and b is not None else 0), load

    def _run(self, problem: Problem, offset: int, load: Callable, check: Callable | None = None) -> bool:
        """Solves a problem; whether there is a plan for it. load(space) gives inputs and output, some in the space's
        first ``offset``.

        check(run): whether a plan suits, which run(load) runs on what another load gives.
        """

        def ready(plan: Plan, space, load=load) -> Callable[[], None]:
            inputs, output = load(space)

            def run() -> None:
                self._device.backend.here()
                plan.run(inputs, output, space[offset:])

            return run

        def trial_workspace(plan: Plan):
            """Allocates a separate workspace for a plan that is only tried."""
            return self._device.empty((offset + max(1, plan.workspace),), np.uint8)

        def suits(plan: Plan) -> bool:
            return check is None or check(lambda other: ready(plan, trial_workspace(plan), other)())

        plan = self._device.engine.plan(problem, lambda plan: ready(plan, trial_workspace(plan)), suits)
        if plan is not None:
            ready(plan, self._device.workspace(offset + max(1, plan.workspace), np.uint8))()
        return plan is not None


class InnerProduct(operations.InnerProduct):
    """An inner product of little work: bias and ReLU in cuDNN's epilogue, as a convolution of one pixel, where it has a
    plan for that."""

    def __init__(self, device: FormulaKernels, m: int, k: int, n: int):
        super().__init__(device, m, k, n)
        self._fused = Convolution(device, (m, k, 1, 1), (m, n, 1, 1), Window((1, 1)), last=True)

    def forward(self, x, w, b, y, slope: float | None = None, kept=None) -> None:
        if self._few or b is None or slope not in (None, 0) or not self._fused._forward(x, w, b, y, True, slope == 0):
            super().forward(x, w, b, y, slope, kept)


class ReorderedConvolution:
    """A convolution of channels_last blobs, which may have 16 bits, by a float32 convolution in Caffe's
    layout."""

    def __init__(self, device: FormulaKernels, x: tuple[int, ...], y: tuple[int, ...], window: Window, groups: int):
        self._device, self._op = device, operations.Convolution(device, x, y, window, groups)
        self._x, self._y = device.empty(x), device.empty(y)
        self._copy = device.map(Formula("a", ("a",)))

    def _from_last(self, source, target) -> None:
        n, c, *spatial = target.shape
        if source.dtype != target.dtype:
            wide = self._device.workspace(source.size)
            self._copy(source, wide)
            source = wide
        self._device.transpose(source.reshape(n, math.prod(spatial), c), target.reshape(n, c, -1))

    def _to_last(self, source, target) -> None:
        n, c, *spatial = source.shape
        same = source.dtype == target.dtype
        wide = target if same else self._device.workspace(source.size)
        self._device.transpose(source.reshape(n, c, -1), wide.reshape(n, math.prod(spatial), c))
        if not same:
            self._copy(wide, target)

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        self._from_last(x, self._x)
        self._op.forward(self._x, w, b, self._y, slope)
        self._to_last(self._y, y)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        self._from_last(dy, self._y)
        if dw is not None:
            self._from_last(x, self._x)
        self._op.backward(self._x, w, self._y, None, dw, db, add_w, add_b)
        if dx is not None:
            self._op.backward(None, w, self._y, self._x, None, None)
            self._to_last(self._x, dx)


def _room(count: int, dtype: np.dtype) -> int:
    """Bytes of the workspace for a number of values."""
    return -(-count * dtype.itemsize // LINE) * LINE
