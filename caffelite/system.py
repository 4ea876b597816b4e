"""Cores, disk space, signals and the cache folder of this machine, also where the system is not Linux."""

import ctypes
import errno
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from .errors import CaffeliteError

HOME = str(Path(__file__).resolve().parents[1])  # the folder of the package
PR_SET_PDEATHSIG = 1


def usable_cores() -> list[int]:
    """The cores that this process may use, by number; all of the machine where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def processor_limit() -> float | None:
    """How many cores' time this process may use at most, as containers are limited; None: all of its cores' (Linux's
    control groups)."""
    folders = [Path("/sys/fs/cgroup")]
    with suppress(OSError):
        own = [line[3:] for line in Path("/proc/self/cgroup").read_text().split("\n") if line.startswith("0::")]
        folders += [folders[0] / path.lstrip("/") for path in own]
    limits = []
    for folder in folders:
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            limits.append(int(quota) / int(period))  # a quota "max" is no number
        with suppress(OSError, ValueError):
            quota, period = ((folder / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
            limits.append(int(quota) / int(period))
    return min((limit for limit in limits if limit > 0), default=None)


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


def descendants(process: int) -> list[int]:
    """The ids of a process and of all that it started, directly or not, and that run (Linux; elsewhere its own)."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    ids = [process]
    for each in ids:  # which grows
        ids += children.get(each, [])
    return ids


def kill_tree(process: int) -> None:
    """Kills a process and all that it started, by their ids; those too that have sessions of their own."""
    before: list[int] = []
    while (ids := descendants(process)) != before:  # a process that is stopped starts no other
        before = ids
        for each in ids:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
    for each in before:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def private_folder(folder: Path, variable: str) -> None:
    """Makes a folder of compiled code, mode 700. variable: of the environment, that names another one. Errors: OSError;
    CaffeliteError for a folder that is another user's, or that others can write."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
        what = f"other users can write {folder}, from which code is loaded"
        remedy = f"remove {folder}, which is made anew, or name another one in the environment variable {variable}"
        raise CaffeliteError(what, expected="mode 700, owned by you", remedy=remedy)


def cache_folder() -> Path:
    """$CAFFELITE_CACHE, else caffelite in the user's cache folder, else a temporary one. Errors: CaffeliteError where
    other users can write it: compiled code is loaded from it."""
    chosen = os.environ.get("CAFFELITE_CACHE")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caffelite"
    try:
        private_folder(home, "CAFFELITE_CACHE")
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


def command(arguments: Sequence[str], directory: str | os.PathLike[str] | None = None) -> list[str]:
    """The command line of ``caffelite ARGUMENTS`` in a process of this Python. directory: the working directory, to
    which it changes when the package is imported: start it in HOME, with ``environment``. Default: where it starts."""
    change = f"import os; os.chdir({os.fspath(directory)!r}); " if directory is not None else ""
    return python(f"from caffelite.cli import main; {change}main()", *arguments)


def environment() -> dict[str, str]:
    """The variables for a process that starts in another folder: folders that name code are those that they are
    here."""
    variables = dict(os.environ)
    for name in ("PYTHONPATH", "CAFFELITE_PYTHON"):
        if name in variables:
            folders = [os.path.abspath(part) for part in variables[name].split(os.pathsep) if part]
            variables[name] = os.pathsep.join(folders)
    return variables


def python(code: str, *arguments: str) -> list[str]:
    """The command line of a process of this Python that runs code, which may import caffelite."""
    # -P: nothing is imported from the current folder; the package is found where it is, installed or not.
    return [sys.executable, "-P", "-c", f"import sys; sys.path.append({HOME!r}); {code}", *arguments]


def bound_to(parent: int) -> Callable[[], None] | None:
    """Called in a child before it becomes another program, so that it receives SIGTERM when its parent process
    ends (Linux; elsewhere None)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # gone already
            os.kill(os.getpid(), signal.SIGTERM)

    return bind
