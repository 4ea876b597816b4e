"""The types that the interfaces of devices are written with."""

from collections.abc import Callable
from typing import Any, TypeAlias

Array: TypeAlias = Any  # numpy.ndarray on a CPU, cupy.ndarray on a GPU
Shape: TypeAlias = tuple[int, ...]
Kernel: TypeAlias = Callable[..., None]  # a compiled formula: its docstring in Device lists the arguments
Gather: TypeAlias = Callable[[Any], list[Any]]  # value → the values of all processes, in the order of their ranks
