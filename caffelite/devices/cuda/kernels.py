"""Compiles a GPU's kernels from their .cu files, and launches them."""

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np

from ..dtypes import HALF_DTYPES
from ..types import Kernel
from . import formulas
from .backend import HEAD
from .memory import Memory

BLOCK = 256  # threads of a block
BUSY = 1 << 10  # blocks that keep all multiprocessors of a GPU busy
MOST_BLOCKS = 1 << 13  # a kernel's threads loop over the elements beyond
SMALL = 1 << 30  # elements that int indices reach, strides included


class Kernels(Memory):
    """Builds the kernels of the .cu files for the device's dtype."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # of .cu files
        self.cached_kernel = functools.cache(self.kernel)  # the same for the same arguments

    def kernel(self, family: str, name: str, threads: int, *fixed: Any) -> Kernel:
        """``run(*arguments)``: a kernel of <family>.cu on at least ``threads`` threads or ``MOST_BLOCKS`` blocks.

        fixed: the last parameters, which never change. An int becomes idx, which reaches the elements of all arrays, a
        float real, None a null pointer; NumPy's scalars stay.
        """
        if family not in self._texts:
            self._texts[family] = (Path(__file__).parent / f"{family}.cu").read_text()
        blocks, launches = grid(threads, BLOCK), {}

        def run(*arguments):
            blob = next((a.dtype.name for a in arguments if getattr(a, "dtype", None) in HALF_DTYPES), self.dtype.name)
            whole = self.index_type(max(threads, *(getattr(a, "size", 0) for a in arguments)))
            if (blob, whole) not in launches:
                launch = self.compile(self._texts[family], name, whole, formulas.TYPES[blob])
                launches[blob, whole] = launch, tuple(self.argument(v, whole) for v in fixed)
            launch, tail = launches[blob, whole]
            launch(blocks, (BLOCK, 1, 1), (*(self.argument(v, whole) for v in arguments), *tail))

        return run

    @staticmethod
    def index_type(elements: int) -> type[np.signedinteger]:
        """The type of indices that reach ``elements``."""
        return np.int32 if elements < SMALL else np.int64

    def argument(self, value, whole):
        if value is None:
            return np.uintp(0)
        if type(value) in (int, bool):
            return whole(value)
        return self.dtype.type(value) if type(value) is float else value

    def compile(self, text: str, name: str, whole: type[np.signedinteger] = np.int64, blob: str | None = None):
        """The kernel ``name`` of a text that follows the prelude."""
        for file in ("types", "prelude"):
            if file not in self._texts:
                self._texts[file] = (Path(__file__).parent / f"{file}.cu").read_text()
        real, idx = (formulas.TYPES[np.dtype(kind).name] for kind in (self.dtype, whole))
        head = HEAD.format(real=real, idx=idx, blob=blob or real)
        return self.backend.kernel(self._texts["types"] + head + self._texts["prelude"] + text, name)


def grid(threads: int, block: int, most: int | None = None) -> tuple[int, int, int]:
    """The grid of a launch with at least one thread for each, and at most ``most`` or ``MOST_BLOCKS`` blocks."""
    return max(1, min(math.ceil(threads / block), most or MOST_BLOCKS)), 1, 1


def grid_of_rows(n: int, c: int, each: int, batch: int) -> tuple[int, int, int]:
    """The grid for n rows of c numbers, ``each`` a pack: threads take ``batch`` packs at a time where these are enough
    to keep a GPU busy. All packs of a thread are of the same columns where the number of blocks can make it so."""
    packs = math.ceil(n * c / each)
    blocks = max(min(math.ceil(packs / BLOCK), BUSY), math.ceil(packs / (BLOCK * batch)))
    step = c // math.gcd(c, each * BLOCK)
    return grid(math.ceil(blocks / step) * step, 1, MOST_BLOCKS // step * step)
