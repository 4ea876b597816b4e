"""Who may use a device: one thread at a time, of the process that opened it."""

import os
import threading
from types import TracebackType

from ..errors import CaffeliteError


class _Process:
    """opened: whether this process has a device; forked: whether it began as a copy of one that had."""

    opened = forked = False


class Forked(CaffeliteError):
    """A device is used in a process that was forked from one that had opened a device."""


def _after_fork() -> None:
    _Process.forked |= _Process.opened


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def check_process() -> None:
    """Errors: this process was forked from one that had opened a device; threads of OpenMP, of BLAS and of CUDA do not
    exist in the copy, and waiting for them would hang."""
    if _Process.forked:
        raise Forked(
            "this process was forked from one that had opened a net: a net cannot be used or opened here",
            remedy='start workers by spawn, multiprocessing.get_context("spawn"), and open a net in each; or open none '
            "before the workers start",
        )


class DeviceLock:
    """Held by the thread that uses a device; the same thread may take it again. Errors: in a process forked from one
    that had opened a device."""

    def __init__(self) -> None:
        check_process()
        _Process.opened = True
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True) -> bool:
        """Whether the lock is this thread's now; False only where it is another's and ``blocking`` is False."""
        if _Process.forked:
            check_process()
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
