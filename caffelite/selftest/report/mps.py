"""NVIDIA's multi-process service, by which kernels of several processes run on a GPU at the same time."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CONTROL = "nvidia-cuda-mps-control"
SECONDS = 10


def available() -> bool:
    return shutil.which(CONTROL) is not None


@contextmanager
def service() -> Iterator[dict[str, str]]:
    """Starts a service of this user alone; within it processes with these variables use it."""
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        _control(["-d"], variables)
        try:
            yield variables
        finally:
            _control([], variables, b"quit\n")


def _control(words: list[str], variables: dict[str, str], text: bytes = b"") -> None:
    """Runs the service's control program; where it fails, the ranks that need the service tell."""
    with suppress(OSError, subprocess.SubprocessError):
        environment = {**os.environ, **variables}
        subprocess.run([CONTROL, *words], input=text, stdout=subprocess.DEVNULL, env=environment, timeout=SECONDS)
