"""Formulas compiled by Numba: each a small module in the user's cache folder, where Numba keeps its machine code."""

import functools
import hashlib
import importlib.util
import os
import sys
from operator import is_
from typing import NamedTuple

from ...system import cache_folder
from ..formula import Formula, merged
from .kernels.settings import FORMULA

_HEADER = """\
from math import exp, log, log1p, pow, sqrt, tanh
import numpy as np
from numba import njit
from caffelite.devices.cpu.kernels.parallel import loop as loop__
T = np.{dtype}

@njit(inline="always")
def where(condition, a, b):
    return a if condition else b

@njit(inline="always")
def sign(x):
    return T(x > 0) - T(x < 0)

@njit(fastmath={{"reassoc"}})
def plus__(a, b):  # only this sum may be reordered, so that the compiler vectorizes it; the formula keeps its own order
    return a + b

"""

_HALVES = """\
@njit(inline="always")
def widen__(x):
    return np.uint32(np.uint32(x) << np.uint32(16)).view(np.float32)

@njit(inline="always")
def narrow__(x):  # to the nearest, even of equals; NaN to NaN
    bits = np.float32(x).view(np.uint32)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    return np.uint16((rounded if x == x else np.uint32(0x7FC00000)) >> np.uint32(16))

"""

_KERNEL = """\
@loop__("{count}", distinct={distinct})
def kernel(first__, last__, {arguments}):
{loop}"""


@functools.cache
def _compiled(source: str):
    name = f"{FORMULA}{hashlib.blake2b(source.encode(), digest_size=10).hexdigest()}"
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(source)
        draft.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    # Numba finds cached kernels by the name of their module.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


class Map:
    """``run(*arrays, *scalars, out)`` of a formula; what it did with its operands is kept for the next run on the same
    ones.

    kernel(over) gives the compiled kernel and its first arguments; shapes are those in which it takes each operand, and
    ``out``.
    """

    def __init__(self, formula: Formula, kernel, shapes: list, out, values: tuple):
        self._formula, self._kernel, self._shapes, self._out, self._values = formula, kernel, shapes, out, values
        self._seen: tuple = ()
        kernel(None)  # compiled now, not in the first iteration

    def __call__(self, *operands) -> None:
        if len(operands) != len(self._seen) or not all(map(is_, operands, self._seen)):
            self._bind(operands)
        self._run(*self._arguments)

    def _bind(self, operands: tuple) -> None:
        *arrays, out = operands
        names = (*self._formula.arrays, *self._formula.scalars)
        named = zip(names, arrays, strict=True)
        same = [name for name, a in named if a.size == out.size > 1 and a.ctypes.data == out.ctypes.data]
        over = same[0] if same and same[0] in self._formula.arrays else None
        self._run, first = self._kernel(over)
        arguments = [a.reshape(s) for n, a, s in zip(names, arrays, self._shapes, strict=True) if n != over]
        self._arguments = out.reshape(self._out), *first, *arguments, *self._values
        self._seen = operands


class _Loop(NamedTuple):
    """A template of a loop: its own arguments before those of the formula, the number of its iterations, its source
    text. distinct: see kernels.parallel.body. imports: of its source text."""

    arguments: str
    iterations: str
    text: str
    distinct: bool = False
    imports: str = ""


# Names of our own end in two underscores, so that a formula may choose its names freely.
_MAP = _Loop(
    "out__",
    "out__.size",
    """\
{scalars}
    for i__ in range(first__, last__):
        {loads}
        out__[i__] = {result}
""",
    distinct=True,
)

_SUM = _Loop(
    "partial__",
    "partial__.size",
    """\
{scalars}
    n__ = {first}.size
    for c__ in range(first__, last__):
        total__ = 0.0
        for i__ in range(c__ * n__ // partial__.size, (c__ + 1) * n__ // partial__.size):
            {loads}
            total__ += {formula}
        partial__[c__] = total__
""",
)

