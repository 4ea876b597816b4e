"""The processor that kernels are compiled for."""

import functools
import os
from pathlib import Path


@functools.cache
def features() -> str:
    """The features of the processor that Numba compiles for, which $NUMBA_CPU_FEATURES names instead of this one's; the
    processor "generic" of $NUMBA_CPU_NAME has none."""
    import llvmlite.binding as llvm

    generic = os.environ.get("NUMBA_CPU_NAME", "").lower() == "generic"
    chosen = os.environ.get("NUMBA_CPU_FEATURES", "" if generic else None)
    return llvm.get_host_cpu_features().flatten() if chosen is None else chosen


# Instruction sets by which the same sums have other last bits
SETS = "amx-tile avx512bf16 avx512f avx2 avx fma sve neon".split()


def name() -> str:
    """The processor that Numba compiles for, in LLVM's words, with its instruction sets."""
    import llvmlite.binding as llvm

    chosen = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    known = {f"+{each}" for each in SETS} & set(features().split(","))
    return " ".join([chosen, *(each for each in SETS if f"+{each}" in known)])


@functools.cache
def has_registers() -> bool:
    """Whether the processor has 32 registers of 16 numbers of float32; asks LLVM, which takes a while to load, only
    where the system does not tell."""
    if not {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"} & os.environ.keys():
        try:
            flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
            return "avx512f" in flags.split()
        except (OSError, StopIteration):  # another system, or another kind of processor
            pass
    return "+avx512f" in features()
