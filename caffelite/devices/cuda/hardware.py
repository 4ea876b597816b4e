"""What a GPU could reach, and where its compiler finds CUDA's headers: facts for a report, which nothing else depends
on."""

from __future__ import annotations

from pathlib import Path

from .backend import cupy_module

# Operations of a multiprocessor in a clock, by compute capability: without tensor cores, then as TF32, and of 16-bit
# numbers added up in float32, both without sparsity.
OPERATIONS = {
    (7, 0): (128, 128, 1024),
    (7, 5): (128, 128, 1024),
    (8, 0): (128, 1024, 2048),
    (8, 6): (256, 256, 512),
    (8, 9): (256, 512, 1024),
    (9, 0): (256, 2048, 4096),
    (10, 0): (256, 4096, 8192),
    (12, 0): (256, 256, 512),
}
CLOCK, MEMORY_CLOCK, BUS, PROCESSORS, MAJOR, MINOR = (
    13,
    36,
    37,
    16,
    75,
    76,
)  # cudaDeviceAttr; clocks in kHz, the bus in bits


def peaks(number: int, cupy=None) -> dict[str, float]:
    """Of GPU ``number``, from its clocks: "bytes" a second that its memory moves, and operations a second for each
    precision. What is not known of a GPU is left out."""
    told = (cupy or cupy_module("device_query")).cuda.runtime.deviceGetAttribute
    clock, memory, bus, processors, *capability = (
        told(a, number) for a in (CLOCK, MEMORY_CLOCK, BUS, PROCESSORS, MAJOR, MINOR)
    )
    found = {"bytes": 2e3 * memory * bus / 8} if memory and bus else {}
    each = OPERATIONS.get(tuple(capability))
    if each and clock:
        single, tf32, half = (1e3 * clock * processors * operations for operations in each)
        found |= {"fp32": single, "tf32": tf32, "fp16": half, "bf16": half}
    return found


def header_folder() -> Path | None:
    """The folder of CUDA's own headers, as CuPy hands it to the compiler; None where this CuPy does not tell. Errors:
    what CuPy raises where it finds none."""
    cupy_module("device_query")
    try:
        from cupy._core.core import assemble_cupy_compiler_options
    except ImportError:
        return None
    folders = (Path(option[2:]) for option in assemble_cupy_compiler_options(()) if option.startswith("-I"))
    return next((folder for folder in folders if (folder / "cuda_runtime.h").is_file()), None)
