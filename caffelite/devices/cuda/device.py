"""The GPU device."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..context import ExecutionContext
from ..dtypes import BFLOAT16, FLOAT16
from ..interfaces import Array, DetectionOptions, MaskPart, MultiBoxOptions, ProposalOptions, RegionOptions
from ..protocol import Gather, Shape
from ..traits import LITTLE_WORK, cuda_traits
from ..window import Window
from . import (
    convolution,
    detection,
    input_buffer,
    operations,
    precisions,
    preprocessing,
    recurrent,
    regions,
    resizing,
    selection,
    windows,
)
from .backend import CuPyBackend
from .formula_kernels import FormulaKernels
from .graphs import CapturedGraph
from .interface import Backend
from .memory import FORKS
from .scaling import LossScale
from .streams import Fork

log = logging.getLogger("caffelite")


class GPU(FormulaKernels):
    """Arrays are CuPy's; operations are queued on one stream and return at once.

    number: the GPU's index. dtype: float32 (default), or float64, which the tests use to check gradients. precision: of
    the factors of convolutions and matrix products: tf32 (default), float32 cut to 10 mantissa bits; fp32, all 23 bits;
    fp16 or bf16, 16-bit numbers, with sums, parameters and updates in float32. deterministic: only plans with
    bit-equal results in every run, and no choice by measured time. backend: the interface to CUDA, CuPy by
    default. Errors: no such GPU, no driver, CuPy not installed, a precision that the GPU lacks.
    """

    name = "gpu"
    inference = None
    algorithms = None  # cuDNN ranks its plans alike on equal GPUs
    fused_updater = None

    def __init__(
        self,
        number: int = 0,
        dtype: str = "float32",
        backend: Backend | None = None,
        precision: str = "tf32",
        deterministic: bool = False,
        eager: str = "",
    ):
        self.dtype = np.dtype(dtype)
        self.number = number
        self.deterministic = deterministic
        self.eager = eager  # the option or variable that disables graph capture; empty: none
        self.capturing = False
        self.backend = backend or CuPyBackend(number, strict=precision == "fp32")
        self.precision = precision = precisions.suited(precision, self.backend.capability, number)
        self.engine = self.backend.convolutions(precision == "fp32", deterministic)
        self.traits = traits = cuda_traits(precision, self.dtype.name, self.backend.capability, captures=not eager)
        self.half_dtype = FLOAT16 if precision == "fp16" else BFLOAT16
        if traits.half and not traits.half_images:
            log.warning("-precision %s: without tensor cores only inner products multiply 16-bit numbers", precision)
        self._workspace = self.empty(0, np.uint8)
        self._forks = [(Fork(self.backend), self.empty(0, np.uint8)) for _ in range(FORKS)]  # each with its workspace
        self._graphs: weakref.WeakSet[CapturedGraph] = weakref.WeakSet()
        super().__init__()

    def record_event(self) -> Any:
        """An event, passed when the operations that were queued before have finished."""
        return self.backend.record_event()

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Milliseconds from one event to another; waits for the later one."""
        return self.backend.elapsed_ms(begin, end)

    @functools.cached_property
    def sums_stream(self) -> Any:
        """The stream of all sums over processes."""
        return self.backend.new_stream()

    # execution

    def make_context(self, seed: int = 0) -> ExecutionContext:
        return ExecutionContext(input_buffer.InputBuffer(self, seed & 2**64 - 1), self.backend.stream)

    def ring(self, rows: int, width: int = 1) -> input_buffer.Ring:
        return input_buffer.Ring(self, rows, width)

    def loss_scale(self, start: float | None) -> LossScale | None:
        """Dynamic loss scaling, in fp16 only: the other precisions have the range of float32."""
        if self.precision != "fp16":
            return None
        return LossScale(self, start or LossScale.START)

    def capture(
        self,
        body: Callable[..., None],
        context: ExecutionContext,
        signature: Callable[[], tuple[Any, ...]] = tuple,
        gather: Gather | None = None,
    ) -> CapturedGraph:
        """A function that captures ``body`` as CUDA graphs, unless the device is ``eager``: see CapturedGraph."""
        graph = CapturedGraph(self, body, context, signature, gather)
        self._graphs.add(graph)
        return graph

    def why_eager(self) -> str:
        """Why something is not captured; "" where everything is."""
        return self.eager or next((graph.eager for graph in self._graphs if graph.eager), "")

    def drop_graphs(self) -> None:
        """Destroys all captured graphs; later calls capture again."""
        for graph in self._graphs:
            graph.close()

    # operations

    def inner_product(
        self, m: int, k: int, n: int, transpose: bool = False, half: bool = False
    ) -> operations.InnerProduct:
        # Tensor cores take four float32 numbers at once.
        single = self.dtype == np.float32 and not half
        if single and not transpose and m * n * k <= LITTLE_WORK and n % 4 == k % 4 == 0:
            return convolution.InnerProduct(self, m, k, n)
        return operations.InnerProduct(self, m, k, n, transpose, half)

    def convolution(
        self,
        x: Shape,
        y: Shape,
        window: Window,
        groups: int = 1,
        channels_last: bool = False,
        half: bool = False,
        name: str = "",
        algorithm: str | None = None,
    ) -> convolution.Convolution:
        return convolution.Convolution(self, x, y, window, groups, channels_last, name)

    def pooling(
        self,
        method: str,
        x: Shape,
        y: Shape,
        window: Window,
        stream: int | None = None,
        context: ExecutionContext | None = None,
    ) -> windows.Pooling:
        return windows.Pooling(self, method, x, y, window, stream, context)

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float) -> windows.LRN:
        return windows.LRN(self, n, c, p, size, alpha, beta, k)

    def channels_last_pooling(
        self, method: str, x: Shape, y: Shape, window: Window, half: bool = False
    ) -> windows.ChannelsLastPooling:
        return windows.ChannelsLastPooling(self, method, x, y, window)

    def im2col(self, x: Shape, window: Window) -> windows.Im2col:
        return windows.Im2col(self, x, window.outputs(x[2:]), window)

    def interpolation(self, x: Shape, y: Shape, start: Shape, size: Shape) -> resizing.Interpolation:
        return resizing.Interpolation(self, x, y, start, size)

    def unpooling(self, planes: int, p: int, q: int) -> resizing.Unpooling:
        return resizing.Unpooling(self, planes, p, q)

    def take(self, rows: int, width: int, count: int) -> selection.Take:
        return selection.Take(self, rows, width, count)

    def top_k(self, n: int, c: int, p: int, k: int) -> selection.TopK:
        return selection.TopK(self, n, c, p, k)

    def region_pooling(self, method: str, x: Shape, y: Shape, scale: float, pad: float = 0) -> regions.RegionPooling:
        return regions.RegionPooling(self, method, x, y, scale, pad)

    def multibox_loss(self, options: MultiBoxOptions) -> detection.MultiBoxLoss:
        return detection.MultiBoxLoss(self, options)

    def detections(self, options: DetectionOptions) -> detection.Detections:
        return detection.Detections(self, options)

    def proposals(self, options: ProposalOptions) -> detection.Proposals:
        return detection.Proposals(self, options)

    def region_loss(self, options: RegionOptions) -> detection.RegionLoss:
        return detection.RegionLoss(self, options)

    def lstm(self, t: int, n: int, d: int, half: bool = False) -> recurrent.LSTM:
        return recurrent.LSTM(self, t, n, d, half)

    def lstm_unit(self, n: int, d: int) -> recurrent.LSTMUnit:
        return recurrent.LSTMUnit(self, n, d)

    def softmax(self, n: int, c: int, p: int) -> operations.Softmax:
        return operations.Softmax(self, n, c, p)

    def softmax_loss(
        self, n: int, c: int, p: int, ignore: int | None, divisor: float | None, weights: Array | None = None
    ) -> operations.SoftmaxLoss:
        return operations.SoftmaxLoss(self, n, c, p, ignore, divisor, weights)

    def accuracy(self, n: int, c: int, p: int, top_k: int, ignore: int | None) -> operations.Accuracy:
        return operations.Accuracy(self, n, c, p, top_k, ignore)

    def dropout(
        self,
        n: int,
        d: int,
        ratio: float,
        stream: int,
        context: ExecutionContext,
        part: MaskPart | None = None,
        channels: int = 0,
        scale: float | None = None,
    ) -> operations.Dropout:
        return operations.Dropout(self, n, d, ratio, stream, context, part, channels, scale)

    def uniform(
        self, n: int, d: int, low: float, high: float, stream: int, context: ExecutionContext
    ) -> operations.Uniform:
        return operations.Uniform(self, n, d, low, high, stream, context)

    def distances(self, m: int, n: int, k: int, squared: bool) -> selection.Distances:
        return selection.Distances(self, m, n, k, squared)

    def preprocess(
        self,
        out: Shape,
        mean: np.ndarray | None,
        scale: float,
        context: ExecutionContext,
        channels_last: bool = False,
    ) -> preprocessing.Preprocess:
        return preprocessing.Preprocess(self, out, mean, scale, context, channels_last)
