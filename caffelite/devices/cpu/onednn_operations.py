"""Operations by oneDNN, on channels_last blobs (N, H, W, C)."""

import functools
import math
from operator import is_

import numpy as np

from .. import algorithms, ops
from ..formula import Formula
from ..window import Window
from . import onednn, operations, weight_orders
from .few_rows import FewRowsProduct
from .formula_kernels import FormulaKernels
from .kernels import dense, direct
from .onednn import DIRECT, FORWARD_TRAINING, Library
from .registry import implements
from .weight_gradients import LINE, pair, weight_gradient


def _relu(device: FormulaKernels, half: bool = False):
    """ReLU as a separate pass: oneDNN's fused ReLU maps NaN to 0, and would hide a NaN that Caffe shows."""
    return device.map(Formula("where(x > 0, x, 0 * x)", ("x",), halves=("x", "out") * half))


class Convolution:
    """Weights and their gradients are in Caffe's order; the run reorders them for the primitive. half: bfloat16."""

    def __init__(self, device: FormulaKernels, library: Library, op: ops.Convolution):
        self._device, self._library = device, library
        x, y, window, groups, half = op.x, op.y, op.window, op.groups, op.half
        kernel, kind = window.kernel, onednn.BF16 if half else onednn.F32
        self._dims = dims = (
            (y[1], x[1] // groups, *kernel) if groups == 1 else (groups, y[1] // groups, x[1] // groups, *kernel)
        )
        self._x, self._y = library.channels_last(x, kind), library.channels_last(y, kind)
        self._b = library.dense((y[1],))
        self._any_w = library.layout(dims, dtype=kind)
        pad = pair(*window.pad)
        self._window = pair(*window.stride), pair(*(d - 1 for d in window.dilation)), pad, pad
        few = groups == 1 and not half and algorithms.has_few_channels(x[1], y[1], window)
        self._direct = DirectConvolution(device, op) if few else None
        self._relu = _relu(device, half)
        self._sum = device.channel_sum(Formula("dy", ("dy",), halves=("dy",) * half), (), y[0] * y[2] * y[3], y[1], 1)
        self._weights = weight_gradient(device, library, op)
        # Primitives are created on first use, and kept.
        self._forward, self._data = (functools.cache(f) for f in (self._make_forward, self._make_data))

    @functools.cached_property
    def _hint(self) -> onednn.Descriptor:
        arguments = FORWARD_TRAINING, DIRECT, self._x, self._any_w, None, self._y
        return self._library.describe("convolution_forward", *arguments, *self._window, self._library.attributes())

    def _make_forward(self, biased: bool, slope: float | None):
        library = self._library
        arguments = FORWARD_TRAINING, DIRECT, self._x, self._any_w, self._b if biased else None, self._y
        descriptor = library.describe("convolution_forward", *arguments, *self._window, library.attributes(slope))
        return _Packed(self._device, descriptor, self._dims, "x", "w", *(["b"] if biased else []), "y")

    def _make_data(self):
        library = self._library
        arguments = DIRECT, self._x, self._any_w, self._y, *self._window, self._hint.handle, library.attributes()
        descriptor = library.describe("convolution_backward_data", *arguments)
        return _Packed(self._device, descriptor, self._dims, "dy", "w", "dx")

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        if self._direct:
            return self._direct.forward(x, w, b, y, slope)
        run = self._forward(b is not None, slope or None).run
        run(x, w, y) if b is None else run(x, w, b, y)
        if slope == 0:
            self._relu(y, y)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        if db is not None:
            self._sum(dy, db, add=add_b)
        if dw is not None:
            self._weights.run(x, dy, dw, add_w)
        if dx is not None:
            self._data().run(dy, w, dx)


class DirectConvolution:
    """The forward pass of a convolution of few channels without pad, by kernels of our own (see kernels/direct.py)."""

    def __init__(self, device: FormulaKernels, op: ops.Convolution):
        (n, c, _, width), (_, m, out_h, out_w) = op.x, op.y
        self._device, self._x, self._y = device, (n, -1), (n, out_h * out_w, m)
        self._none = np.empty(0, np.float32)
        (kh, kw), (sh, sw), _, (dh, dw) = op.window
        rows, columns = np.arange(out_h) * sh * width, np.arange(out_w) * sw
        starts = (rows[:, None] + columns).reshape(-1) * c
        self._starts = np.pad(starts, (0, -len(starts) % direct.ROWS), "edge").astype(np.int64)
        pixels = (np.arange(kh)[:, None] * dh * width + np.arange(kw) * dw).reshape(-1) * c
        self._offsets = (np.arange(c)[:, None] + pixels).reshape(-1).astype(np.int64)
        self._packed = -(-m // direct.GROUP), len(self._offsets), direct.GROUP
        self._tile = device.threads, direct.ROWS * direct.GROUP
        self._room = 4 * (math.prod(self._packed) + math.prod(self._tile))
        self._seen: tuple = (None,) * 6

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        arguments = x, w, b, y, slope, self._device.space(self._room)
        if not all(map(is_, arguments, self._seen)):
            self._bind(*arguments)
            self._seen = arguments
        direct.pack(*self._packing)
        direct.forward(*self._arguments)

    def _bind(self, x, w, b, y, slope: float | None, space) -> None:
        packed = self._device.view(space, 0, self._packed)
        self._packing = w.reshape(w.shape[0], -1), packed
        after = self._none if b is None else b, b is not None, np.float32(slope or 0), slope is not None
        tables = self._starts, self._offsets, self._device.view(space, packed.nbytes, self._tile)
        self._arguments = x.reshape(self._x), packed, *after, y.reshape(self._y), *tables


class Pooling:
    """``indices`` are the library's own record of the winners. half: bfloat16."""

    def __init__(self, device: FormulaKernels, library: Library, op: ops.Pooling):
        self._device, kind = device, onednn.BF16 if op.half else onednn.F32
        method, x, y, window = op.method, op.x, op.y, op.window
        before = pair(*window.pad)
        beyond = [
            (o - 1) * s + k - size - p
            for o, s, k, size, p in zip(y[2:], window.stride, window.kernel, x[2:], window.pad, strict=True)
        ]
        algorithm = (
            onednn.POOL_MAX if method == "MAX" else onednn.POOL_INCLUDING if any(window.pad) else onednn.POOL_EXCLUDING
        )
        layouts = library.channels_last(x, kind), library.channels_last(y, kind)
        geometry = (pair(*window.stride), pair(*window.kernel), pair(0, 0), before, pair(*beyond), library.attributes())
        forward = library.describe("pooling_forward", FORWARD_TRAINING, algorithm, *layouts, *geometry)
        backward = library.describe(
            "pooling_backward", algorithm, *layouts, *geometry[:-1], forward.handle, geometry[-1]
        )
        record = ["record"] if method == "MAX" else []
        if forward.bytes("record") > self.record_bytes(y, window):
            what = f"oneDNN keeps {forward.bytes('record')} bytes of winners for {y}, more than the buffer can hold"
            raise RuntimeError(what)
        self._forward, self._scratch = forward.primitive("x", "y", *record, "scratch").run, forward.bytes("scratch")
        self._backward = backward.primitive("dy", *record, "dx", "scratch").run
        self._scratch_back = backward.bytes("scratch")

    @staticmethod
    def record_bytes(y: tuple[int, ...], window: Window) -> int:
        return int(np.prod(y)) * (1 if np.prod(window.kernel) < 255 else 4)

    def forward(self, x, y, indices) -> None:
        record = [] if indices is None else [indices]
        self._forward(x, y, *record, self._device.space(self._scratch))

    def backward(self, dy, indices, dx) -> None:
        record = [] if indices is None else [indices]
        self._backward(dy, *record, dx, self._device.space(self._scratch_back))


class InnerProduct:
    """half: bfloat16."""

    def __init__(self, device: FormulaKernels, library: Library, op: ops.InnerProduct):
        m, k, n, transpose, half = op.m, op.k, op.n, op.transpose, op.half
        self._device, self._library, self._half = device, library, half
        self._x, self._y, self._b = ((m, k), (k, 1)), ((m, n), (n, 1)), ((1, n), (n, 1))
        self._w, self._turned = ((n, k), (k, 1)), ((k, n), (1, k))
        # One row of weights lies as its transpose does, whose strides oneDNN refuses when it runs.
        if transpose and min(k, n) > 1:
            self._w, self._turned = ((n, k), (1, n)), ((k, n), (n, 1))
        self._dy_turned, self._relu = ((n, m), (1, n)), _relu(device)
        few = not transpose and not half and algorithms.has_few_rows(m, k, n)
        self._few_rows = FewRowsProduct(device, m, k, n) if few else None
        # Products are created on first use, and kept.
        self._forward, self._weights, self._data = (
            functools.cache(f) for f in (self._make_forward, self._make_weights, self._make_data)
        )
        if half:
            sizes = [-(-2 * count // LINE) * LINE for count in (n * k, m * n)]
            self._offsets = 0, sizes[0], sum(sizes)  # of w, dy and the scratchpad in the workspace
            self._narrow_x, self._narrow_w, self._narrow_dy = (self._rounding(count) for count in (m * k, n * k, m * n))
            self._narrow_dy.at[1] = self._offsets[1]

    def _rounding(self, count: int) -> onednn.Primitive:
        library = self._library
        return library.reorder(library.layout((count,), (1,)), library.layout((count,), (1,), onednn.BF16))

    def _make_product(self, a, b, bias, out, offsets: tuple[int, int], slope: float | None = None, add: bool = False):
        """out = a b + bias; offsets: where a and b start in their arrays, in bytes."""
        library, kind = self._library, onednn.BF16 if self._half else onednn.F32
        layouts = (
            library.layout(a[0], a[1], kind),
            library.layout(b[0], b[1], kind),
            bias and library.layout(*bias),
            library.layout(*out),
        )
        descriptor = library.describe("matmul", *layouts, library.attributes(slope, add))
        primitive = descriptor.primitive("x", "w", *(["b"] if bias else []), "y", "scratch")
        scratch = self._offsets[2] if self._half else 0
        primitive.at[0], primitive.at[1], primitive.at[-1] = *offsets, scratch
        return primitive.run, scratch + descriptor.bytes("scratch")

    def _make_forward(self, biased: bool, slope: float | None):
        return self._make_product(self._x, self._turned, self._b if biased else None, self._y, (0, 0), slope)

    def _make_weights(self, add: bool):
        offset = self._offsets[1] if self._half else 0
        return self._make_product(self._dy_turned, self._x, None, self._w, (offset, 0), None, add)

    def _make_data(self):
        return self._make_product(self._y, self._w, None, self._x, self._offsets[1::-1] if self._half else (0, 0))

    def _run(self, product, *arrays) -> None:
        run, scratch = product
        run(*arrays, self._device.space(scratch))

    def forward(self, x, w, b, y, slope: float | None = None, rounded_x=None) -> None:
        if self._few_rows and self._x[0][0] <= algorithms.FEW_ROWS_FORWARD:
            return self._few_rows.forward(x, w, b, y, slope)
        product = self._forward(b is not None, slope or None)
        if self._half:
            space = self._device.space(product[1])
            self._narrow_x.run(x, rounded_x)
            self._narrow_w.run(w, space)
            x, w = rounded_x, space
        self._run(product, x, w, *([] if b is None else [b]), y)
        if slope == 0:
            self._relu(y, y)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        if db is not None:
            dense.column_sums(dy.reshape(self._y[0]), db.reshape(-1), add_b)
        if self._few_rows:
            return self._few_rows.backward(x, w, dy, dx, dw, add_w)
        weights, data = None if dw is None else self._weights(add_w), None if dx is None else self._data()
        if self._half and (weights or data):
            space = self._device.space(max(product[1] for product in (weights, data) if product))
            self._narrow_dy.run(dy, space)
            if data:
                self._narrow_w.run(w, space)
                w = space
            dy = space
        if weights:
            self._run(weights, dy, x, dw)
        if data:
            self._run(data, dy, w, dx)


@implements(ops.InnerProduct)
def inner_product(device: FormulaKernels, op: ops.InnerProduct) -> InnerProduct | operations.InnerProduct:
    return InnerProduct(device, device.library, op) if device.library else operations.InnerProduct(device, op)


class _Packed:
    """A primitive with its own order of weights, combined with the conversion from Caffe's order."""

    def __init__(self, device: FormulaKernels, descriptor: onednn.Descriptor, dims: tuple[int, ...], *operands: str):
        library, self._device = descriptor.library, device
        theirs, dense, self._place = descriptor.layout("w"), library.dense(dims), operands.index("w")
        self._reorder: onednn.Primitive | weight_orders.Rearrangement | None = None
        packed = 0
        if not library.equal(theirs, dense):
            packed = -(-library.bytes(theirs) // LINE) * LINE
            own = weight_orders.packing(device, dims, library.blocking(theirs), packed)
            self._reorder = own or library.reorder(dense, theirs)
        self._bytes = packed + max(descriptor.bytes("scratch"), getattr(self._reorder, "room", 0))
        self._primitive = descriptor.primitive(*operands, "scratch")
        self._primitive.at[-1] = packed

    def run(self, *arrays) -> None:
        space = self._device.space(self._bytes)
        arguments = [*arrays, space]
        if self._reorder:
            self._reorder.run(arrays[self._place], space)
            arguments[self._place] = space
        self._primitive.run(*arguments)
