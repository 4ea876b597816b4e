"""Lines of a large table of a run, under a bound of memory: its head, lines at even distances, and its end."""

from __future__ import annotations

from pathlib import Path

from .. import inputs

WHOLE = 4 << 20  # bytes of a table that is read as a whole
PIECE = 512  # bytes that are read at a place
TAIL = 1 << 16  # bytes of the end that are read
LIST_PLACES, CHART_PLACES = 256, 4096  # of a list of runs, of a chart


def read(path: Path, places: int) -> tuple[bytes, int]:
    """(lines, offset of their end) of a table, whose last line may be incomplete: all of them up to WHOLE bytes, else
    the first line, some at each of ``places`` even distances, and those of the end. Errors: OSError."""
    with inputs.open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= WHOLE:
            body = file.read(size) or b""
            end = body.rfind(b"\n") + 1
            return body[:end], end
        parts, at = [_head(file.read(TAIL) or b"")], 0
        for i in range(places):
            place = max(at, len(parts[0]) + i * (size - TAIL) // places - 1)
            file.seek(place)
            lines = _whole(file.read(min(PIECE, size - TAIL - place)) or b"" if place < size - TAIL else b"")
            parts.append(lines[1])
            at = place + lines[0]
        file.seek(max(at, size - TAIL - 1))
        start = file.tell()
        skipped, tail = _whole(file.read(TAIL + 1) or b"")
        return b"".join([*parts, tail]), start + skipped


def _head(body: bytes) -> bytes:
    return body[: body.find(b"\n") + 1]


def _whole(body: bytes) -> tuple[int, bytes]:
    """(offset of the end, the whole lines) of bytes whose first line began earlier."""
    start, end = body.find(b"\n") + 1, body.rfind(b"\n") + 1
    return end, body[start:end] if start else b""
