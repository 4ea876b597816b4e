"""Reads files by name from a folder or a tar archive."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import inputs
from ..errors import Where
from . import tar
from .listing import files_below


class Files(Mapping[str, bytes]):
    """File contents by name, from a folder or an uncompressed tar archive, read on request; from a compressed archive,
    held in memory.

    root: the folder, the archive, or an archive's bytes, which errors name by `where`. Errors: neither of these; a
    damaged archive; OSError for a file that cannot be read, or if the archive has changed since.
    """

    def __init__(self, root: Path | bytes, where: str = ""):
        self.where = where or str(root)
        self._folder = root if isinstance(root, Path) and root.is_dir() else None
        self._contents: dict[str, bytes | _Place | None] = (
            dict.fromkeys(sorted(files_below(self._folder)), b"") if self._folder else _members(root, self.where)
        )

    def __getitem__(self, name: str) -> bytes:
        held = self._contents[name]
        if self._folder:
            return inputs.read(self._folder / name, inputs.IMAGE)
        if held is None:
            raise OSError(errno.ENOENT, "the link has no target in the archive", name)
        return held.read() if isinstance(held, _Place) else held

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)


class Subfolder(Mapping[str, bytes]):
    """Of some files those below one folder, by their names from there."""

    def __init__(self, files: Files, folder: str):
        self._files, self._prefix = files, f"{folder}/"
        self.where = f"{files.where}/{folder}"
        self._names = [name.removeprefix(self._prefix) for name in files if name.startswith(self._prefix)]

    def __getitem__(self, name: str) -> bytes:
        return self._files[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def splits(files: Files) -> tuple[Subfolder, Subfolder] | None:
    """(train, test) of files named train/CLASS/FILE and test/CLASS/FILE, or val/ for test/, below any one folder;
    else None."""
    folders = {name.rsplit("/", 2)[0] for name in files if name.count("/") >= 2}
    for train in sorted(f for f in folders if f.split("/")[-1] == "train"):
        for test in (train.removesuffix("train") + other for other in ("test", "val")):
            if test in folders:
                return Subfolder(files, train), Subfolder(files, test)
    return None


@dataclass(frozen=True)
class _Place:
    """The position of a member in an uncompressed archive: the archive's path, offset and size in bytes, and the
    identity of the archive file."""

    path: Path
    offset: int
    size: int
    archive: tuple[int, ...]

    def read(self) -> bytes:
        with inputs.open_file(self.path) as file:
            if _identity(os.fstat(file.fileno())) != self.archive:
                raise OSError(errno.ESTALE, "the archive has changed since it was opened", str(self.path))
            file.seek(self.offset)
            parts, left = [], self.size
            while left and (chunk := file.read(left)):  # a read gives 2 GiB at most
                parts.append(chunk)
                left -= len(chunk)
        if left:
            raise OSError(errno.EIO, "the archive is cut short", str(self.path))
        return b"".join(parts)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _members(root: Path | bytes, where: str) -> dict[str, bytes | _Place | None]:
    """Contents, or places in a plain archive, by name; None where a link leads to nothing. A file that has several
    names is held once."""
    held: dict[int, bytes | _Place] = {}
    try:
        if isinstance(root, Path):
            inputs.check(root)
        with tar.opened(fileobj=io.BytesIO(root)) if isinstance(root, bytes) else tar.opened(root) as archive:
            file = archive.fileobj
            plain = isinstance(file, io.BufferedReader)
            identity = _identity(os.fstat(file.fileno())) if isinstance(file, io.BufferedReader) else ()
            packed = len(root) if isinstance(root, bytes) else os.stat(root).st_size
            members, size = dict(tar.files(archive, packed)), 0
            for member in members.values():
                if member is None or member.offset in held:
                    continue
                if isinstance(root, Path) and plain and not member.issparse():
                    held[member.offset] = _Place(root, member.offset_data, member.size, identity)
                elif content := archive.extractfile(member):
                    inputs.check_unpacked(size := size + member.size, packed)
                    held[member.offset] = content.read()
                else:
                    raise tar.Unreadable(f'"{member.name}" is no file')
    except (OSError, tar.Unreadable) as mistake:
        expected = "a folder, or a tar archive, packed or not"
        raise Where(where).error(f"cannot read it: {inputs.reason(mistake)}", expected=expected) from None
    return {name: None if member is None else held[member.offset] for name, member in members.items()}
