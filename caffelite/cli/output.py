"""What commands print: ``say``, the only way to it, and standard output, whose errors name it, as an error of any file
that is closed has no name."""

import io
import os
import sys
from typing import Any

import click

from ..errors import printable

STDOUT = "standard output"
_replaced: list[Any] = []  # streams that would close standard output if they were collected


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            error.filename = STDOUT
            raise


def name_stdout() -> None:
    """Makes errors of standard output name it, where it is a file, a pipe or a terminal."""
    old = sys.stdout
    kind = type(getattr(old, "buffer", None))
    if kind not in (io.BufferedWriter, io.FileIO) or not isinstance(old, io.TextIOWrapper):
        return
    old.flush()
    _replaced.append(old)
    raw: Any = _Output(old.fileno(), "wb", closefd=False)
    if kind is io.BufferedWriter:  # not python -u
        raw = io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(
        raw, old.encoding, "replace", line_buffering=old.line_buffering, write_through=old.write_through
    )


def give_up_stdout() -> None:
    """So that what is left in its buffer fails no more when Python ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def say(text: object = "", *, err: bool = False, nl: bool = True, styled: bool = False) -> None:
    """Prints a text to standard output (default) or standard error. Control codes in it, as in the names of files that
    others made, become escapes, and do nothing to a terminal. styled: it has codes of `click.style`; what it names is
    printable already."""
    click.echo(str(text) if styled else printable(str(text)), err=err, nl=nl)
