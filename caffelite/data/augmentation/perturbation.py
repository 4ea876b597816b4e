"""The base class of perturbations: a change of one image, with a probability and a separate random stream."""

from __future__ import annotations

import math
from functools import cache
from typing import TypeVar

import numpy as np

from ..draws import Key, key, of_sample, of_samples, uniform

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
