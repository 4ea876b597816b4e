"""The lock of a run folder: held by the process that trains, and released by the kernel however that process ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path

from .. import inputs
from ..errors import CaffeliteError
from . import folder as files

ATTEMPTS, PAUSE = 20, 0.01  # a reader that looks at the lock holds it for an instant
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)


class FolderLock:
    """An flock on the file `lock` of a run folder, which names the process that holds it.

    The descriptor is closed in every child: one that is started (close-on-exec) and one that is forked. So the lock
    ends with the process that took it, and a child that outlives it does not hold it. ``works`` is False where the file
    system has no locks. Errors: CaffeliteError where another process holds the lock; OSError where the file cannot be
    written.
    """

    def __init__(self, folder: Path):
        self._descriptor = os.open(folder / files.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.works = True
        try:
            self._acquire(folder)
            text = json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode() + b"\n"
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))
        except BaseException:
            self.release()
            raise
        _held.add(self)

    def _acquire(self, folder: Path) -> None:
        for attempt in range(ATTEMPTS):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in _BUSY:
                    self.works = False  # the state of the run then follows from its heartbeat
                    return
                if attempt == ATTEMPTS - 1:
                    raise _refusal(folder) from None
                time.sleep(PAUSE)

    def release(self) -> None:
        """Releases the lock; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if descriptor >= 0:
            os.close(descriptor)


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a folder; False where there is no lock file, or no locks are supported."""
    try:
        descriptor = inputs.open_descriptor(folder / files.LOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(descriptor)
    return False


def _refusal(folder: Path) -> CaffeliteError:
    holder = files.read_json(folder / files.LOCK)
    who = f" (process {holder['process']} on {holder['host']})" if {"process", "host"} <= holder.keys() else ""
    remedy = "let it end, or give this run a folder of its own: -record DIR"
    return CaffeliteError(f"another run{who} writes its records to {folder}", remedy=remedy)
