"""The execution context: the state that each net on a shared device has separately."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from .links import Links
from .types import Array


class Field(Protocol):
    """One array of the input buffer, with separate values for each prepared pass."""

    @property
    def array(self) -> Array:
        """The values of the selected pass, on the device."""

    def set(self, which: int, values: np.ndarray) -> None:
        """Gives the field's values for pass ``which`` of those that are being prepared. They are read, not copied, on a
        CPU: they must not change until the pass has run."""

    def replace(self, values: np.ndarray) -> None:
        """Replaces the values of the selected pass, though it was sent."""

    def copy_to(self, target: Array) -> None:
        """Copies the values of the selected pass to an array of the same shape."""


class InputBuffer(Protocol):
    """The values that the host sends for each pass: batches, rates, the clock.

    ``begin``, set the fields for passes 0, 1, …, ``send``; then ``select`` chooses the pass that runs next. One set of
    passes can be prepared while the set before runs.
    """

    seed: int

    @property
    def depth(self) -> int:
        """How many passes can be prepared at once."""

    @property
    def clock(self) -> tuple[int, int]:
        """(iteration, micro-batch) of the selected pass. Waits for the device."""

    def field(self, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> Field:
        """Adds a field. dtype: None for the device's."""

    def require_depth(self, passes: int) -> None:
        """Allocates memory for at least so many passes at once, on a device that prepares several."""

    def begin(self) -> None:
        """Starts to prepare passes. All passes that were prepared before must have been queued."""

    def set_clock(self, which: int, iteration: int, micro_batch: int) -> None:
        """Sets the key of the random numbers of pass ``which``."""

    def send(self, count: int = 1) -> None:
        """Sends the first ``count`` passes and selects the first."""

    def select(self, which: int) -> None:
        """Selects the pass that is queued next."""

    def random_key(self, samples: int) -> Sequence[Any]:
        """The arguments of a random kernel that depend on seed and clock. samples: of one micro-batch."""


class Packing(Protocol):
    """Weights that convolutions need in another form."""

    def forward_pass(self) -> AbstractContextManager[None]:
        """Inside it they have that form; nothing may write weights."""

    def backward_pass(self, add: bool) -> AbstractContextManager[None]:
        """Inside it their gradients may have that form; nothing may read or write these."""


@dataclass(frozen=True)
class ExecutionContext:
    """Belongs to one net, which passes it to its layers before they build their operations. ``Device.make_context``
    makes it.

    input_buffer: the values that the host sends for each pass. stream: the device's stream of computation, None on a
    CPU, where an operation has finished when it returns. links: to the devices that hold the other shards and stages
    of the net; None where this device holds the complete net. packing: converts the weights of the net's convolutions
    and their gradients at once.
    """

    input_buffer: InputBuffer
    stream: Any = None
    links: Links | None = None
    packing: Packing | None = None

    def forward_pass(self) -> AbstractContextManager[None]:
        """Encloses a forward pass in which nothing but the device's operations writes."""
        return self.packing.forward_pass() if self.packing else nullcontext()

    def backward_pass(self, add: bool) -> AbstractContextManager[None]:
        """Encloses a backward pass of a net without shared parameters; nothing but one operation writes a parameter's
        gradient, which is complete at the end. add: all of them are accumulated."""
        return self.packing.backward_pass(add) if self.packing else nullcontext()

    @property
    def seed(self) -> int:
        """Key of the random numbers: 64 bits."""
        return self.input_buffer.seed

    @property
    def clock(self) -> tuple[int, int]:
        """(iteration, micro-batch) of the selected pass, also a key of the random numbers. Waits for the
        device."""
        return self.input_buffer.clock

    def set_clock(self, iteration: int, micro_batch: int) -> None:
        """Prepares and selects one pass that needs no other input."""
        self.input_buffer.begin()
        self.input_buffer.set_clock(0, iteration, micro_batch)
        self.input_buffer.send()
