"""Paths of requests, held under the roots of the server."""

from __future__ import annotations

from pathlib import Path

from ..errors import printable
from ..runs.bounds.bounds import Outside
from .config import ServeConfig


def resolve(config: ServeConfig, text: str, *, base: Path | None = None) -> Path:
    """The path that a text means, with symbolic links resolved.

    A relative path starts at ``base``, else at the root; with several roots its first part is the name of one. It need
    not exist. Errors: Outside where the path, or a link on it, leads out of all roots; a NUL; too long a text.
    """
    if base is None and not text.startswith("/"):
        base, text = _start(config, text)
    return config.bounds.resolve(text, base or config.roots[0])


def _start(config: ServeConfig, text: str) -> tuple[Path, str]:
    """(root, path below it) of the relative path of a request."""
    names = config.root_names()
    if len(names) == 1:
        return config.roots[0], text
    first, _, rest = text.partition("/")
    if first not in names:
        expected = f"a path that begins with {' or '.join(f'{name}/' for name in names)}"
        raise Outside("no root has this name", expected=expected, found=f'"{printable(first, keep="")[:200]}"')
    return config.roots[names.index(first)], rest


def address(config: ServeConfig, path: Path) -> str:
    """The text by which pages name a path below a root: relative to it, with the root's name where there are several.
    ``resolve`` accepts it. Errors: Outside."""
    path = path.resolve()
    for root, name in zip(config.roots, config.root_names(), strict=True):
        if path.is_relative_to(root):
            relative = path.relative_to(root)
            return (Path(name) / relative).as_posix()
    raise Outside("this path is not below a root of the server", found=f'"{printable(str(path), keep="")}"')
