"""Splits a text into tokens and reads them into a message by recursive descent; it continues after an error."""

import re
from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from google.protobuf.message import Message

from ... import caffelite_pb2 as pb, inputs
from ...errors import CaffeliteError, Collector, Further, Where
from .. import forks
from .values import (
    MODERN,
    VALUES,
    Field,
    Fields,
    ForkValue,
    Wrong,
    fields_of,
    meant,
    shown,
    wanted,
    without_quotes,
)

MOST_REPORTED = 100  # mistakes in a message; a file of prose would give thousands
TOKEN = re.compile(
    r"""(?P<gap>[ \t\r\n\f\v]+|\#[^\n]*)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>[{}<>\[\]:;,-])
    |(?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |(?P<number>\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
    |(?P<unclosed>["'][^\n]*)
    |(?P<remark>//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?)
    |(?P<strange>.)""",
    re.VERBOSE,
)
END = ""
DRIVE = re.compile(r"""["'][A-Za-z]:\\(?!\\)""")  # the start of a path of Windows, as in "C:\train"
STRANGE = (
    ("“”‘’„«»`", "strings have straight quotes"),
    ("\ufeff", "it is a byte order mark, as where files with one were joined; remove it"),
    (
        "\xa0\u2002\u2003\u2009\u200b\u202f\u3000",
        "a space of another kind, as web pages have them; write a blank",
    ),
)
STOPS = {"}", ">", "]", ";", ",", END}
OPENERS = {"{": "}", "<": ">"}
BRACKETS = {**OPENERS, "[": "]"}


def without_strange_comments(text: str) -> str:
    """The text with a question mark for each escaped byte in its comments, which may be of any encoding."""
    if not re.search("[\udc80-\udcff]", text):
        return text
    tokens = (match.group() for match in TOKEN.finditer(text))
    return "".join(re.sub("[\udc80-\udcff]", "?", token) if token[0] == "#" else token for token in tokens)


class Tokens:
    """The tokens of a text; ``at`` is the index of the current one. The last one is END.

    kinds: a sign itself, or name, number, string, unclosed or strange; texts, starts: the text of each token and its
    offset; lines: its line and column. mistakes: (position, error).
    """

    def __init__(self, text: str, file: str):
        self.text, self.file = text, file
        self.line_starts = [0, *[match.end() for match in re.finditer("\n", text)]]
        self.mistakes: list[tuple[tuple[int, int], CaffeliteError]] = []
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.lines: list[tuple[int, int]] = []
        self.broken: set[int] = set()  # lines with a part that is no token: one mistake is reported for each
        self.lost_text = False  # an unclosed string may contain a brace, so that counting braces proves nothing
        self.tokenize()
        self.at = 0

    def tokenize(self) -> None:
        kinds, texts, starts, line_starts = self.kinds, self.texts, self.starts, self.line_starts
        for match in TOKEN.finditer(self.text):
            kind = match.lastgroup or ""
            if kind == "gap":
                continue
            token, start = match.group(), match.start()
            if kind in ("unclosed", "remark", "strange"):
                self.strange(kind, token, start)
                if kind == "remark":
                    continue
            kinds.append(token if kind == "sign" else kind)
            texts.append(token)
            starts.append(start)
        kinds.append(END)
        texts.append("")
        starts.append(len(self.text))
        numbers = [bisect_right(line_starts, start) for start in starts]
        self.lines = [(line, start - line_starts[line - 1] + 1) for line, start in zip(numbers, starts, strict=True)]

    def strange(self, kind: str, token: str, start: int) -> None:
        position = self.position_of(start)
        if kind == "unclosed":
            self.lost_text = True
            expected = f"a closing {token[0]} on the same line"
            self.mistake_at(position, "unterminated string", expected=expected, found=shown(token, quote=""))
        elif kind == "remark":
            self.mistake_at(position, f"unexpected {shown(token[:2])}", remedy='comments begin with "#"')
        else:
            remedy = next((remedy for characters, remedy in STRANGE if token in characters), None)
            self.mistake_at(position, f"unexpected character {shown(token)}", remedy=remedy)
        self.broken.add(position[0])

    def position_of(self, start: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, start)
        return line, start - self.line_starts[line - 1] + 1

    def line(self) -> int:
        return self.lines[self.at][0]

    def named(self, at: int) -> str:
        return "line {}, column {}".format(*self.lines[at])

    def token_text(self, at: int) -> str:
        kind, text = self.kinds[at], self.texts[at]
        if kind == END:
            return "the end of the file"
        if kind == "-" and self.kinds[at + 1] in ("number", "name"):
            text += self.texts[at + 1]
        if kind == "string":
            return f"the string {shown(text, quote='')}"
        return shown(text, quote="" if kind in "number-" else '"')

    def mistake(self, at: int, what: str, **more: str | None) -> None:
        self.mistake_at(self.lines[at], what, **more)

    def mistake_at(self, position: tuple[int, int], what: str, **more: str | None) -> None:
        if position[0] not in self.broken:
            self.mistakes.append((position, CaffeliteError(what, where=Where(self.file, *position), **more)))

    def raise_any(self) -> None:
        collector = Collector()
        for _, mistake in sorted(self.mistakes[:MOST_REPORTED], key=itemgetter(0)):
            collector.add(mistake)
        rest = sorted(self.mistakes[MOST_REPORTED:], key=itemgetter(0))
        if rest:
            collector.add(Further((mistake for _, mistake in rest), Where(self.file, *rest[0][0])))
        collector.raise_any()


