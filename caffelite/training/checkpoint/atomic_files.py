"""Writes checkpoint files atomically: at every instant one complete pair of model and state is on disk.

Each file is written to a draft, synced and renamed; the state comes last. The files that a pair replaces keep a backup
name until the new state has its name; `snapshot.read_model` finds a model under its backup name.
"""

import contextlib
import errno
import glob
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ... import roots
from ...errors import CaffeliteError, Locator, quoted
from ...system import reserve

Files = Iterable[tuple[Path, Iterable[bytes | memoryview]]]

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
TRIES = (2.0, 5.0)  # seconds before a snapshot is written again after an error of input or output, which may pass
CONTINUE = "then resume from the last snapshot with -snapshot"


log = logging.getLogger("caffelite")


class Unwritable(CaffeliteError):
    """A file cannot be written. number: errno's."""

    number = 0


def write_again(make: Callable[[], Files], pauses: Sequence[float] | None = None) -> None:
    """``write`` of new files from ``make``, again after each pause (None: TRIES) where the disk failed with EIO."""
    for pause in TRIES if pauses is None else pauses:
        try:
            return write(make())
        except Unwritable as error:
            if error.number != errno.EIO:
                raise
            log.warning("%s; the snapshot is written again in %g s", error.what, pause)
            time.sleep(pause)
    write(make())


def write(files: Files) -> None:
    """Writes all files or none, each from chunks of its bytes: drafts of all of them are on disk before the first is
    renamed, in the order given.

    On a failure the files from before are restored. Errors: CaffeliteError with the reason.
    """
    drafts: list[tuple[Path, Path]] = []
    backups: list[tuple[Path, Path]] = []
    finished, path = False, Path()
    try:
        for path, chunks in files:
            drafts.append((draft_of(path), path))
            _write_draft(drafts[-1][0], chunks)
        for _, path in drafts[:-1]:
            if path.exists():
                backups.append((backup_of(path), path))
                _rename(path, backups[-1][0])
        for draft, path in drafts:
            _rename(draft, path)
            finished = path == drafts[-1][1]
            sync_folder(path.parent)
    except OSError as error:
        raise failed(path, error) from None
    finally:
        for backup, path in backups:
            with contextlib.suppress(OSError):
                os.unlink(backup) if finished else _rename(backup, path)
        for draft, _ in drafts:
            with contextlib.suppress(OSError):
                os.unlink(draft)


def _rename(path: Path, to: Path) -> None:
    """Renames a file within its folder."""
    with roots.folder(path.parent) as folder:
        os.replace(folder / path.name, folder / to.name)


def draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def backup_of(path: Path) -> Path:
    """The name of a file while a new one replaces it."""
    return path.with_name(f".{path.name}.old")


def _write_draft(draft: Path, chunks: Iterable[bytes | memoryview]) -> None:
    handle = roots.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for chunk in chunks:
            left = memoryview(chunk)
            while left:
                left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def failed(path: Path, error: OSError) -> CaffeliteError:
    """The error on a file that cannot be written."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not path.parent.is_dir():
        remedy = f"create it again: mkdir -p {quoted(path.parent)}; {CONTINUE}, if one is left"
        return Unwritable(f"cannot write {path}: its folder {path.parent} no longer exists", remedy=remedy)
    remedy = "check the disk"
    if error.errno in FULL:
        remedy = "free disk space"
    elif error.errno in FORBIDDEN:
        remedy = "allow writing there"
    unwritable = Unwritable(f"cannot write {path}: {reason(error)}", remedy=f"{remedy}, {CONTINUE}")
    unwritable.number = error.errno or 0
    return unwritable


def reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that sync no folders
            raise
    finally:
        os.close(handle)


def check_space(prefix: str, size: int, locate: Locator) -> None:
    """Tries to write ``size`` bytes under a snapshot prefix, and removes the drafts of killed runs. Errors: the folder
    is missing, full or not writable."""
    folder, where = Path(prefix).parent, locate("snapshot_prefix")
    if not os.path.isdir(folder):
        what = f"the folder of snapshot_prefix, {folder}, does not exist"
        raise where.error(what, remedy=f"make it: mkdir -p {quoted(folder)}")
    try:
        prefix.encode()
    except UnicodeEncodeError:
        what = f"snapshots cannot be written to {prefix}: a state names its model in UTF-8"
        remedy = "rename it, or choose another snapshot_prefix"
        raise where.error(what, expected="a path in UTF-8", remedy=remedy) from None
    try:
        remove_stale(prefix)
        draft = draft_of(Path(f"{prefix}_iter_"))
        handle = roots.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            reserve(handle, 0, max(size, 1))
        finally:
            os.close(handle)
            os.unlink(draft)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        what = f"snapshots cannot be written to {folder}: {reason(error)}"
        room = f"{size / 2**20:.1f} MiB of free disk space"
        raise where.error(what, expected=room, remedy="choose another snapshot_prefix") from None


def remove_stale(prefix: str | Path) -> None:
    """Removes the drafts of processes that have ended."""
    for draft in hidden(prefix, "draft"):
        process = draft.name.split(".")[-2]
        if process.isdecimal() and not _runs(int(process)):
            draft.unlink(missing_ok=True)


def hidden(prefix: str | Path, end: str) -> list[Path]:
    """The drafts or backups of a prefix's files."""
    start = glob.escape(Path(prefix).name)
    paths = [path for kind in ("iter_", "best.") for path in Path(prefix).parent.glob(f".{start}_{kind}*.{end}")]
    return [
        path
        for path in paths
        if re.match(r"_(iter_\d*|best)\.|_iter_\d+_average\.", path.name[1 + len(Path(prefix).name) :])
    ]


def _runs(process: int) -> bool:
    if process == os.getpid():
        return False  # an old process had the same id: this one has written nothing yet
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
