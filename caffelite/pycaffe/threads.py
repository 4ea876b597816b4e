"""A net that several threads of a program call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ..devices.exclusive import DeviceLock, Forked
from ..errors import CaffeliteError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Locks = TypeVar("Locks", bound="InThreads")


def locked(
    method: Callable[Concatenate[Locks, Arguments], Result],
) -> Callable[Concatenate[Locks, Arguments], Result]:
    """A method during which other threads wait to use the net's device."""

    @functools.wraps(method)
    def call(self: Locks, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        with self.lock:
            return method(self, *arguments, **options)

    return call


class InThreads:
    """The lock of a net, and what a net says that cannot be used here. lock: what a thread holds while it uses the net,
    ``with net.lock: ...``; each call takes it by itself."""

    lock: DeviceLock
    _passes_running = 0
    _unusable: Forked | None = None  # why the net could not be opened

    def __reduce__(self) -> str:
        remedy = "open it from its files in each process or thread"
        raise TypeError(f"a net can be neither pickled nor copied; {remedy}, as Net(prototxt, caffemodel, TEST)")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Errors: that of a net which could not be opened, whatever is asked of it."""
            if error := self.__dict__.get("_unusable"):
                raise error
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def _wait_for_pass(self) -> None:
        """Takes the lock, which another thread has, for a pass that reads what was written into blobs before. Errors:
        that thread's pass runs over these blobs."""
        if self._passes_running:
            raise CaffeliteError(
                "two threads run this net at once, and its blobs are the same for both",
                remedy="hold its lock from writing the inputs to reading the outputs (with net.lock: ...), or pass "
                "arrays, forward(data=images), which return the call's own outputs",
            )
        self.lock.acquire()
