"""Lists of images with windows: for each image "# index", its path, its sides, and rows of numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Where
from .listing import list_lines, placed_lines, shortened


@dataclass
class Picture:
    """An image of the list: its file, the place that names it, channels, height and width."""

    file: str
    where: Where = field(repr=False)
    shape: tuple[int, int, int]


class WindowLines:
    """The lines of a list, in order; empty lines are skipped. Errors: the list cannot be read."""

    def __init__(self, path: Path):
        self.end = Where(str(path))
        self._lines = placed_lines(path)

    def row(self, count: int, expected: str, convert: Callable = int) -> tuple[list, Where]:
        """The numbers of the next line and its place. Errors: another count, a word that ``convert`` refuses."""
        where, line = next(self._lines, (self.end, "the end"))
        try:
            if len(words := line.split()) != count:
                raise ValueError
            return [convert(word) for word in words], where
        except ValueError:
            raise where.error("a line is not understood", expected=expected, found=_shown(line)) from None

    def pictures(self, root: str) -> Iterator[Picture]:
        """The images; the caller reads the rows of each before the next one. root: written before each path."""
        for where, line in self._lines:
            words = line.split()
            if len(words) != 2 or words[0] != "#":
                raise where.error("a line is not understood", expected='"# index"', found=_shown(line))
            named, line = next(self._lines, (self.end, ""))
            if not line:
                raise where.error("an image without its path")
            sides = [self.row(1, f"an integer: {name}")[0][0] for name in ("channels", "height", "width")]
            yield Picture(root + " ".join(line.split()), named, (sides[0], sides[1], sides[2]))


def _shown(line: str) -> str:
    return shortened(" ".join(line.split()))


def listed_windows(param: Any, path: Path) -> Iterator[str]:
    """All lines: those of numbers name files that are never opened."""
    yield from (param.root_folder + " ".join(line.split()) for line in list_lines(path))
