"""Layers that only valid data reach: boxes, priors, objects, anchors. What they read, with values that suit it;
the layers of families are in ``contracts`` of their tests."""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

TESTS = Path(__file__).resolve().parent.parent / "tests"
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
MEANS = "bbox_reg_param { " + "bbox_mean: 0.125 " * 4 + "bbox_std: 0.5 bbox_std: 0.25 bbox_std: 0.5 bbox_std: 1 }"
SIDE = 48.0  # pixels of a picture, of which boxes in pixels are boxes


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 2, shape)


def shares(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.05, 0.95, shape)


def corners(rng: np.random.Generator, count: int, side: float) -> np.ndarray:
    """Boxes (count, 4) within a square."""
    low = rng.uniform(0, 0.6, (count, 2))
    return side * np.concatenate([low, low + rng.uniform(0.1, 0.4, (count, 2))], 1)


def regions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image (0 or 1) and box in pixels."""
    return np.column_stack([rng.integers(0, 2, shape[0]), corners(rng, shape[0], SIDE)])


def of_one_image(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return regions(rng, shape) * (0, 1, 1, 1, 1)


def objects(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of box in pixels and class, 1 or 2."""
    return np.column_stack([corners(rng, shape[0], SIDE), rng.integers(1, 3, shape[0])])


def matches(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, box in pixels."""
    boxes = corners(rng, shape[0], SIDE)
    return np.column_stack([rng.integers(0, 2, shape[0]), rng.integers(0, 4, shape[0]), boxes])


def size(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of height, width, scale."""
    return np.ones(shape) * (SIDE, SIDE, 1)


def sides(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of height and width."""
    return np.full(shape, SIDE)


def priors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Boxes and their variances, as PriorBox makes them."""
    count = shape[2] // 4
    return np.stack([corners(rng, count, 1).reshape(-1), np.tile([0.1, 0.1, 0.2, 0.3], count)])[None]


def annotations(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, instance, box, difficult."""
    count = shape[2]
    rows = np.zeros((count, 8))
    rows[:, 0], rows[:, 1] = np.arange(count) % 2, 1 + rng.integers(0, 2, count)
    rows[:, 3:7], rows[:, 7] = corners(rng, count, 1), rng.integers(0, 2, count)
    return rows.reshape(shape)


def detections(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of image, class, score, box, the classes and the scores in order."""
    count = shape[2]
    rows = np.zeros((count, 7))
    rows[:, 1], rows[:, 2] = 1 + np.arange(count) * 2 // count, np.sort(rng.random(count))[::-1]
    rows[:, 3:] = corners(rng, count, 1)
    return rows.reshape(shape)


def truths(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of class, x, y, width, height; two in each image, then zeros."""
    table = np.zeros((shape[0], shape[1] // 5, 5))
    table[:, :2, 0] = rng.integers(0, 3, table[:, :2, 0].shape)
    table[:, :2, 1:] = rng.uniform(0.1, 0.6, table[:, :2, 1:].shape)
    return table.reshape(shape)


def frames(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Maps of class (0: none), box by its center and sides in pixels, overlap: some objects near their cells."""
    maps = np.zeros(shape)
    rows, columns = np.indices(shape[2:])
    kinds = rng.integers(1, 3, maps[:, 0].shape) * (rng.random(maps[:, 0].shape) < 0.4)
    kinds[0, 0, 0] = 1
    maps[:, 0], maps[:, 5] = kinds, np.where(kinds, rng.uniform(0.5, 1, kinds.shape), rng.uniform(0, 0.7, kinds.shape))
    maps[:, 1], maps[:, 2] = (8 * (cells + rng.uniform(0.2, 0.8, kinds.shape)) for cells in (columns, rows))
    maps[:, 3:5] = rng.uniform(10, 30, maps[:, 3:5].shape)
    return maps


@dataclass(frozen=True)
class Contract:
    """A layer's fields as text, its bottoms (shape, values) and how many tops it has."""

    fields: str
    bottoms: tuple[tuple[tuple[int, ...], Draw], ...]
    tops: int = 1


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn; those of a family are drawn by themselves."""
    step = Contract("", (((1, 3, 2), normal), ((1, 3, 8), normal), ((1, 3), bits)), 2)
    drawn = {"LSTMUnit": step}
    for module in _of_families():
        if hasattr(module, "contracts"):
            drawn |= module.contracts(random.Random(rng.random()))
    return drawn


def inexact() -> frozenset[str]:
    """The types of families whose gradient is not the derivative."""
    return frozenset(name for module in _of_families() for name in getattr(module, "INEXACT", ()))


@cache
def _of_families() -> list[ModuleType]:
    """The modules ``contracts`` of the tests of families."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    paths = sorted(TESTS.glob("families/*/contracts.py"))
    return [import_module(f"families.{path.parent.name}.contracts") for path in paths]
