"""Formulas evaluated by NumPy, for float64, which only tests and gradient checks use: no kernel is compiled for them,
and compiled float32 kernels are compared with an independent implementation.

The functions have the signatures and the meaning of those in ``formulas``.
"""

import ast
import functools
from collections.abc import Callable, Iterable

import numpy as np

from ..formula import Formula, merged

# min, max and sign treat NaN as Python's comparisons do, like the compiled formulas.
_FUNCTIONS = {
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "max": lambda a, b: np.where(np.greater(b, a), b, a),
    "min": lambda a, b: np.where(np.less(b, a), b, a),
    "pow": np.power,
    "sign": lambda x: np.greater(x, 0) * 1.0 - np.less(x, 0),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "where": np.where,
}
_quiet = np.errstate(all="ignore")


class _Unchained(ast.NodeTransformer):
    """Writes a < b < c as (a < b) & (b < c), which NumPy applies element by element."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        terms = [node.left, *node.comparators]
        pairs = zip(terms, node.ops, terms[1:], strict=False)
        each: list[ast.expr] = [ast.Compare(left, [op], [right]) for left, op, right in pairs]
        return functools.reduce(lambda a, b: ast.BinOp(a, ast.BitAnd(), b), each)


@functools.cache
def _compiled(text: str, mode: str):
    return compile(ast.fix_missing_locations(_Unchained().visit(ast.parse(text.strip(), mode=mode))), "formula", mode)


def _value(formula: Formula, values: dict):
    """The value of a formula; values: its arrays, scalars and constants by name."""
    assert not formula.halves, "bfloat16 arrays belong to float32 devices"
    return eval(_compiled(formula.text, "eval"), {**_FUNCTIONS, **values})


def _arguments(formula: Formula, operands: Iterable, over: str | None = None, out=None) -> dict:
    """The operands by name, scalars as one element; over: the array that is missing, because ``out`` holds it."""
    names = [a for a in (*formula.arrays, *formula.scalars, *formula.constants) if a != over]
    values = dict(zip(names, operands, strict=True))
    values |= {name: values[name][0] for name in formula.scalars}
    return values if over is None else {**values, over: out}


def map_kernel(formula: Formula, dtype: str, over: str | None = None) -> Callable[..., None]:
    @_quiet
    def kernel(out, *operands):
        out[...] = _value(formula, _arguments(formula, operands, over, out))

    return kernel


def sum_kernel(formula: Formula, dtype: str) -> Callable[..., None]:
    @_quiet
    def kernel(partial, *operands):
        values = _arguments(formula, operands)
        elements = np.broadcast_to(_value(formula, values), values[formula.arrays[0]].shape)
        partial[:] = [chunk.sum() for chunk in np.array_split(elements, partial.size)]

    return kernel


def _planes(values: dict, channels: tuple[str, ...], rows: int) -> dict:
    """``values`` with the arrays of ``channels`` (C) repeated to (rows, 1), one element for each plane."""
    return {**values, **{a: np.resize(values[a], (rows, 1)) for a in channels}}


def channel_map_kernel(
    formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool, over: str | None = None
) -> Callable[..., None]:
    @_quiet
    def kernel(out, pieces, c, *operands):
        values = _arguments(formula, operands, over, out)
        out[...] = _value(formula, values if columns else _planes(values, channels, len(out)))

    return kernel


def channel_sum_kernel(formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool) -> Callable[..., None]:
    if columns:

        @_quiet
        def kernel(partial, n, *operands):
            values = _value(formula, _arguments(formula, operands))
            _sum_columns(np.broadcast_to(values, (n, partial.shape[1])), partial)

    else:

        @_quiet
        def kernel(partial, p, c, *operands):
            values = _planes(_arguments(formula, operands), channels, len(partial))
            elements = np.broadcast_to(_value(formula, values), (len(partial), p))
            for k, piece in enumerate(np.array_split(elements, partial.shape[1], 1)):
                partial[:, k] = piece.sum(1)

    return kernel


def _sum_columns(elements: np.ndarray, partial: np.ndarray) -> None:
    for k, chunk in enumerate(np.array_split(elements, len(partial))):
        partial[k] = chunk.sum(0)


def column_sums_kernel(
    several: tuple[Formula, ...],
    dtype: str,
    channels: tuple[str, ...],
    constants: tuple[str, ...],
    kept: bool = False,
    over: str | None = None,
) -> Callable[..., None]:
    whole = Formula(several[0].text, merged(several), constants=constants)

    @_quiet
    def kernel(*operands):
        out = operands[0] if kept else None
        partial, _, n, *arrays = operands[kept:]
        values = _arguments(whole, arrays, over, out)
        elements = [np.broadcast_to(_value(f, values), (n, partial.shape[2])) for f in several]
        for k, element in enumerate(elements):
            _sum_columns(element, partial[:, k])
        if kept:
            out[...] = elements[0]

    return kernel


def _update(formula: Formula, values: dict) -> None:
    """Runs an update rule; its arrays other than g change where they are."""
    changed = {a: values[a] for a in formula.arrays if a != "g"}
    names = {**_FUNCTIONS, **values}
    exec(_compiled(formula.text, "exec"), names)
    for name, array in changed.items():
        array[...] = names[name]


def update_kernel(formula: Formula, dtype: str) -> Callable[..., None]:
    others = [c for c in formula.constants if c not in ("rate", "decay")]

    @_quiet
    def kernel(start, stop, lr_mult, decay_mult, rate, scale, *operands):
        names = dict(zip((*formula.arrays, *others), operands, strict=True))
        for first, last, lr, decay in zip(start, stop, lr_mult, decay_mult, strict=True):
            values = {**names, **{a: names[a][first:last] for a in formula.arrays}, "rate": rate * lr, "decay": decay}
            _update(formula, {**values, "g": values["g"] * scale})

    return kernel


def rows_update_kernel(formula: Formula, dtype: str) -> Callable[..., None]:
    names = [a for a in formula.arrays if a != "g"] + [c for c in formula.constants if c not in ("rate", "decay")]

    @_quiet
    def kernel(x, dy, rate, decay, scale, space, *operands):
        values = dict(zip(names, operands, strict=True))
        _update(formula, {**values, "rate": rate, "decay": decay, "g": dy.T @ x * scale})

    return kernel
