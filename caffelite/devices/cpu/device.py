"""The CPU device."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import threadpoolctl

from ...errors import CaffeliteError
from ..building import builds
from ..context import ExecutionContext
from ..interfaces import DetectionOptions, MultiBoxOptions, ProposalOptions, RegionOptions
from ..protocol import Gather, Shape
from ..traits import CPU_EAGER, cpu_traits
from ..window import Window
from . import (
    blas,
    choices,
    convolution,
    inference,
    input_buffer,
    onednn,
    onednn_operations,
    operations,
    preprocessing,
    recurrent,
    regions,
    resizing,
    selection,
)
from .formula_kernels import FormulaKernels
from .im2col import Im2col
from .lrn import LRN, ChannelsLastLRN
from .pooling import Pooling

log = logging.getLogger("caffelite")


class EagerGraph(functools.partial[None]):
    """A function that runs as it is."""

    eager = CPU_EAGER


class CPU(FormulaKernels):
    """Arrays are NumPy's; every operation finishes before it returns.

    dtype: float32 (default), or float64, which the tests use to check gradients. precision: bf16 multiplies bfloat16
    numbers in convolutions and large inner products, and stores images as such from convolution to convolution; all
    sums, parameters and what is computed in between are float32. deterministic: all convolutions are direct, so that
    runs on different machines and in different arrangements take the same algorithms.
    """

    name = "cpu"
    number = None
    eager = CPU_EAGER

    def __init__(self, dtype: str = "float32", precision: str = "fp32", deterministic: bool = False):
        import numba

        _log_compiling()
        self.dtype = np.dtype(dtype)
        self.threads = self.active_threads = numba.get_num_threads()
        self._workspace = np.empty(0, np.uint8)
        self._onednn = onednn.load() if dtype == "float32" else None
        if dtype == "float32" and not self._onednn:
            _log_no_onednn()
        self.algorithms = None
        if self._onednn and not deterministic:
            self.algorithms = choices.Choices(self.threads, self._onednn.version, self._onednn.instructions)
        self.inference = inference.Inference(self, self._onednn, self.algorithms) if self._onednn else None
        if precision == "auto":
            precision = "bf16" if self._onednn and self._onednn.bf16() == "native" else "fp32"
        self.traits = traits = cpu_traits(precision, self.dtype.name, self._onednn is not None)
        self.precision = precision
        if traits.half:
            self._check_half()
        blas.address(dtype)  # loads the library; its threads are limited below
        # Kernels split work over Numba's threads. BLAS threads inside these would only compete for the cores.
        threadpoolctl.threadpool_limits(1, user_api="blas")

    def _check_half(self) -> None:
        """Warns where bfloat16 is emulated. Errors: no oneDNN, or a processor that it does not support."""
        if self._onednn is None:
            remedy = 'install the extra: pip install "caffelite[onednn]"'
            raise CaffeliteError("bf16 on a CPU needs oneDNN (version 3)", found="none", remedy=remedy)
        kind = self._onednn.bf16()
        if kind is None:
            raise CaffeliteError(
                "this processor cannot multiply bfloat16 numbers", expected="AVX-512, better AMX", remedy="use fp32"
            )
        if kind == "emulated":
            log.warning(
                "This processor has no bfloat16 instructions; -precision bf16 is imitated, and slower than fp32"
            )

    def run_concurrently(self, work: int, *parts: Callable[[], None]) -> None:
        """Calls functions with independent operations."""
        for part in parts:
            part()

    def synchronize(self) -> None:
        """Returns at once: every operation has finished."""

    def record_event(self) -> float:
        """The time in seconds, for ``elapsed_ms``."""
        return time.perf_counter()

    def elapsed_ms(self, begin: float, end: float) -> float:
        return (end - begin) * 1e3

    # execution

    def make_context(self, seed: int = 0) -> ExecutionContext:
        return ExecutionContext(input_buffer.InputBuffer(self, seed & 2**64 - 1))

    def loss_scale(self, start: float | None) -> None:
        """None: bfloat16 has the range of float32."""

    def capture(
        self,
        body: Callable[..., None],
        context: ExecutionContext,
        signature: Callable[[], tuple[Any, ...]] = tuple,
        gather: Gather | None = None,
    ) -> EagerGraph:
        """``body`` itself."""
        return EagerGraph(body)

    def why_eager(self) -> str:
        return self.eager

    def drop_graphs(self) -> None:
        """Does nothing: there are none."""

    # operations

    def inner_product(
        self, m: int, k: int, n: int, transpose: bool = False, half: bool = False
    ) -> onednn_operations.InnerProduct | operations.InnerProduct:
        if self._onednn:
            return onednn_operations.InnerProduct(self, self._onednn, m, k, n, transpose, half)
        return operations.InnerProduct(self, m, k, n, transpose)

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
        context: ExecutionContext | None = None,
    ) -> onednn_operations.Convolution | convolution.MeasuredConvolution | operations.Convolution:
        if channels_last:
            assert self._onednn, "traits say that there is no channels_last"
            how = x, y, window, groups, half, algorithm
            return convolution.convolution(self, self._onednn, self.algorithms, *how)
        return operations.Convolution(self, x, y, window, groups)

    def channels_last_pooling(
        self, method: str, x: Shape, y: Shape, window: Window, half: bool = False
    ) -> onednn_operations.Pooling:
        assert self._onednn, "traits say that there is no channels_last"
        return onednn_operations.Pooling(self, self._onednn, method, x, y, window, half)

    def lrn(self, n: int, c: int, p: int, size: int, alpha: float, beta: float, k: float) -> LRN:
        kind = ChannelsLastLRN if p == 1 else LRN
        return kind(self, n, c, p, size, alpha, beta, k)

    def im2col(self, x: Shape, window: Window) -> Im2col:
        return Im2col(x, window.outputs(x[2:]), window)

    def region_pooling(self, method: str, x: Shape, y: Shape, scale: float, pad: float = 0) -> regions.RegionPooling:
        return regions.RegionPooling(self.dtype, method, x, y, scale, pad)

    def multibox_loss(self, options: MultiBoxOptions) -> None:
        return None

    def detections(self, options: DetectionOptions) -> None:
        return None

    def proposals(self, options: ProposalOptions) -> None:
        return None

    def region_loss(self, options: RegionOptions) -> None:
        return None

    def preprocess(
        self,
        out: Shape,
        mean: np.ndarray | None,
        scale: float,
        context: ExecutionContext,
        channels_last: bool = False,
    ) -> preprocessing.Preprocess:
        return preprocessing.Preprocess(out, mean, scale)

    dropout = builds(operations.Dropout)
    interpolation = builds(resizing.Interpolation)
    lstm = builds(recurrent.LSTM)
    lstm_unit = builds(recurrent.LSTMUnit)
    pooling = builds(Pooling)
    ring = builds(input_buffer.Ring)
    softmax_loss = builds(operations.SoftmaxLoss)

    # These need nothing of the device.
    accuracy = staticmethod(operations.Accuracy)
    distances = staticmethod(selection.Distances)
    softmax = staticmethod(operations.Softmax)
    take = staticmethod(selection.Take)
    top_k = staticmethod(selection.TopK)
    uniform = staticmethod(operations.Uniform)
    unpooling = staticmethod(resizing.Unpooling)


@functools.cache
def _log_no_onednn() -> None:
    if os.environ.get("CAFFELITE_ONEDNN") != "0":
        log.info(
            'oneDNN was not found: convolutions run on BLAS, more slowly; pip install "caffelite[onednn]" brings it'
        )


@functools.cache
def _log_compiling() -> None:
    """Logs once that kernels are being compiled: the first run on a machine starts slowly."""
    from numba.core import event

    class FirstCompile(event.Listener):
        logged = False

        def on_start(self, compiling) -> None:
            if not self.logged:
                self.logged = True
                log.info("Compiling kernels for this processor; later runs start without this")

        def on_end(self, compiled) -> None:
            pass

    event.register("numba:compile", FirstCompile())
