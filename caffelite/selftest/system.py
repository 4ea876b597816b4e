"""Checks of the installation: versions, headers, cache folders, and a kernel that was never compiled before."""

import importlib.metadata
import platform
import re
import tempfile
import uuid
from pathlib import Path

import numpy as np

from .. import __version__
from ..devices.formula import Formula
from ..system import cache_folder
from .bench import Bench, Skipped, compare, put

PACKAGES = r"caffelite|numpy|scipy|numba|onednn.*|cupy.*|cuda-(toolkit|pathfinder)|nvidia-(cudnn|nccl|cublas|cuda).*"


def versions(bench: Bench) -> str:
    """versions"""
    texts = [f"caffelite {__version__}", f"Python {platform.python_version()}"]
    if bench.number is not None:
        properties = bench.gpus.describe(bench.number)
        major, minor = (properties.get(f"{level} revision number", "?") for level in ("Major", "Minor"))
        texts.append(f"compute capability {major}.{minor}")
        texts += [f"{name} {properties[name]}" for name in ("CUDA driver", "CUDA runtime") if name in properties]
    names = {
        re.sub("[-_.]+", "-", dist.name.lower()): dist.version
        for dist in importlib.metadata.distributions()
        if dist.name
    }
    wanted = (n for n in sorted(names) if re.fullmatch(PACKAGES, n) and n != "caffelite")
    return ", ".join(
        texts + [f"{n} {names[n]}" for n in wanted if bench.number is not None or not re.match("cupy|cuda|nvidia", n)]
    )


def headers(bench: Bench) -> str:
    """CUDA headers"""
    bench.wants_gpu("a CPU needs none")
    folder = bench.gpus.header_folder()
    if folder is None:
        raise Skipped("this CuPy does not report where it finds them")
    return str(folder)


def caches(bench: Bench) -> str:
    """cache folders writable"""
    from ..devices.cuda.installation import kernel_cache

    folders = [cache_folder()]
    if bench.number is not None and (kernels := kernel_cache()):
        folders.append(kernels)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"caffelite")
    return ", ".join(str(folder).replace(str(Path.home()), "~", 1) for folder in folders)


def compilation(bench: Bench) -> str:
    """compilation and launch"""
    fresh = uuid.uuid4().int % 10**9 / 10**9  # a number that is in no cache
    dev = bench.device()
    x = np.arange(5000, dtype=np.float32) / 5000
    out = dev.empty(x.shape)
    dev.map(Formula(f"2 * x + {fresh!r}", ("x",)))(put(dev, x), out)
    compare("2 x + a", dev.download(out), 2 * x + fresh, 1e-6)
    return "a kernel that no cache had"


CHECKS = versions, headers, caches, compilation
