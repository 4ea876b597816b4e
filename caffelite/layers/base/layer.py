"""The base class of layers: shapes, parameters, mathematics, and the blobs that the backward pass reads."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from ... import caffelite_pb2 as pb
from ...devices.context import ExecutionContext
from ...devices.inference_ops import View
from ...devices.protocol import Device
from ...devices.types import Array
from ...errors import Locator
from . import fillers
from .compilation import Compilable
from .config import Shape
from .message import LayerMessage
from .registry import Applies, Registry

REGISTRY: Registry[type[Layer]] = Registry()


def register(cls: type[Layer]) -> type[Layer]:
    REGISTRY.add(cls.type or cls.__name__, cls)
    return cls


def register_variant(applies: Applies) -> Callable[[type[Layer]], type[Layer]]:
    """Registers what else a type may be, as a fork has it. applies: whether a message is one of this class."""

    def add(cls: type[Layer]) -> type[Layer]:
        REGISTRY.add_variant(cls.type, applies, cls)
        return cls

    return add


@dataclass(frozen=True)
class ParameterShard:
    """The shard of a parameter of shape ``whole`` that a device has: from ``start`` along ``axis``."""

    axis: int
    start: int
    whole: Shape


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a layer: its shape, and the filler that initializes it. shard: of a parameter that several devices
    divide; the filler fills the whole one. statistic: the layer itself changes it, and no solver; ignores_rate: then a
    learning rate for it has no effect, and is no mistake."""

    shape: Shape
    filler: pb.FillerParameter
    shard: ParameterShard | None = None
    statistic: bool = False
    ignores_rate: bool = False


@dataclass(eq=False)
class ParameterView:
    """A parameter blob as a bound layer uses it: views into the net's flat buffers.

    ``wanted``: its gradient is computed; ``add``: the gradient adds to what ``diff`` has; ``diff`` is None in a net
    that only tests, and where the update computes the gradient.
    """

    data: Array
    diff: Array
    wanted: bool
    add: bool = False


class Layer(LayerMessage, Compilable):
    """A layer of one net: its type, message, shapes, parameters and mathematics. `Compilable` has its
    declared properties.

    A layer that ``graph.build`` makes is static. ``nodes.configured`` makes a copy with what the compiler decided about
    it, ``bound`` a copy with a device and arrays, which then runs.
    """

    def __init__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        super().__init__(spec, phase, locate)
        self.param_blobs: list[ParameterSpec] = []
        self.saved_shapes = {}
        for field, value in self.p.ListFields() if self.converted else ():
            if field.name in self.converted and (field.message_type or value != field.default_value):
                remedy = "upgrade the message, or write what the field is converted to"
                raise self.error(
                    f"does not read {field.name}, which reading a file converts", field.name, remedy=remedy
                )
        self.setup()

    def setup(self) -> None:
        """Checks of the message that need no shapes."""

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        """Top shapes from bottom shapes; fills ``param_blobs`` and ``saved_shapes``; raises an error that names the
        blob."""
        raise NotImplementedError

    def build(self, dev: Device) -> None:
        """Makes the device operations for the shapes; again when these change."""

    def forward(self, x: list, y: list) -> None:
        """x: bottoms, y: tops to write."""
        raise NotImplementedError

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        """dy: gradients of tops (None where nothing needs it), dx: gradients of bottoms to write (None where not
        wanted).

        An array of ``x`` or ``y`` that backward does not read may have been overwritten.
        """
        raise NotImplementedError

    def inference_operation(self) -> object | None:
        """What forward is where the net only tests, for ``Inference.joined``; None where it is no step of that."""
        return View() if self.view else None

    def faults(self) -> str | None:
        """What is wrong with the data of the last passes, or None. May wait for the device."""
        return None

    def bound(self, dev: Device, params: list[ParameterView], context: ExecutionContext, replica: bool = False) -> Self:
        """A copy on a device. context: of the net. replica: the net is a replica of one with the same layers."""
        copied = copy.copy(self)
        copied.dev, copied.params = dev, params
        copied.context = context
        return copied

    # What binding sets
    dev: Device
    params: list[ParameterView]
    context: ExecutionContext
    saved: dict[str, Array]  # by name, as ``saved_blobs`` says

    # Helpers

    def add_param(
        self,
        shape: Shape,
        filler: pb.FillerParameter,
        *path: str | int,
        statistic: bool = False,
        ignores_rate: bool = False,
    ) -> None:
        """Adds a ``ParameterSpec``. path: of the filler within the layer's message."""
        fillers.check(filler, shape, self.locate.at(self.field, *path))
        self.param_blobs.append(ParameterSpec(shape, filler, None, statistic, ignores_rate))


def split_axis(shape: Shape, axis: int) -> tuple[int, int, int]:
    """(N, C, P): the product of the axes before, the axis itself, the product of those after."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def gradient_of(layer: Layer, index: int) -> tuple:
    """A parameter's gradient (None where not wanted) and whether to add to it; absent parameters give None."""
    if index >= len(layer.params):
        return None, False
    p = layer.params[index]
    return (p.diff if p.wanted else None), p.add


def random_key(layer: Layer) -> int:
    """The layer's key for random numbers: from its name, so that other layers may come and go."""
    return zlib.crc32(layer.name.encode())
