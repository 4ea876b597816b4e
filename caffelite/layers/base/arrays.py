"""A layer whose mathematics is NumPy-like code over whole arrays, the same on every device."""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.protocol import Device
from ...devices.types import Array
from ...prototxt import say_once
from .layer import Layer, Shape, gradient_of


def filler(kind: str = "constant", **fields: Any) -> pb.FillerParameter:
    """How a parameter starts: constant (value), uniform (min, max), gaussian (mean, std), xavier, msra, ..."""
    return pb.FillerParameter(type=kind, **fields)


class ArrayLayer(Layer):
    """Base class of layers that are written over ``xp``: NumPy on a CPU, CuPy on a GPU.

    A subclass has ``compute`` and, if it has gradients, ``gradient``: its own, or ``gradient = finite_differences``.
    ``shapes`` gives the tops' shapes, by default the first bottom's, and may call ``self.add_param(shape,
    filler(...))``; parameters are arguments after the bottoms.
    """

    requires_host = True  # memory of its arrays is allocated while it runs

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "differentiable" not in cls.__dict__:
            cls.differentiable = cls.gradient is not ArrayLayer.gradient

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [bottoms[0]] * max(1, len(self.spec.top))

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        """The top, or a tuple of tops. x: bottoms, then parameters."""
        raise NotImplementedError("the class has no compute")

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        """The gradient of each of x, which are bottoms and parameters; None for one without. dy: of each top."""
        raise NotImplementedError("the class has no gradient")

    def build(self, dev: Device) -> None:
        if type(self).gradient is finite_differences and self.phase == pb.TRAIN:
            what = (
                "its gradient is computed by finite differences: one pass for each number of its bottoms and parameters"
            )
            say_once(f'{self.locate()}: layer "{self.name}" ({self.spec.type}): {what}, for experiments only')

    def forward(self, x: list, y: list) -> None:
        inputs = (*x, *(param.data for param in self.params))
        tops = _several(self.compute(_namespace((*inputs, *y)), *inputs))
        self._count("compute", tops, y)
        for name, array, value in zip(self.spec.top, y, tops, strict=True):
            self._write(f'compute: top "{name}"', array, value)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        inputs, xp = (*x, *(param.data for param in self.params)), _namespace((*x, *y))
        above = tuple(xp.zeros_like(top) if g is None else g for top, g in zip(y, dy, strict=True))
        gradients = _several(self.gradient(xp, inputs, tuple(y), above))
        self._count("gradient", gradients, inputs)
        for name, array, value in zip(self.spec.bottom, dx, gradients, strict=False):
            if array is not None:
                self._write(f'gradient: bottom "{name}"', array, xp.zeros_like(array) if value is None else value)
        for i, value in enumerate(gradients[len(x) :]):
            array, add = gradient_of(self, i)
            if array is not None:
                value = xp.zeros_like(array) if value is None else value
                self._write(f"gradient: parameter {i}", array, array + value if add else value)

    def _count(self, what: str, arrays: Sequence[Any], wanted: Sequence[Any]) -> None:
        if len(arrays) != len(wanted):
            raise self.error(f"{what} returned {len(arrays)} arrays", expected=len(wanted))

    def _write(self, what: str, array: Array, value: Any) -> None:
        if tuple(np.shape(value)) != tuple(array.shape):
            expected, found = f"shape {list(array.shape)}", list(np.shape(value))
            raise self.error(f"{what} has another shape", expected=expected, found=found)
        array[...] = value


def finite_differences(layer: ArrayLayer, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> tuple:
    """``gradient`` of a layer by central differences of ``compute`` in float64: slow, and for experiments only."""
    exact, above = [array.astype("float64") for array in x], [array.astype("float64") for array in dy]

    def weighed() -> Any:
        return sum((g * top).sum() for g, top in zip(above, _several(layer.compute(xp, *exact)), strict=True))

    gradients: list[Any] = []
    for i, array in enumerate(exact):
        if i in layer.constant_bottoms:
            gradients.append(None)
            continue
        slope, flat = xp.empty(array.size), array.reshape(-1)
        for k in range(array.size):
            before = float(flat[k])
            step = 1e-6 * max(1.0, abs(before))
            flat[k] = before + step
            high = weighed()
            flat[k] = before - step
            slope[k] = (high - weighed()) / (2 * step)
            flat[k] = before
        gradients.append(slope.reshape(array.shape))
    return tuple(gradients)


def _several(value: Any) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _namespace(arrays: Sequence[Any]) -> ModuleType:
    """NumPy, or the module of the device's arrays, which has its functions."""
    return sys.modules[type(arrays[0]).__module__.partition(".")[0]] if arrays else np
