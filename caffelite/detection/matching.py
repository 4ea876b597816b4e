"""Matching of boxes with known objects, and the choice of unmatched boxes for the loss.

Source: weiliu89/caffe (branch ssd) src/caffe/util/bbox_util.cpp (MatchBBox, MineHardExamples).
"""

import numpy as np

UNMATCHED, EXCLUDED = -1, -2
LEAST_OVERLAP = 1e-6


def match(overlaps: np.ndarray, threshold: float | None, excluded: np.ndarray | None = None) -> np.ndarray:
    """The index (P) of the object of each box, or UNMATCHED; EXCLUDED where ``excluded`` (P).

    overlaps: of boxes with objects (P, G). Each object first gets the box that overlaps it most, the largest overlap
    first. Then each other box gets the object that it overlaps most, from the threshold on; None: it gets none.
    """
    matches = np.full(len(overlaps), UNMATCHED)
    left = np.where(overlaps > LEAST_OVERLAP, overlaps, 0)
    if excluded is not None:
        matches[excluded], left[excluded] = EXCLUDED, 0
    best = left.copy()
    for _ in range(left.shape[1]):
        index, known = np.unravel_index(left.argmax(), left.shape) if left.size else (0, 0)
        if not left.size or left[index, known] <= 0:
            break
        matches[index] = known
        left[index], left[:, known] = 0, 0
    if threshold is not None and best.shape[1]:
        most = best.argmax(1)
        chosen = (matches == UNMATCHED) & (best.max(1) >= max(threshold, LEAST_OVERLAP))
        matches[chosen] = most[chosen]
    return matches


def hardest(losses: np.ndarray, eligible: np.ndarray, count: int) -> np.ndarray:
    """The ascending indices of the ``count`` eligible boxes of the highest losses; of equal ones the first."""
    candidates = np.flatnonzero(eligible)
    return np.sort(candidates[np.argsort(-losses[candidates], kind="stable")[: max(0, count)]])


def sampled(generator: np.random.Generator, members: np.ndarray, most: int) -> np.ndarray:
    """At most ``most`` of the members, drawn at random."""
    return members if len(members) <= most else generator.choice(members, most, replace=False)
