"""Durations as text, and progress bars, which also report to the folder of the job that this process is."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import roots
from .errors import printable

PERIOD = 0.5  # seconds between reports to the job folder

_file: Path | None = None


def report_to(file: Path | None) -> None:
    """Makes every later bar write its state to a JSON file: {"done", "total", "text"}. None: to no file."""
    global _file
    _file = file


def bar(total: int | None, *, name: str | None = None, unit: str = "it", shown: bool = True, **options: Any) -> Any:
    """A tqdm bar on standard error, drawn where that is a terminal.

    total: of ``unit``s; None where it is not known. shown: False draws nothing. options: of tqdm.
    """
    from tqdm import tqdm

    name = name and printable(name, keep="")
    visible = shown and sys.stderr is not None and sys.stderr.isatty()
    bar = tqdm(desc=name, total=total, unit=unit, file=sys.stderr, disable=not visible, **options)
    return ReportingBar(bar, _file, name or "", unit.strip(), total) if _file else bar


def duration(seconds: float | None) -> str:
    """Seconds as 12.3s, 4m05s or 2h03m; empty for None and for what is not finite."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def notebook_bar(total: int, initial: int, shown: bool) -> Any:
    """A bar of iterations for programs and notebooks, which show it as a widget."""
    from tqdm.auto import tqdm

    return tqdm(total=total, initial=initial, unit="it", disable=not shown, mininterval=PERIOD)


class ReportingBar:
    """A tqdm bar that also writes its state to a file, at most every PERIOD seconds. A disk that fails costs the
    report alone."""

    def __init__(self, inner: Any, file: Path, name: str, unit: str, total: int | None):
        self._inner, self._file, self._total = inner, file, total
        self._text = f"{name} ({unit})" if name else unit
        self._done, self._next = 0, 0.0
        self._write()

    def update(self, count: int = 1) -> None:
        self._done += count
        self._inner.update(count)
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        self._next = time.monotonic() + PERIOD
        write(self._file, self._done, self._total, self._text)

    def __enter__(self) -> ReportingBar:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        self._write()
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def write(file: Path, done: int, total: int | None, text: str) -> None:
    """Replaces a progress file. A disk that fails is ignored."""
    with suppress(OSError), roots.folder(file.parent) as folder:
        draft = folder / f".{file.name}.draft"
        with open(draft, "w", encoding="utf-8", opener=roots.open) as lines:
            lines.write(json.dumps({"done": done, "total": total, "text": text}) + "\n")
        os.replace(draft, folder / file.name)
