"""Writes files and folders beside their names and exchanges both by one call, so that a name has at every instant the
whole old content or the whole new one, also after a kill.

While a path is written it has a hidden folder beside it, .NAME.writing: `lock`, held by the process that writes; the
draft, in `new`; `set`, while the paths of one call get their names: the paths, and what was and is to be there. What a
draft replaces stays in that folder until all paths of the call have their new content. Who writes to a path next gives
it the content back that it had before a killed call, and removes the folder.
"""

import ctypes
import errno
import fcntl
import functools
import hashlib
import json
import logging
import os
import secrets
import shutil
import signal
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from .. import roots, stored
from ..errors import CaffeliteError, Where
from ..system import handling

LONGEST_NAME = 255  # bytes
SUFFIX = ".writing"
NO_REPLACE, EXCHANGE = 1, 2  # flags of renameat2
CURRENT_FOLDER = -100  # AT_FDCWD
UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
STATES = [([int], None)]
JOURNAL = {"id": str, "paths": [str], "before": STATES, "after": STATES}

log = logging.getLogger("caffelite")


def check_free(paths: Iterable[Path], force: bool) -> None:
    """Refuses paths that another process writes now and, unless force, that exist. What killed processes left of them
    is undone."""
    paths = list(paths)
    for path in paths:
        if os.path.lexists(_folder(path)):
            try:
                _Draft(path).remove()
            except OSError as mistake:
                raise _unwritable(path, mistake) from None
    _check_absent(paths, force)


def final(path: Path) -> Path:
    """The name that a draft gets; of another path itself."""
    folder = path.parent.parent
    if path.parent.name != "new" or not folder.name.endswith(SUFFIX):
        return path
    above = os.fspath(folder.parent)
    return final(Path(os.path.realpath(above) if above.startswith(roots.DESCRIPTORS) else above) / path.name)


@contextmanager
def together(paths: Sequence[Path], force: bool) -> Iterator["Drafts"]:
    """Drafts of files and folders, by path, that get their names when the context ends: all of them or none. A path
    that has no draft then is removed. After an error, SIGTERM or SIGHUP all paths are as they were, without the folders
    that were made for them. Errors: a path exists and not force; another process writes to it."""
    check_free(paths, force)
    above = {folder for path in paths for folder in path.parents}
    made = sorted((folder for folder in above if not folder.exists()), reverse=True)
    with _ending_in_order(), ExitStack() as failed:
        failed.callback(_remove_empty, made)
        drafts = Drafts(force)
        try:
            drafts.claim(paths)
            yield drafts
            drafts.commit()
            failed.pop_all()
        except OSError as mistake:
            raise drafts.explained(mistake) from None
        finally:
            drafts.close()


@contextmanager
def atomic(path: Path, folder: bool = False, force: bool = True) -> Iterator[Path]:
    """The draft of one path, which gets its name when the context ends. folder: it is a folder, which is there
    already. Errors: as for ``together``; the draft is missing at the end."""
    try:
        with together([path], force) as drafts:
            if folder:
                drafts[path].mkdir()
            yield drafts[path]
            if not os.path.lexists(drafts[path]):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except OSError as mistake:
        raise _unwritable(path, mistake) from None


