"""Eltwise: combines blobs of the same shape element by element."""

import math

from .. import caffelite_pb2 as pb
from ..devices.formula import Formula
from ..devices.inference_ops import Sum
from ..devices.protocol import Device
from ..prototxt import say_once
from .base import require
from .base.facets import Coordinates, Described
from .base.fusing import Fusing
from .base.image_layout import ImageLayout
from .base.layer import Shape, register

ELTWISE = pb.EltwiseParameter
SELECTS = {ELTWISE.MAX: ">", ELTWISE.MIN: "<"}  # the comparison that the selected bottom fulfils


@register
@Described(purpose="adds a shortcut, through which gradients reach the lower layers unchanged")
@Coordinates("same")
class Eltwise(Fusing, ImageLayout):
    """Bottoms of one shape joined element by element: SUM (default) Σ coeff_i · x_i (coeff 1), PROD Π x_i, MAX,
    for which coeff has no effect, MIN, or DIV x_0 / x_1.

    x_i, y (N, ...). The slope of PROD multiplies the other bottoms; with stable_prod_grad: false it is y / x_i, no
    number at 0. MAX sends its gradient to the bottom that was the largest, MIN to the smallest; of equals, to the
    second of the first two, then to the earliest. As in Caffe, but a NaN is the largest and the smallest of all. Caffe
    takes two bottoms or more; one, times its coeff, as in lmb-freiburg/flownet2; MIN and DIV as in
    foss-for-synopsys-dwc-arc-processors/synopsys-caffe. Errors: DIV of other than two bottoms, coeff for another than
    SUM and MAX.
    """

    field = "eltwise_param"
    bottoms = (1, None)
    follows_layout = follows_precision = True
    couples_samples = False
    divisible_axes = True

    def setup(self) -> None:
        count, coeffs = len(self.spec.bottom), len(self.p.coeff)
        if self.p.operation == ELTWISE.DIV and count != 2:
            raise self.error("DIV needs two bottoms", "operation", found=count)
        if coeffs and self.p.operation in (ELTWISE.PROD, ELTWISE.DIV, ELTWISE.MIN):
            raise self.error("takes coeff for SUM only", "coeff", 0)
        if coeffs and self.p.operation == ELTWISE.MAX:
            what = f'layer "{self.spec.name}" (Eltwise): coeff has no effect with operation MAX'
            say_once(f"{self.locate('coeff', 0)}: {what}")
        if coeffs not in (0, count):
            raise self.error(f"has {coeffs} coeff for {count} bottoms", "coeff", expected=f"none, or {count}")
        self.operation = self.p.operation if count > 1 else ELTWISE.SUM
        self.in_place = self.operation == ELTWISE.SUM
        weighted = coeffs and self.p.operation == ELTWISE.SUM
        self.coefficients = list(self.p.coeff) if weighted else [1.0] * count

    def can_fuse_relu(self) -> bool:
        return self.operation == ELTWISE.SUM

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        for i, shape in enumerate(bottoms):
            require.fits(self, bottoms, i, shape == bottoms[0], list(bottoms[0]), "does not fit the first")
        self.shape = bottoms[0]
        return [bottoms[0]]

    @property
    def backward_reads_bottoms(self) -> bool:
        return self.operation != ELTWISE.SUM

    @property
    def backward_reads_tops(self) -> bool:
        return self.operation in (*SELECTS, ELTWISE.DIV) or (
            self.operation == ELTWISE.PROD and not self.p.stable_prod_grad
        )

    def passes_gradient(self, index: int) -> bool:
        """Whether a bottom's gradient equals the top's; where both share an array, backward writes nothing."""
        return self.operation == ELTWISE.SUM and self.coefficients[index] == 1

    def build(self, dev: Device) -> None:
        names = tuple(f"x{i}" for i in range(len(self.spec.bottom)))
        if self.operation == ELTWISE.SUM:
            coeffs = {f"c{i}": c for i, c in enumerate(self.coefficients)}
            text, slope = " + ".join(f"c{i} * x{i}" for i in range(len(names))), {}
            if self.slope is not None:
                text, slope = f"where({text} > 0, {text}, slope * ({text}))", {"slope": self.slope}
            self._y = self._map(dev, Formula(text, names, constants=(*coeffs, *slope)), **coeffs, **slope)
            self._dx = [self._map(dev, Formula("c * dy", ("dy",), constants=("c",)), c=c) for c in coeffs.values()]
        elif self.operation == ELTWISE.PROD:
            self._y = self._map(dev, Formula(" * ".join(names), names))
            self._dx = [
                self._map(dev, Formula(f"dy * {self._others(names, i)}", (*names, "y", "dy")))
                for i in range(len(names))
            ]
        elif self.operation == ELTWISE.DIV:
            self._y = self._map(dev, Formula("x0 / x1", names))
            self._dx = [self._map(dev, Formula(t, (*names, "y", "dy"))) for t in ("dy / x1", "-dy * y / x1")]
        else:
            compare = SELECTS[self.operation]
            self._y = self._map(dev, Formula(f"where(a {compare} b, a, where(a == a, b, a))", ("a", "b")))
            self._dx = [self._map(dev, Formula(self._wins(i), (*names, "y", "dy"))) for i in range(len(names))]

    def _map(self, dev: Device, formula: Formula, **constants: float):
        return dev.map(self.as_stored(formula), **constants)

    def _others(self, names: tuple[str, ...], i: int) -> str:
        return " * ".join(n for n in names if n != names[i]) if self.p.stable_prod_grad else f"(y / {names[i]})"

    def _wins(self, i: int) -> str:
        """dy where bottom i is the one that MAX or MIN took: none that goes before it has this value."""
        text, compare = f"where(x{i} == y, dy, 0)", SELECTS[self.operation]
        for earlier in {0: [1], 1: []}.get(i, range(i)):
            text = f"where(y {compare} x{earlier}, {text}, 0)"
        return text

    def inference_operation(self) -> object | None:
        if self.operation != ELTWISE.SUM or self.coefficients != [1, 1]:
            return None
        n = self.shape[0] if self.shape else 1
        return Sum(n, math.prod(self.shape) // n, 1 if self.slope is None else self.slope)

    def forward(self, x: list, y: list) -> None:
        if self.operation not in SELECTS:
            self._y(*x, y[0])
            return
        self._y(x[0], x[1], y[0])
        for bottom in x[2:]:
            self._y(y[0], bottom, y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        for i in reversed(range(len(dx))):  # the first may be stored where dy is
            if dx[i] is None:
                continue
            if self.operation == ELTWISE.SUM:
                if dx[i] is not dy[0] or self.coefficients[i] != 1:
                    self._dx[i](dy[0], dx[i])
            else:
                self._dx[i](*x, y[0], dy[0], dx[i])
