"""Lists of images with windows: for each image "# index", its path, its sides, and rows of numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import file_types, inputs
from ..errors import CaffeliteError, Where
from .listing import list_lines, shortened


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
        try:
            text = file_types.read_listing(path)
        except (OSError, UnicodeDecodeError) as mistake:
            raise self.end.error(f"cannot read the list of windows: {inputs.reason(mistake)}") from None
        lines = ((number, line.split()) for number, line in enumerate(text.splitlines(), 1))
        self._lines = iter([(number, words) for number, words in lines if words])

    def row(self, count: int, expected: str, convert: Callable = int) -> tuple[list, Where]:
        """The numbers of the next line and its place. Errors: another count, a word that ``convert`` refuses."""
        number, words = next(self._lines, (0, None))
        where = Where(self.end.file, number) if number else self.end
        try:
            if words is None or len(words) != count:
                raise ValueError
            return [convert(word) for word in words], where
        except ValueError:
            found = shortened(" ".join(words or ["the end"]))
            raise where.error("a line is not understood", expected=expected, found=found) from None

    def pictures(self, root: str) -> Iterator[Picture]:
        """The images; the caller reads the rows of each before the next one. root: written before each path."""
        for number, words in self._lines:
            where = Where(self.end.file, number)
            if len(words) != 2 or words[0] != "#":
                found = shortened(" ".join(words))
                raise CaffeliteError("a line is not understood", where=where, expected='"# index"', found=found)
            at, words = next(self._lines, (0, ["the end"]))
            if not at:
                raise where.error("an image without its path")
            sides = [self.row(1, f"an integer: {name}")[0][0] for name in ("channels", "height", "width")]
            yield Picture(root + " ".join(words), Where(self.end.file, at), (sides[0], sides[1], sides[2]))


def listed_windows(param: Any, path: Path) -> Iterator[str]:
    """All lines: those of numbers name files that are never opened."""
    yield from (param.root_folder + " ".join(line.split()) for line in list_lines(path))
