"""Comparisons, what combines their answers, and choices by them: 0 and 1 are numbers of blobs as others are."""

import numpy as np

from .builder import LARGEST, Builder, translates
from .decomposition import Decomposition
from .reader import Operator

HUGE = 1e30  # beside which a score is lost, as in what masks of attention add
COMPARISONS = ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")


@translates("Threshold")
def threshold(b: Builder, op: Operator) -> list[str]:
    """1 where a number is above the limit, 0 elsewhere; no gradient goes through it."""
    return [b.add("Threshold", [b.x(op)], threshold_param={"threshold": op.get("limit", 0.0)}, propagate_down=[False])]


@translates(*COMPARISONS)
def compared(b: Builder, op: Operator) -> list[str]:
    d = Decomposition(b, op)
    one, other = op.inputs
    if op.kind == "Equal":
        if all(_is_whole(b, name) for name in (one, other)):
            apart = d.make("Abs", d.make("Sub", one, other, called="difference"), called="apart")
            return d.blob(d.make("HardSigmoid", apart, alpha=-1.0, beta=1.0))
        sides = [_not(d, _above(b, d, *pair)) for pair in ((one, other), (other, one))]
        return d.blob(d.make("Mul", *sides))
    if op.kind in ("Less", "GreaterOrEqual"):
        one, other = other, one
    above = _above(b, d, one, other)
    return d.blob(_not(d, above) if op.kind.endswith("OrEqual") else above)


def _is_whole(b: Builder, name: str) -> bool:
    values = b.traced.values.get(name)
    return name in b.traced.whole if values is None else bool((values == np.round(values)).all())


def _above(b: Builder, d: Decomposition, one: str, other: str) -> str:
    limit = b.traced.values.get(other)
    if limit is not None and limit.size == 1 and b.shape(one) == np.broadcast_shapes(b.shape(one), limit.shape):
        return d.make("Threshold", one, called="above", limit=float(limit.reshape(())))
    return d.make("Threshold", d.make("Sub", one, other, called="difference"), called="above")


def _not(d: Decomposition, answer: str) -> str:
    return d.make("Sub", d.constant(1.0), answer, called="not")


@translates("Not")
def not_(b: Builder, op: Operator) -> list[str]:
    d = Decomposition(b, op)
    return d.blob(_not(d, op.inputs[0]))


@translates("And", "Or", "Xor")
def combined(b: Builder, op: Operator) -> list[str]:
    d = Decomposition(b, op)
    one, other = op.inputs
    fixed = None
    for i in range(2):
        if (values := d.value(i)) is not None:
            one, fixed, other = op.inputs[1 - i], values, d.constant(values)
    if op.kind == "Xor":
        return d.blob(d.make("Abs", d.make("Sub", one, other, called="difference")))
    if op.kind == "And":
        return d.blob(d.make("Mul", one, other))
    opposite = _not(d, other) if fixed is None else d.constant(~fixed.astype(bool))
    return d.blob(_not(d, d.make("Mul", _not(d, one), opposite, called="neither")))


@translates("Where")
def where(b: Builder, op: Operator) -> list[str]:
    d, (answer, one, other) = Decomposition(b, op), op.inputs
    chosen, x, y = (d.value(i) for i in range(3))
    if chosen is None:
        return d.blob(_by_answers(d, answer, (one, x), (other, y)))
    chosen = chosen.astype(bool)
    if x is not None:
        one, x, other, y, chosen = other, y, one, x, ~chosen
    if y is None:
        pairs = ((one, chosen), (other, ~chosen))
        sides = [d.make("Mul", name, d.constant(mask), called="masked") for name, mask in pairs]
        return d.blob(d.make("Add", *sides))
    fill = np.where(chosen, 0, y)
    left_out = np.broadcast_to(y, fill.shape)[np.broadcast_to(~chosen, fill.shape)]
    if not (np.abs(left_out) >= HUGE).all():
        one = d.make("Mul", one, d.constant(chosen), called="masked")
    return d.blob(d.make("Add", one, d.constant(fill)) if fill.any() else one)


def _by_answers(d: Decomposition, answer: str, *choices: tuple[str, np.ndarray | None]) -> str:
    """x where the answer is 1, y where it is 0: the sum of both times the answer and its opposite."""
    (_, x), (_, y) = choices
    if x is not None and y is not None:
        scaled = d.make("Mul", answer, d.constant(np.subtract(x, y, dtype=np.float64)), called="chosen")
        return d.make("Add", scaled, d.constant(y))
    products = []
    for (name, values), invert in zip(choices, (False, True), strict=True):
        if values is not None and not values.any():
            continue
        factor = _not(d, answer) if invert else answer
        tensor = name if values is None else d.constant(values)
        products.append(d.make("Mul", factor, tensor, called="other" if invert else "chosen"))
    return products[0] if len(products) == 1 else d.make("Add", *products)


def added_mask(d: Decomposition, b: Builder, index: int) -> str:
    """What a mask of attention, numbers or answers whether a place counts, adds to the scores."""
    values, name = d.value(index), d.input(index)
    if values is not None:
        return d.constant(np.where(values, 0, -LARGEST) if values.dtype == bool else values)
    if name not in b.traced.answers:
        return name
    return _by_answers(d, name, ("", np.zeros(())), ("", np.array(-LARGEST)))
