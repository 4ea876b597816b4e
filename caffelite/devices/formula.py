"""Formulas: one line of mathematics, compiled by every device.

A formula is Python arithmetic over named arrays and constants with the functions below and ``where(condition, a, b)``.
Numbers take the array's type, so that a float32 net computes in float32 on every device.
"""

import re
from dataclasses import dataclass

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


def unbias(m: int) -> float:
    """The factor that makes the variance of m samples an unbiased estimate."""
    return m / (m - 1) if m > 1 else 1.0
