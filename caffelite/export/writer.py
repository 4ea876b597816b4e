"""Collects the nodes and constants of an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ..errors import CaffeliteError, missing_extra, quoted
from ..layers.batch_norm import BatchNorm
from ..net.graph import Graph, Node, Value

if TYPE_CHECKING:
    import onnx


def import_onnx(use: str = "export") -> ModuleType:
    """The package. use: what needs it, for the error."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", use) from None
    return onnx


Step = Callable[["Writer", list[str], list[str]], tuple[list[str], list[str]]]


class Writer:
    """Collects ONNX nodes and constants, and the ONNX name of each blob. free: the axes of each blob that are open,
    besides the batch; batch: those that follow it."""

    def __init__(
        self,
        graph: Graph,
        params: dict[int, list[np.ndarray]],
        free: Mapping[Value, tuple[int, ...]] = MappingProxyType({}),
        batch: Mapping[Value, tuple[int, ...]] = MappingProxyType({}),
    ):
        self.graph, self.params, self.free, self.batch, self.onnx = graph, params, free, batch, import_onnx()
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.names: dict[Value, str] = {}
        self.integers: dict[str, str] = {}
        self._layer, self._count = "", 0

    def begin(self, node: Node) -> None:
        """Names what follows after this layer."""
        self._layer = node.name

    def add(self, kind: str, inputs: Sequence[str], **attributes: object) -> str:
        return self.add_many(kind, inputs, 1, **attributes)[0]

    def add_many(self, kind: str, inputs: Sequence[str], count: int, **attributes: object) -> list[str]:
        names = []
        for _ in range(count):
            self._count += 1
            names.append(f"{self._layer}/{self._count}")
        self.nodes.append(
            self.onnx.helper.make_node(
                kind, list(inputs), names, name=f"{self._layer}/{kind}{self._count}", **attributes
            )
        )
        return names

    def scan(self, states: Sequence[str], rows: Sequence[str], step: Step) -> list[str]:
        """Runs ``step`` along the first axis of ``rows``; the last states, and what each step returns, as rows.

        step(writer, names of states, names of rows): writes one step; returns the next states, and its results."""
        inner = Writer(self.graph, self.params)
        inner._layer = f"{self._layer}/step"
        names = [f"{inner._layer}/in{i}" for i in range(len(states) + len(rows))]
        after, results = step(inner, names[: len(states)], names[len(states) :])
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        ends = [[helper.make_tensor_value_info(n, kind, None) for n in each] for each in (names, [*after, *results])]
        constants = [self.onnx.numpy_helper.from_array(array, name) for name, array in inner.constants.items()]
        body = helper.make_graph(inner.nodes, inner._layer, *ends, constants)
        count = len(after) + len(results)
        return self.add_many("Scan", [*states, *rows], count, body=body, num_scan_inputs=len(rows))

    def constant(self, node: Node, index: int, array: np.ndarray) -> str:
        """A parameter of a layer; one that layers share is stored once."""
        owner = node.params[index].owner if index < len(node.params) and not isinstance(node.layer, BatchNorm) else None
        label = self.graph.parameters[owner] if owner is not None else None
        name = f"{label.node.name}.{label.index}" if label else f"{node.name}.{index}"
        written = self.constants.get(name.replace(" ", "_"))
        if written is not None and written.shape != array.shape:  # shared, and written otherwise here
            name = f"{name} {'x'.join(map(str, array.shape))}"
        return self.array(name, array)

    def scalar(self, value: float) -> str:
        return self.array(f"number {float(value)!r}", np.array(value, np.float32))

    def integer(self, value: int) -> str:
        return self.array(f"integer {value}", np.array(value, np.int64))

    def numbers(self, values: Sequence[int]) -> str:
        return self.array(f"numbers {list(map(int, values))}", np.array(values, np.int64))

    def array(self, name: str, array: np.ndarray) -> str:
        """A constant with this name, without spaces, which some readers take for the name's end."""
        name = name.replace(" ", "_")
        self.constants.setdefault(name, np.ascontiguousarray(array))
        return name

    def sizes(self, value: Value) -> list[str | int]:
        """The dimensions of an input or output, the open ones by name."""
        free, named = self.free.get(value, ()), {2: "height", 3: "width"}
        dims: list[str | int] = [
            f"{value.name}_{named.get(i, i)}" if i in free else d for i, d in enumerate(value.shape)
        ]
        rest = range(len(dims)) if value.node in self.graph.varied() else [0]
        for axis in self.batch.get(value, rest):
            dims[axis] = "N" if value.shape[axis] == self.graph.batch_size else f"{value.name}_{axis}"
        return dims

    def prune(self, outputs: Sequence[str]) -> None:
        """Drops nodes and constants that no output needs."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                needed.update(node.input)
                nodes.append(node)
        self.nodes = nodes[::-1]
        self.constants = {name: array for name, array in self.constants.items() if name in needed}

    def cannot(self, node: Node, what: str) -> CaffeliteError:
        ends = not any(value.readers for value in node.tops)
        remedy = f"end the net before it: caffelite deploy -output {quoted(node.bottoms[0].name)}" if ends else None
        return node.layer.error(f"{what} cannot be expressed in ONNX", remedy=remedy)
