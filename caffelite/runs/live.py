"""Reads what a run has added to its records since a position."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import inputs, stored
from . import folder as files, history

MOST_LOSSES, MOST_BYTES = 100_000, 1 << 20  # of one update
_TEXT = re.compile(r"\d{1,18}(-\d{1,18}){5}")


class Position(NamedTuple):
    """How much of a run's records is known: sessions, losses, bytes of metrics.csv and log.txt, and the identity of
    these two files, which a resumed run replaces."""

    sessions: int = 0
    losses: int = 0
    metrics: int = 0
    log: int = 0
    metrics_file: int = 0
    log_file: int = 0

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """The position of ``str``; None for another text."""
        return cls(*map(int, text.split("-"))) if _TEXT.fullmatch(text) else None


@dataclass
class Update:
    """What is new. reset: the records were shortened or replaced, and everything has to be read again; the rest is then
    empty. losses: from iteration ``first`` on. rows: of metrics.csv; numbers, with phase as text. log: text."""

    position: Position
    reset: bool = False
    first: int = 0
    losses: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""

    def __bool__(self) -> bool:
        return bool(self.reset or self.losses or self.rows or self.log)


def read(folder: Path, since: Position | None = None, *, log: bool = True) -> Update:
    """The records after a position; without one all of them. At most MOST_LOSSES and MOST_BYTES of each file; the
    position says where to go on. Without ``log`` the log is skipped to its end."""
    count = len(stored.read(folder / files.RUN, {"sessions": [Any]}).get("sessions", ()))
    (metrics_file, metrics_size), (log_file, log_size) = (_identity(folder / n) for n in (files.METRICS, files.LOG))
    losses_size = _identity(folder / files.LOSSES)[1] // 4
    start = since or Position(count, 0, 0, 0, metrics_file, log_file)
    shorter = losses_size < start.losses or metrics_size < start.metrics or log_size < start.log
    replaced = (start.sessions, start.metrics_file, start.log_file) != (count, metrics_file, log_file)
    if shorter or replaced:
        return Update(Position(count, 0, 0, 0, metrics_file, log_file), reset=True)
    losses = np.frombuffer(_chunk(folder / files.LOSSES, 4 * start.losses, 4 * MOST_LOSSES), "<f4")
    metrics_end, rows = _rows(folder / files.METRICS, start.metrics)
    text = _lines(_chunk(folder / files.LOG, start.log, MOST_BYTES)) if log else b""
    log_end = start.log + len(text) if log else log_size
    position = Position(count, start.losses + len(losses), metrics_end, log_end, metrics_file, log_file)
    return Update(position, False, start.losses, losses.astype(float).tolist(), rows, text.decode("utf-8", "replace"))


def everything(folder: Path) -> tuple[list[dict[str, Any]], Position]:
    """The rows of metrics.csv, of a large table some of them (`history.read_sampled`), and the position after them,
    after all losses and at the end of the log."""
    first = read(folder, log=False).position
    try:
        body, end = history.read_sampled(folder / files.METRICS, history.CHART_PLACES)
    except OSError:
        body, end = b"", 0
    losses = _identity(folder / files.LOSSES)[1] // 4
    return _parsed(body), Position(first.sessions, losses, end, first.log, first.metrics_file, first.log_file)


def log_tail(folder: Path, most: int = 1 << 16) -> tuple[str, int]:
    """The last whole lines of a run's log within ``most`` bytes, and the position of their end."""
    size = _identity(folder / files.LOG)[1]
    start = max(0, size - most)
    text = _lines(_chunk(folder / files.LOG, start, most))
    end = start + len(text)
    if start:
        text = text.partition(b"\n")[2]
    return text.decode("utf-8", "replace"), end


def _identity(path: Path) -> tuple[int, int]:
    """(inode, size) of a file; zeros where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_size


def _chunk(path: Path, start: int, most: int) -> bytes:
    try:
        with inputs.open_file(path) as file:
            file.seek(start)
            body = file.read(most) or b""
    except OSError:
        return b""
    return body[: len(body) // 4 * 4] if path.name == files.LOSSES else body


def _lines(body: bytes) -> bytes:
    """The whole lines of bytes; all of them where one line fills the buffer."""
    end = body.rfind(b"\n") + 1
    return body[:end] if end or len(body) < MOST_BYTES else body


def _rows(path: Path, start: int) -> tuple[int, list[dict[str, Any]]]:
    """(end, rows) of metrics.csv from an offset."""
    head, ends, _ = _chunk(path, 0, 1 << 16).partition(b"\n")
    if not ends:
        return start, []
    start = max(start, len(head) + 1)
    body = _lines(_chunk(path, start, MOST_BYTES))
    return start + len(body), _parsed(head + b"\n" + body)


def _parsed(table: bytes) -> list[dict[str, Any]]:
    return list(history.metric_rows(table.decode("utf-8", "replace").splitlines(keepends=True)))
