"""Numba's options for kernels: cached on disk, without the GIL, with NumPy's division; when they are compiled again."""

import functools
import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache

# Nobody calls kernels as C functions.
SERIAL: dict[str, Any] = dict(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
FORMULA = "caffelite_formula_"  # begins the names of files with compiled formulas


@functools.cache
def _sources() -> str:
    """A digest of all files that kernels are made of."""
    digest, cpu = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted([*cpu.rglob("*.py"), *cpu.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Locator:
    """Where Numba caches a kernel. Numba compiles a kernel again when its own file has changed; machine code also
    depends on the files that the kernel imports."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator of a kernel; None for functions of other packages."""
        path = Path(file)
        if Path(__file__).parents[1] not in path.parents and not path.name.startswith(FORMULA):
            return None
        kinds = (kind for kind in _locators if kind is not cls)
        found = next(filter(None, (kind.from_function(function, file) for kind in kinds)), None)
        if found:
            own = found.get_source_stamp()
            found.get_source_stamp = lambda: (own, _sources())
        return found


_locators: list[Any] = FunctionCache._impl_class._locator_classes
_locators.insert(0, _Locator)