def remove(path: Path) -> None:
    """Removes a file or a folder, where it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class Drafts:
    """The drafts of the paths of one call."""

    def __init__(self, force: bool):
        self._force = force
        self._drafts: dict[Path, _Draft] = {}
        self._placed: list[_Draft] = []
        self._journal: dict[str, Any] = {}

    def __getitem__(self, path: Path) -> Path:
        return self._drafts[path].new

    def claim(self, paths: Sequence[Path]) -> None:
        for path in paths:
            try:
                with roots.folder(path.parent, make=True):
                    self._drafts[path] = _Draft(path)
            except OSError as mistake:
                raise _unwritable(path, mistake) from None

    def explained(self, mistake: OSError) -> Exception:
        """The error on a draft that cannot be written, or of a full disk; another one as it is."""
        name = Path(os.fsdecode(mistake.filename)) if isinstance(mistake.filename, str | bytes) else None
        for path, draft in self._drafts.items():
            if name and draft.new in (name, *name.parents):
                return _unwritable(path, mistake)
        full = mistake.errno in FULL and name is None
        return _unwritable(next(iter(self._drafts)), mistake) if full and self._drafts else mistake

    def place(self) -> None:
        """Gives the drafts that are there their names, before the context ends; an error undoes it."""
        self._place([draft for draft in self._waiting() if os.path.lexists(draft.new)])

    def _waiting(self) -> list["_Draft"]:
        return [draft for draft in self._drafts.values() if draft not in self._placed]

    def _place(self, ready: list["_Draft"]) -> None:
        _check_absent([draft.path for draft in ready], self._force)
        for draft in ready:
            draft.sync()
        self._write_journal(ready)
        for draft in ready:
            try:
                draft.place(self._force)
            except OSError as mistake:
                raise _unwritable(draft.path, mistake) from None
            self._placed.append(draft)

    def _write_journal(self, ready: list["_Draft"]) -> None:
        drafts = list(self._drafts.values())
        if not self._journal:
            before = [_identity(draft.at) for draft in drafts]
            paths = [str(path.absolute()) for path in self._drafts]
            self._journal = {"id": secrets.token_hex(8), "paths": paths, "before": before, "after": before}
        after = zip(drafts, self._journal["after"], strict=True)
        self._journal["after"] = [_identity(draft.new) if draft in ready else state for draft, state in after]
        for draft in drafts:
            draft.write_journal(self._journal)

    def commit(self) -> None:
        """Gives all drafts their names; from here on nothing is undone."""
        self._place(self._waiting())
        for draft in self._drafts.values():
            draft.forget()

    def close(self) -> None:
        """Undoes what is not committed, and removes all but the paths themselves."""
        drafts = list(self._drafts.values())
        if drafts and drafts[0].in_set:
            drafts[0].undo({draft.path.absolute(): draft for draft in drafts})
        for draft in drafts:
            draft.remove()


class _Draft:
    """The hidden folder of a path that this process writes, locked. at: the path; where this process is confined, it is
    by the open folder above. Errors: another process writes to the path; OSError."""

    def __init__(self, path: Path, found: bool = True):
        """found: what a killed process left is undone."""
        self._above = ExitStack()
        self.path, self.at = path, self._above.enter_context(roots.folder(path.parent)) / path.name
        self.folder = _folder(self.at)
        self.new, self.old = self.folder / "new" / path.name, self.folder / "old"
        self._journal = self.folder / "set"
        try:
            self._lock = _lock(path, self.folder)
        except BaseException:
            self._above.close()
            raise
        if not found:
            return
        try:
            left = [name for name in os.listdir(self.folder) if name != "lock"]
            if self.in_set:
                self._undo_killed()
            for name in left:
                remove(self.folder / name)
            if left:
                hidden = path.with_name(self.folder.name)
                log.warning("%s: removed, a process that was killed while it wrote %s left it", hidden, path)
            self.new.parent.mkdir(mode=0o700)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Gives up the lock."""
        _close(self._lock)
        self._above.close()

    @property
    def in_set(self) -> bool:
        return self._journal.exists()

    def sync(self) -> None:
        """Writes a draft that is a file to the disk: its name must not get there first."""
        if self.new.is_file() and not self.new.is_symlink():
            descriptor = os.open(self.new, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def write_journal(self, content: dict[str, Any]) -> None:
        draft = self.folder / "set.draft"
        draft.write_text(json.dumps(content))
        os.replace(draft, self._journal)

    def place(self, force: bool) -> None:
        new, there = os.path.lexists(self.new), os.path.lexists(self.at)
        if new and there and force:
            _exchange(self.new, self.at, self.old)
        elif new:
            _rename_new(self.new, self.at)
        elif there:
            os.rename(self.at, self.old)

    def forget(self) -> None:
        self._journal.unlink(missing_ok=True)

    def undo(self, others: dict[Path, "_Draft"]) -> None:
        """Gives all paths of the set their content of before; where one has neither that nor the new one, all stay as
        they are. others: the drafts of the set by path."""
        journal = stored.read(self._journal, JOURNAL)
        entries = [
            (others[Path(path)], before, after)
            for path, before, after in zip(journal["paths"], journal["before"], journal["after"], strict=True)
            if Path(path) in others
        ]
        if all(_identity(draft.at) in (before, after, None) for draft, before, after in entries):
            for draft, before, _ in entries:
                draft._put_back(before)
        for draft, _, _ in entries:
            draft.forget()

    def _put_back(self, before: list[int] | None) -> None:
        current = _identity(self.at)
        old = self.old if os.path.lexists(self.old) else self.new
        if current == before:
            return
        if before is None:
            os.rename(self.at, self.folder / "undone")
        elif _identity(old) == before:
            if current is None:
                os.rename(old, self.at)
            else:
                _exchange(old, self.at, self.folder / "undone")

    def _undo_killed(self) -> None:
        """Undoes the set of a killed process, unless all of it has its names: then the first path's folder forgot
        it."""
        journal = stored.read(self._journal, JOURNAL)
        paths = [Path(path) for path in journal.get("paths", ())]
        if journal.keys() != JOURNAL.keys():
            return
        drafts = {self.path.absolute(): self}
        with ExitStack() as opened:
            for path in paths:
                if path not in drafts and os.path.lexists(_folder(path)):
                    draft = _Draft(path, found=False)
                    if draft._set_id() == journal["id"]:
                        drafts[path] = draft
                        opened.callback(draft.remove)
                    else:
                        draft.release()
            if paths and paths[0] in drafts:
                drafts[paths[0]].undo(drafts)
                names = ", ".join(str(path) for path in paths)
                log.warning("%s: as before again, a process was killed while it replaced them", names)

    def _set_id(self) -> object:
        return stored.read(self._journal, JOURNAL).get("id")

    def remove(self) -> None:
        """Removes the hidden folder, the lock last: until then nobody else has it."""
        with suppress(OSError):
            for name in os.listdir(self.folder):
                if name != "lock":
                    remove(self.folder / name)
            (self.folder / "lock").unlink()
            self.folder.rmdir()
        self.release()


def _folder(path: Path) -> Path:
    name = os.fsencode(path.name)
    room = LONGEST_NAME - len(SUFFIX) - 1
    if len(name) > room:
        name = name[: room - 9] + b"." + hashlib.sha256(name).hexdigest()[:8].encode()
    return path.with_name(f".{os.fsdecode(name)}{SUFFIX}")


def _check_absent(paths: Iterable[Path], force: bool) -> None:
    for path in paths:
        if not force and os.path.lexists(path):
            raise Where(str(final(path))).error("already exists", remedy="give --force to replace it")


def _identity(path: Path) -> list[int] | None:
    """What tells a file's content from another one's; None where there is no file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    folder = path.is_dir() and not path.is_symlink()
    return [status.st_ino] if folder else [status.st_ino, status.st_size, status.st_mtime_ns]


def _unwritable(path: Path, mistake: OSError) -> CaffeliteError:
    return Where(str(final(path))).error(f"cannot write: {mistake.strerror or mistake}")


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError, roots.Outside), roots.folder(folder.parent) as above:  # another process uses it
            (above / folder.name).rmdir()


# locks

_locks: "weakref.WeakSet[_Lock]" = weakref.WeakSet()


class _Lock:
    """An open lock file."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        _locks.add(self)


def _close(lock: _Lock) -> None:
    _locks.discard(lock)
    descriptor, lock.descriptor = lock.descriptor, -1
    if descriptor >= 0:
        os.close(descriptor)


def _close_in_child() -> None:
    for lock in list(_locks):
        _close(lock)


os.register_at_fork(after_in_child=_close_in_child)  # a child that outlives its parent must not hold the lock


def _lock(path: Path, folder: Path) -> _Lock:
    """Makes the hidden folder of a path and locks it, where the file system has locks."""
    file = folder / "lock"
    while True:
        try:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                raise Where(str(path.with_name(folder.name))).error("is no folder", remedy="remove it")
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # who wrote last has just removed the folder
            if not folder.parent.is_dir():
                raise
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            os.close(descriptor)
            what = f"process {holder} writes it now" if holder else "another process writes it now"
            raise Where(str(final(path))).error(what, remedy="wait for its end, or choose another name") from None
        except OSError as mistake:
            if mistake.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                os.close(descriptor)
                raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):  # else it was removed before it was locked
                os.pwrite(descriptor, b"%d" % os.getpid(), 0)
                return _Lock(descriptor)
        os.close(descriptor)


