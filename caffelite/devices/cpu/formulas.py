"""Formulas compiled by Numba. Each becomes a small module in the user's cache folder, so that Numba can keep its machine code."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from ..formula import Formula

_HEADER = """\
from math import exp, log, log1p, pow, sqrt, tanh
import numpy as np
from numba import njit, prange
T = np.{dtype}

@njit(inline="always")
def where(condition, a, b):
    return a if condition else b

@njit(inline="always")
def sign(x):
    return T(x > 0) - T(x < 0)

@njit(fastmath={{"reassoc"}})
def plus__(a, b):  # the one sum whose order is the compiler's, which makes a vector loop of it; the formula keeps its own
    return a + b

@njit(parallel=True, nogil=True, cache=True, error_model="numpy")
"""


def cache_folder() -> Path:
    """Where compiled kernels are kept: $CAFFELITE_CACHE, else caffelite in the user's cache folder, else a temporary one."""
    chosen = os.environ.get("CAFFELITE_CACHE")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caffelite"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="caffelite-"))


@functools.cache
def _compiled(source: str):
    name = f"caffelite_formula_{hashlib.blake2b(source.encode(), digest_size=10).hexdigest()}"
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(source)
        draft.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # Numba finds cached kernels by their module's name
    spec.loader.exec_module(module)
    return module.kernel


# Names of our own end in two underscores, so that a formula may choose its names freely.
_MAP = """\
def kernel(out__, {names}):
{scalars}
    for i__ in prange(out__.size):
        {loads}
        out__[i__] = {formula}
"""

_SUM = """\
def kernel(partial__, {names}):
{scalars}
    n__ = {first}.size
    for c__ in prange(partial__.size):
        total__ = 0.0
        for i__ in range(c__ * n__ // partial__.size, (c__ + 1) * n__ // partial__.size):
            {loads}
            total__ += {formula}
        partial__[c__] = total__
"""

# Rows are planes (N·C, P), or samples (N, C) where P = 1; a row is cut in pieces where rows are few. `outer` names the rows of the arrays,
# which lets the inner loop be of vectors, and reads the channels of a plane; `loads` reads what changes from element to element.
_CHANNEL_MAP = """\
def kernel(out__, pieces__, channels__, {names}):
{scalars}
    width__ = out__.shape[1]
    for t__ in prange(out__.shape[0] * pieces__):
        i__, k__ = t__ // pieces__, t__ % pieces__
        lo__, hi__ = k__ * width__ // pieces__, (k__ + 1) * width__ // pieces__
        {outer}
        out_row__ = out__[i__, lo__:hi__]
        for j__ in range(out_row__.size):
            {loads}
            out_row__[j__] = {formula}
"""

_PLANE_SUM = """\
def kernel(partial__, width__, channels__, {names}):
{scalars}
    pieces__ = partial__.shape[1]
    for t__ in prange(partial__.size):
        i__, k__ = t__ // pieces__, t__ % pieces__
        lo__, hi__ = k__ * width__ // pieces__, (k__ + 1) * width__ // pieces__
        {outer}
        total__ = 0.0
        for j__ in range(hi__ - lo__):
            {loads}
            total__ = plus__(total__, {formula})
        partial__[i__, k__] = total__
"""

_COLUMN_SUM = """\
def kernel(partial__, rows__, {names}):
{scalars}
    lo__, hi__ = 0, partial__.shape[1]
    for t__ in prange(partial__.shape[0]):
        sums__ = partial__[t__]
        sums__[:] = 0
        for i__ in range(t__ * rows__ // partial__.shape[0], (t__ + 1) * rows__ // partial__.shape[0]):
            {outer}
            for j__ in range(sums__.size):
                {loads}
                sums__[j__] += {formula}
"""

_UPDATE = """\
def kernel(start__, stop__, lr_mult__, decay_mult__, rate__, scale__, {names}):
    for c__ in prange(start__.size):
        rate = rate__ * lr_mult__[c__]
        decay = decay_mult__[c__]
        for i__ in range(start__[c__], stop__[c__]):
            {loads}
            g = g_array__[i__] * scale__
            {formula}
            {stores}
"""


def _fill(template: str, formula: Formula, dtype: str, constants: tuple[str, ...], **more: str):
    """Compiles a template. Arrays are arguments with underscores behind their names; the formula sees element i of each."""
    names = [f"{a}_array__" for a in (*formula.arrays, *formula.scalars)] + list(constants)
    scalars = "\n".join(f"    {s} = {s}_array__[0]" for s in formula.scalars)
    loads = "; ".join(f"{a} = {a}_array__[i__]" for a in formula.arrays if formula.uses(a))
    parts = {"names": ", ".join(names), "scalars": scalars, "loads": loads, "formula": formula.typed("T"), **more}
    return _compiled(_HEADER.format(dtype=dtype) + template.format(**parts))


def map_kernel(formula: Formula, dtype: str):
    """``kernel(out, *arrays, *scalars, *constants)``: out[i] = formula, all arrays flat."""
    return _fill(_MAP, formula, dtype, formula.constants)


def sum_kernel(formula: Formula, dtype: str):
    """``kernel(partial, *arrays, *scalars, *constants)``: partial sums in float64 over equal parts, the same for every thread count."""
    return _fill(_SUM, formula, dtype, formula.constants, first=f"{formula.arrays[0]}_array__")


def _fill_channels(template: str, formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool):
    assert set(channels) <= set(formula.arrays), channels
    used = [a for a in formula.arrays if formula.uses(a)]
    along = used if columns else [a for a in used if a not in channels]
    outer = [f"{a}_row__ = {a}_array__[{'' if a in channels else 'i__, '}lo__:hi__]" for a in along]
    outer += [f"{a} = {a}_array__[i__ % channels__]" for a in used if a not in along]
    loads = "; ".join(f"{a} = {a}_row__[j__]" for a in along)
    return _fill(template, formula, dtype, formula.constants, outer="; ".join(outer) or "pass", loads=loads or "pass")


def channel_map_kernel(formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool):
    """``kernel(out, pieces, C, *arrays, *scalars, *constants)``: out (N·C, P) = formula, or (N, C) for columns."""
    return _fill_channels(_CHANNEL_MAP, formula, dtype, channels, columns)


def channel_sum_kernel(formula: Formula, dtype: str, channels: tuple[str, ...], columns: bool):
    """``kernel(partial, P, C, *arrays, *scalars, *constants)``: (N·C, pieces); for columns ``kernel(partial, N, …)``: (parts, C)."""
    return _fill_channels(_COLUMN_SUM if columns else _PLANE_SUM, formula, dtype, channels, columns)


def update_kernel(formula: Formula, dtype: str):
    """``kernel(start, stop, lr_mult, decay, rate, scale, *arrays, *constants)``: the rule over the chunks of flat buffers.

    The formula sees ``rate`` (the rate times lr_mult), ``decay`` (weight decay times decay_mult) and g already scaled.
    """
    stores = "; ".join(f"{a}_array__[i__] = {a}" for a in formula.arrays if a != "g")
    return _fill(_UPDATE, formula, dtype, tuple(c for c in formula.constants if c not in ("rate", "decay")), stores=stores)
