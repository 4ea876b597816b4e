"""Facts about a GPU for reports: its properties, its peak rates, and where its compiler finds CUDA's headers."""

from pathlib import Path

from . import cudnn, installation, nccl

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
# cudaDeviceAttr: clocks (in kHz) of the processors and of the memory, its bus (in bits), how many processors there are,
# and both parts of the compute capability.
ATTRIBUTES = 13, 36, 37, 16, 75, 76


def peaks(number: int, cupy=None) -> dict[str, float]:
    """Of GPU ``number``, from its clocks: "bytes" a second that its memory moves, and operations a second for each
    precision. What is not known of a GPU is left out."""
    attribute = (cupy or installation.cupy_module("device_query")).cuda.runtime.deviceGetAttribute
    clock, memory, bus, processors, *capability = (attribute(a, number) for a in ATTRIBUTES)
    rates = {"bytes": 2e3 * memory * bus / 8} if memory and bus else {}
    each = OPERATIONS.get(tuple(capability))
    if each and clock:
        single, tf32, half = (1e3 * clock * processors * operations for operations in each)
        rates |= {"fp32": single, "tf32": tf32, "fp16": half, "bf16": half}
    return rates


def header_folder() -> Path | None:
    """The folder of CUDA's headers that CuPy passes to the compiler; None where this CuPy does not report it. Errors:
    CuPy's exception where it finds none."""
    installation.cupy_module("device_query")
    try:
        from cupy._core.core import assemble_cupy_compiler_options
    except ImportError:
        return None
    folders = (Path(option[2:]) for option in assemble_cupy_compiler_options(()) if option.startswith("-I"))
    return next((folder for folder in folders if (folder / "cuda_runtime.h").is_file()), None)


_PROPERTIES = {
    "Name": "name",
    "Major revision number": "major",
    "Minor revision number": "minor",
    "Total global memory (bytes)": "totalGlobalMem",
    "Total shared memory per block (bytes)": "sharedMemPerBlock",
    "Total registers per block": "regsPerBlock",
    "Warp size": "warpSize",
    "Maximum threads per block": "maxThreadsPerBlock",
    "Maximum dimension of block": "maxThreadsDim",
    "Maximum dimension of grid": "maxGridSize",
    "Clock rate (kHz)": "clockRate",
    "Number of multiprocessors": "multiProcessorCount",
    "Memory bus width (bits)": "memoryBusWidth",
    "Second-level cache (bytes)": "l2CacheSize",
}


def describe(number: int) -> dict[str, str | int]:
    """What GPU ``number`` is, by the words that a device query prints; what its CUDA version does not report is left
    out. Errors: no CuPy, no driver, no such GPU."""
    cupy = installation.cupy_module("device_query")
    runtime = cupy.cuda.runtime
    number = installation.checked_number(number, installation.device_count(cupy))
    properties = runtime.getDeviceProperties(number)
    rows: dict[str, str | int] = {"Device id": number}
    rows |= {words: _printed(properties[key]) for words, key in _PROPERTIES.items() if key in properties}
    with installation.set_up(cupy, number), cupy.cuda.Device(number):
        rows["Free global memory (bytes)"] = int(runtime.memGetInfo()[0])
    if driver := installation.driver_version():
        rows["CUDA driver"] = installation.spelled(driver)
    rows["CUDA runtime"] = installation.spelled(runtime.runtimeGetVersion())
    rows["CuPy"] = cupy.__version__
    cudnn.require(cupy)
    rows["cuDNN"] = str(cudnn.version())
    if version := nccl.described():
        rows["NCCL"] = version
    return rows


def _printed(value: int | bytes | tuple[int, ...]) -> str | int:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, int) else " x ".join(map(str, value))
