"""The limits of a process: the folders below which its files are, and whether it runs Python layers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import CaffeliteError, printable
from .. import state

LONGEST = 4096  # characters of a path
STORED = {"roots": ([str], None), "python": bool}


class Outside(CaffeliteError):
    """A path that is not below a root."""


def _loops(path: Path) -> bool:
    """Whether symbolic links on a path lead to themselves."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


@dataclass(frozen=True)
class Bounds:
    """roots: the folders, links resolved, below which every file must be; None: anywhere. python: whether Python layers
    may run. The user's folder of state is below no root."""

    roots: tuple[Path, ...] | None = None
    python: bool = True

    def resolve(self, text: str, base: Path) -> Path:
        """The path that a text means, with symbolic links resolved; it need not exist. base: where relative paths
        start. Errors: Outside where the path, or a link on it, leads out of all roots; a NUL; too long a text."""
        shown = f'"{printable(text, keep="")[:200]}"'
        if "\0" in text or len(text) > LONGEST:
            raise Outside("this is not a path", found=shown)
        try:
            path = (base / text).resolve()
            loops = _loops(path)  # as Path.resolve says by a RuntimeError before Python 3.13
        except (OSError, RuntimeError, UnicodeEncodeError):
            loops = True
        if loops:
            raise Outside("this path cannot be resolved", found=shown)
        if self.roots is None:
            return path
        if "://" in text:
            raise Outside("this is an address, not a path below a root of the server", found=shown)
        if not any(path.is_relative_to(root) for root in self.roots) or path.is_relative_to(state.folder()):
            remedy = "start the server with -root for its folder"
            raise Outside("this path is not below a root of the server", found=shown, remedy=remedy)
        return path

    def hold(self, names: Iterable[str], base: Path) -> None:
        """Refuses files that are not below a root, links resolved; for many names in few folders. base: where relative
        names start. Errors: Outside."""
        if self.roots is None:
            return
        known = set()
        for name in names:
            folder, file = os.path.split(base / name)
            if folder not in known:
                self.resolve(folder, base)
                known.add(folder)
            if file == ".." or os.path.islink(base / name):
                self.resolve(name, base)

    @property
    def unlimited(self) -> bool:
        return self.roots is None and self.python

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"roots": None if self.roots is None else [str(root) for root in self.roots], "python": self.python}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Bounds:
        """The bounds of ``to_json``."""
        roots = content["roots"]
        return cls(None if roots is None else tuple(map(Path, roots)), bool(content["python"]))
