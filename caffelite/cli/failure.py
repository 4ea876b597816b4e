"""Messages of the command line for an unexpected exception, and for an output that cannot be written."""

from __future__ import annotations

import errno
import os
import platform
import tempfile
import traceback
from importlib import metadata

import click

from .. import __version__
from ..errors import printable
from .output import STDOUT, give_up_stdout

SOFTWARE = 70  # of sysexits.h: an internal error
PACKAGES = (
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
    "matplotlib",
)
DISK = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def report(error: Exception, arguments: list[str]) -> None:
    """Writes all there is to know to a file of the temporary folder, and says in one line where."""
    text = "\n".join(
        [
            f"arguments: {arguments}",
            f"folder: {_folder()}",
            *_versions(),
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    try:
        handle, path = tempfile.mkstemp(prefix="caffelite-", suffix=".txt")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        click.echo(text, err=True)
        path = "the lines above"
    what = printable(f"{type(error).__name__}: {error}", keep="")[:300]
    click.echo(
        f"caffelite: an internal error ({what}); the full report is in {path}: please report it with that file",
        err=True,
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        return str(error)


def _versions() -> list[str]:
    lines = [f"caffelite {__version__}", f"Python {platform.python_version()} on {platform.platform()}"]
    for name in PACKAGES:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return lines


def output_failed(error: OSError) -> int | None:
    """Says in a line that standard output or a disk cannot be written; the exit status, None for another error.
    Standard output is given up."""
    reason = (error.strerror or "").lower()
    if error.filename == STDOUT:
        give_up_stdout()
        click.echo(f"caffelite: cannot write to standard output: {reason}", err=True)
        return 1
    if error.errno not in DISK:
        return None
    name = f" {printable(os.fsdecode(error.filename), keep='')}" if error.filename else ""
    click.echo(f"caffelite: cannot write or read{name or ' a file'}: {reason}; check the disk", err=True)
    return 2
