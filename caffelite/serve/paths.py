"""Paths of requests, held under the roots of the server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import CaffeliteError, printable
from .config import ServeConfig

LONGEST = 4096  # characters of a path


class Outside(CaffeliteError):
    """A path that is not below a root of the server."""


def resolve(config: ServeConfig, text: str, *, base: Path | None = None) -> Path:
    """The path that a text means, with symbolic links resolved.

    A relative path starts at ``base``, else at the root; with several roots its first part is the name of one. It need
    not exist. Errors: Outside where the path, or a link on it, leads out of all roots; a NUL; too long a text.
    """
    shown = printable(text, keep="")[:200]
    if "\0" in text or len(text) > LONGEST:
        raise Outside("this is not a path", found=f'"{shown}"')
    try:
        path = (Path(text) if Path(text).is_absolute() else _start(config, text, base)).resolve()
    except (OSError, RuntimeError, UnicodeEncodeError):  # a loop of links
        raise Outside("this path cannot be resolved", found=f'"{shown}"') from None
    if not any(path.is_relative_to(root) for root in config.roots):
        remedy = "start the server with -root for its folder"
        raise Outside("this path is not below a root of the server", found=f'"{shown}"', remedy=remedy)
    return path


def hold(config: ServeConfig, names: Iterable[str], base: Path) -> None:
    """Refuses files that are not below a root, links resolved; for many names in few folders. base: where relative
    names start. Errors: Outside."""
    known = set()
    for name in names:
        folder, file = os.path.split(base / name)
        if folder not in known:
            resolve(config, folder)
            known.add(folder)
        if file == ".." or os.path.islink(base / name):
            resolve(config, name, base=base)


def _start(config: ServeConfig, text: str, base: Path | None) -> Path:
    if base is not None:
        return base / text
    names = config.root_names()
    if len(names) == 1:
        return config.roots[0] / text
    first, _, rest = text.partition("/")
    if first not in names:
        expected = f"a path that begins with {' or '.join(f'{name}/' for name in names)}"
        raise Outside("no root has this name", expected=expected, found=f'"{printable(first, keep="")[:200]}"')
    return config.roots[names.index(first)] / rest


def address(config: ServeConfig, path: Path) -> str:
    """The text by which pages name a path below a root: relative to it, with the root's name where there are several.
    ``resolve`` accepts it. Errors: Outside."""
    path = path.resolve()
    for root, name in zip(config.roots, config.root_names(), strict=True):
        if path.is_relative_to(root):
            relative = path.relative_to(root)
            return (Path(name) / relative).as_posix()
    raise Outside("this path is not below a root of the server", found=f'"{printable(str(path), keep="")}"')
