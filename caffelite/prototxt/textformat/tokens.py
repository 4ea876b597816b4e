"""Splits a text into tokens, each with its position, and collects the errors of the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter

from ...errors import CaffeliteError, Collector, Further, Where
from .values import shown

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
            self.mistake_at(
                position,
                "unterminated string",
                expected=f"a closing {token[0]} on the same line",
                found=shown(token, quote=""),
            )
        elif kind == "remark":
            self.mistake_at(position, f"unexpected {shown(token[:2])}", remedy='comments begin with "#"')
        else:
            remedy = "strings have straight quotes" if token in "“”‘’„«»`" else None
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
        return (
            f"the string {shown(text, quote='')}"
            if kind == "string"
            else shown(text, quote="" if kind in "number-" else '"')
        )

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
