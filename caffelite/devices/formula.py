"""Formulas: one line of mathematics, compiled by every device.

A formula is Python arithmetic over named arrays and constants with the functions below and ``where(condition, a, b)``.
Numbers take the array's type, so that a float32 net computes in float32 on every device.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

FUNCTIONS = ("abs", "exp", "log", "log1p", "max", "min", "pow", "sign", "sqrt", "tanh", "where")
_NUMBER = re.compile(r"(?<![\w.])(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Formula:
    """``text`` over ``arrays`` (one element each at a time), ``scalars`` (arrays of one element) and ``constants``
    (numbers).

    An update rule assigns: statements separated by ``;``, whose targets are arrays that are written back. ``halves``
    names arrays of bfloat16 numbers (see dtypes.py), among them "out", the result; the formula reads them as float32.
    """

    text: str
    arrays: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    halves: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {*self.arrays, *self.scalars, *self.constants, *FUNCTIONS}
        unknown = sorted({name for name in _NAME.findall(_NUMBER.sub("", self.text)) if name not in known})
        assert not unknown, f"formula {self.text!r} uses {', '.join(unknown)}"

    def typed(self, cast: str) -> str:
        """The text with every number wrapped in the array type: ``cast="T"`` gives ``T(1)``."""
        return _NUMBER.sub(rf"{cast}(\1)", self.text)

    def uses(self, name: str) -> bool:
        return name in _NAME.findall(self.text)


def merged(formulas: tuple[Formula, ...], kind: str = "arrays") -> tuple[str, ...]:
    """The arrays of several formulas, or their "scalars" or "constants", each once, in the order in which they first
    appear."""
    return tuple(dict.fromkeys(name for formula in formulas for name in getattr(formula, kind)))


class SumsDevice(Protocol):
    """What ``one_by_one`` and ``two_passes`` need of a device."""

    def channel_sum(
        self,
        formula: Formula,
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        **constants: float,
    ) -> Callable[..., None]: ...


class MomentsDevice(Protocol):
    """What ``batch_moments`` needs of a device."""

    def zeros(self, shape: int) -> Any: ...

    def map(self, formula: Formula, **constants: float) -> Callable[..., None]: ...

    def moments(self, n: int, c: int, p: int) -> Callable[..., None]: ...


def one_by_one(
    device: SumsDevice,
    formulas: tuple[Formula, ...],
    channels: tuple[str, ...],
    n: int,
    c: int,
    p: int,
    scale: float,
    constants: dict,
):
    """``channel_sums`` by one ``channel_sum`` after the other: ``run(*arrays, outs)``, arrays as in ``merged``."""
    names = merged(formulas)
    runs = []
    for formula in formulas:
        own = {name: constants[name] for name in formula.constants}
        runs.append(
            device.channel_sum(formula, tuple(a for a in channels if a in formula.arrays), n, c, p, scale, **own)
        )

    def run(*operands):
        arrays = dict(zip(names, operands[:-1], strict=True))
        for formula, total, out in zip(formulas, runs, operands[-1], strict=True):
            total(*[arrays[name] for name in formula.arrays], out)

    return run


def unbias(m: int) -> float:
    """The factor that makes the variance of m samples an unbiased estimate."""
    return m / (m - 1) if m > 1 else 1.0


def batch_moments(device: MomentsDevice, n: int, c: int, p: int, eps: float, keep: float):
    """``run(x, mean, scale, means, variances, count)``: statistics of each channel of x (N, C, P), by other formulas of
    the device.

    scale = 1 / √(variance + eps). means and variances (C), with m/(m-1), and count (1), how many there are, are running
    sums: multiplied by ``keep``, then added to.
    """
    constants = {"keep": keep, "unbias": unbias(n * p)}
    variance, moments = device.zeros(c), device.moments(n, c, p)
    scale_of = device.map(Formula("1 / sqrt(v + eps)", ("v",), constants=("eps",)), eps=eps)
    counted = device.map(Formula("f * keep + 1", ("f",), constants=("keep",)), keep=keep)
    remembered = device.map(Formula("a * keep + v", ("a", "v"), constants=("keep",)), keep=keep)
    unbiased = device.map(Formula("a * keep + unbias * v", ("a", "v"), constants=("keep", "unbias")), **constants)

    def run(x, mean, scale, means, variances, count):
        moments(x, mean, variance)
        scale_of(variance, scale)
        remembered(means, mean, means)
        unbiased(variances, variance, variances)
        counted(count, count)

    return run


def two_passes(device: SumsDevice, n: int, c: int, p: int):
    """``run(x, mean, variance)``: the moments of each channel of x (N, C, P), by ``channel_sum``."""
    mean_of = device.channel_sum(Formula("x", ("x",)), (), n, c, p, 1 / (n * p))
    variance_of = device.channel_sum(Formula("(x - u) * (x - u)", ("x", "u")), ("u",), n, c, p, 1 / (n * p))

    def run(x, mean, variance):
        mean_of(x, mean)
        variance_of(x, mean, variance)

    return run
