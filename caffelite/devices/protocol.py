"""The interface of a device: what layers, nets and training call.

All devices have these members with these signatures: tests/devices/test_conformance.py compares them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from . import inference_ops, ops
from .context import ExecutionContext
from .exclusive import DeviceLock
from .formula_ops import FormulaDevice
from .traits import DeviceTraits
from .types import Array, Gather, Kernel, Shape

T = TypeVar("T")


class Event(Protocol):
    """A moment in the device's queue; only ``Device.elapsed_ms`` reads it."""


class Ring(Protocol):
    """A ring buffer on the device: the last rows that were appended."""

    def __len__(self) -> int:
        """Rows that it holds at most."""

    def append(self, source: Array, divisor: float = 1.0, clear: bool = False) -> None:
        """Appends source / divisor. clear: source becomes 0."""

    def reset(self, rows: np.ndarray) -> None:
        """Holds these rows (count, width) and no others."""

    def last(self, count: int, total: int) -> np.ndarray:
        """The last ``count`` rows, oldest first. total: how many were ever appended. Waits for the device."""


class CapturedGraph(Protocol):
    """A function that only queues operations. A device may capture these and launch them as a graph afterwards."""

    eager: str  # why it is not captured; "" where it is

    def __call__(self, *key: Any) -> None:
        """Queues what the function queues for this key."""


class LossScale(Protocol):
    """Dynamic loss scaling: the factor that keeps gradients of 16-bit numbers in range. Arrays of one number each.

    factor: of the loss, and so of all gradients. inverse: an update multiplies gradients by it. skip: 1 where this
    iteration's gradients are not finite and nothing may be updated.
    """

    factor: Array
    inverse: Array
    skip: Array

    def check(self, gradients: Array) -> None:
        """Tests whether all gradients, one flat array, are finite, and adapts inverse, skip and the next factor."""

    def check_square(self, square: Array) -> None:
        """The same from the sum of their squares."""

    def load(self, factor: float, good: int = 0) -> None:
        """Continues from a factor after ``good`` iterations in a row with finite gradients."""

    def state(self) -> tuple[float, int]:
        """The factor, and how many iterations in a row had finite gradients: what ``load`` takes. Waits for the
        device."""


class Algorithms(Protocol):
    """The algorithms that were chosen by measuring."""

    def shared(self, rank: int, gather: Callable[[Any], list[Any]]) -> AbstractContextManager[None]:
        """Inside it all processes use the algorithms that the process of rank 0 chooses."""

    def recorded(self) -> list[str]:
        """All of them, for a checkpoint."""

    def restore(self, lines: Iterable[str]) -> None:
        """Takes those that a checkpoint recorded, before the first pass."""


class Watch(Protocol):
    """Detects changes of arrays."""

    def changed(self) -> bool:
        """Whether the arrays have changed since the last call; True at first."""


class Joined(Protocol):
    """Several operations in one call. threads: the number that it is to run on."""

    threads: int

    def __call__(self) -> None: ...


class Inference(Protocol):
    """What nets that only test need beside ``ops.PreparedConvolution``. every: the number of all threads."""

    every: int

    def watch(self, arrays: Sequence[Array]) -> Watch: ...

    def threads(self, multiply_adds: int, numbers: int, weights: int) -> int:
        """How many threads a step pays for. numbers: those that it reads and writes, but for the weights, which are
        constant."""

    def can_join(self, call: inference_ops.Call) -> bool:
        """Whether ``joined`` takes a call that has run: its operation is one of inference_ops.py, an ``ops.Pooling``,
        or what was built of an ``ops.PreparedConvolution``."""

    def joined(self, calls: Sequence[inference_ops.Call], arena: inference_ops.Arena) -> Joined:
        """One call for several that run one after the other. Where samples run one by one, tops are in the arena that
        has an offset for them, and their arrays are not written."""

    def limit(self, threads: int) -> None:
        """The operations that run from now on use so many threads."""


