"""Quant: activations of few values."""

import math

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base.image_layout import ImageLayout
from ...layers.base.layer import Layer, Shape, register

MOST_CENTERS = 64  # nested conditions of a formula


@register
class Quant(ImageLayout, Layer):
    """Quantized activations; backward is the gradient of ``backward_func``, a function that is close to it.

    x, y of one shape. forward_func: "hwgq" (default) gives -negative_slope where x <= 0, else the center whose interval
    has x, with limits halfway between centers; "sign" gives 1 where x >= 0, else -1; "hard_tanh" limits x to [-1, 1];
    "relu" is a leaky ReLU. backward_func: "relu" (default), or "hard_tanh", which gives dy where abs x <= clip_thr. A
    clip_thr above 0 makes the gradient of "relu" 0 for larger x. Errors: an unknown function, centers that are not
    positive. Source: Cai et al. 2017 (half-wave Gaussian quantization), zhaoweicai/hwgq quant_layer.cpp.
    """

    field = "quant_param"
    couples_samples = False
    follows_layout = follows_precision = True
    backward_reads_tops = False
    divisible_axes = True

    def setup(self) -> None:
        centers = list(self.p.centers)
        if self.p.forward_func == "hwgq":
            for i, center in enumerate(centers):
                if not 0 < center < math.inf:
                    raise self.error("a bad center", "centers", i, expected="a number above 0", found=f"{center:g}")
            if not 1 <= len(centers) <= MOST_CENTERS:
                found = len(centers) or "none"
                raise self.error("a bad number of centers", "centers", expected=f"1 to {MOST_CENTERS}", found=found)
        clip = self.p.clip_thr if self.p.clip_thr > 0 else math.inf
        values = {"slope": self.p.negative_slope, "clip": clip, **{f"c{i}": c for i, c in enumerate(centers)}}
        values |= {f"t{i}": 0.5 * (c + d) for i, (c, d) in enumerate(zip(centers, centers[1:], strict=False))}
        forwards = {
            "sign": "where(x >= 0, 1, where(x == x, -1, x))",
            "hard_tanh": "where(x == x, min(max(x, -1), 1), x)",
        }
        forwards |= {"relu": "where(x > 0, x, slope * x)", "hwgq": self._nearest(len(centers))}
        backwards = {
            "relu": "where(x > clip, 0, where(x > 0, dy, slope * dy))",
            "hard_tanh": "where(abs(x) <= clip, dy, 0)",
        }
        self.y = self._formula("forward_func", forwards, ("x",), values)
        self.dx = self._formula("backward_func", backwards, ("x", "dy"), values)
        self.constants = values

    @staticmethod
    def _nearest(count: int) -> str:
        """The center of x, by comparisons with the limits in their order."""
        limits = range(count - 1)
        inner = "".join(f"where(x <= t{i}, c{i}, " for i in limits) + f"where(x == x, c{count - 1}, x)"
        return f"where(x <= 0, -slope, {inner}{')' * count}"

    def _formula(self, field: str, texts: dict[str, str], arrays: tuple[str, ...], values: dict[str, float]) -> Formula:
        name = getattr(self.p, field)
        if name not in texts:
            raise self.error(f"unknown {field}", field, expected=" or ".join(texts), found=f'"{name}"')
        every = Formula(texts[name], arrays, constants=tuple(values))
        return Formula(texts[name], arrays, constants=tuple(filter(every.uses, values)))

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        self._y, self._dx = (
            dev.map(self.as_stored(f), **{name: self.constants[name] for name in f.constants})
            for f in (self.y, self.dx)
        )

    def forward(self, x: list, y: list) -> None:
        self._y(x[0], y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        self._dx(x[0], dy[0], dx[0])
