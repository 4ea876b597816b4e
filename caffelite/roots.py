"""Opens and creates files below root folders, to which a request of a page or a process of a job is confined.

Strangers may have written what lies below the roots: any name may be a symbolic link, and may be exchanged for one
between two calls. So a path is resolved, and then opened from a descriptor of its root, name by name, following no
link: what was checked is what is open. Without confinement ``open`` and ``folder`` are the functions of the system.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from .errors import CaffeliteError, printable

REMEDY = "start the server with -root for its folder"
OWN = (Path(__file__).parent, Path(__file__).resolve().parent)  # this package
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
DESCRIPTORS = "/proc/self/fd"  # by which an open folder has a path (Linux)

StrPath = str | os.PathLike[str]


class Outside(CaffeliteError):
    """A path that is not below a root."""


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(frozen=True)
class Confinement:
    """roots: the folders below which every file must be, links resolved. own: folders of this program and its user,
    whose files may be opened by paths that begin with them; nothing else leads there."""

    roots: tuple[str, ...]
    own: tuple[str, ...]

    @classmethod
    def of(cls, roots: tuple[Path, ...], own: tuple[Path, ...] = ()) -> "Confinement":
        """roots, own: without this package, which is always one."""
        return cls(tuple(map(str, roots)), tuple(map(str, (*OWN, *own))))

    def located(self, path: StrPath, follow: bool) -> tuple[str, str] | None:
        """(root, path from there), links resolved, a link in the place of the last name only if ``follow``; None for a
        file of this program. Errors: Outside; OSError."""
        text = os.path.join(os.getcwd(), os.fspath(path))
        if "\0" in text:
            raise OSError(errno.EINVAL, "its name holds a NUL character", text)
        head, name = os.path.split(text)
        keeps = not follow and name not in ("", ".", "..")
        real = os.path.join(os.path.realpath(head), name) if keeps else os.path.realpath(text)
        roots = [root for root in self.roots if _below(real, root)]
        if roots and not any(_below(real, own) for own in self.own if not _below(roots[0], own)):
            root = min(roots, key=len)  # the folders between two roots are not trusted either
            return root, os.path.relpath(real, root)
        if any(_below(os.path.abspath(text), own) for own in self.own):
            return None
        raise outside(path)

    def descriptor(self, root: str, relative: str, make: bool, path: StrPath) -> int:
        """An open folder below a root. make: create what is missing. Errors: Outside where a name is a link by now."""
        opened = os.open(root, _SEARCH)
        try:
            for name in [] if relative == "." else relative.split("/"):
                if make:
                    try:
                        os.mkdir(name, dir_fd=opened)
                    except FileExistsError:
                        pass
                below = _open_below(name, _SEARCH, opened, path)
                os.close(opened)
                opened = below
        except BaseException:
            os.close(opened)
            raise
        return opened


def outside(path: StrPath) -> Outside:
    """The error for a path that is not below a root."""
    shown = f'"{printable(os.fspath(path), keep="")[:200]}"'
    return Outside("this path is not below a root of the server", found=shown, remedy=REMEDY)


def _open_below(name: str, flags: int, folder: int, path: StrPath, mode: int = 0o666) -> int:
    """Opens a name of an open folder that is no link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno in (errno.ENOTDIR, errno.EMLINK) and _is_link(name, folder)):
            raise outside(path) from None
        error.filename = os.fspath(path)
        raise


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


_of_process: Confinement | None = None
_of_request: ContextVar[Confinement | None] = ContextVar("confinement", default=None)


def confine(held: Confinement) -> None:
    """Confines this process, with all its threads, from now on."""
    global _of_process
    _of_process = held


@contextmanager
def confined(held: Confinement) -> Iterator[None]:
    """Confines what this thread, or this task, does within it."""
    token = _of_request.set(held)
    try:
        yield
    finally:
        _of_request.reset(token)


def current() -> Confinement | None:
    """The confinement of this thread; None where there is none."""
    return _of_request.get() or _of_process


def check(path: StrPath) -> None:
    """Refuses a path that is not below a root; it need not exist. Errors: Outside; OSError."""
    if held := current():
        held.located(path, follow=True)


def open(path: StrPath, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:  # noqa: A001 - as of os
    """A descriptor of a file, as of ``os.open``, also for the argument ``opener`` of Python's ``open``.

    A file that is written must be no link itself, and no FIFO or device. Errors: OSError; Outside.
    """
    held, flags = current(), flags | os.O_CLOEXEC
    writes = bool(flags & _WRITES)
    located = held.located(path, follow=not writes) if held else None
    if not held or not located:
        return os.open(path if not held else os.path.abspath(path), flags, mode)
    head, name = os.path.split(located[1])
    folder = held.descriptor(located[0], head or ".", False, path)
    try:
        opened = _open_below(name, flags | (os.O_NONBLOCK if writes else 0), folder, path, mode)
    finally:
        os.close(folder)
    if writes and not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return opened


def write(path: StrPath, content: bytes | str) -> None:
    """Writes a file, as ``Path.write_bytes``; a text in UTF-8. Errors: as for ``open``."""
    with os.fdopen(open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def folder(path: StrPath, make: bool = False) -> Iterator[Path]:
    """A path of a folder that stays the same folder within it, whatever becomes of the names above. make: create it,
    and the folders above, where they are missing.

    Names in it may still be links: use ``open`` for them. Only this process can use the path. Errors: OSError; Outside.
    """
    held = current()
    located = held.located(path, follow=True) if held else None
    if not held or not located:
        if make:
            os.makedirs(path, exist_ok=True)
        yield Path(path)
        return
    opened = held.descriptor(*located, make, path)
    try:
        yield Path(DESCRIPTORS, str(opened)) if os.path.isdir(DESCRIPTORS) else Path(*located)
    finally:
        os.close(opened)


@contextmanager
def named(path: StrPath, flags: int = os.O_RDONLY) -> Iterator[str]:
    """A name of a file for a library of this process, which opens it within the context: with confinement of the file
    that ``open`` gives. Errors: OSError; Outside."""
    if not current() or not os.path.isdir(DESCRIPTORS):
        yield os.fspath(path)
        return
    opened = open(path, flags)
    try:
        yield f"{DESCRIPTORS}/{opened}"
    finally:
        os.close(opened)


def walk(top: StrPath) -> Iterator[tuple[str, list[str], list[str]]]:
    """(path, names of folders, names of files) of a folder and those below it, as ``os.walk`` with followlinks. Errors:
    Outside for a link to a folder that is not below a root."""
    waiting = [os.fspath(top)]
    while waiting:
        path, folders, files = waiting.pop(), list[str](), list[str]()
        try:
            with folder(path) as opened, os.scandir(opened) as entries:
                for entry in entries:
                    (folders if _is_folder(entry) else files).append(entry.name)
        except OSError:
            continue
        yield path, folders, files
        waiting += [os.path.join(path, name) for name in reversed(folders)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
