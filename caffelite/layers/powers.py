"""Exp, Log and Power: formulas of scale · x + shift, with constants derived from the message as in Caffe."""

import math

from .layer import Layer, elementwise


def _base(layer: Layer) -> None:
    """The base must be positive; -1 means e."""
    if layer.p.base != -1 and not layer.p.base > 0:
        raise layer.error("a bad base", "base", expected="more than 0, or -1 for e", found=f"{layer.p.base:g}")


def _grows(layer: Layer) -> None:
    _base(layer)
    if _log_base(layer.p) * layer.p.shift > 88:
        raise layer.error("base^shift is no float32", "shift", expected="at most 3e38", found=f"{layer.p.shift:g}")


def _divides(layer: Layer) -> None:
    _base(layer)
    if layer.p.base == 1:
        raise layer.error("no logarithm has base 1", "base", expected="a base other than 1", found="1")


def _log_base(p) -> float:
    return 1.0 if p.base == -1 else math.log(p.base)


# y = base^(scale x + shift) = outer · e^(inner x)
elementwise(
    "Exp",
    y="outer * exp(inner * x)",
    dx="dy * inner * y",
    field="exp_param",
    about="y = base ^ (shift + scale * x); a base of -1 is e",
    check=_grows,
    inner=lambda p: _log_base(p) * p.scale,
    outer=lambda p: math.exp(_log_base(p) * p.shift),
)
elementwise(
    "Log",
    y="log(scale * x + shift) * factor",
    dx="dy * (factor * scale) / (scale * x + shift)",
    field="log_param",
    about="y = log(shift + scale * x) / log(base); a base of -1 is e",
    check=_divides,
    scale="scale",
    shift="shift",
    factor=lambda p: 1 / _log_base(p),
)


def _slope(p) -> str:
    """Powers 0, 1 and 2 without ``pow``; unlike in Caffe, the slope at scale x + shift = 0 is a number wherever it
    exists."""
    if p.power == 0 or p.scale == 0:
        return "0 * dy"
    return {1: "dy * slope", 2: "dy * slope * (scale * x + shift)"}.get(
        p.power, "dy * slope * pow(scale * x + shift, less)"
    )


elementwise(
    "Power",
    y=lambda p: {1: "scale * x + shift", 2: "(scale * x + shift) * (scale * x + shift)"}.get(
        p.power, "pow(scale * x + shift, power)"
    ),
    dx=_slope,
    field="power_param",
    about="y = (shift + scale * x) ^ power",
    scale="scale",
    shift="shift",
    power="power",
    less=lambda p: p.power - 1,
    slope=lambda p: p.power * p.scale,
)
