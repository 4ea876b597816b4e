"""The files of a folder or of a tar archive by their names, read alike."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import inputs
from ..errors import CaffeliteError, Where
from . import tar
from .listing import files_below


class Files(Mapping[str, bytes]):
    """Contents by name: below a folder, read when asked for; or of a tar archive, packed or not, held in memory.

    root: the folder, the archive, or an archive's bytes with `where` to name them by. Errors: neither of these; a damaged archive.
    """

    def __init__(self, root: Path | bytes, where: str = ""):
        self.where = where or str(root)
        self._folder = root if isinstance(root, Path) and root.is_dir() else None
        self._contents = dict.fromkeys(sorted(files_below(root)), b"") if self._folder else _members(root, self.where)

    def __getitem__(self, name: str) -> bytes:
        held = self._contents[name]
        if self._folder:
            return inputs.read(self._folder / name, inputs.IMAGE)
        if held is None:
            raise OSError(errno.ENOENT, "the link leads to nothing in the archive", name)
        return held

    def __iter__(self) -> Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)


class Part(Mapping[str, bytes]):
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


def splits(files: Files) -> tuple[Part, Part] | None:
    """(train, test) of files that lie as train/CLASS/FILE and test/CLASS/FILE, or val/ for test/, below any one folder; else None."""
    folders = {name.rsplit("/", 2)[0] for name in files if name.count("/") >= 2}
    for train in sorted(f for f in folders if f.split("/")[-1] == "train"):
        for test in (train.removesuffix("train") + other for other in ("test", "val")):
            if test in folders:
                return Part(files, train), Part(files, test)
    return None


def _members(root: Path | bytes, where: str) -> dict[str, bytes | None]:
    """Contents by name; None where a link leads to nothing. A file that has several names is held once."""
    held: dict[int, bytes] = {}
    try:
        if isinstance(root, Path):
            inputs.check(root)
        with tar.opened(fileobj=io.BytesIO(root)) if isinstance(root, bytes) else tar.opened(root) as archive:
            found = dict(tar.files(archive))
            for member in found.values():
                if member is not None and member.offset not in held:
                    held[member.offset] = archive.extractfile(member).read()
    except (OSError, tar.Unreadable) as mistake:
        expected = "a folder, or a tar archive, packed or not"
        raise CaffeliteError(f"cannot read it: {inputs.reason(mistake)}", where=Where(where), expected=expected) from None
    return {name: None if member is None else held[member.offset] for name, member in found.items()}
