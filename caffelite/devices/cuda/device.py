"""The GPU device."""

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .. import ops
from ..context import ExecutionContext
from ..dtypes import BFLOAT16, FLOAT16
from ..exclusive import DeviceLock
from ..traits import cuda_traits
from ..types import Gather
from . import (  # those that are not used register what they build
    convolution,  # noqa: F401
    correlation,  # noqa: F401
    cudnn,
    detection,  # noqa: F401
    input_buffer,
    packing,
    precisions,
    preprocessing,  # noqa: F401
    products,  # noqa: F401
    recurrent,  # noqa: F401
    regions,  # noqa: F401
    resizing,  # noqa: F401
    selection,  # noqa: F401
    sequences,  # noqa: F401
    windows,  # noqa: F401
)
from .backend import CuPyBackend
from .formula_kernels import FormulaKernels
from .graphs import CapturedGraph
from .interface import Backend
from .memory import FORKS
from .registry import BUILDERS
from .scaling import LossScale
from .streams import Fork

T = TypeVar("T")
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

    def __init__(
        self,
        number: int = 0,
        dtype: str = "float32",
        backend: Backend | None = None,
        precision: str = "tf32",
        deterministic: bool = False,
        eager: str = "",
    ):
        self.lock = DeviceLock()
        self.dtype = np.dtype(dtype)
        self.number = number
        self.deterministic = deterministic
        self.eager = eager
        self.backend = backend or CuPyBackend(number, strict=precision == "fp32")
        self.precision = precision = precisions.suited(precision, self.backend.capability, number)
        self.engine = self.backend.convolutions(precision == "fp32", deterministic)
        self.algorithms = self.engine.choices
        self.traits = traits = cuda_traits(precision, self.dtype.name, self.backend.capability, captures=not eager)
        self.half_dtype = FLOAT16 if precision == "fp16" else BFLOAT16
        if traits.half and not traits.half_images:
            log.warning("-precision %s: without tensor cores only inner products multiply 16-bit numbers", precision)
        self._workspace = self.empty(0, np.uint8)
        self._forks = [(Fork(self.backend), self.empty(0, np.uint8)) for _ in range(FORKS)]  # each with its workspace
        self.graphs = weakref.WeakSet()
        super().__init__()
        self.engine.kernel = self.kernel

    @property
    def arithmetic(self) -> str:
        """The GPU's model and cuDNN's version."""
        return f"{self.backend.model()}, cuDNN {cudnn.version()}"

    def build(self, op: ops.Operation[T]) -> T:
        return BUILDERS.build(self, op)

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
        inputs = input_buffer.InputBuffer(self, seed & 2**64 - 1)
        return ExecutionContext(inputs, self.backend.stream, packing=packing.Packing(self))

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
        return CapturedGraph(self, body, context, signature, gather)

    def ring(self, rows: int, width: int = 1) -> input_buffer.Ring:
        return input_buffer.Ring(self, rows, width)

    def why_eager(self) -> str:
        """Why something is not captured; "" where everything is."""
        return self.eager or next((graph.eager for graph in self.graphs if graph.eager), "")

    def drop_graphs(self) -> None:
        """Destroys all captured graphs; later calls capture again."""
        for graph in self.graphs:
            graph.close()
