"""Sequences in blobs, and what is read from the best class of each time step."""

import math

import numpy as np

from ...layers.base.layer import Layer, Shape


def check_scores(layer: Layer, shape: Shape) -> tuple[int, int, int]:
    """The first three axes of a bottom of scores, whose others have one value."""
    if len(shape) < 3 or math.prod(shape[3:]) != 1:
        raise layer.bottom_error(0, "has other axes", expected="three: steps, sequences and classes", found=list(shape))
    return shape[0], shape[1], shape[2]


def check_rows(layer: Layer, bottoms: list[Shape], index: int, *expected: int | str) -> None:
    """A bottom must have these axes (a letter: any number), and any others with one value."""
    shape = bottoms[index]
    fits = all(isinstance(e, str) or e == d for e, d in zip(expected, shape, strict=False))
    if len(shape) < len(expected) or not fits or math.prod(shape[len(expected) :]) != 1:
        raise layer.bottom_error(index, "does not fit", expected="×".join(map(str, expected)), found=list(shape))


def lengths_of(indicators: np.ndarray) -> np.ndarray:
    """The number of steps before each sequence's first 0, not counting that of step 0; indicators (T, N)."""
    starts = np.rint(indicators) == 0
    starts[0] = False
    return np.where(starts.any(0), starts.argmax(0), len(starts))


def until_negative(labels: np.ndarray) -> list[np.ndarray]:
    """The columns of labels (L, N), each up to its first negative number."""
    ends = np.where((labels < 0).any(0), (labels < 0).argmax(0), len(labels))
    return [labels[:end, n] for n, end in enumerate(ends)]


def best_classes(scores: np.ndarray) -> np.ndarray:
    """The greatest of the scores (..., C); -1, no class, where one of them is NaN."""
    return np.where(np.isnan(scores).any(-1), -1, scores.argmax(-1))


def spelled(path: np.ndarray, blank: int, merge: bool = True) -> np.ndarray:
    """What is left of a path when repeated classes are merged and blanks deleted."""
    remains = path != blank
    if merge:
        remains[1:] &= path[1:] != path[:-1]
    return path[remains]


def edit_distance(a: np.ndarray, b: np.ndarray) -> int:
    """How many insertions, deletions and replacements lead from one sequence to the other."""
    costs = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        diagonal, costs[0] = costs[0], i
        for j, right in enumerate(b, 1):
            diagonal, costs[j] = costs[j], min(costs[j] + 1, costs[j - 1] + 1, diagonal + int(left != right))
    return costs[-1]
