"""People in an image: their joints, as a record of CPMData describes them, and the bodies that nets for poses know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEEN = 1  # of ``visible``: 0 for a joint that is hidden by something in the image, 1 for one that is seen,
OUTSIDE = 2  # for one that is not in the image,
UNLABELED = 3  # and for one that the data set does not have


@dataclass
class People:
    """The person that a record is about and, after it, the others in the image: the middle of the person (x, y), its
    height in the record's unit, and of all P people the joints (P, J, 2) and their states (P, J)."""

    center: np.ndarray
    scale: float
    joints: np.ndarray
    visible: np.ndarray


@dataclass(frozen=True)
class Body:
    """The joints that a net knows. sources: for each the two joints of a record whose middle it is; limbs: pairs of
    joints; sides: pairs that change places in a mirrored image."""

    sources: tuple[tuple[int, int], ...]
    limbs: tuple[tuple[int, int], ...]
    sides: tuple[tuple[int, int], ...]

    @property
    def stored(self) -> int:
        """Joints that a record needs."""
        return 1 + max(map(max, self.sources))

    @property
    def mirrored(self) -> list[int]:
        """For each joint the one whose place it takes in a mirrored image."""
        order = list(range(len(self.sources)))
        for left, right in self.sides:
            order[left], order[right] = right, left
        return order

    def converted(self, people: People) -> People:
        """The people with these joints instead of those of a record."""
        first, second = np.array(self.sources).T
        joints = (people.joints[:, first] + people.joints[:, second]) / 2
        a, b = people.visible[:, first], people.visible[:, second]
        visible = np.minimum(a, b)
        for state in (UNLABELED, OUTSIDE):
            visible = np.where((a == state) | (b == state), state, visible)
        return People(people.center, people.scale, joints, visible)


def _pairs(first: str, second: str, base: int = 0) -> tuple[tuple[int, int], ...]:
    return tuple((int(a) - base, int(b) - base) for a, b in zip(first.split(), second.split(), strict=True))


BODIES = {  # by num_parts
    56: Body(  # of COCO: nose, neck, arms, legs, eyes, ears
        _pairs("1 6 7 9 11 6 8 10 13 15 17 12 14 16 3 2 5 4", "1 7 7 9 11 6 8 10 13 15 17 12 14 16 3 2 5 4", 1),
        _pairs("2 9 10 2 12 13 2 3 4 3 2 6 7 6 2 1 1 15 16", "9 10 11 12 13 14 3 4 5 17 6 7 8 18 1 15 16 17 18", 1),
        _pairs("3 4 5 9 10 11 15 17", "6 7 8 12 13 14 16 18", 1),
    ),
    43: Body(  # of MPI: head, neck, arms, legs, chest
        _pairs("9 8 12 11 10 13 14 15 2 1 0 3 4 5 7", "9 8 12 11 10 13 14 15 2 1 0 3 4 5 6"),
        _pairs("0 1 2 3 1 5 6 1 14 8 9 14 11 12", "1 2 3 4 5 6 7 14 8 9 10 11 12 13"),
        _pairs("3 4 5 9 10 11", "6 7 8 12 13 14", 1),
    ),
}


def read_people(plane: np.ndarray, joints: int) -> People:
    """The people that the fourth plane H×W of a record describes, each with so many joints. Its rows have, from their
    first byte on: a name; height and width; flags and the number of other people; the person's middle; its height; x,
    y and states of its joints; a row with the middle of each other person; their heights; three rows for the joints of
    each. Pixels count from 1, numbers are float32.

    Source: CMU-Perceptual-Computing-Lab/caffe_train, src/caffe/cpm_data_transformer.cpp, ReadMetaData. Errors:
    ValueError where rows are missing or too short, or a number is not finite or a height not above 0.
    """
    rows, width = plane.shape

    def floats(row: int, count: int) -> np.ndarray:
        return np.frombuffer(plane[row, : 4 * count].tobytes(), "<f4").astype(np.float64)

    others = int(plane[2, 1]) if rows > 2 and width > 1 else 0
    expected = 9 + 4 * others if others else 8
    if rows < expected or width < 4 * joints:
        size = f"expected {expected} rows of {4 * joints} bytes or more, found {rows} of {width}"
        raise ValueError(f"the image is too small for the description of {1 + others} people: {size}")
    height, width = floats(1, 2)
    center, scale = floats(3, 2) - 1, float(floats(4, 1)[0])
    starts = [5, *(9 + others + 3 * other for other in range(others))]
    values = np.array([[floats(start + i, joints) for i in range(3)] for start in starts])
    if not (np.isfinite(values).all() and np.isfinite(center).all()):
        raise ValueError("the description of people has numbers that are not finite")
    if not 0 < scale < np.inf:
        raise ValueError(f"the height of a person must be above 0, found {scale:g}")
    positions, states = values[:, :2].transpose(0, 2, 1) - 1, values[:, 2]
    outside = (positions < 0).any(-1) | (positions >= (width, height)).any(-1)
    visible = np.where(outside, OUTSIDE, (states != 0).astype(int))
    visible[0][states[0] == UNLABELED] = UNLABELED
    return People(center, scale, positions, visible)
