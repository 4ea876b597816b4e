"""The instruction sets that both sides of a benchmark compute with: limits them, and asks each side what it uses."""

import ctypes
import os
import re
import tempfile

# By name: what limits each library of both sides to these instructions, where the processor has more.
LIMITS = {
    "avx2": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+movbe",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}
_ONEDNN = {  # by the highest bit of oneDNN's number of its instruction sets
    0: "none",
    1: "SSE4.1",
    2: "AVX",
    3: "AVX2",
    4: "AVX2 with VNNI",
    5: "AVX2 with VNNI 2",
    6: "AVX-512",
    7: "AVX-512 with VNNI",
    8: "AVX-512 with BF16",
    9: "AVX-512 with FP16",
}


def environment(isa: str | None) -> dict[str, str]:
    """This process's environment, for processes that use these instructions at most."""
    return {**os.environ, **LIMITS.get(isa or "", {})}


def of_caffelite() -> str:
    """What oneDNN and Numba's kernels use in this process."""
    import llvmlite.binding as llvm
    from numba.core import config

    from caffelite.devices.cpu import onednn
    from caffelite.devices.processor import features

    library = onednn.load()
    products = _ONEDNN.get(library.instructions.bit_length(), "AMX or later") if library else "no library"
    vectors = "AVX-512" if "+avx512f" in features() else "AVX2" if "+avx2" in features() else "neither AVX2 nor AVX-512"
    return f"oneDNN {products}, kernels for {config.CPU_NAME or llvm.get_host_cpu_name()} with {vectors}"


def of_torch() -> str:
    """What oneDNN, by its own log, and PyTorch's kernels use in this process."""
    import torch

    verbose = torch.backends.mkldnn.verbose
    with tempfile.TemporaryFile() as log:
        stdout = os.dup(1)
        os.dup2(log.fileno(), 1)
        try:
            with verbose(torch.backends.mkldnn.VERBOSE_ON):
                torch.nn.functional.conv2d(torch.zeros(16, 16, 32, 32), torch.zeros(16, 16, 3, 3))
            ctypes.CDLL(None).fflush(None)
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
        log.seek(0)
        product = re.search(rb"cpu,isa:(.+)", log.read())
    products = product[1].decode() if product else "unknown"
    return f"oneDNN {products}, kernels with {torch.backends.cpu.get_cpu_capability()}"
