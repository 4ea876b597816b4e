"""The devices for which inspection compiles nets. They need not be present."""

from .. import devices
from ..devices.traits import H100, DeviceTraits, cpu_traits, cuda_traits

CPU = cpu_traits()  # with oneDNN, in fp32


def traits(gpu: int | None, precision: str | None = None) -> DeviceTraits:
    """The traits of a GPU, or of the CPU for None; of an H100 where that GPU is not present.

    precision: as -precision names it; None: the device's default. Errors: the GPU lacks the precision.
    """
    if gpu is None:
        if precision == "auto":
            precision = devices.open_device(precision=precision).precision
        return cpu_traits("bf16" if precision == "bf16" else "fp32")
    from ..devices.cuda import precisions

    capability = _capability(gpu)
    return cuda_traits(precisions.suited(precision or "tf32", capability, gpu), capability=capability)


def _capability(gpu: int) -> tuple[int, int]:
    from ..devices import cuda

    if gpu >= cuda.count():
        return H100
    properties = cuda.describe(gpu)
    return int(properties["Major revision number"]), int(properties["Minor revision number"])
