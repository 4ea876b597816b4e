"""Reads and checks fields of a perturbation: probabilities, amounts, ranges, pixel values."""

from __future__ import annotations

import math
from typing import Generic, TypeVar, Unpack

from google.protobuf.message import Message

from ...errors import CaffeliteError, Details, Locator

Checked = TypeVar("Checked", bound=Message)


class Fields(Generic[Checked]):
    """A message that checks its numbers on access. Errors: CaffeliteError at the field."""

    def __init__(self, message: Checked, locate: Locator, shape: tuple[int, int, int]):
        self.message, self.locate, self.channels, self.size = message, locate, shape[0], shape[1:]

    def inner(self, name: str) -> Fields:
        return Fields(getattr(self.message, name), self.locate.at(name), (self.channels, *self.size))

    def probability(self, name: str) -> float:
        return self.amount(name, 1)

    def amount(self, name: str, most: float = math.inf, least: float = 0) -> float:
        """A finite number from least to most."""
        value = getattr(self.message, name)
        if not (least <= value <= most and math.isfinite(value)):
            raise self.error(
                name, expected=f"{least:g} or more" if most == math.inf else f"from {least:g} to {most:g}", found=value
            )
        return value

    def range(self, low: str, high: str, least: float = 0, most: float = math.inf) -> tuple[float, float]:
        """Two amounts, the first not above the second."""
        bounds = self.amount(low, most, least), self.amount(high, most, least)
        if bounds[0] > bounds[1]:
            raise self.error(
                low, f"{low} is above {high}", expected=f"at most {bounds[1]:g}", found=bounds[0], remedy="swap them"
            )
        return bounds

    def positive(self, *names: str) -> None:
        for name in names:
            if not getattr(self.message, name) > 0:
                raise self.error(name, expected="above 0", found=getattr(self.message, name))

    def values(self, name: str, default: tuple[int, ...] = (0,)) -> tuple[int, ...]:
        """A pixel value: an integer from 0 to 255 per channel; the field gives one for all, one for each, or
        none."""
        values = list(getattr(self.message, name)) or list(default)
        for i, value in enumerate(values):
            if not 0 <= value <= 255:
                raise self.error(name, path=(name, i), expected="0 to 255", found=value)
        if len(values) not in (1, self.channels):
            what = f"wrong number of {name}"
            raise self.error(name, what, (name, 0), expected=f"1 or {self.channels}, one a channel", found=len(values))
        return tuple(round(value) for value in values * (self.channels if len(values) == 1 else 1))

    def needs_colour(self, name: str) -> None:
        if self.channels != 3:
            remedy = f"leave out {name}, or set force_color where images are encoded"
            raise self.error(
                name, f"{name} needs colour", expected="images of 3 channels", found=self.channels, remedy=remedy
            )

    def error(self, name: str, what: str = "", path: tuple = (), **details: Unpack[Details]) -> CaffeliteError:
        return CaffeliteError(what or f"wrong value for {name}", where=self.locate(*(path or (name,))), **details)
