"""Who may use a device: one thread at a time, of the process that opened it."""

import _thread
import os

from ..errors import CaffeliteError


class _Process:
    """opened: whether this process has a device; forked: whether it began as a copy of one that had."""

    opened = forked = False


class Forked(CaffeliteError):
    """A device is used in a process that was forked from one that had opened a device."""


def _after_fork() -> None:
    if _Process.opened:
        _Process.forked = True
        for name in ("acquire", "__enter__"):
            setattr(DeviceLock, name, _refuse)


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


class DeviceLock(_thread.RLock):  # type: ignore[misc]  # final in the stubs alone
    """Held by the thread that uses a device; the same thread may take it again. Taking it is the lock's own code in C,
    since a pass of a small net takes some ten microseconds. Errors: in a process forked from one that had opened a
    device."""

    def __init__(self) -> None:
        check_process()
        _Process.opened = True


def _refuse(self: DeviceLock, *arguments: object) -> None:
    check_process()
