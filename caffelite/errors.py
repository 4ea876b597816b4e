"""Errors of the user's input, with file:line:column, the expected value, the value found and the remedy."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

SAME_LETTERS = 0.8  # the ratio of difflib from which two names resemble each other


class Details(TypedDict, total=False):
    """Parts of a CaffeliteError that a function passes on."""

    expected: object
    found: object
    remedy: str | None


@dataclass(frozen=True)
class Where:
    """A position in a file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def error(self, what: str, **parts: Unpack[Details]) -> CaffeliteError:
        return CaffeliteError(what, where=self, **parts)


class Locator:
    """Finds the position of a field of a parsed message.

    A path is field names and indices of repeated fields: ``locate("layer", 3, "bottom", 0)``. A path that
    is not in the file gives the position of the nearest enclosing message.
    """

    def __init__(self, file: str, positions: Mapping[tuple, tuple[int, int]] | None = None, prefix: tuple = ()):
        self.file, self.positions, self._prefix = file, positions or {}, prefix

    def __call__(self, *path: str | int) -> Where:
        full = self._prefix + path
        for end in range(len(full), -1, -1):
            if full[:end] in self.positions:
                return Where(self.file, *self.positions[full[:end]])
        return Where(self.file)

    def error(self, what: str, *path: str | int, **parts: Unpack[Details]) -> CaffeliteError:
        """An error in the field of this path."""
        return CaffeliteError(what, where=self(*path), **parts)

    def at(self, *path: str | int) -> Locator:
        return Locator(self.file, self.positions, self._prefix + path)

    def moved(self, moves: Mapping[tuple, tuple]) -> Locator:
        """The same positions by new paths: what begins with a key of ``moves`` (the longest counts) begins with its
        value."""
        return Locator(self.file, moved_paths(self.positions, moves, self._prefix), self._prefix)


Item = TypeVar("Item")


def moved_paths(items: Mapping[tuple, Item], moves: Mapping[tuple, tuple], prefix: tuple = ()) -> dict[tuple, Item]:
    """The items by new paths, as `Locator.moved` does it; ``moves`` are below ``prefix``."""
    prefixes, n = {}, len(prefix)
    for path, item in items.items():
        old = path[n:]
        for end in range(len(old), 0, -1) if path[:n] == prefix else ():
            if old[:end] in moves:
                path = prefix + moves[old[:end]] + old[end:]
                break
        prefixes[path] = item
    return prefixes


NOWHERE = Locator("<net>")


class CaffeliteError(Exception):
    """A mistake that the user can mend; the command line prints it and exits with status 2. Its parts are
    attributes."""

    def __init__(
        self,
        what: str,
        *,
        where: Where | None = None,
        expected: object = None,
        found: object = None,
        remedy: str | None = None,
    ):
        self.what, self.where, self.expected, self.found, self.remedy = what, where, expected, found, remedy
        parts = [what]
        if expected is not None:
            parts.append(f"expected {expected}")
        if found is not None:
            parts.append(f"found {found}")
        text = "; ".join([parts[0], ", ".join(parts[1:])] if len(parts) > 1 else parts)
        if remedy:
            text += f"; {remedy}"
        super().__init__(printable(f"{where}: {text}" if where else text, keep=""))

    def replaced(self, **changes: Any) -> CaffeliteError:
        """The error with other attributes."""
        attributes = {name: getattr(self, name) for name in ("what", "where", "expected", "found", "remedy")} | changes
        return type(self)(attributes.pop("what"), **attributes)


def printable(text: str, keep: str = "\n\t") -> str:
    """Text for a terminal. Names come from files and may hold control codes: what cannot be shown becomes an escape,
    but for ``keep``."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


class UnknownType(CaffeliteError):
    """A layer of a type that is unknown here, which decides on a net more than any other mistake."""


class Mistakes(CaffeliteError):
    """Several mistakes found in one pass, a line each."""

    def __init__(self, mistakes: Iterable[CaffeliteError]):
        self.mistakes = list(mistakes)
        Exception.__init__(self, "\n".join(str(m) for m in self.mistakes))


class Further(CaffeliteError):
    """Says how many more mistakes a file has; ``rest`` has them."""

    def __init__(self, rest: Iterable[CaffeliteError], where: Where):
        self.rest = list(rest)
        super().__init__(f"and {len(self.rest)} more", where=where)


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
OPTION = re.compile(r"(?<![\w-])--?([a-z]\w*)(?: ([A-Z0-9][\w.]*))?")  # of a command, perhaps with its value
COMMAND = re.compile(r"\bcaffelite [a-z]+ .*? (-\w+)$")  # that goes on by one more option


def keyword_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function for Python that does what a command does: its errors name its keywords where those of the command name
    options, as ``size=32`` for ``-size 32``."""
    keywords = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except CaffeliteError as mistake:
            raise _in_keywords(mistake, keywords) from None

    return called


