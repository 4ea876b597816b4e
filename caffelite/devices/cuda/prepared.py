"""Kernels that were compiled beforehand, on a machine that needs no GPU: the folder that $CAFFELITE_KERNELS names.

It has the machine code of each kernel as KEY.ARCHITECTURE.cubin. What is missing is compiled as ever, and its source
is written there as KEY.cu, for the next time.
"""

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger("caffelite")
FOLDER = "CAFFELITE_KERNELS"


def key(source: str) -> str:
    return hashlib.blake2b(source.encode(), digest_size=12).hexdigest()


def module(cupy, source: str, name: str, capability: tuple[int, int]) -> Any:
    """CuPy's module of a source with a kernel of this name; None where it is to be compiled."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder) / f"{key(source)}.{capability[0]}{capability[1]}.cubin"
    if path.is_file():
        loaded = cupy.RawModule(path=str(path))
        try:
            loaded.get_function(name)  # loads it
            return loaded
        except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as mistake:
            log.warning("%s cannot be loaded (%s); the kernel is compiled", path, mistake)
    else:
        _keep(Path(folder) / f"{key(source)}.cu", source)
    return None


def _keep(path: Path, source: str) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):  # a folder that cannot be written is none the worse for it
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(source)
        draft.replace(path)
