"""What tools ask of few layer types: each type declares it beside its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from .layer import REGISTRY, Layer

Kind = TypeVar("Kind", bound=type[Layer])
_DECLARED: dict[tuple[type, type[Layer]], Any] = {}


class Facet:
    """``@Facet(...)`` above a type declares it, for this type and not for those that derive from it."""

    def __call__(self, kind: Kind) -> Kind:
        _DECLARED[type(self), kind] = self
        return kind

    @classmethod
    def of(cls, name: str) -> Self:
        """What the type of this name declares, or the defaults."""
        return _DECLARED.get((cls, REGISTRY[name])) or cls() if name in REGISTRY else cls()


@dataclass(frozen=True)
class Compares(Facet):
    """How a loss or a score compares its first bottom with its second one."""

    classes: bool = False  # scores of classes, along ``axis`` of its message or axis 1, with labels
    probability: str = ""  # the type that converts scores into the probabilities that it compares
    values: bool = False  # a prediction with a target of as many numbers
    pairs: bool = False  # two vectors of a sample with each other
    scores: bool = False  # it only measures
    decoder: str = ""  # the type that reads the labels of a sequence from its scores, without a place for each label


@dataclass(frozen=True)
class Decodes(Facet):
    """What a decoder's first top has."""

    text: bool = False  # the labels of N lines (N, T, 1, 1), filled up by -1, of scores (T, N, C)


@dataclass(frozen=True)
class Described(Facet):
    """What texts about a layer say."""

    purpose: str = ""  # what it does in a net
    own_top: bool = False  # texts give it a top of its own name, because its bottom is still needed after it
    not_finite: str = ""  # what makes its numbers NaN or infinite
    spared: str = ""  # what its parameters are called, which should not decay
    logged: bool = False  # its tops are there to be read in the log


@dataclass(frozen=True)
class Coordinates(Facet):
    """Which coordinates a layer's top has, by those of its first bottom: the same, of windows, of what each is spread
    to, those behind an offset, or none, because each number may depend on all of them."""

    relation: Literal["same", "window", "spread", "offset", "none", ""] = ""


@dataclass(frozen=True)
class Learned(Facet):
    """What a layer does to the gradients of its neighbors."""

    takes_over: bool = False  # it gives its bottom its top's gradient memory, as Caffe's Flatten does
    only_shapes: bool = False  # its tops depend on the shapes of its bottoms, not on what is learned below
