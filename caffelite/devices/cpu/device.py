"""The CPU device."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import threadpoolctl

from ...errors import CaffeliteError
from .. import ops, processor
from ..context import ExecutionContext
from ..exclusive import DeviceLock
from ..traits import CPU_EAGER, cpu_traits
from ..types import Gather
from . import (  # those that are not used register what they build
    awake,
    blas,
    choices,
    convolution,  # noqa: F401
    input_buffer,
    onednn,
    pooling,  # noqa: F401
    preprocessing,  # noqa: F401
)
from .formula_kernels import FormulaKernels
from .registry import BUILDERS

if TYPE_CHECKING:
    from .inference import Inference

T = TypeVar("T")
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

        self.lock = DeviceLock()
        _log_compiling()
        self.dtype = np.dtype(dtype)
        self.threads = self.active_threads = numba.get_num_threads()
        self.cores = awake.cores(self.threads)
        self._workspace = np.empty(0, np.uint8)
        self.library = onednn.load() if dtype == "float32" else None
        if dtype == "float32" and not self.library:
            _log_no_onednn()
        self.algorithms = None
        if self.library and not deterministic:
            self.algorithms = choices.CpuChoices(self.threads, self.library.version, self.library.instructions)
        if precision == "auto":
            precision = "bf16" if self.library and self.library.bf16() == "native" else "fp32"
        self.traits = traits = cpu_traits(precision, self.dtype.name, self.library is not None)
        self.precision = precision
        if traits.half:
            self._check_half()
        blas.address(dtype)  # loads the library; its threads are limited below
        # Kernels split work over Numba's threads. BLAS threads inside these would only compete for the cores.
        threadpoolctl.threadpool_limits(1, user_api="blas")

    @functools.cached_property
    def inference(self) -> Inference | None:
        from .inference import Inference

        return Inference(self, self.library) if self.library else None

    def _check_half(self) -> None:
        """Warns where bfloat16 is emulated. Errors: no oneDNN, or a processor that it does not support."""
        if self.library is None:
            remedy = 'install the extra: pip install "caffelite[onednn]"'
            raise CaffeliteError("bf16 on a CPU needs oneDNN (version 3)", found="none", remedy=remedy)
        kind = self.library.bf16()
        if kind is None:
            what = "this processor cannot multiply bfloat16 numbers"
            raise CaffeliteError(what, expected="AVX-512, better AMX", remedy="use fp32")
        if kind == "emulated":
            log.warning(
                "This processor has no bfloat16 instructions; -precision bf16 is imitated, and slower than fp32"
            )

    @functools.cached_property
    def arithmetic(self) -> str:
        parts = [processor.name()]
        if self.library:
            version = ".".join(map(str, self.library.version))
            parts.append(f"oneDNN {version} for instruction sets {self.library.instructions:x}")
        return ", ".join([*parts, *(f"{name} {metadata.version(name)}" for name in ("numba", "numpy", "scipy"))])

    def build(self, op: ops.Operation[T]) -> T:
        return BUILDERS.build(self, op)

    def run_concurrently(self, work: int, *functions: Callable[[], None]) -> None:
        """Calls functions with independent operations."""
        for function in functions:
            function()

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

    def ring(self, rows: int, width: int = 1) -> input_buffer.Ring:
        return input_buffer.Ring(self, rows, width)

    def why_eager(self) -> str:
        return self.eager

    def drop_graphs(self) -> None:
        """Does nothing: there are none."""


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
