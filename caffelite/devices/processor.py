"""The processor that kernels are compiled for."""

import functools
import os


@functools.cache
def features() -> str:
    """The features of the processor that Numba compiles for, which $NUMBA_CPU_FEATURES names instead of this one's."""
    import llvmlite.binding as llvm

    chosen = os.environ.get("NUMBA_CPU_FEATURES")
    return llvm.get_host_cpu_features().flatten() if chosen is None else chosen


@functools.cache
def has_registers() -> bool:
    """Whether the processor has 32 registers of 16 numbers of float32."""
    return "+avx512f" in features()