def _in_keywords(mistake: CaffeliteError, keywords: Mapping[str, inspect.Parameter]) -> CaffeliteError:
    """The error with keywords; one of a kind of its own stays."""
    if isinstance(mistake, Mistakes):
        return Mistakes(_in_keywords(each, keywords) for each in mistake.mistakes)
    if type(mistake) is not CaffeliteError:
        return mistake

    def keyword(option: re.Match[str]) -> str:
        name, value = option[1], option[2]
        if name not in keywords:
            return option[0]
        if isinstance(keywords[name].default, bool):
            return f"{name}=True" + (f" {value}" if value else "")
        return f"{name}={value}" if value else name

    def text(value: object) -> object:
        if not isinstance(value, str):
            return value
        value = COMMAND.sub(lambda command: command[1] if command[1][1:] in keywords else command[0], value)
        return value if "caffelite " in value else OPTION.sub(keyword, value)

    return mistake.replaced(**{name: text(getattr(mistake, name)) for name in ("what", "expected", "found", "remedy")})


class Collector:
    """Gathers mistakes so that one pass reports them all."""

    def __init__(self) -> None:
        self.mistakes: list[CaffeliteError] = []

    def add(self, mistake: CaffeliteError) -> None:
        self.mistakes.extend(mistake.mistakes if isinstance(mistake, Mistakes) else [mistake])

    def raise_any(self) -> None:
        if len(self.mistakes) == 1:
            raise self.mistakes[0]
        if self.mistakes:
            raise Mistakes(self.mistakes)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The remedy 'did you mean "x"?' for a misspelt name, or None where nothing known is near: a name with one wrong
    letter in four (one in short names), or the start of a longer name, or one with nearly the same letters."""
    by_lower, lower = {k.lower(): k for k in known}, name.lower()
    candidates = difflib.get_close_matches(lower, by_lower, n=5, cutoff=0.6)
    near = [other for other in candidates if edits(lower, other) <= max(1, len(lower) // 4)]
    if not near and len(lower) > 2:
        near = sorted((k for k in by_lower if min(len(k), len(lower)) > 2 and shares_start(k, lower)), key=len)
    if not near:
        near = [other for other in candidates if difflib.SequenceMatcher(None, other, lower).ratio() >= SAME_LETTERS]
    return f'did you mean "{by_lower[near[0]]}"?' if near else None


def shares_start(one: str, other: str) -> bool:
    """Whether one of two names is the start of the other."""
    return one.startswith(other) or other.startswith(one)


def edits(one: str, other: str) -> int:
    """The least number of changes that turn one text into the other: a letter more, less or another one, or two
    neighbors exchanged."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            fewest = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                fewest = min(fewest, last[j - 2] + 1)
            row.append(fewest)
    return row[-1]


def quoted(path: object) -> str:
    """A path as one word of a shell command that a message proposes."""
    return shlex.quote(str(path))


def message_of(mistake: Exception) -> str:
    """An exception's text; plyvel's come as bytes."""
    return " ".join(
        part.decode(errors="backslashreplace") if isinstance(part, bytes) else str(part) for part in mistake.args
    )


def missing_extra(module: str, extra: str, use: str) -> CaffeliteError:
    """The one line for an optional dependency that is not installed."""
    return CaffeliteError(
        f"{use} needs {module}, which is not installed", remedy=f'install it with: pip install "caffelite[{extra}]"'
    )


@contextmanager
def reporting(what: str, remedy: str | None = None) -> Iterator[None]:
    """Within it an OSError becomes an error of the user: what cannot be done, and why."""
    try:
        yield
    except OSError as error:
        raise CaffeliteError(f"cannot {what}: {error.strerror or error}", remedy=remedy) from None


@contextmanager
def closed_on_failure(opened: Any) -> Iterator[None]:
    """Within it an error of any kind closes what was opened."""
    try:
        yield
    except BaseException:
        opened.close()
        raise
