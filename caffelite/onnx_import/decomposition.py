"""Translates an operator as several simpler ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..export.free_names import free_name
from .builder import LARGEST, OPERATORS, Builder
from .reader import Operator


class Decomposition:
    """The simpler operators of ``op``, each with layers of its own."""

    def __init__(self, b: Builder, op: Operator):
        self._b, self._op = b, op
        self._taken = {*b.traced.shapes, *b.traced.values}

    def value(self, index: int) -> np.ndarray | None:
        """A constant input with finite numbers, without an axis that only repeats it for the batch; None for a computed
        one."""
        values = self._b.constant(self._op, index)
        if values is None:
            return None
        axis = self._b.traced.batch_axis.get(self._op.inputs[index])
        if axis is not None and axis < values.ndim:
            one = values.take([0], axis)
            values = one if (values == one).all() else values
        return values if values.dtype == bool else np.clip(values, -LARGEST, LARGEST)

    def input(self, index: int) -> str:
        """The tensor of an input."""
        return self._op.inputs[index]

    def constant(self, values: np.ndarray | float) -> str:
        """A tensor with these numbers."""
        name, array = self._name("constant"), np.asarray(values, np.float32)
        self._b.traced.values[name], self._b.traced.shapes[name] = array, array.shape
        return name

    def make(
        self, kind: str, *inputs: str, called: str = "", shape: Sequence[int] | None = None, **attributes: Any
    ) -> str:
        """The tensor that an operator makes. called: behind the name of the whole operator; shape: where it is not what
        broadcasting makes of its inputs, with the batch in the place that it has in the first one."""
        b, name = self._b, self._name(called or kind.lower())
        made = np.broadcast_shapes(*map(b.shape, inputs)) if shape is None else tuple(shape)
        b.traced.shapes[name] = made
        b.traced.batch_axis[name] = self._batch_axis(inputs, len(made) if shape is None else None)
        simpler = Operator(kind, self._op.name, list(inputs), [name], attributes)
        with b.labeled(called):
            b.names[name] = OPERATORS[kind](b, simpler)[0]
        return name

    def blob(self, tensor: str) -> list[str]:
        """What a translation returns whose output is this tensor."""
        return [self._b.names[tensor]]

    def _batch_axis(self, inputs: Sequence[str], rank: int | None) -> int | None:
        """rank: that of the output, where axes are aligned from the last one on."""
        for name in inputs:
            axis = self._b.traced.batch_axis.get(name)
            if name in self._b.names and axis is not None:
                return axis if rank is None else axis + rank - len(self._b.shape(name))
        return None

    def _name(self, suffix: str) -> str:
        return free_name(f"{self._op.outputs[0]}/{suffix}", self._taken)
