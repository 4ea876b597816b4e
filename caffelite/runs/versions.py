"""The versions of the packages that results and errors depend on."""

from __future__ import annotations

from importlib import metadata

PACKAGES = (
    "caffelite",
    "click",
    "numpy",
    "protobuf",
    "numba",
    "scipy",
    "h5py",
    "lmdb",
    "opencv-python-headless",
    "onednn-cpu-gomp",
    "mpi4py",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "matplotlib",
)


def installed() -> dict[str, str]:
    """Package → version, of those that are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
