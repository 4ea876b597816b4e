"""Queries the kernel whether a machine has an NVIDIA GPU, usable or not; works without a driver and without
CuPy."""

from collections.abc import Iterator
from pathlib import Path

NVIDIA, DISPLAY = "0x10de", "0x03"  # a PCI vendor; the class of graphics cards and 3D controllers
# Nodes and folders that exist where there is a GPU: of the driver for PCI cards, of Jetson's, of Windows' Linux.
PATTERNS = ("dev/nvidia[0-9]*", "proc/driver/nvidia/gpus/*", "dev/nvhost-gpu", "usr/lib/wsl/lib/libcuda.so*")


def present(root: Path = Path("/")) -> bool:
    """root: the folder with /dev, /proc and /sys."""
    return any(next(root.glob(pattern), None) for pattern in PATTERNS) or any(_cards(root))


def _cards(root: Path) -> Iterator[Path]:
    """NVIDIA's graphics cards on the PCI bus."""
    for device in root.glob("sys/bus/pci/devices/*"):
        if _read(device / "vendor") == NVIDIA and _read(device / "class").startswith(DISPLAY):
            yield device


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip().lower()
    except OSError:
        return ""
