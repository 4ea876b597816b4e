"""The files of a folder or of a tar archive by their names, read alike."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from caffelite.data.listing import files_below
from caffelite.errors import CaffeliteError, Where


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
        return (self._folder / name).read_bytes() if self._folder else held

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


def _members(root: Path | bytes, where: str) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(root)) if isinstance(root, bytes) else tarfile.open(root) as archive:
            return {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isfile()}
    except (OSError, EOFError, tarfile.TarError, zlib.error) as mistake:
        reason = getattr(mistake, "strerror", None) or mistake
        expected = "a folder, or a tar archive, packed or not"
        raise CaffeliteError(f"cannot read it: {reason}", where=Where(where), expected=expected) from None
