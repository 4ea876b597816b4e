"""Cores, disk space, signals and the cache folder of this machine, also where the system is not Linux."""

import errno
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


def usable_cores() -> list[int]:
    """The cores that this process may use, by number; all of the machine where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def yield_core() -> None:
    """Lets another process have this core."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)


def reserve(descriptor: int, start: int, count: int) -> None:
    """Reserves ``count`` bytes of an open file from ``start`` on; where the system cannot, only asks whether there is
    room. Errors: OSError where there is none."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, count)
        return
    room = os.fstatvfs(descriptor)
    if room.f_bavail * room.f_frsize < count:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def cache_folder() -> Path:
    """$CAFFELITE_CACHE, else caffelite in the user's cache folder, else a temporary one."""
    chosen = os.environ.get("CAFFELITE_CACHE")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caffelite"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="caffelite-"))


@contextmanager
def handling(numbers: Iterable[int], handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Within it a function handles these signals."""
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
