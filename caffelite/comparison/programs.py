"""What can be compared: a program that computes a net, with its inputs, outputs and layers."""

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..proof.runners import Arrays, Runner
from ..prototxt import Document

OpenShape = tuple[int | None, ...]


@dataclass(frozen=True)
class Layer:
    """What a layer computes. names: of the layer and of its blob, where that has these values at the end and
    no layer its name."""

    names: tuple[str, ...]
    values: np.ndarray


class Program(Runner, Protocol):
    """inputs: shapes by name, None for an open axis; empty shapes where the program does not tell them. pixels: inputs
    that take pixels, 0 to 255, and have mean and scale inside. document: the net whose preprocessing of pictures this
    is; None where it is not known."""

    inputs: dict[str, OpenShape]
    pixels: frozenset[str]

    @property
    def document(self) -> Document | None: ...

    def layers(self, fed: Arrays) -> list[Layer]: ...


def plain(name: str) -> str:
    """A name as all programs can write it, by which layers are found: PyTorch's attributes have no other signs."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