# Rows are planes (N·C, P), or samples (N, C) where P = 1; a row is cut in pieces where rows are few. `outer` names the
# rows of the arrays, which lets the inner loop be of vectors, and reads the channels of a plane; `loads` reads what
# changes from element to element.
_CHANNEL_MAP = _Loop(
    "out__, pieces__, channels__",
    "out__.shape[0] * pieces__",
    """\
{scalars}
    width__ = out__.shape[1]
    for t__ in range(first__, last__):
        i__, k__ = t__ // pieces__, t__ % pieces__
        lo__, hi__ = k__ * width__ // pieces__, (k__ + 1) * width__ // pieces__
        {outer}
        out_row__ = out__[i__, lo__:hi__]
        for j__ in range(out_row__.size):
            {loads}
            out_row__[j__] = {result}
""",
)

_PLANE_SUM = _Loop(
    "partial__, width__, channels__",
    "partial__.size",
    """\
{scalars}
    pieces__ = partial__.shape[1]
    for t__ in range(first__, last__):
        i__, k__ = t__ // pieces__, t__ % pieces__
        lo__, hi__ = k__ * width__ // pieces__, (k__ + 1) * width__ // pieces__
        {outer}
        total__ = 0.0
        for j__ in range(hi__ - lo__):
            {loads}
            total__ = plus__(total__, {formula})
        partial__[i__, k__] = total__
""",
)

_COLUMN_SUM = _Loop(
    "partial__, rows__",
    "partial__.shape[0]",
    """\
{scalars}
    lo__, hi__ = 0, partial__.shape[1]
    for t__ in range(first__, last__):
        sums__ = partial__[t__]
        sums__[:] = 0
        for i__ in range(t__ * rows__ // partial__.shape[0], (t__ + 1) * rows__ // partial__.shape[0]):
            {outer}
            for j__ in range(sums__.size):
                {loads}
                sums__[j__] += {formula}
""",
)

# Some rows are added up in the arrays' type before their sum joins that in float64: a vector loop of half the width of
# numbers.
_COLUMN_SUMS = _Loop(
    "partial__, rough__, rows__",
    "partial__.shape[0]",
    """\
    lo__, hi__ = 0, partial__.shape[2]
    for t__ in range(first__, last__):
        {starts}
        begin__, end__ = t__ * rows__ // partial__.shape[0], (t__ + 1) * rows__ // partial__.shape[0]
        for start__ in range(begin__, end__, 64):
            {zeros}
            for i__ in range(start__, min(start__ + 64, end__)):
                {outer}
                for j__ in range(hi__):
                    {loads}
                    {totals}
            for j__ in range(hi__):
                {joins}
""",
    distinct=True,
)

_UPDATE = _Loop(
    "start__, stop__, lr_mult__, decay_mult__, rate__, scale__",
    "start__.size",
    """\
    for c__ in range(first__, last__):
        rate = rate__ * lr_mult__[c__]
        decay = decay_mult__[c__]
        for i__ in range(start__[c__], stop__[c__]):
            {loads}
            g = g_array__[i__] * scale__
            {formula}
            {stores}
""",
    distinct=True,
)

# Each thread has columns of its own; ``gradient__`` holds the gradient of a few rows of a block of them. Rows are
# copied by loops: an assignment of arrays takes two seconds to compile, for the text of its error, and is slower.
_ROWS_UPDATE = _Loop(
    "x__, dy__, rate, decay, scale__, space__",
    "space__.shape[0]",
    """\
    rows__, line__, step__ = x__.shape[0], x__.shape[1] * 4, dy__.shape[1] * 4
    tiles__, threads__ = x__.shape[1] // TILE__, space__.shape[0]
    for t__ in range(first__, last__):
        left__, gradient__ = space__[t__, :rows__], space__[t__, rows__:]
        end__ = (t__ + 1) * tiles__ // threads__ * TILE__
        for k__ in range(t__ * tiles__ // threads__ * TILE__, end__, BLOCK__):
            width__ = min(BLOCK__, end__ - k__)
            for n__ in range(rows__):
                to_row__, from_row__ = left__[n__, :width__], x__[n__, k__:k__ + width__]
                for i__ in range(width__):
                    to_row__[i__] = from_row__[i__]
            for n__ in range(0, dy__.shape[1], ROWS__):
                place__ = n__ * line__ + k__ * 4
                for tile__ in range(0, width__ * 4, TILE__ * 4):
                    source__, target__ = left__.ctypes.data + tile__, gradient__.ctypes.data + tile__
                    outer__(dy__.ctypes.data + n__ * 4, step__, source__, rows__, target__, BLOCK__ * 4, False)
                    {prefetches}
                for j__ in range(ROWS__):
                    {rows}
                    for i__ in range(width__):
                        {loads}; g = gradient__[j__, i__] * scale__
                        {formula}
                        {stores}
""",
    distinct=True,
    imports="""\
from caffelite.devices.cpu.kernels.few_rows import BLOCK as BLOCK__, ROWS as ROWS__, TILE as TILE__
from caffelite.devices.cpu.kernels.few_rows import outer as outer__, prefetch_next as prefetch_next__
""",
)


