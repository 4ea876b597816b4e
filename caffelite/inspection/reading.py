"""Reads as much of a file as possible: the message, the errors of its text, and the ignored fields."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb, file_types, inputs, prototxt
from ..errors import CaffeliteError, Details, Locator, Mistakes, Where, quoted
from ..layers.base import unknown_types
from ..prototxt import foreign, forks
from ..prototxt.textformat import Reader
from ..prototxt.upgrade import upgrade_net, upgrade_solver

KINDS = ("mistake", "lint", "note")


@dataclass(frozen=True)
class Finding:
    """A remark about a file. kind: a mistake stops a run or makes it wrong, lint is suspicious but runs, a note is
    neither."""

    kind: str
    error: CaffeliteError


class Findings(list):
    """Findings in order, without duplicates: several nets of a file may have the same one."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: set[str] = set()

    def add(self, kind: str, error: CaffeliteError) -> None:
        for one in error.mistakes if isinstance(error, Mistakes) else [error]:
            if str(one) not in self._texts:
                self._texts.add(str(one))
                self.append(Finding(kind, one))

    def say(self, kind: str, what: str, where: Where | None = None, **details: Unpack[Details]) -> None:
        self.add(kind, CaffeliteError(what, where=where, **details))

    def lint(self, what: str, where: Where | None = None, **details: Unpack[Details]) -> None:
        self.say("lint", what, where, **details)

    def run(self, check: Any, *arguments: Any) -> Any:
        """What a check returns, or None if it raised mistakes, which are added."""
        try:
            return check(*arguments)
        except CaffeliteError as error:
            self.add("mistake", error)
            return None


@dataclass
class Reading:
    """A net or solver, as much of it as could be read. broken: (line, column) of the mistakes of its text; suspects:
    the names in them, of fields that may lack a value only because of such a mistake."""

    message: Any
    locate: Locator
    broken: list[tuple[int, int]] = field(default_factory=list)
    suspects: set[str] = field(default_factory=set)


def read(
    path: str, findings: Findings, kinds: Sequence[type[Message]] = (), named_at: Where | None = None
) -> Reading | None:
    """Reads a file as the kind that fits best, by default a net or a solver; None if it cannot be read at all.
    Mistakes are added to ``findings``."""
    kinds = kinds or (pb.NetParameter, pb.SolverParameter)
    try:
        text = _text(path)
    except (OSError, ValueError, CaffeliteError):
        return _binary(path, findings, named_at)
    reader, message, kind = _nearest(text, str(path), tuple(kinds))
    if prototxt.is_label_map(reader):
        findings.add("mistake", prototxt.label_map(str(path), named_at))
        return None
    if len(kinds) == 1 and (other := prototxt.mistaken(reader, kind)):
        findings.add("mistake", prototxt.other_kind(str(path), other, named_at))
        return None
    unknown_types.tolerate(message, reader)
    findings.run(reader.raise_any)
    for (holder, name), positions in reader.fork_fields.items():
        weight = "lint" if name in forks.ROUNDS else "note"
        for position in positions:
            findings.say(weight, forks.ignored(holder, name), Where(str(path), *position))
    suspects = set(re.findall(r'"(\w+)"', " ".join(str(mistake) for _, mistake in reader.mistakes)))
    locate, broken = Locator(str(path), reader.positions), [position for position, _ in reader.mistakes]
    own = findings.run(foreign.native, message, kind, locate)
    return own and _modern(Reading(own, locate, broken, suspects), findings)


def _nearest(text: str, path: str, kinds: tuple[type[Message], ...]) -> tuple[Reader, Message, type[Message]]:
    """The text read as the kind of which it has most fields; if equal, the one with fewer mistakes."""
    readers = []
    for kind in kinds:
        reader, message = Reader(text, path), foreign.empty(kind)
        reader.block(message, (), None)
        if not reader.mistakes:
            return reader, message, kind
        readers.append((reader, message, kind))
    return min(readers, key=lambda read: (-read[0].known, len(read[0].mistakes)))


def tolerant(ignored: list[CaffeliteError]) -> prototxt.Tolerate:
    """Moves the errors about unknown fields of a net to ``ignored``, except those of parameters of layers
    of unknown type.

    Errors in a text without any layer stay: it is not a net.
    """

    def tolerate(message: Message, reader: Reader) -> None:
        net: Any = message
        if message.DESCRIPTOR.name != pb.NetParameter.DESCRIPTOR.name or not (net.layer or net.layers):
            return
        dropped = reader.drop_unknown(lambda _: True)
        ignored.extend(one.error for one in dropped if not unknown_types.in_unknown_type(message, one))

    return tolerate


def _text(path: str) -> str:
    data = inputs.read(path, inputs.TEXT)
    file_types.refuse(data, path)
    text = prototxt.decoded(data, path)
    if "\0" in text:
        raise ValueError("binary")
    return text


def _binary(path: str, findings: Findings, named_at: Where | None) -> Reading | None:
    """A caffemodel, which has no places; or a mistake that says why the file is not one."""
    document = findings.run(prototxt.read_message, path, pb.NetParameter, named_at)
    return document and _modern(Reading(document.message, document.locate), findings)


def _modern(reading: Reading, findings: Findings) -> Reading | None:
    locate = reading.locate
    if isinstance(reading.message, pb.SolverParameter):
        new = findings.run(upgrade_solver, reading.message, locate)
    else:
        new = findings.run(upgrade_net, reading.message, locate, not locate.positions)
    if new is None:
        return None
    for where, what in new.notes:
        findings.say("note", what, where)
    if new.dialects:
        remedy = f"caffelite upgrade {quoted(locate.file)} NEW writes the modern form"
        findings.say("note", f"an old dialect of Caffe ({', '.join(new.dialects)})", locate(), remedy=remedy)
    return Reading(new.message, new.locate, reading.broken, reading.suspects)
