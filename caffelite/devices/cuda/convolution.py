"""Convolutions by cuDNN's plans."""

import math
from typing import Any

import numpy as np

from ...errors import CaffeliteError
from .. import ops
from ..types import Array
from .alternatives import geometry, room_of
from .cudnn import SMALL, Problem
from .formula_kernels import FormulaKernels
from .memory import pitch
from .operations import Biased
from .packing import Member
from .registry import implements

PASSES = {"forward": "the forward pass", "dgrad": "the bottom's gradient", "wgrad": "the weights' gradient"}
TAKEN = {"forward": "forward", "dgrad": "data gradient", "wgrad": "weight gradient"}  # passes, in tables


@implements(ops.Convolution)
class Convolution:
    """The context's packing converts the weights of all convolutions at once. channels_last: x, y and their gradients
    may have 16 bits, all in one dtype, and y and dy may be slices of wider rows, which are copied where cuDNN has no
    plan for slices. Weights, bias and their gradients are float32 in Caffe's order; the forward pass converts them to
    the order of the plan, for the backward pass that follows too. Plans are chosen in the first runs, which show the
    dtypes; later runs allocate nothing. A ReLU is fused only by plans that propagate NaN and infinity, as Caffe does:
    else a diverged net would not be noticed. Errors: cuDNN has no plan at all.
    """

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        x, y, window, groups = op.x, op.y, op.window, op.groups
        self._device, self._last, self._name = device, (last := op.channels_last), op.name
        self._packing: Any = op.context.packing if op.context else None
        self._shapes = x, (y[1], x[1] // groups, *window.kernel), y, window
        m, c, p = y[1], x[1] // groups, math.prod(window.kernel)
        self._work = math.prod(y) * c * p  # multiply-adds of a pass
        self._turns = last and c > 1 and p > 1  # else both orders are one
        sizes = (m, c, p) if self._turns else (m, c * p, 1)
        self._order = sizes[1:]
        self._pack, self.unpack = (
            device.kernel("weights", name, m * c * p, *sizes) for name in ("pack_weights", "unpack_weights")
        )
        pixels = math.prod(y[2:])
        self._bias = Biased(device, *((y[0] * pixels, m, 1) if last else (y[0], m, pixels)))
        # The weights and the bias as plans need them, once there was a backward pass.
        self._packed: tuple[Array, Array] | None = None
        self._packed_gradients: Array = None  # that wait for the end of a backward pass
        self._fresh = False  # whether a forward pass has put them there, and no backward pass has followed
        self.taken: dict[str, str] = {}  # what solves each pass
        self._wholes: dict[str, Array] = {}  # contiguous arrays that replace slices, by kind of problem

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        if self.in_one_plan(x, w, b, y, slope):
            return
        if not y.flags.c_contiguous:
            self.forward(x, w, b, whole := self._whole("forward", y), slope)
            self._device.assign(whole, y)
            return
        biased = b is not None and self._by_weights(self.problem("forward", y, True), x, w, b, y)
        if not biased:
            self._need(self._by_weights, self.problem("forward", y), x, w, None, y)
        self._bias.forward(y, None if biased else b, slope)

    def in_one_plan(self, x, w, b, y, slope: float | None) -> bool:
        """Queues the convolution with bias and ReLU as one plan, if there is one."""
        if slope is not None and (b is None or slope != 0):
            return False
        return self._by_weights(self.problem("forward", y, b is not None, slope == 0), x, w, b, y)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        def weights() -> None:
            if not self._weight_gradient(self.problem("wgrad", dy), x, dy, dw, add_w):
                whole = self._gathered("wgrad", dy)
                self._need(self._weight_gradient, self.problem("wgrad", whole), x, whole, dw, add_w)

        def biases() -> None:
            self._bias.backward(dy, db, add_b)

        def bottom() -> None:
            if not self._by_weights(self.problem("dgrad", dy), dy, w, None, dx):
                whole = self._gathered("dgrad", dy)
                self._need(self._by_weights, self.problem("dgrad", whole), whole, w, None, dx)

        passes = ((weights, dw), (biases, db), (bottom, dx))
        self._device.run_concurrently(self._work, *(one for one, wanted in passes if wanted is not None))

    def problem(self, kind: str, like, biased: bool = False, rectified: bool = False) -> Problem:
        return Problem(kind, *self._shapes, biased, rectified, self._last, like.dtype.name, pitch(like))

    def _plan(self, problem: Problem) -> Any:
        """The plan for a problem; None where there is none."""
        plan = self._device.engine.plan(problem)
        if plan is not None and TAKEN[problem.kind] not in self.taken:
            self.taken[TAKEN[problem.kind]] = self._device.engine.name(problem)
        return plan

    def _by_weights(self, problem: Problem, image, w, b, out) -> bool:
        """Solves a problem that has weights among its inputs; whether there is a plan for it."""
        plan = self._plan(problem)
        if plan is None:
            return False
        dtype, biased, forward = np.dtype(problem.dtype), b is not None, problem.kind == "forward"
        half = dtype.itemsize == 2
        packs = half or self._turns
        if packs and not forward and self._packed is None:
            self._packed = self._device.empty(w.shape, dtype), self._device.empty(len(w), dtype)
            self._device.generation += 1  # graphs of forward passes do not fill it
        sizes = room_of(w.size, dtype), room_of(len(w), dtype)
        room = sum(sizes) if packs and self._packed is None else 0
        space = self._device.workspace(room + max(1, plan.workspace), np.uint8)
        if packs:
            bias = b if half else None  # cuDNN takes one of float32 as it is
            packed, packed_bias = self._packed or (
                self._device.view(space, 0, w.shape, dtype),
                self._device.view(space, sizes[0], w.shape[:1], dtype),
            )
            if not (self._packed_by_net(w, bias) if forward else self._fresh):
                self._pack(w, bias, packed, None if bias is None else packed_bias)
            self._fresh = forward and self._packed is not None
            w, b = packed, b if bias is None else packed_bias
        plan.run((image, w, b) if biased else (image, w), out, space[room:])
        return True

    def _packed_by_net(self, w, bias) -> bool:
        """Whether the net has packed them at the start of this forward pass."""
        if self._packed is None or self._packing is None:
            return False
        packed, packed_bias = self._packed
        biases = [] if bias is None else [Member(bias, packed_bias, 1, 1)]
        return self._packing.weights.has(self, [Member(w, packed, *self._order), *biases])

    def _weight_gradient(self, problem: Problem, x, dy, dw, add: bool) -> bool:
        """dw = [dw +] the weights' gradient; whether there is a plan for it."""
        plan = self._plan(problem)
        if plan is None:
            return False
        dtype = np.dtype(problem.dtype)
        packs = self._turns or dtype.itemsize == 2  # cuDNN's gradients are of dy's dtype, in its own order
        packing = self._packing if packs and self._packing and self._packing.may_wait(self, add) else None
        if packing and (self._packed_gradients is None or self._packed_gradients.dtype != dtype):
            self._packed_gradients = self._device.empty(dw.shape, dtype)
        fresh = packs or add  # cuDNN overwrites
        room, out = room_of(dw.size, dtype) if fresh and not packing else 0, self._packed_gradients if packing else dw
        space = self._device.workspace(room + max(1, plan.workspace), np.uint8)
        if room:
            out = self._device.view(space, 0, dw.shape, dtype)
        plan.run((x, dy), out, space[room:])
        if fresh and not (packing and packing.waits(self, Member(dw, out, *self._order))):
            self.unpack(out, dw, add)
        return True

    def _need(self, solve, problem: Problem, *arrays) -> None:
        """Errors: there is no plan."""
        if not solve(problem, *arrays):
            raise CaffeliteError(
                f'layer "{self._name}": cuDNN has no plan for {PASSES[problem.kind]}',
                found=self._device.engine.why_none(problem),
                remedy="update cuDNN and the driver, use another -precision, or leave -gpu out to run on the CPU",
            )

    def _whole(self, kind: str, like) -> Array:
        """A contiguous array for the values of a slice."""
        if kind not in self._wholes:
            self._wholes[kind] = self._device.empty(like.shape, like.dtype)
        return self._wholes[kind]

    def _gathered(self, kind: str, array) -> Array:
        """The array in one piece: a slice is copied."""
        if not pitch(array):
            return array
        self._device.assign(array, whole := self._whole(kind, array))
        return whole


@implements(ops.PooledConvolution)
class PooledConvolution(Convolution):
    """Takes the faster of one kernel and of two, as plans are chosen: the first without choices."""

    def __init__(self, device: FormulaKernels, op: ops.PooledConvolution):
        super().__init__(device, op.convolution)
        self._pooling, pooled, self._window = device.build(op.pooling), op.pooling.y, op.pooling.window
        sizes = *self._window.kernel, *pooled[2:], *geometry(self._problem_of("float32"))
        self._both = device.kernel("small_convolutions", "small_pooled", math.prod(pooled), *sizes)
        self._chosen = ""

    def _problem_of(self, dtype: str, biased: bool = False) -> Problem:
        return Problem("forward", *self._shapes, biased, dtype=dtype)

    def forward_pooled(self, x, w, b, y, pooled, indices) -> None:
        def apart() -> None:
            self.forward(x, w, b, y)
            self._pooling.forward(y, pooled, indices)

        ways = {"apart": apart, SMALL: lambda: self._both(x, w, b, y, pooled, indices)}
        if not self._chosen:
            apart()  # all processes choose its plan before they choose between both
            problem = self._problem_of(y.dtype.name, b is not None).words()
            kernel = "x".join(map(str, self._window.kernel))
            self._chosen = self._device.engine.choose(f"{problem} pooled{kernel}", ways)
            if self._chosen == SMALL:
                self.taken[TAKEN["forward"]] = SMALL
        ways[self._chosen]()