class Device(FormulaDevice, Protocol):
    """Allocates arrays and builds operations.

    Operations of one device run one after the other, in the order of their calls; only ``download``, ``synchronize``
    and methods whose docstrings say so wait for them. One thread at a time uses a device; programs with several hold
    ``lock`` while they do.
    """

    lock: DeviceLock

    traits: DeviceTraits
    name: str
    number: int | None  # which GPU, None for a CPU
    dtype: np.dtype[Any]  # of arrays where no other is given: float32 or float64
    precision: str  # of products: fp32, tf32, fp16 or bf16
    eager: str  # why nothing is captured; "" where functions are captured
    inference: Inference | None  # where the traits say ``prepares_convolutions``
    algorithms: Algorithms | None  # where algorithms that the numbers depend on are chosen by measuring

    @property
    def arithmetic(self) -> str:
        """What the last bits of numbers depend on: the kind of processor or GPU, and the libraries that compute."""

    def build(self, op: ops.Operation[T]) -> T:
        """What runs an operation; None for an ``OptionalOperation`` that the device has no kernels for."""

    # memory

    def empty(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array: ...

    def zeros(self, shape: Shape | int, dtype: DTypeLike | None = None) -> Array: ...

    def view(self, raw: Array, offset: int, shape: Shape, dtype: DTypeLike | None = None) -> Array:
        """An array over bytes of ``raw`` (uint8) from ``offset``, which must satisfy the dtype's alignment. BFLOAT16
        means the device's 16-bit dtype, which is float16 where the precision is fp16."""

    def upload(self, array: Array, host: np.ndarray) -> None:
        """array = host, broadcast and converted to the array's dtype."""

    def download(self, array: Array) -> np.ndarray:
        """A copy on the host. Waits for the device."""

    def copy(self, source: Array, target: Array) -> None:
        """target = source, of equal size and dtype."""

    def assign(self, source: Array, target: Array) -> None:
        """target = source; both may be views (slices, transposes) that do not overlap; source is broadcast."""

    def add(self, source: Array, target: Array) -> None:
        """target += source; views as in ``assign``, but arrays of 16-bit numbers are contiguous."""

    def fill(self, array: Array, value: float) -> None: ...

    def transpose(self, source: Array, target: Array) -> None:
        """target (N, B, A) = source (N, A, B) with the last two axes swapped."""

    def copy_into(self, source: Array, target: Array, start: int) -> None:
        """target[:, start : start + S] = source, of target (R, T) and source (R, S)."""

    def copy_out(self, source: Array, start: int, target: Array, more: Sequence[Array] = ()) -> None:
        """target = source[:, start : start + S] + the same columns of at most 7 arrays ``more``."""

    def conversions(self) -> tuple[Kernel, Kernel]:
        """``to_half(x, y)`` rounds float32 numbers to 16 bits, ``to_float(x, y)`` converts them back."""

    def to_float32(self, array: Array) -> Array:
        """A float32 copy of an array of 16-bit numbers."""

    def workspace(self, count: int, dtype: DTypeLike | None = None) -> Array:
        """Scratch memory that all operations share, valid until the operation returns: request it on every run."""

    # time and order

    def synchronize(self) -> None:
        """Returns when all operations have finished."""

    def record_event(self) -> Event: ...

    def elapsed_ms(self, begin: Event, end: Event) -> float:
        """Milliseconds from one event to another. Waits for the later one."""

    def run_concurrently(self, work: int, *functions: Callable[[], None]) -> None:
        """Calls functions with independent operations. work: multiply-adds of each; a GPU runs them at the same time
        where each is small."""

    # execution

    def make_context(self, seed: int = 0) -> ExecutionContext:
        """The context of a net. seed: key of its random numbers, 64 bits."""

    def ring(self, rows: int, width: int = 1) -> Ring: ...

    def loss_scale(self, start: float | None) -> LossScale | None:
        """Dynamic loss scaling that starts from this factor (None: the default); None where no precision needs it."""

    def capture(
        self,
        body: Callable[..., None],
        context: ExecutionContext,
        signature: Callable[[], tuple[Any, ...]] = tuple,
        gather: Gather | None = None,
    ) -> CapturedGraph:
        """A function that does the same as ``body(*key)``, which must only queue operations.

        context: of the net with the inputs that the body reads. signature: values besides the key that the queued
        arguments depend on. gather: where the body queues sums over processes, so that all capture in the same call.
        """

    def why_eager(self) -> str:
        """Why something is not captured; "" where everything is."""

    def drop_graphs(self) -> None:
        """Destroys all captured graphs; later calls capture again."""
