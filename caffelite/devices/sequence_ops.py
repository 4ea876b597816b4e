"""The operations of sequences whose labels have no positions, as in ops.py."""

from dataclasses import dataclass
from typing import Literal, Protocol

from .ops import OptionalOperation
from .types import Array

Form = Literal["rows", "indicated", "counted"]
MISTAKES = ("labels", "classes", "steps")  # what ``bad`` counts: MISTAKES.index(kind) * count + sequence + 1


class BuiltCTCLoss(Protocol):
    bad: Array

    def forward(self, scores: Array, bottoms: list[Array], loss: Array) -> None:
        """bottoms: of ``form``, the labels last."""

    def backward(self, scores: Array, dloss: Array, dscores: Array) -> None:
        """Of the last ``forward``, whose scores these are."""


@dataclass(frozen=True, eq=False, repr=False)
class CTCLoss(OptionalOperation[BuiltCTCLoss]):
    """loss = -Σ ln p / N, p the probability that a path of classes spells the labels of a sequence; the gradient of the
    scores (T, N, C) is that of the sum times ``dloss``.

    steps, count, classes: T, N, C. labels: the most of a sequence, L. form: "rows", labels (N, L), of which all count,
    and ``read`` steps; "indicated", (T, N), 0 where a sequence starts, and labels (L, N), which a negative number ends;
    "counted", the numbers of steps (N) and of labels (N), and labels (L, N). blank: the class of blanks, which are
    no labels. collapse: repeated labels count once.
    """

    steps: int
    count: int
    classes: int
    labels: int
    form: Form
    read: int
    blank: int
    collapse: bool = False
