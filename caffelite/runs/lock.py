"""Locks of run folders and of queues: held by a process, and released by the kernel however that process ends."""

import errno
import fcntl
import json
import os
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from .. import inputs, roots, stored
from ..errors import CaffeliteError, printable
from . import folder as files

ATTEMPTS, PAUSE = 20, 0.01  # a reader that looks at the lock holds it for an instant
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)
_HOLDER = {"process": int, "host": str, "locked": bool}


class HeldByAnother(CaffeliteError):
    """Another process holds a lock."""


class FileLock:
    """An flock on a file, whose content describes the holder.

    The descriptor is closed in every child: one that is started (close-on-exec) and one that is forked. So the lock
    ends with the process that took it, and a child that outlives it does not hold it. ``works`` is False where the file
    system has no locks; it counts as held there from the writing of its file to its release, while the process lives.
    descriptor: one that this process inherited with its lock; else the file is opened. Errors: HeldByAnother; OSError
    where the file cannot be written.
    """

    def __init__(self, path: Path, content: dict[str, Any] | None = None, descriptor: int | None = None):
        self._path, self.works = path, True
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
            self._descriptor = descriptor
            self._acquire()  # it has the lock already, where there are locks
            _held.add(self)
            return
        self._descriptor = roots.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            self._acquire()
            self.describe(content or {})
        except BaseException:
            self.release()
            raise
        _held.add(self)

    def _acquire(self) -> None:
        for attempt in range(ATTEMPTS):
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in _BUSY:
                    self.works = False
                    return
                if attempt == ATTEMPTS - 1:
                    raise HeldByAnother(f"another process holds {self._path}") from None
                time.sleep(PAUSE)

    def describe(self, content: dict[str, Any]) -> None:
        """Writes the holder's process and host, and ``content``. Errors: OSError."""
        holder = {"process": os.getpid(), "host": socket.gethostname(), **content, "locked": self.works}
        text = json.dumps(holder).encode() + b"\n"
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def fileno(self) -> int:
        """The descriptor, for a child that is to inherit the lock."""
        return self._descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Releases the lock; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if descriptor < 0:
            return
        if not self.works and stored.read(self._path, _HOLDER).get("process") == os.getpid():
            os.ftruncate(descriptor, 0)
        os.close(descriptor)


class FolderLock(FileLock):
    """The lock of a run folder, held by the process that trains. Errors: CaffeliteError where another process holds it;
    OSError where the file cannot be written."""

    def __init__(self, folder: Path):
        try:
            super().__init__(folder / files.LOCK)
        except HeldByAnother:
            raise _refusal(folder) from None


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def is_held(folder: Path, name: str = files.LOCK) -> bool:
    """Whether a process holds the lock of a folder; False where there is no lock file. Where no locks are supported, a
    process of another host is not seen."""
    try:
        descriptor = inputs.open_descriptor(folder / name)
    except (OSError, roots.Outside):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _BUSY or _lives(folder / name)
    finally:
        os.close(descriptor)
    return False


def _lives(file: Path) -> bool:
    """Whether a process of this host lives that took a lock where the file system has none."""
    holder = stored.read(file, _HOLDER)
    if holder.get("locked", True) or holder.get("host") != socket.gethostname():
        return False
    with suppress(OSError):
        os.kill(holder.get("process") or 0, 0)
        return "process" in holder
    return False


def holds(process: int, file: Path) -> bool:
    """Whether a process has a file open, as the holder of a lock has."""
    try:
        status = os.stat(file)
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                opened = os.stat(f"/proc/{process}/fd/{name}")
                if (opened.st_dev, opened.st_ino) == (status.st_dev, status.st_ino):
                    return True
    except OSError:
        return False
    return False


def holder(file: Path) -> str:
    """The holder of a lock, as "process 12 on HOST"; empty where its file does not say."""
    content = stored.read(file, {"process": int, "host": str})
    return f"process {content['process']} on {printable(content['host'])}" if len(content) == 2 else ""


def _refusal(folder: Path) -> CaffeliteError:
    held_by = holder(folder / files.LOCK)
    who = f" ({held_by})" if held_by else ""
    remedy = "let it end, or give this run a folder of its own: -record DIR"
    return CaffeliteError(f"another run{who} writes its records to {folder}", remedy=remedy)