def _kernel(loop: _Loop, dtype: str, halves: tuple[str, ...], names: list[str], fields: dict[str, str]):
    """Compiles a template. names: the formula's arguments; fields: what replaces the template's fields."""
    arguments, body = ", ".join([loop.arguments, *names]), loop.text.format(**fields)
    kernel = _KERNEL.format(distinct=loop.distinct, arguments=arguments, count=loop.iterations, loop=body)
    return _compiled(loop.imports + _HEADER.format(dtype=dtype) + _HALVES * bool(halves) + kernel)


def _load(name: str, element: str, halves: tuple[str, ...]) -> str:
    return f"{name} = widen__({element})" if name in halves else f"{name} = {element}"


def _fill(loop: _Loop, formula: Formula, dtype: str, constants: tuple[str, ...], over: str | None = None, **more: str):
    """Compiles a template of one formula. Arrays are arguments with an underscore after their names; the formula reads
    element i of each.

    over: the array that ``out`` overwrites. It is then no argument: the compiler vectorizes the loop only if the array
    is not passed twice.
    """
    names = [f"{a}_array__" for a in (*formula.arrays, *formula.scalars) if a != over] + list(constants)
    scalars = "\n".join(f"    {s} = {s}_array__[0]" for s in formula.scalars)
    halves = formula.halves
    elements = {a: f"{'out__' if a == over else f'{a}_array__'}[i__]" for a in formula.arrays if formula.uses(a)}
    loads = "; ".join(_load(name, element, halves) for name, element in elements.items())
    fields = {"scalars": scalars, "loads": loads, "formula": formula.typed("T"), **more}
    fields["result"] = f"narrow__({fields['formula']})" if "out" in halves else fields["formula"]
    return _kernel(loop, dtype, halves, names, fields)


def map_kernel(formula: Formula, dtype: str, over: str | None = None):
    """``kernel(out, *arrays, *scalars, *constants)``: out[i] = formula, all arrays flat; over: see _fill."""
    return _fill(_MAP, formula, dtype, formula.constants, over)


def sum_kernel(formula: Formula, dtype: str):
    """``kernel(partial, *arrays, *scalars, *constants)``: partial sums in float64 over equal chunks, the same for every
    thread count."""
    return _fill(_SUM, formula, dtype, formula.constants, first=f"{formula.arrays[0]}_array__")


def _fill_channels(
    loop: _Loop, formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool, over: str | None = None
):
    assert set(channels) <= set(formula.arrays), channels
    used = [a for a in formula.arrays if formula.uses(a)]
    along = used if columns else [a for a in used if a not in channels]
    outer = [f"{a}_row__ = {a}_array__[{'' if a in channels else 'i__, '}lo__:hi__]" for a in along if a != over]
    outer += [_load(a, f"{a}_array__[i__ % channels__]", formula.halves) for a in used if a not in along]
    loads = "; ".join(_load(a, f"{'out' if a == over else a}_row__[j__]", formula.halves) for a in along)
    return _fill(loop, formula, dtype, formula.constants, over, outer="; ".join(outer) or "pass", loads=loads or "pass")


def channel_map_kernel(formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool, over: str | None = None):
    """``kernel(out, pieces, C, *arrays, *scalars, *constants)``: out (N·C, P) = formula, or (N, C) for columns; over:
    see _fill."""
    return _fill_channels(_CHANNEL_MAP, formula, dtype, channels, columns, over)


