"""Reads and writes prototxt, protobuf's text format, with the position of every field.

Protobuf's reader stops at the first error and drops positions. This one reports every error of a file in one
pass, each with file:line:column. Its Locator gives the position of later errors (a blob that no layer makes, an unknown
layer type). It accepts the same files as Caffe's protobuf, and reads them as equal messages.
"""

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

from .. import caffelite_pb2 as pb, file_types, inputs
from ..errors import CaffeliteError, Locator, Where, did_you_mean, quoted
from . import foreign, forks
from .textformat import Reader, shown, without_strange_comments
from .upgrade import upgrade_net, upgrade_solver

log = logging.getLogger("caffelite")
Tolerate = Callable[[Message, Reader], None]


@dataclass
class Document:
    """A parsed file: its message and the place of each field.

    Paths of ``locate`` are field names, repeated ones with their index: ``("layer", 3, "bottom", 0)``. A scalar
    gives the place of its value, a block the place of its name, a repeated field without index its first name.
    """

    message: Any
    locate: Locator


def read_net(
    path: str | Path, named_at: Where | None = None, tolerate: Tolerate | None = None, either: bool = False
) -> Document:
    """Reads a NetParameter, from text or binary (a caffemodel, without places), in the modern form.

    named_at: the place that names the path, for errors. tolerate: see ``parse``. either: whether the command takes a
    net or a solver, by -model and -solver.
    """
    return modern(read_message(path, pb.NetParameter, named_at, _of_right_type(named_at, tolerate, either)))


def read_solver(path: str | Path, tolerate: Tolerate | None = None, either: bool = False) -> Document:
    """Reads a SolverParameter, in the modern form. tolerate: see ``parse``. either: as for ``read_net``."""
    return modern(read_message(path, pb.SolverParameter, tolerate=_of_right_type(None, tolerate, either)))


def _of_right_type(named_at: Where | None, tolerate: Tolerate | None, either: bool) -> Tolerate:
    """Refuses a net in place of a solver, or a solver in place of a net, with one mistake; then calls ``tolerate``."""

    def checked(message: Message, reader: Reader) -> None:
        if is_label_map(reader):
            raise label_map(reader.file, named_at)
        if other := mistaken(reader, type(message)):
            raise other_kind(reader.file, other, named_at, either)
        if tolerate:
            tolerate(message, reader)

    return checked


def modern(document: Document) -> Document:
    """The document in the modern form. A file in an old dialect is logged once."""
    if isinstance(document.message, pb.SolverParameter):
        new = upgrade_solver(document.message, document.locate)
    else:
        new = upgrade_net(document.message, document.locate, weights_only=not document.locate.positions)
    file = document.locate.file
    for where, note in new.notes:
        say_once(f"{where}: {note}")
    if new.dialects:
        say_once(
            f"{file} is in an old dialect ({', '.join(new.dialects)}); this writes it in the modern form: caffelite "
            f"upgrade {quoted(file)} NEW"
        )
    return Document(new.message, new.locate)


@cache
def say_once(line: str) -> None:
    """Logs a warning once per process: a net is read for training and again for each test."""
    log.warning("%s", line)


def read_message(
    path: str | Path, message_type: type[Message], named_at: Where | None = None, tolerate: Tolerate | None = None
) -> Document:
    """Reads a file as a message of the type. Raises a CaffeliteError that names every mistake; tolerate: see
    ``parse``."""
    data, file = _read(path, named_at), str(path)
    file_types.refuse(data, path)
    if re.search(rb"[\0-\x08\x0e-\x1f]", data) and message_type is pb.NetParameter:
        try:
            schema = foreign.current
            message = schema.from_bytes(data, message_type, file) if schema else message_type.FromString(data)
            if message.ListFields():
                inputs.check_text(message)
                return Document(message, Locator(file))
        except DecodeError:
            pass  # then it is text, or nothing
        except ValueError as error:
            raise Where(file).error("a damaged binary net", found=str(error)) from None
    if len(data) > inputs.TEXT:
        raise Where(file).error("not a prototxt", expected=f"text of at most {inputs.TEXT} bytes", found=len(data))
    return parse(decoded(data, file), message_type, file, tolerate)


def decoded(data: bytes, file: str) -> str:
    """The text of a prototxt in UTF-8, or in UTF-16 with the mark by which Windows shows it. In comments, which are
    skipped, other bytes become question marks. Errors: a CaffeliteError for such a byte elsewhere."""
    if inputs.encoding(data) == "utf-16":
        return data.decode("utf-16", "replace")
    text = without_strange_comments(data.decode("utf-8-sig", "surrogateescape"))
    if other := re.search("[\udc80-\udcff]", text):
        where, byte = Where(file, *place(text, other.start())), ord(other.group()) - 0xDC00
        raise CaffeliteError("not a prototxt", where=where, expected="text in UTF-8", found=f"the byte 0x{byte:02x}")
    return text