DEEPEST = 100  # blocks within blocks; protobuf's own limit
NOTHING = Fields("", {}, [])
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
ESCAPED = {"a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v"} | {
    c: c.encode() for c in "\\'\"?"
}


class Block(NamedTuple):
    """An open block: the name of its field, the index of that token, its closing bracket, its fields."""

    name: str
    at: int  # its name among the tokens
    closer: str
    fields: Fields


class Unknown(NamedTuple):
    """An unknown field: the path of its block, its name, its place, and the mistake to report."""

    path: tuple
    name: str
    position: tuple[int, int]
    error: CaffeliteError


class Reader(Tokens):
    """Reads by the message's descriptors. It records each mistake and continues at the next field."""

    def __init__(self, text: str, file: str):
        super().__init__(text, file)
        self.positions: dict[tuple, tuple[int, int]] = {}
        self.fork_fields: dict[
            tuple[str, str], list[tuple[int, int]]
        ] = {}  # (message, field or field: word) that only forks have → places
        self.unknowns: list[Unknown] = []
        self.known = 0  # fields of the outermost message
        self.open: list[Block] = []
        count = self.kinds.count
        self.unclosed = count("{") + count("<") - count("}") - count(">")

    # mistakes

    def drop_unknown(self, ignored: Callable[[Unknown], bool]) -> list[Unknown]:
        """Removes from the mistakes the unknown fields for which ``ignored`` is true; returns those fields."""
        known = [one for one in self.unknowns if ignored(one)]
        positions = {one.position for one in known}
        self.mistakes = [(position, mistake) for position, mistake in self.mistakes if position not in positions]
        return known

    def next_field(self, line: int) -> None:
        """Continues after a mistake at the end of its line, a bracket, or what looks like a field."""
        while self.kinds[self.at] not in STOPS and not self.begins_field() and self.line() == line:
            if self.kinds[self.at] in BRACKETS:
                self.skip_block()
            else:
                self.at += 1

    def begins_field(self) -> bool:
        return self.kinds[self.at] == "name" and self.kinds[self.at + 1] in (":", "{", "<")

    def skip_block(self) -> None:
        """Skips a bracket and its content; without recursion, because the depth is not limited here."""
        opened = self.at
        at = max(opened - 1 - (self.kinds[opened - 1] == ":"), 0)
        block = Block(self.texts[at], at, BRACKETS[self.kinds[opened]], NOTHING)
        closers = []
        while True:
            kind = self.kinds[self.at]
            if kind == END or kind == "name" and self.closed_by_next(block):
                self.missing_closer(block)
                return
            if kind in BRACKETS:
                closers.append(BRACKETS[kind])
            elif kind in OPENERS.values():
                while closers and closers[-1] == "]":  # a list ends with the block around it
                    closers.pop()
                if not closers:
                    return
                closers.pop()
            elif kind == "]" and closers[-1] == "]":
                closers.pop()
            self.at += 1
            if not closers:
                return

    def skip_value(self) -> None:
        """Skips the value of an unknown field."""
        colon = self.kinds[self.at] == ":"
        self.at += colon
        line = self.lines[self.at if colon else self.at - 1][0]
        if self.kinds[self.at] in BRACKETS:
            self.skip_block()
        elif self.kinds[self.at] == "string":
            while self.kinds[self.at] == "string":
                self.at += 1
        self.next_field(line)

    # blocks and fields

    def block(self, message: Message, path: tuple, block: Block | None) -> None:
        """Reads fields up to the block's closing bracket, or, for None, to the end of the file."""
        first: dict[str, int] = {}  # where each field was first given
        block = block or Block("", 0, END, fields_of(message.DESCRIPTOR))
        self.open.append(block)
        while True:
            kind = self.kinds[self.at]
            if kind == "name":
                if self.unclosed > 0 and self.closed_by_next(block):
                    self.missing_closer(block)
                    break
                self.field(message, block.fields, path, first)
                self.at += self.kinds[self.at] in (";", ",")
            elif kind == block.closer:
                self.at += kind != END
                break
            elif kind == END:
                self.missing_closer(block)
                break
            elif kind in OPENERS.values() and block.closer:
                self.mistake(
                    self.at, f'wrong bracket for "{block.name}"', expected=f'"{block.closer}"', found=f'"{kind}"'
                )
                self.at += 1
                break
            elif kind in OPENERS.values():
                if not self.lost_text:
                    self.mistake(self.at, f'unexpected "{kind}"', expected="a field or the end of the file")
                while self.kinds[self.at] in OPENERS.values():
                    self.unclosed += 1
                    self.at += 1
            else:
                line = self.line()
                self.mistake(self.at, f"unexpected {self.token_text(self.at)}", expected="a field")
                self.at += kind not in BRACKETS
                self.next_field(line)
        self.open.pop()
        for name in block.fields.required:
            if name not in first:
                self.mistake(block.at, f'the required field "{name}" of {block.fields.message} is missing')

    def closed_by_next(self, block: Block) -> bool:
        """Whether the next field shows that the block's closing bracket was forgotten.

        It does where the file has too few of them, an enclosing block knows the field and this one does not, and
        the field is not indented deeper than this block.
        """
        name = self.texts[self.at]
        if self.unclosed <= 0 or name in block.fields.by_name:
            return False
        inner = 0 if block is self.open[-1] else 1
        outward = next((n for n, outer in enumerate(reversed(self.open), inner) if name in outer.fields.by_name), 0)
        if not 0 < outward <= self.unclosed:
            return False
        (line, column), (opened, indent) = self.lines[self.at], self.lines[block.at]
        return column <= indent if line != opened else block.fields is not NOTHING

    def missing_closer(self, block: Block) -> None:
        if self.unclosed > 0 and not self.lost_text:
            expected = f'the end of "{block.name}", opened at {self.named(block.at)}'
            self.mistake(self.at, f'missing "{block.closer}"', expected=expected, found=self.token_text(self.at))
        self.unclosed -= 1

    def field(self, message: Message, fields: Fields, path: tuple, first: dict[str, int]) -> None:
        start = self.at
        name = self.texts[start]
        self.at += 1
        field = fields.by_name.get(name)
        if field is None:
            if name in fields.of_forks:
                self.fork_field(name, start, fields.message)
            else:
                self.unknown(name, start, message, path)
            return
        self.known += not path
        if name in first and f"more_{name}" in fields.by_name:  # repeated in a fork, though not in Caffe
            name = f"more_{name}"
            field = fields.by_name[name]
        if not field.repeated and name in first:
            self.mistake(start, f'"{name}" is set twice', remedy=f"first at {self.named(first[name])}")
        first.setdefault(name, start)
        colon = self.kinds[self.at] == ":"
        self.at += colon
        if not colon and field.kind != "block":
            if self.kinds[self.at] not in ("string", "number", "-", "[") and not self.bare_value():
                self.mistake(
                    start, f'"{name}" has no value', expected=f'":" and {wanted(field)}', found=self.token_text(self.at)
                )
                self.next_field(self.lines[start][0])
                return
            self.mistake(self.at, f'missing ":" after "{name}"')
        path = (*path, name)
        if field.repeated:
            values = getattr(message, name)
            self.positions.setdefault(path, self.lines[start])
            if self.kinds[self.at] == "[":
                self.list(field, values, path, start)
            else:
                self.element(field, values, path, start)
        elif field.kind == "block":
            inner = getattr(message, name)
            inner.SetInParent()
            self.positions[path] = self.lines[start]
            self.nested(field, inner, path, start)
        elif self.kinds[self.at] == "[" and f"more_{name}" in fields.by_name:
            self.several(fields.by_name[f"more_{name}"], message, path, start)
        else:
            value, self.positions[path] = self.scalar(field, start)
            if value is not None:
                setattr(message, name, value)

    def unknown(self, name: str, start: int, message: Message, path: tuple) -> None:
        remedy, descriptor = None, message.DESCRIPTOR
        if len(self.mistakes) < MOST_REPORTED:
            outward = next((n for n, block in enumerate(reversed(self.open)) if name in block.fields.by_name), 0)
            if descriptor.name == "V1LayerParameter" and name in pb.LayerParameter.DESCRIPTOR.fields_by_name:
                remedy = f"write {MODERN}"
            elif outward:
                remedy = f'{self.open[-1 - outward].fields.message} has it: close "{self.open[-outward].name}" first'
            else:
                kind = getattr(message, "type", "")
                remedy = meant(name, descriptor, kind if isinstance(kind, str) else "")
        position, what = self.lines[start], f"unknown field {shown(name)} in {descriptor.name}"
        self.mistake_at(position, what, remedy=remedy)
        if position[0] not in self.broken:
            error = Where(self.file, *position).error(what, remedy=remedy)
            self.unknowns.append(Unknown(path, name, position, error))
        self.skip_value()

    def fork_field(self, name: str, start: int, message: str) -> None:
        """Skips a field of Caffe's forks, with any value. One that changes results is a mistake."""
        colon = self.kinds[self.at] == ":"
        self.at += colon
        kind, first = self.kinds[self.at], self.at
        if kind in BRACKETS:
            self.skip_block()
        elif not colon or kind in STOPS or self.begins_field():
            self.mistake(start, f'"{name}" has no value', expected="a value", found=self.token_text(self.at))
            return
        elif kind == "string":
            while self.kinds[self.at] == "string":
                self.at += 1
        else:
            self.at += 1 + (kind == "-" and self.kinds[self.at + 1] in ("number", "name"))
        value = "".join(text.strip("\"'") for text in self.texts[first : self.at])
        if forks.changes_results(message, name, value):
            usual = forks.default(message, name)
            what, expected = forks.unsupported(message, name), f"{usual}, its default" if usual else None
            actual = None if kind in BRACKETS else value
            self.mistake(start, what, expected=expected, found=actual, remedy=forks.remedy(name))
        else:
            self.fork_fields.setdefault((message, name), []).append(self.lines[start])

    def bare_value(self) -> bool:
        """Whether a word on the same line may be the value of a field with a missing colon."""
        return self.kinds[self.at] == "name" and not self.begins_field() and self.line() == self.lines[self.at - 1][0]

    def several(self, field: Field, message: Message, path: tuple, start: int) -> None:
        """Reads ``[a, b]``, of a field that a fork repeats: a is Caffe's, ``field`` has the others."""
        values, others = getattr(message, field.name), (*path[:-1], field.name)
        self.list(field, values, others, start)
        if values:
            setattr(message, path[-1], values.pop(0))
        places = [(*others, i) for i in range(len(values) + 1)]
        for place, old in zip((path, *places), places, strict=False):
            if old in self.positions:
                self.positions[place] = self.positions.pop(old)

    def list(self, field: Field, values: Any, path: tuple, start: int) -> None:
        """Reads ``[a, b]``."""
        self.at += 1
        more = self.kinds[self.at] != "]"
        while more:
            before, known = self.at, len(self.mistakes)
            self.element(field, values, path, self.at if field.kind == "block" else start)
            kind = self.kinds[self.at]
            more = kind != "]"
            if kind not in (",", "]") and len(self.mistakes) == known:
                what = f'the list of "{field.name}" breaks off'
                self.mistake(self.at, what, expected='"," or "]"', found=self.token_text(self.at))
            if kind in ("}", ">", END) or self.begins_field():
                return
            self.at += kind in (",", ";") or more and self.at == before
        self.at += 1

    def element(self, field: Field, values: Any, path: tuple, start: int) -> None:
        """Adds one value to a repeated field."""
        path = (*path, len(values))
        if field.kind == "block":
            self.positions[path] = self.lines[start]
            self.nested(field, values.add(), path, start)
            return
        value, self.positions[path] = self.scalar(field, start)
        if value is not None:
            values.append(value)

    def nested(self, field: Field, message: Message, path: tuple, start: int) -> None:
        closer = OPENERS.get(self.kinds[self.at])
        if closer is None:
            self.mistake(self.at, f'"{field.name}" is a block', expected='"{"', found=self.token_text(self.at))
            self.next_field(self.line())
        elif len(self.open) > DEEPEST:
            self.mistake(start, f"blocks are nested more than {DEEPEST} deep")
            self.skip_block()
        else:
            self.at += 1
            self.block(message, path, Block(field.name, start, closer, fields_of(message.DESCRIPTOR)))

    # values

    def scalar(self, field: Field, start: int) -> tuple[Any, tuple[int, int]]:
        """One value and its place. A wrong value is recorded as a mistake and skipped, and gives None."""
        at, kind, position = self.at, self.kinds[self.at], self.lines[self.at]
        if kind in STOPS or kind == ":" or kind == "name" and self.begins_field():
            self.mistake(start, f'"{field.name}" has no value', expected=wanted(field), found=self.token_text(at))
            self.at += kind == ":"
            return None, position
        read = self.quoted if kind == "string" else self.value
        try:
            return read(field), position
        except ForkValue as word:
            self.fork_fields.setdefault((self.open[-1].fields.message, f"{field.name}: {word}"), []).append(position)
            return None, position
        except Wrong as wrong:
            what = f'wrong value for "{field.name}"'
            self.mistake(at, what, expected=wrong.expected, found=self.token_text(at), remedy=wrong.remedy)
        self.next_field(position[0])
        return None, position

    def value(self, field: Field) -> Any:
        """A value that is no string."""
        at = self.at
        kind, text = self.kinds[at], self.texts[at]
        self.at += 1
        if kind == "-":
            kind, text = self.kinds[self.at], "-" + self.texts[self.at]
            self.at += kind in ("number", "name")
        if kind in ("number", "name"):
            return VALUES[field.kind](field, kind, text)
        if kind in BRACKETS:
            self.at = at
        raise Wrong(wanted(field))

    def quoted(self, field: Field) -> str | bytes:
        """Joins adjacent strings and resolves their escapes."""
        data = b""
        while self.kinds[self.at] == "string":
            token = self.texts[self.at]
            data += self.unescape(self.at, field.name != "param_str") if "\\" in token else token[1:-1].encode()
            self.at += 1
        if field.kind == "bytes":
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise Wrong("text in UTF-8" if field.kind == "string" else wanted(field)) from None
        if field.kind != "string":
            raise Wrong(wanted(field), without_quotes(field, text))
        return text

    def unescape(self, at: int, path: bool) -> bytes:
        """path: whether the string may be one."""
        token = self.texts[at]
        if path and DRIVE.match(token):
            what = "a path of Windows, whose backslashes are escapes here"
            self.mistake_at(self.lines[at], what, remedy=inputs.WINDOWS_PATH)
            return token[1:-1].encode()
        parts, last = [], 1
        for match in ESCAPE.finditer(token, 1, len(token) - 1):
            octal, hexadecimal, short, long, letter = match.groups()
            code = int(octal, 8) if octal else int(hexadecimal or short or long or "0", 16)
            parts.append(token[last : match.start()].encode())
            last = match.end()
            if (
                letter
                and letter not in ESCAPED
                or code > (0x10FFFF if short or long else 0xFF)
                or 0xD800 <= code <= 0xDFFF
            ):
                self.mistake_at(
                    self.position_of(self.starts[at] + match.start()),
                    f"unknown escape {shown(match.group(), quote='')} in a string",
                    remedy=inputs.WINDOWS_PATH if letter else None,
                )
            elif letter:
                parts.append(ESCAPED[letter])
            else:
                parts.append(chr(code).encode() if short or long else bytes([code]))
        return b"".join(parts) + token[last:-1].encode()
