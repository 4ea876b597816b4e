"""Compiles a GPU's kernels from their .cu files, and launches them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..dtypes import HALF_DTYPES
from ..interfaces import Kernel
from . import formulas
from .backend import HEAD
from .memory import Memory

BLOCK = 256  # threads of a block
MOST_BLOCKS = 1 << 13  # a kernel's threads loop over the elements beyond
SMALL = 1 << 30  # elements that int indices reach, strides included


class Kernels(Memory):
    """Builds the kernels of the .cu files for the device's dtype."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of .cu files
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def kernel(self, family: str, name: str, threads: int, *fixed: Any, size: int = 0, block: int = BLOCK) -> Kernel:
        """``run(*arguments)``: a kernel of <family>.cu on at least ``threads`` threads or ``MOST_BLOCKS`` blocks.

        fixed: the last parameters, which never change: an int becomes idx, a float real, None a null pointer; NumPy's
        scalars stay. size: the largest index, where that is not ``threads``.
        """
        kind, whole = self._indices(max(size, threads))
        if family not in self._texts:
            self._texts[family] = (Path(__file__).parent / f"{family}.cu").read_text()
        launches = {}
        tail = tuple(self._argument(v, whole) for v in fixed)
        blocks = grid(threads, block)

        def run(*arguments):
            blob = next((a.dtype.name for a in arguments if getattr(a, "dtype", None) in HALF_DTYPES), self.dtype.name)
            if blob not in launches:
                launches[blob] = self._compile(self._texts[family], name, kind, formulas.TYPES[blob])
            launches[blob](blocks, (block, 1, 1), (*(self._argument(v, whole) for v in arguments), *tail))

        return run

    @staticmethod
    def _indices(elements: int) -> tuple[str, type[np.signedinteger]]:
        """The type of indices, in CUDA and in NumPy, that reach ``elements``."""
        return ("int", np.int32) if elements < SMALL else ("long long", np.int64)

    def _argument(self, value, whole):
        if value is None:
            return np.uintp(0)
        if type(value) in (int, bool):
            return whole(value)
        return self.dtype.type(value) if type(value) is float else value

    def _compile(self, text: str, name: str, idx: str = "long long", blob: str | None = None):
        """The kernel ``name`` of a text that follows the prelude."""
        for part in ("types", "prelude"):
            if part not in self._texts:
                self._texts[part] = (Path(__file__).parent / f"{part}.cu").read_text()
        real = formulas.TYPES[self.dtype.name]
        head = HEAD.format(real=real, idx=idx, blob=blob or real)
        return self.backend.kernel(self._texts["types"] + head + self._texts["prelude"] + text, name)

    def _cached_kernel(self, *built: Any, **options: Any) -> Kernel:
        """``kernel``, built once for the same arguments."""
        key = (*built, *options.items())
        if key not in self._kernels:
            self._kernels[key] = self.kernel(*built, **options)
        return self._kernels[key]


def grid(threads: int, block: int, most: int | None = None) -> tuple[int, int, int]:
    """The grid of a launch with at least one thread for each, and at most ``most`` or ``MOST_BLOCKS`` blocks."""
    return max(1, min(math.ceil(threads / block), most or MOST_BLOCKS)), 1, 1
