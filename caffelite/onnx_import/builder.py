"""Collects the layers of a net, their parameters and the names of their blobs."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, printable
from ..export.free_names import free_name
from .reader import Operator
from .trace import Traced

Translation = Callable[["Builder", Operator], list[str]]
OPERATORS: dict[str, Translation] = {}
LARGEST = float(np.finfo(np.float32).max)


def translates(*kinds: str) -> Callable[[Translation], Translation]:
    """Registers what makes the layers of an operator and returns the blobs of its outputs."""

    def register(function: Translation) -> Translation:
        OPERATORS.update(dict.fromkeys(kinds, function))
        return function

    return register


class Unsupported(CaffeliteError):
    """An operator that no layer computes."""

    def __init__(self, op: Operator, why: str, remedy: str | None = None):
        super().__init__(f"the {op} cannot be expressed: {why}", remedy=remedy)


class Builder:
    """``net``: its layers so far; ``blobs``: parameters by layer; ``names``: the blob of each tensor."""

    def __init__(self, traced: Traced, name: str):
        self.traced = traced
        self.net = pb.NetParameter(name=name)
        self.blobs: dict[str, list[np.ndarray]] = {}
        self.names: dict[str, str] = {}
        self._weights = _weights(traced)
        self._taken: set[str] = set()
        self._label = ""

    def begin(self, op: Operator) -> None:
        """Names what follows after this operator."""
        self._label = _label(op)

    @contextmanager
    def labeled(self, suffix: str) -> Iterator[None]:
        """Names what follows with this suffix behind the operator's name."""
        label = self._label
        self._label = f"{label}/{suffix}" if suffix else label
        try:
            yield
        finally:
            self._label = label

    def read_names(self) -> set[str]:
        """The tensors that an operator reads, or whoever runs the net."""
        return {name for each in self.traced.operators for name in each.inputs} | set(self.traced.model.outputs)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor, with the batch of the trace."""
        return self.traced.shapes[tensor] if tensor in self.traced.shapes else self.traced.values[tensor].shape

    def constant(self, op: Operator, index: int) -> np.ndarray | None:
        """The values of an input that does not depend on the net's inputs; None for another, or one left out."""
        name = op.inputs[index] if index < len(op.inputs) else ""
        return self.traced.values.get(name) if name else None

    def number(self, op: Operator, index: int, default: float) -> float:
        """A constant input of one number."""
        value = self.constant(op, index)
        if value is None and index < len(op.inputs) and op.inputs[index]:
            raise Unsupported(op, f'"{op.inputs[index]}" is computed', "export the net with a constant in its place")
        if value is not None and value.size != 1:
            raise Unsupported(op, f'"{op.inputs[index]}" has {value.size} numbers', "export the net with one number")
        return default if value is None else float(value.reshape(()))

    def integers(self, op: Operator, index: int, attribute: str) -> list[int] | None:
        """Whole numbers that are an attribute in old opsets, and an input in new ones; None where they are left out."""
        if attribute in op.attributes:
            value = op.attributes[attribute]
            return [int(each) for each in np.ravel(value)]
        constant = self.constant(op, index)
        if constant is None and index < len(op.inputs) and op.inputs[index]:
            raise Unsupported(op, f'its {attribute} "{op.inputs[index]}" is computed', "export for a fixed shape")
        return None if constant is None else [int(each) for each in np.ravel(constant)]

    def x(self, op: Operator, index: int = 0) -> str:
        """The blob of an input. Errors: Unsupported for a constant."""
        if op.inputs[index] not in self.names:
            raise Unsupported(
                op, f'its input "{op.inputs[index]}" is constant', "fold constants: onnxsim, or onnxruntime"
            )
        return self.names[op.inputs[index]]

    def learned(self, op: Operator, index: int) -> bool:
        """Whether an input is a weight of the file, not a number of the program that wrote it; what normalizes the
        pixels of an input is none either."""
        return op.inputs[index] in self._weights and not any(name in self.traced.inputs for name in op.inputs)

    def add(
        self,
        kind: str,
        bottoms: Sequence[str],
        params: Sequence[np.ndarray] | None = None,
        suffix: str = "",
        **fields: Any,
    ) -> str:
        """Adds a layer with one top, of its name. suffix: behind the operator's name; fields: of LayerParameter."""
        return self.add_many(kind, bottoms, 1, params, suffix, **fields)[0]

    def add_many(
        self,
        kind: str,
        bottoms: Sequence[str],
        count: int,
        params: Sequence[np.ndarray] | None = None,
        suffix: str = "",
        **fields: Any,
    ) -> list[str]:
        """The same with several tops."""
        name = self._unique(f"{self._label}/{suffix}" if suffix else self._label)
        tops = [name] if count == 1 else [self._unique(f"{name}/{i}") for i in range(count)]
        self.net.layer.append(pb.LayerParameter(name=name, type=kind, bottom=bottoms, top=tops, **fields))
        if params:
            self.blobs[name] = [np.ascontiguousarray(array, np.float32) for array in params]
        return tops if count else []

    def silence(self, blobs: Sequence[str]) -> None:
        """Nobody reads these blobs."""
        if blobs:
            name = self._unique(f"{self._label}/unread")
            self.net.layer.append(pb.LayerParameter(name=name, type="Silence", bottom=blobs))

    def input(self, name: str, shape: Sequence[int]) -> None:
        """Adds an input of the net."""
        self._label = _plain(name)
        self.names[name] = self.add("Input", [], input_param={"shape": [{"dim": shape}]})

    def rename(self, blob: str, name: str) -> None:
        """Gives a blob another name, where no other one has it."""
        if name in self._taken or not name:
            return
        self._taken.add(name)
        for layer in self.net.layer:
            for names in (layer.bottom, layer.top):
                names[:] = [name if each == blob else each for each in names]
        self.names = {tensor: name if each == blob else each for tensor, each in self.names.items()}

    def _unique(self, name: str) -> str:
        return free_name(name, self._taken)


def _weights(traced: Traced) -> set[str]:
    """The weights of a file, also under another name, as equal ones share their numbers, and under another shape."""
    weights = {tensor.name for tensor in traced.model.proto.graph.initializer}
    for op in traced.operators:
        if op.kind in ("Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose") and op.inputs[0] in weights:
            weights.update(op.outputs)
    return weights


def _plain(name: str) -> str:
    return re.sub(r"[^\w./:-]+", "_", printable(name))[:120] or "blob"


def _label(op: Operator) -> str:
    """The module's name where the weights or the operator tell it, as PyTorch's exporters name them."""
    for name in op.inputs[1:]:
        prefix, dot, kind = name.rpartition(".")
        if dot and kind in ("weight", "bias", "running_mean", "in_proj_weight"):
            return _plain(prefix)
    parts = [part for part in (op.name or op.outputs[0]).split("/") if part]
    if len(parts) > 1 and re.fullmatch(rf"{op.kind}(_\d+)?|[A-Z]\w*", parts[-1]):
        if number := re.search(r"_\d+$", parts.pop()):
            parts[-1] += number[0]
    kept = [part for part, after in zip(parts, [*parts[1:], ""], strict=True) if not after.startswith(part + ".")]
    return _plain(".".join(kept) or op.outputs[0])