# renames


@functools.cache
def _renameat2() -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _rename_by(flag: int, old: Path, new: Path) -> bool:
    """Renames with a flag; False where the system or the file system cannot. Errors: OSError."""
    call = _renameat2()
    if call is None:
        return False
    if not call(CURRENT_FOLDER, os.fsencode(old), CURRENT_FOLDER, os.fsencode(new), flag):
        return True
    number = ctypes.get_errno()
    if number in UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(new))


def _exchange(new: Path, path: Path, old: Path) -> None:
    """Exchanges two files or folders. Where the system cannot, what was at path comes to old: of a file in one call
    too; a folder is missing for an instant."""
    if _rename_by(EXCHANGE, new, path):
        return
    if not path.is_dir() and not new.is_dir():
        with suppress(OSError):  # a file system without hard links
            os.link(path, old, follow_symlinks=False)
            os.replace(new, path)
            return
    os.rename(path, old)
    os.rename(new, path)


def _rename_new(new: Path, path: Path) -> None:
    """Renames a file or folder to a name that is free. Errors: FileExistsError."""
    if _rename_by(NO_REPLACE, new, path):
        return
    if not new.is_dir():
        with suppress(PermissionError, NotImplementedError):  # a file system without hard links
            os.link(new, path, follow_symlinks=False)
            new.unlink()
            return
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    os.rename(new, path)


# signals


class _Ended(SystemExit):
    pass


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP, where they would end the process at once, let it clean up first."""
    numbers: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        numbers = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Ended(128 + number)

    try:
        with handling(numbers, stop):
            yield
    except _Ended as ended:
        if numbers:
            os.kill(os.getpid(), int(str(ended.code)) - 128)
        raise
