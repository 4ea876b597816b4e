"""The devices for which inspection compiles nets. They need not be present."""

from __future__ import annotations

from ..devices.traits import DeviceTraits, cpu_traits, cuda_traits

CPU = cpu_traits()  # with oneDNN, in fp32


def traits(gpu: int | None) -> DeviceTraits:
    """The traits of a GPU, or of the CPU for None."""
    return CPU if gpu is None else cuda_traits()
