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
CLOSED = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EBADF)


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


def output_failed(error: OSError) -> bool:
    """Whether an error is one of writing to a standard stream, which has no file name; then that is said, and the
    stream is given up."""
    if error.errno not in CLOSED or error.filename is not None:
        return False
    give_up_stdout()
    click.echo(f"caffelite: cannot write to standard output: {(error.strerror or '').lower()}", err=True)
    return True


def give_up_stdout() -> None:
    """So that what is left in its buffer fails no more when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
