"""The settings of a sweep, from ``-set`` texts: lists of values, ranges, the grid, random draws."""

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import CaffeliteError, Collector, did_you_mean

Setting = tuple[tuple[str, str], ...]  # (field, value) of each axis, in the order of the options

CHOICE, LOG, UNIFORM, INT = "choice", "log", "uniform", "int"
RANGE = re.compile(r"(log|uniform|int)\(([^,()]*),([^,()]*)\)")
DIGITS = 4  # significant digits of a drawn number
BRACKETS = {"[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True)
class Axis:
    """A field with several values. kind: CHOICE of ``values``, or a range from ``low`` to ``high``: LOG and UNIFORM of
    real numbers, INT of whole ones, both ends included."""

    field: str
    kind: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0

    def draw(self, rng: random.Random) -> str:
        """A value drawn at random."""
        if self.kind == CHOICE:
            return rng.choice(self.values)
        if self.kind == INT:
            return str(rng.randint(int(self.low), int(self.high)))
        if self.kind == LOG:
            return shown(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return shown(rng.uniform(self.low, self.high))

    def examples(self) -> tuple[str, ...]:
        """Values that a check of the axis tries: all choices, or both ends."""
        if self.kind == CHOICE:
            return self.values
        return (str(int(self.low)), str(int(self.high))) if self.kind == INT else (shown(self.low), shown(self.high))


def shown(value: float) -> str:
    return f"{value:.{DIGITS}g}"


def parse(texts: Sequence[str]) -> tuple[list[str], list[Axis]]:
    """The texts with one value, which hold for all trials, and the axes of those with several.

    A text is FIELD=VALUE; FIELD=VALUE,VALUE,… has several values, and FIELD=log(LOW,HIGH), uniform(LOW,HIGH) or
    int(LOW,HIGH) a range. Commas inside brackets and quotes belong to a value. Errors: a text without a value, an empty
    value among several, a value twice, a range whose ends are no numbers in order, a field twice.
    """
    fixed: list[str] = []
    axes: list[Axis] = []
    mistakes = Collector()
    for text in texts:
        field, equals, value = text.partition("=")
        field = field.strip()
        try:
            if not field or not equals:
                raise CaffeliteError("cannot be read", expected="FIELD=VALUE or FIELD=VALUE,VALUE")
            axis = _axis(field, value.strip())
        except CaffeliteError as error:
            mistakes.add(error.replaced(what=f"-set {text}: {error.what}"))
            continue
        if axis is None:
            fixed.append(text)
        elif any(axis.field == other.field for other in axes):
            mistakes.add(CaffeliteError(f"-set {text}: the field has values already", remedy="list all values once"))
        else:
            axes.append(axis)
    mistakes.raise_any()
    return fixed, axes


def _axis(field: str, value: str) -> Axis | None:
    """The axis of a value text; None where it is a single value."""
    if match := RANGE.fullmatch(value):
        return _range(field, *match.groups())
    if (match := re.match(r"(\w+)\(", value)) and value.endswith(")"):
        remedy = did_you_mean(match[1], (LOG, UNIFORM, INT))
        what = "unknown range"
        raise CaffeliteError(what, expected="log(LOW,HIGH), uniform(LOW,HIGH) or int(LOW,HIGH)", remedy=remedy)
    values = list(split(value))
    if len(values) < 2:
        return None
    if "" in values:
        raise CaffeliteError("a value is empty", expected="values between commas", remedy="a list is one value: [1,2]")
    if len(set(values)) < len(values):
        twice = next(each for each, count in Counter(values).items() if count > 1)
        raise CaffeliteError(f"the value {twice} comes twice")
    return Axis(field, CHOICE, tuple(values))


def _range(field: str, kind: str, low: str, high: str) -> Axis:
    try:
        ends = [int(end) if kind == INT else float(end) for end in (low, high)]
    except ValueError:
        expected = "whole numbers" if kind == INT else "numbers"
        raise CaffeliteError("the ends of a range are no numbers", expected=expected, found=f"{low},{high}") from None
    if not all(map(math.isfinite, ends)) or ends[0] >= ends[1] or (kind == LOG and ends[0] <= 0):
        expected = "0 < LOW < HIGH" if kind == LOG else "LOW < HIGH"
        raise CaffeliteError("the ends of a range are not in order", expected=expected, found=f"{low},{high}")
    return Axis(field, kind, low=ends[0], high=ends[1])


def split(text: str) -> Iterator[str]:
    """The parts between commas that are outside of brackets and quotes."""
    value, closers, quote = "", [], ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in BRACKETS:
            closers.append(BRACKETS[char])
        elif closers and char == closers[-1]:
            closers.pop()
        if char == "," and not quote and not closers:
            yield value.strip()
            value = ""
        else:
            value += char
    yield value.strip()


def grid(axes: Sequence[Axis]) -> list[Setting]:
    """Every combination of values; the last axis changes fastest. Errors: a range, which has no list of values."""
    if ranged := next((axis for axis in axes if axis.kind != CHOICE), None):
        remedy = "list its values, or draw settings at random: -random N"
        raise CaffeliteError(f"a grid needs values, and {ranged.field} has a range", remedy=remedy)
    products = itertools.product(*(axis.values for axis in axes))
    return [tuple(zip((axis.field for axis in axes), values, strict=True)) for values in products]


def draws(axes: Sequence[Axis], count: int, seed: int) -> list[Setting]:
    """``count`` different settings drawn at random, a function of the seed; all of the grid where that has no more."""
    if all(axis.kind == CHOICE for axis in axes) and math.prod(len(axis.values) for axis in axes) <= count:
        return grid(axes)
    rng, settings = random.Random(seed), dict[Setting, None]()
    attempts = 100 * count  # whole numbers of a narrow range come again and again
    while len(settings) < count and attempts:
        settings[tuple((axis.field, axis.draw(rng)) for axis in axes)] = None
        attempts -= 1
    return list(settings)
