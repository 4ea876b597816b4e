"""The operations of devices that formulas are in. What is built is a function; its arguments stand as ``run(...)``.

Shapes: (N, C, P) of arrays; those that ``channels`` names have C elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from .formula import Formula
from .ops import Operation, OptionalOperation
from .types import Kernel

T = TypeVar("T")
Constants = Mapping[str, float]
Split = tuple[int, int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Map(Operation[Kernel]):
    """``run(*arrays, *scalars, out)``: out = formula, element by element; out may be one of the arrays."""

    formula: Formula
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Operation[Kernel]):
    """``run(*arrays, *scalars, out, add=False)``: out[0] = [out[0] +] scale · Σ formula, summed in float64."""

    formula: Formula
    scale: float = 1.0
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class ChannelMap(Operation[Kernel]):
    """``run(*arrays, *scalars, out)``: ``Map`` over (N, C, P)."""

    formula: Formula
    channels: tuple[str, ...]
    split: Split
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class ChannelSum(Operation[Kernel]):
    """``run(*arrays, *scalars, out, add=False)``: out (C) = [out +] scale · Σ formula over N and P, summed in
    float64."""

    formula: Formula
    channels: tuple[str, ...]
    split: Split
    scale: float = 1.0
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class ChannelSums(Operation[Kernel]):
    """``run(*arrays, outs)``: ``ChannelSum`` of several formulas; arrays are those of all formulas, each once.

    with_values: ``run(*arrays, outs, values)``, where ``values``, which may be one of the arrays, receives the first
    formula's values.
    """

    formulas: tuple[Formula, ...]
    channels: tuple[str, ...]
    split: Split
    scale: float = 1.0
    with_values: bool = False
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class BatchMoments(Operation[Kernel]):
    """``run(x, mean, scale, means, variances, count)``: statistics of each channel of x (N, C, P) for batch
    normalization.

    scale = 1 / √(variance + eps). means and variances (C, unbiased) and count (1) are running sums: multiplied by
    ``keep``, then added to.
    """

    split: Split
    eps: float
    keep: float


@dataclass(frozen=True, eq=False, repr=False)
class ReluBackward(Operation[Kernel]):
    """``run(y, dy, db=None, add=False)``: dy (N, C, P), the gradient of a leaky ReLU's top y, becomes that of its
    bottom; db (C) = [db +] its sum over N and P. Where P is 1, y and dy may be slices of wider rows on a device that
    ``takes_slices``."""

    split: Split
    slope: float


@dataclass(frozen=True, eq=False, repr=False)
class Update(Operation[Kernel]):
    """``run(hyperparameters, scale, *arrays)``: an update rule over flat buffers.

    chunks (K, 2): ranges of elements; lr_mult and decay (K): their multipliers. hyperparameters: the rate, then those
    of the formula's constants that are not given here, in its order; scale (1): factor of g. Both are arrays of the
    device.
    """

    formula: Formula
    chunks: np.ndarray
    lr_mult: np.ndarray
    decay: np.ndarray
    constants: Constants = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class FusedUpdate(OptionalOperation[Kernel]):
    """``run(hyperparameters, scale, x, dy, w, *history)``: an update rule that computes the gradient of weights as it
    applies the rule: dyᵀ x, of w (N, K), x (M, K) and dy (M, N); the rest as of ``Update``. Only for a device whose
    traits say ``fuses_updates``."""

    formula: Formula
    lr_mult: float
    decay: float
    constants: Constants = field(default_factory=dict)


class FormulaDevice(Protocol):
    """The same operations in the words in which layers write them: each method builds the operation of its name."""

    def build(self, op: Operation[T]) -> T: ...

    def map(self, formula: Formula, **constants: float) -> Kernel:
        return self.build(Map(formula, constants))

    def sum(self, formula: Formula, scale: float = 1.0, **constants: float) -> Kernel:
        return self.build(Sum(formula, scale, constants))

    def channel_map(
        self, formula: Formula, channels: tuple[str, ...], n: int, c: int, p: int, /, **constants: float
    ) -> Kernel:
        return self.build(ChannelMap(formula, channels, (n, c, p), constants))

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
    ) -> Kernel:
        return self.build(ChannelSum(formula, channels, (n, c, p), scale, constants))

    def channel_sums(
        self,
        formulas: tuple[Formula, ...],
        channels: tuple[str, ...],
        n: int,
        c: int,
        p: int,
        /,
        scale: float = 1.0,
        with_values: bool = False,
        **constants: float,
    ) -> Kernel:
        return self.build(ChannelSums(formulas, channels, (n, c, p), scale, with_values, constants))

    def batch_moments(self, n: int, c: int, p: int, eps: float, keep: float) -> Kernel:
        return self.build(BatchMoments((n, c, p), eps, keep))

    def relu_backward(self, n: int, c: int, p: int, slope: float) -> Kernel:
        return self.build(ReluBackward((n, c, p), slope))
