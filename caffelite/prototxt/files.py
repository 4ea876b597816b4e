"""Reads and writes prototxt, protobuf's text format, and knows where every field stood.

Protobuf's own reader stops at the first mistake and forgets positions. This one reports every mistake of a
file in one pass, each with file:line:column, and hands out a Locator, so that what is found later (a blob
that nobody makes, an unknown layer type) is reported at its place too. It accepts what Caffe's protobuf
accepts; a file that this reader takes, protobuf takes, with equal messages.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from .. import caffelite_pb2 as pb
from .. import inputs
from ..errors import CaffeliteError, Locator, Where, did_you_mean
from . import forks
from .textformat import Reader, shown
from .upgrade import upgrade_net, upgrade_solver

log = logging.getLogger("caffelite")
Tolerate = Callable[[Message, Reader], None]


@dataclass
class Document:
    """A parsed file: its message, and where each of its fields stands.

    Paths of ``locate`` are field names, repeated ones with their index: ``("layer", 3, "bottom", 0)``. A scalar
    gives the place of its value, a block the place of its name, a repeated field without index its first name.
    """

    message: Any
    locate: Locator


def read_net(path: str | Path, named_at: Where | None = None, tolerate: Tolerate | None = None) -> Document:
    """Reads a NetParameter; a binary one (a caffemodel) is taken too, without places. named_at: where the path stands,
    for errors.

    Nets in an old dialect of Caffe come out in the modern form. tolerate: see ``parse``.
    """
    return modern(read_message(path, pb.NetParameter, named_at, _of_right_kind(named_at, tolerate)))


def read_solver(path: str | Path, tolerate: Tolerate | None = None) -> Document:
    """Reads a SolverParameter, whose old fields come out in the modern form. tolerate: see ``parse``."""
    return modern(read_message(path, pb.SolverParameter, tolerate=_of_right_kind(tolerate=tolerate)))


def _of_right_kind(named_at: Where | None = None, tolerate: Tolerate | None = None) -> Tolerate:
    """Refuses a net where a solver is due, and the other way round, with one mistake; then asks ``tolerate``."""

    def look(message: Message, reader: Reader) -> None:
        if other := mistaken(reader, type(message)):
            raise other_kind(reader.file, other, named_at)
        if tolerate:
            tolerate(message, reader)

    return look


def modern(document: Document) -> Document:
    """A net or a solver in the modern form; says so once a file where it was not."""
    if isinstance(document.message, pb.SolverParameter):
        new = upgrade_solver(document.message, document.locate)
    else:
        new = upgrade_net(document.message, document.locate, weights_only=not document.locate.places)
    file = document.locate.file
    for where, note in new.notes:
        say_once(f"{where}: {note}")
    if new.dialects:
        say_once(
            f"{file} is in an old dialect ({', '.join(new.dialects)}); this writes it in the modern form: caffelite "
            f"upgrade {file} NEW"
        )
    return Document(new.message, new.locate)


@cache
def say_once(line: str) -> None:
    """A net is read for training and again for each test; what is odd about it is told once."""
    log.warning("%s", line)


def read_message(
    path: str | Path, message_type: type[Message], named_at: Where | None = None, tolerate: Tolerate | None = None
) -> Document:
    """Reads a file as a message of the type. Raises a CaffeliteError that names every mistake; tolerate: see
    ``parse``."""
    data, file = _read(path, named_at), str(path)
    if re.search(rb"[\0-\x08\x0e-\x1f]", data) and message_type is pb.NetParameter:
        try:
            message = message_type.FromString(data)
            if message.ListFields():
                return Document(message, Locator(file))
        except DecodeError:
            pass  # then it is text, or nothing
    if len(data) > inputs.TEXT:
        raise CaffeliteError(
            "not a prototxt", where=Where(file), expected=f"text of at most {inputs.TEXT} bytes", found=len(data)
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        where = Where(file, *place(before, len(before)))
        raise CaffeliteError(
            "not a prototxt", where=where, expected="text in UTF-8", found=f"the byte 0x{error.object[error.start]:02x}"
        ) from None
    return parse(text, message_type, file, tolerate)


def parse(text: str, message_type: type[Message], file: str = "<text>", tolerate: Tolerate | None = None) -> Document:
    """Parses text as a message of the type. Raises a CaffeliteError, or Mistakes where there are several.

    tolerate: gets the message and its reader where the text has mistakes, and may take unknown fields off them
    (``Reader.forgive``).
    """
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:  # no file holds one
        raise CaffeliteError(
            f"unexpected character {shown(surrogate.group())}", where=Where(file, *place(text, surrogate.start()))
        )
    message = message_type()
    reader = Reader(text, file)
    reader.block(message, (), None)
    if reader.mistakes and tolerate:
        tolerate(message, reader)
    reader.raise_any()
    for (holder, field), places in reader.strangers.items():
        more = f" ({len(places)} times in this file)" if len(places) > 1 else ""
        say_once(f"{Where(file, *places[0])}: {forks.ignored(holder, field)}{more}")
    return Document(message, Locator(file, reader.places))


def mistaken(reader: Reader, message_type: type[Message]) -> type[Message] | None:
    """A net or a solver, where the text that was read as the other of them has more fields of this one."""
    other = {pb.NetParameter: pb.SolverParameter, pb.SolverParameter: pb.NetParameter}.get(message_type)
    if other is None or not reader.unknowns:
        return None
    second = Reader(reader.text, reader.file)
    second.block(other(), (), None)
    return other if second.known > reader.known else None


def other_kind(file: str, found: type[Message], named_at: Where | None = None) -> CaffeliteError:
    """What is said of a net where a solver is due, or the other way round. named_at: where another file names it."""
    what, option = {pb.NetParameter: ("net", "-model"), pb.SolverParameter: ("solver", "-solver")}[found]
    due = "solver" if what == "net" else "net"
    remedy = f"name a {due} here" if named_at else f"give it with {option}"
    return CaffeliteError(f"{file}: this is a {what}, not a {due}", where=named_at, remedy=remedy)


def write(message: Message) -> str:
    """The message as prototxt; floats in the fewest digits that give the same 32 bits again."""
    return text_format.MessageToString(message, as_utf8=True)


def resolve(path: str, locate: Locator) -> Path:
    """A path of a prototxt: against the working directory, or, where nothing is there, the prototxt's own folder.

    Where neither exists it is the first, for the caller to complain about.
    """
    beside = Path(locate.file).parent / path
    return beside if not os.path.exists(path) and os.path.exists(beside) else Path(path)


def _read(path: str | Path, named_at: Where | None) -> bytes:
    try:
        return inputs.read(path, inputs.MESSAGE)
    except FileNotFoundError:
        folder = Path(path).parent
        near = (
            did_you_mean(Path(path).name, os.listdir(folder))
            if folder.is_dir() and os.access(folder, os.R_OK)
            else None
        )
        raise CaffeliteError(f"cannot read {path}: no such file", where=named_at, remedy=near) from None
    except IsADirectoryError:
        raise CaffeliteError(f"cannot read {path}: it is a folder", where=named_at, expected="a file") from None
    except PermissionError:
        raise CaffeliteError(f"cannot read {path}: permission denied", where=named_at) from None
    except OSError as error:
        raise CaffeliteError(
            f"cannot read {path!s}: {inputs.reason(error)}", where=named_at, expected="a file"
        ) from None


def place(text: str, start: int) -> tuple[int, int]:
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
