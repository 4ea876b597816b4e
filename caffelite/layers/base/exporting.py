"""What writes a layer as ONNX operators: registered in ``onnx.py`` beside the layers, called by the export."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ...errors import CaffeliteError
from .config import Shape
from .layer import Layer

L = TypeVar("L", bound=Layer)


class Blob(Protocol):
    @property
    def shape(self) -> Shape: ...


class Node(Protocol):
    """A layer of a graph, and its blobs."""

    @property
    def layer(self) -> Layer: ...
    @property
    def bottoms(self) -> Sequence[Blob]: ...
    @property
    def tops(self) -> Sequence[Blob]: ...


class Writer(Protocol):
    """Collects ONNX nodes and constants. free: the axes of each blob that are open, besides those of the batch. batch:
    those that are as long as there are samples, or a multiple of it; empty where that is not known."""

    integers: dict[str, str]  # by the name of a blob of places: the same as int64

    @property
    def batch(self) -> Mapping[Any, tuple[int, ...]]: ...
    @property
    def free(self) -> Mapping[Any, tuple[int, ...]]: ...

    def add(self, kind: str, inputs: Sequence[str], **attributes: object) -> str: ...

    def add_many(self, kind: str, inputs: Sequence[str], count: int, **attributes: object) -> list[str]: ...

    def scan(self, states: Sequence[str], rows: Sequence[str], step: Callable[..., Any]) -> list[str]:
        """Runs ``step`` along the first axis of rows."""

    def constant(self, node: Any, index: int, array: np.ndarray) -> str:
        """A parameter of a layer; one that layers share is stored once."""

    def array(self, name: str, array: np.ndarray) -> str:
        """A constant with this name."""

    def scalar(self, value: float) -> str: ...

    def integer(self, value: int) -> str: ...

    def numbers(self, values: Sequence[int]) -> str: ...

    def cannot(self, node: Any, what: str) -> CaffeliteError:
        """The error that ONNX has no operators for this."""


Operator = Callable[[Writer, Node, list[str], list[np.ndarray]], list[str]]
OPERATORS: dict[str, Operator] = {}
# By the type of a layer and the index of a bottom: random values of that bottom.
EXAMPLES: dict[tuple[str, int], Callable[[Node, np.random.Generator], np.ndarray]] = {}
ALL = np.iinfo(np.int64).min  # the end of a Slice that runs backwards to the first element


def layer_of(node: Node, kind: type[L]) -> L:
    layer = node.layer
    assert isinstance(layer, kind), f"{layer.spec.type} is registered for {kind.__name__}"
    return layer


def operator(*types: str) -> Callable[[Operator], Operator]:
    """Registers what writes layers of these types: (writer, node, names of bottoms, parameters) → names of tops."""

    def register(write: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(types, write))
        return write

    return register
