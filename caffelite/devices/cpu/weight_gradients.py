"""Weight gradients of convolutions by oneDNN, in blocks: its direct kernels add up all pixels that they are given, of a
whole batch, in one float32 register, on processors without AVX-512 always and with AVX-512 for many shapes."""

from __future__ import annotations

import ctypes as ct
import functools

from ..algorithms import Block, gradient_blocks
from ..window import Window
from . import onednn
from .formula_kernels import FormulaKernels
from .onednn import DIRECT, FORWARD_TRAINING, Library

LINE = 64  # bytes: parts of the workspace start on cache lines
IN_BLOCKS = "jit_1x1", "gemm"  # in the names of oneDNN's implementations that sum in blocks


def pair(a: int, b: int) -> ct.Array:
    return (ct.c_int64 * 2)(a, b)


class WeightGradient:
    """dw (M, C/groups, kh, kw) = [dw +] the gradient from x (N, H, W, C) and dy (N, OH, OW, M), all blocks added in
    order. x and y are given as N×C×H×W. half: x and dy are bfloat16 (uint16)."""

    def __init__(
        self,
        device: FormulaKernels,
        library: Library,
        x: tuple[int, ...],
        y: tuple[int, ...],
        window: Window,
        groups: int = 1,
        half: bool = False,
    ):
        self._device, self._library, self._window, self._groups = device, library, window, groups
        self._kind, self._bytes = (onednn.BF16, 2) if half else (onednn.F32, 4)
        self._x, self._y = x, y
        self._primitive = functools.cache(self._make_primitive)

    @functools.cached_property
    def _blocks(self) -> list[Block]:
        whole = Block(0, self._x[0], 0, self._x[2], 0, self._y[2], *self._window.pad[:1] * 2)
        if any(part in self._describe(*whole.sizes).name for part in IN_BLOCKS):
            return [whole]
        return gradient_blocks(self._x, self._y, self._window, self._groups, self._device.threads)

    def _describe(self, images: int, rows_in: int, rows_out: int, above: int, below: int) -> onednn.Descriptor:
        library, (_, stride, (_, side), dilation) = self._library, self._window
        (_, c, _, w), (_, m, _, ow) = self._x, self._y
        x = library.channels_last((images, c, rows_in, w), self._kind)
        y = library.channels_last((images, m, rows_out, ow), self._kind)
        geometry = pair(*stride), pair(*(d - 1 for d in dilation)), pair(above, side), pair(below, side)
        any_w, any_dw = library.layout(self._dims, dtype=self._kind), library.layout(self._dims)
        hint = library.describe(
            "convolution_forward", FORWARD_TRAINING, DIRECT, x, any_w, None, y, *geometry, library.attributes()
        )
        how = *geometry, hint.handle, library.attributes()
        return library.describe("convolution_backward_weights", DIRECT, x, any_dw, None, y, *how)

    @property
    def _dims(self) -> tuple[int, ...]:
        c, m, groups = self._x[1] // self._groups, self._y[1] // self._groups, self._groups
        return (m, c, *self._window.kernel) if groups == 1 else (groups, m, c, *self._window.kernel)

    def _make_primitive(self, *sizes: int):
        """(the primitive, its sum's reorder to Caffe's order, the same that adds, where its scratchpad starts, bytes of
        the workspace) of a block."""
        found, library = self._describe(*sizes), self._library
        theirs, ours = found.layout("dw"), library.dense(self._dims)
        sums = -(-library.bytes(theirs) // LINE) * LINE
        reorders = library.reorder(theirs, ours), library.reorder(theirs, ours, add=True)
        return found.primitive("x", "dy", "dw", "scratch"), reorders, sums, sums + found.bytes("scratch")

    def run(self, x, dy, dw, add: bool = False) -> None:
        """add: adds to what is there."""
        (_, c, h, w), (_, m, oh, ow) = self._x, self._y
        space = self._device.space(max(self._primitive(*block.sizes)[-1] for block in self._blocks))
        for block in self._blocks:
            primitive, reorders, scratch, _ = self._primitive(*block.sizes)
            source = self._bytes * (block.image * h + block.row_in) * w * c
            above = self._bytes * (block.image * oh + block.row_out) * ow * m
            primitive.run_at((source, above, 0, scratch), x, dy, space, space)
            reorders[add].run(space, dw)
            add = True
