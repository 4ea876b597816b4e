"""caffelite alias"""

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from ..errors import CaffeliteError, quoted, reporting
from ..runs.folder import write_atomically
from . import options
from .output import say

NAME = "caffe"


@click.command(short_help="Write a command caffe that runs caffelite")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace DIR/caffe where it exists.")
def alias(folder: Path, force: bool) -> None:
    """Writes a command `caffe` into a folder, for scripts that call BVLC's tool: caffe train, test, time and
    device_query have the same options here. Nothing is installed without it; to remove it, delete the file.

    \b
    Example:
      caffelite alias ~/.local/bin
    """
    if not folder.is_dir():
        raise CaffeliteError(f"no folder {folder}", expected="an existing folder of PATH", found=str(folder))
    path = folder / NAME
    options.refuse_existing(path, force)
    with reporting(f"write {path}"):
        write_atomically(path, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m caffelite "$@"\n'.encode())
        path.chmod(0o755)
    say(f"wrote {path}", err=True)
    first = shutil.which(NAME)
    if first is None:
        say(f"{folder} is not on PATH: export PATH={quoted(folder.resolve())}:$PATH", err=True)
    elif not os.path.samefile(first, path):
        say(f"{NAME} is still {first}, which comes first on PATH", err=True)