def parse(text: str, message_type: type[Message], file: str = "<text>", tolerate: Tolerate | None = None) -> Document:
    """Parses text as a message of the type. Raises a CaffeliteError, or Mistakes where there are several.

    tolerate: is called with the message and its reader if the text has mistakes; it may remove unknown fields from
    them (``Reader.drop_unknown``).
    """
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate:  # no file holds one
        raise Where(file, *place(text, surrogate.start())).error(f"unexpected character {shown(surrogate.group())}")
    message = foreign.empty(message_type)
    reader = Reader(text, file)
    reader.block(message, (), None)
    if reader.mistakes and tolerate:
        tolerate(message, reader)
    reader.raise_any()
    for (holder, field), positions in reader.fork_fields.items():
        more = f" ({len(positions)} times in this file)" if len(positions) > 1 else ""
        say_once(f"{Where(file, *positions[0])}: {forks.ignored(holder, field)}{more}")
    locate = Locator(file, reader.positions)
    return Document(foreign.native(message, message_type, locate), locate)


def mistaken(reader: Reader, message_type: type[Message]) -> type[Message] | None:
    """The type of the text, net or solver, if it was read as the other one and has more fields of this one."""
    kinds = {"NetParameter": pb.SolverParameter, "SolverParameter": pb.NetParameter}
    other = kinds.get(message_type.DESCRIPTOR.name)
    if other is None or not reader.unknowns:
        return None
    second = Reader(reader.text, reader.file)
    second.block(foreign.empty(other), (), None)
    return other if second.known > reader.known else None


def other_kind(file: str, found: type[Message], named_at: Where | None = None, either: bool = False) -> CaffeliteError:
    """The error for a net in place of a solver, or the reverse. named_at: the place where another file names it.
    either: as for ``read_net``."""
    what, expected = ("net", "solver") if found is pb.NetParameter else ("solver", "net")
    if named_at:
        remedy = f"name a {expected} here"
    elif either:
        remedy = f"give it with {'-model' if what == 'net' else '-solver'}"
    elif what == "net":
        remedy = f'name it in the net field of a solver: net: "{file}"'
    else:
        remedy = "give the net that its net field names"
    return CaffeliteError(f"{file}: this is a {what}, not a {expected}", where=named_at, remedy=remedy)


def is_label_map(reader: Reader) -> bool:
    """Whether a text read as a net or a solver is a label map of Caffe's SSD: item { name label display_name }."""
    return not reader.known and re.search(r"^\s*item\s*\{", reader.text, re.MULTILINE) is not None


def label_map(file: str, named_at: Where | None = None) -> CaffeliteError:
    """The error for a label map in place of a net or a solver."""
    what = f"{file}: this seems to be a label map (item {{ name label display_name }})"
    return CaffeliteError(what, where=named_at, expected="a net or a solver")


def write(message: Message) -> str:
    """The message as prototxt; floats in the fewest digits that give the same 32 bits again."""
    return text_format.MessageToString(foreign.text_form(message), as_utf8=True)


def resolve(path: str, locate: Locator) -> Path:
    """A path in a prototxt: relative to the working directory, or, if nothing is there, to the prototxt's folder.

    If neither exists it is the first, which the caller reports.
    """
    return Path(inputs.beside(Path(locate.file).parent, path))


def _read(path: str | Path, named_at: Where | None) -> bytes:
    try:
        return inputs.read(path, inputs.MESSAGE)
    except FileNotFoundError:
        folder = Path(path).parent
        near: str | None = inputs.windows_path(path) or _above(path)
        if not near and folder.is_dir() and os.access(folder, os.R_OK):
            near = did_you_mean(Path(path).name, os.listdir(folder))
        raise CaffeliteError(f"cannot read {path}: no such file", where=named_at, remedy=near) from None
    except IsADirectoryError:
        raise CaffeliteError(f"cannot read {path}: it is a folder", where=named_at, expected="a file") from None
    except PermissionError:
        raise CaffeliteError(f"cannot read {path}: permission denied", where=named_at) from None
    except OSError as error:
        what = f"cannot read {path!s}: {inputs.reason(error)}"
        raise CaffeliteError(what, where=named_at, expected="a file") from None


def _above(path: str | Path) -> str:
    """A remedy where a path counts from the folder above the working directory, as those of projects do."""
    exists = not os.path.isabs(path) and os.path.isfile(os.path.join(os.pardir, path))
    return f"paths count from the folder above: cd {quoted(os.path.dirname(os.getcwd()))}" if exists else ""


def place(text: str, start: int) -> tuple[int, int]:
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
