"""Layers that are a formula of one bottom."""

import sys
from collections.abc import Callable

from ...devices.formula import Formula
from ...devices.protocol import Device
from .facets import Coordinates
from .image_layout import ImageLayout
from .layer import Layer, Shape, register
from .state import LossScaled


def elementwise(
    name: str, y, dx, field: str = "", check: Callable | None = None, about: str = "", upstream=True, **constants
) -> type[Layer]:
    """Registers a layer that is a formula: y of x, and dx of x, y and dy; None for dx: no gradient.

    y and dx may be functions of the message that give the text; a constant is a field's name or a function of the
    message. A term of dx without dy is multiplied by ``loss_scale``. check(layer) raises an error for values that make
    no sense. about: what documents show instead of y and dx. upstream: whether BVLC's Caffe has the type.
    """

    class Elementwise(LossScaled, ImageLayout, Layer):
        in_place = follows_layout = follows_precision = True
        couples_samples = False
        differentiable = dx is not None
        divisible_axes = True

        def setup(self) -> None:
            if check:
                check(self)
            self.constants = {c: f(self.p) if callable(f) else getattr(self.p, f) for c, f in constants.items()}
            self.y, self.dx = (self._formula(text(self.p) if callable(text) else text) for text in (y, dx or "0"))

        def _formula(self, text: str) -> Formula:
            """With no more arrays, scalars and constants than it uses."""
            every = Formula(text, ("x", "y", "dy"), ("loss_scale",), tuple(self.constants))
            used = (tuple(filter(every.uses, names)) for names in (every.arrays, every.scalars, every.constants))
            return Formula(text, *used)

        def shapes(self, bottoms: list[Shape]) -> list[Shape]:
            return [bottoms[0]]

        @property
        def backward_reads_bottoms(self) -> bool:
            return "x" in self.dx.arrays

        @property
        def backward_reads_tops(self) -> bool:
            return "y" in self.dx.arrays

        def build(self, dev: Device) -> None:
            self._y, self._dx = (dev.map(self.as_stored(f), **self.constants) for f in (self.y, self.dx))
            if self.dx.scalars:
                self.need_loss_scale(dev)

        def forward(self, x: list, y: list) -> None:
            self._y(*[x[0]] * len(self.y.arrays), y[0])

        def backward(self, x: list, y: list, dy: list, dx: list) -> None:
            arrays = {"x": x[0], "y": y[0], "dy": dy[0]}
            scalars = [self.loss_scale] if self.dx.scalars else []
            self._dx(*[arrays[a] for a in self.dx.arrays], *scalars, dx[0])

    Elementwise.__module__ = sys._getframe(1).f_globals["__name__"]  # the file that registers it
    Elementwise.type = Elementwise.__name__ = Elementwise.__qualname__ = name
    Elementwise.field = field
    Elementwise.upstream = upstream
    gradient = [] if callable(dx) else [f"dx = {dx or 'none'}"]
    names = [f"{c} is {f}" for c, f in constants.items() if not callable(f) and c != f]
    Elementwise.__doc__ = f"{about or '; '.join([f'y = {y}', *gradient, *names])}; any shape."
    return register(Coordinates("same")(Elementwise))
