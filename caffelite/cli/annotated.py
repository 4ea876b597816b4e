"""Writes the pictures of `classify -annotate`."""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from ..errors import CaffeliteError
from . import options


def free_name(stem: str, taken: Container[str]) -> str:
    """A picture's name, or one with a number where a picture of another folder has it; not "all"."""
    names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken and name != "all")


def write_pictures(folder: Path, pages: Mapping[str, Any]) -> None:
    """Writes the pictures by their names, and all of them on the sheet all.png."""
    from ..deploy.annotate import png, sheet

    for name, page in pages.items():
        write_picture(folder, name, png(page))
    options.write_picture(folder / "all.png", png(sheet(list(pages.values()))))


def write_picture(folder: Path, name: str, content: bytes) -> None:
    """Writes NAME.png, and makes the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(content)
    except OSError as error:
        raise CaffeliteError(f"cannot write to {folder}: {error.strerror}") from None
