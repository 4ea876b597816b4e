"""Perturbations: their fields in transform_param, and their base class."""

from __future__ import annotations

import math
from functools import cache
from typing import Generic, TypeVar, Unpack

import numpy as np
from google.protobuf.message import Message

from ...errors import CaffeliteError, Details, Locator
from ..draws import Key, key, of_sample, of_samples, uniform

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

    def needs_color(self, name: str) -> None:
        if self.channels != 3:
            remedy = f"leave out {name}, or set force_color where images are encoded"
            raise self.error(
                name, f"{name} needs color", expected="images of 3 channels", found=self.channels, remedy=remedy
            )

    def error(self, name: str, what: str = "", path: tuple = (), **details: Unpack[Details]) -> CaffeliteError:
        return CaffeliteError(what or f"wrong value for {name}", where=self.locate(*(path or (name,))), **details)


# a perturbation's numbers of one sample: the first says whether it happens, the others how; more is drawn from word 12
# on
NUMBERS = 12


class Perturbation:
    """Changes images H×W×C, or H×W where C is 1, of bytes, and never the array that it is given.

    A subclass sets `name`, which keys its draws, `probability` and `active`, which is false where nothing can ever
    happen, and implements `change`. Draws: words of Philox under the key of (seed, layer, "transform", name), the row
    of the sample's number in the run; so no perturbation's numbers depend on another's, nor on who computes them.
    """

    name: str
    any_channels = False  # whether images may have more channels than most of OpenCV's functions take
    probability: float = 1
    active: object = True

    def seed(self, transform: Key) -> Perturbation:
        self._key = key(transform[0], transform[1], self.name)
        return self

    def draw(self, sample: int, count: int) -> list[list[float]]:
        """The numbers of [0, 1) that decide on ``count`` samples from this one on."""
        return uniform(of_samples(self._key, sample, count, NUMBERS)).tolist()

    def __call__(self, image: np.ndarray, sample: int, drawn: list[float] | None = None) -> np.ndarray:
        """drawn: the sample's own of ``draw``, which are cheaper for many samples at once."""
        happens, *draws = drawn or self.draw(sample, 1)[0]
        return self.change(image, draws, sample) if happens < self.probability else image

    def change(self, image: np.ndarray, u: list[float], sample: int) -> np.ndarray:
        """The changed image; u: numbers of [0, 1)."""
        raise NotImplementedError

    def more(self, sample: int, words: int) -> np.ndarray:
        """Words beyond u, for what draws by the pixel."""
        return of_sample(self._key, sample, words, first=NUMBERS)


Number = TypeVar("Number", float, np.ndarray)


def between(low: float, high: float, u: Number) -> Number:
    """The number or numbers that u of [0, 1) selects between low and high."""
    return low + (high - low) * u


def random_integer(low: int, high: int, u: float) -> int:
    """A random integer from low to high, both included."""
    return low + int((high - low + 1) * u)


def normal(words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers (float32), four of each word."""
    return quantiles()[words.view(np.uint16)[: math.prod(shape)]].reshape(shape)


@cache
def quantiles() -> np.ndarray:
    """The normal distribution's 65536 quantiles: a table that makes a normal number of 16 random bits."""
    from scipy.special import ndtri

    return ndtri((np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.float32)