def channel_sum_kernel(formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool):
    """``kernel(partial, P, C, *arrays, *scalars, *constants)``: (N·C, pieces); for columns ``kernel(partial, N, …)``:
    (chunks, C)."""
    return _fill_channels(_COLUMN_SUM if columns else _PLANE_SUM, formula, dtype, channels, columns)


def column_sums_kernel(
    several: tuple[Formula, ...],
    dtype: str,
    channels: tuple[str, ...],
    constants: tuple[str, ...],
    kept: bool = False,
    over: str | None = None,
):
    """``kernel(partial, rough, N, *arrays, *constants)``: the sums of several formulas over the same rows (N, C).

    partial (chunks, F, C) takes them; rough: workspace like it, of the arrays' type. kept: ``kernel(out, partial, …)``;
    out receives the values of the first formula; over: the array that it overwrites, which is then no argument.
    """
    names, halves = merged(several), tuple({name for formula in several for name in formula.halves})
    rows = {a: "out_row__" if a == over else f"{a}_row__" for a in names}
    outer = [f"{rows[a]} = {a}_array__[{'' if a in channels else 'i__, '}lo__:hi__]" for a in names if a != over]
    outer += ["out_row__ = out__[i__, lo__:hi__]"] * kept
    each, value = range(len(several)), several[0].typed("T")
    store = [f"out_row__[j__] = {f'narrow__({value})' if 'out' in halves else value}"] * kept
    fields = {
        "starts": "; ".join(
            f"sums{k}__, rough{k}__ = partial__[t__, {k}], rough__[t__, {k}]; sums{k}__[:] = 0" for k in each
        ),
        "zeros": "; ".join(f"rough{k}__[:] = 0" for k in each),
        "joins": "; ".join(f"sums{k}__[j__] += rough{k}__[j__]" for k in each),
        "outer": "; ".join(outer),
        "loads": "; ".join(_load(a, f"{rows[a]}[j__]", halves) for a in names),
        "totals": "; ".join([f"rough{k}__[j__] += {f.typed('T')}" for k, f in enumerate(several)] + store),
    }
    loop = _COLUMN_SUMS._replace(arguments=f"{'out__, ' * kept}{_COLUMN_SUMS.arguments}")
    arguments = [*(f"{a}_array__" for a in names if a != over), *constants]
    return _kernel(loop, dtype, halves, arguments, fields)


def update_kernel(formula: Formula, dtype: str):
    """``kernel(start, stop, lr_mult, decay, rate, scale, *arrays, *constants)``: the rule over the chunks of flat
    buffers.

    The formula sees ``rate`` (the rate times lr_mult), ``decay`` (weight decay times decay_mult) and g already scaled.
    """
    stores = "; ".join(f"{a}_array__[i__] = {a}" for a in formula.arrays if a != "g")
    return _fill(
        _UPDATE, formula, dtype, tuple(c for c in formula.constants if c not in ("rate", "decay")), stores=stores
    )


def rows_update_kernel(formula: Formula, dtype: str):
    """``kernel(x, dy, rate, decay, scale, space, *arrays, *constants)``: the rule for weights (N, K), with the gradient
    dyᵀ x for g, x (M, K) and dy (M, N). arrays: those of the formula but g, each (N, K). Sizes as in
    kernels.few_rows.backward; workspace: space (threads, M + ROWS, BLOCK).
    """
    arrays = tuple(a for a in formula.arrays if a != "g")
    names = [f"{a}_array__" for a in arrays] + [c for c in formula.constants if c not in ("rate", "decay")]
    fields = {
        "prefetches": "; ".join(f"prefetch_next__({a}_array__.ctypes.data + place__ + tile__, line__)" for a in arrays),
        "rows": "; ".join(f"{a}_row__ = {a}_array__[n__ + j__, k__:k__ + width__]" for a in arrays),
        "loads": "; ".join(f"{a} = {a}_row__[i__]" for a in arrays),
        "formula": formula.typed("T"),
        "stores": "; ".join(f"{a}_row__[i__] = {a}" for a in arrays),
    }
    return _kernel(_ROWS_UPDATE, dtype, (), names, fields)
