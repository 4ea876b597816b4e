"""What the GPU device asks of CUDA. CuPyBackend does it, the tests' backend on the host; that of tools/ records it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..choices import Choices
from ..types import Array

Stream: TypeAlias = Any  # of CuPy, or what the backend has instead
Event: TypeAlias = Any


class Convolutions(Protocol):
    """Plans of convolutions: see cudnn.Engine."""

    choices: Choices | None
    kernel: Callable[..., Any] | None

    def plan(self, problem: Any) -> Any: ...

    def why_none(self, problem: Any) -> str: ...

    def name(self, problem: Any) -> str: ...

    def choose(self, problem: str, ways: Mapping[str, Callable[[], None]]) -> str: ...


class Backend(Protocol):
    """One GPU. Everything runs on ``stream`` and its forks, so that an iteration can be captured."""

    name: str
    capability: tuple[int, int]  # compute capability
    stream: Stream

    def model(self) -> str:
        """The GPU's kind, as its driver names it."""

    def here(self) -> None:
        """Makes the GPU and the stream in use the calling thread's."""

    def use(self, stream: Stream) -> None:
        """What follows is queued on that stream."""

    def new_stream(self) -> Stream:
        """Creates a stream that runs concurrently with ``stream``."""

    def new_event(self) -> Event: ...

    def record_event(self) -> Event:
        """An event with a time."""

    def elapsed_ms(self, begin: Event, end: Event) -> float:
        """Waits for the end."""

    def synchronize(self) -> None:
        """Waits for the stream."""

    def free_bytes(self) -> int: ...

    def empty(self, shape: Any, dtype: Any) -> Array: ...

    def view(self, raw: Array, offset: int, shape: Any, dtype: Any) -> Array: ...

    def pinned(self, shape: Any, dtype: Any) -> np.ndarray:
        """Host memory that a GPU reads directly."""

    def upload(self, array: Array, host: np.ndarray, stream: Stream = None) -> None:
        """Pinned memory must stay as it is until the stream has passed; other memory is free at once."""

    def download(self, array: Array) -> np.ndarray: ...

    def copy(self, source: Array, target: Array) -> None:
        """Of contiguous arrays."""

    def assign(self, source: Array, target: Array) -> None:
        """target = source, broadcast; views of any strides."""

    def add(self, source: Array, target: Array) -> None:
        """target += source, broadcast; views of any strides. Not of bfloat16, which is stored as its bits."""

    def address(self, array: Array) -> int: ...

    def fill(self, array: Array, value: float) -> None: ...

    def kernel(self, source: str, name: str) -> Callable[..., None]:
        """``launch(grid, block, args)``: args are arrays and NumPy scalars of the parameters' very types."""

    def capture(self, body: Callable[[], None]) -> Any:
        """Captures what body queues as a graph; ``launch()`` queues it again. Capture runs nothing. body must not
        allocate, copy to or from host memory that is not pinned, or wait."""

    def convolutions(self, strict: bool, deterministic: bool) -> Convolutions:
        """The plans of convolutions. strict: in full float32; deterministic: with bit-equal results in every run."""

    def matmul(
        self,
        a: Array,
        b: Array,
        c: Array,
        m: int,
        n: int,
        k: int,
        trans_a: bool = False,
        trans_b: bool = False,
        add: bool = False,
    ) -> None:
        """c (m, n) = op(a) op(b) [+ c], contiguous, row-major; a (m, k) or, transposed, (k, m); b (k, n) or,
        transposed, (n, k).

        a and b have the same dtype, which may have 16 bits; c has theirs, or float32.
        """
