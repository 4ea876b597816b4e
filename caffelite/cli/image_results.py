"""What the forms of `caffelite classify` share: errors of images, pictures and tables, the time that images took."""

from __future__ import annotations

import csv
import itertools
import sys
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ..errors import CaffeliteError
from ..runs.folder import reporting
from . import options


@dataclass
class Session:
    """The images that a command reads. opened: seconds until its net was ready. failed: errors of images that could not
    be read."""

    files: Sequence[Path]
    started: float = field(default_factory=time.perf_counter)
    opened: float = 0.0
    failed: dict[Path, str] = field(default_factory=dict)

    def ready(self) -> None:
        """The net is open."""
        self.opened = time.perf_counter() - self.started

    @property
    def report(self) -> Callable[[Path, CaffeliteError], None] | None:
        """Prints the error of an image that cannot be read; None where the error of a single one ends the command."""
        return self._report if len(self.files) > 1 else None

    def _report(self, file: Path, error: CaffeliteError) -> None:
        self.failed[file] = str(error)
        click.echo(f"caffelite: {error}", err=True)

    def show_times(self, entries: Sequence[dict]) -> None:
        if entries:
            each = sum(entry["seconds"] for entry in entries) / len(entries)
            count = f"{len(entries)} image{'s' * (len(entries) > 1)}"
            click.echo(f"{count}, {each:.4f} s each; {self.opened:.2f} s to open the net", err=True)

    def end(self, skip: bool) -> None:
        """Ends the command with status 1 if images failed, unless they are to be skipped."""
        if self.failed:
            click.echo(f"{len(self.failed)} of {len(self.files)} pictures could not be read", err=True)
            sys.exit(0 if skip else 1)


def refuse(values: Mapping[str, Any], why: str) -> None:
    """Errors: options that do not go with the net. why: follows the name of the option."""
    for name, value in values.items():
        if value:
            raise click.UsageError(f"-{name} {why}")


def show_head(entry: dict) -> None:
    """Prints the line above the answers to an image."""
    notes = f"  ({', '.join(entry['notes'])})" if entry["notes"] else ""
    options.say(f"{entry['file']}  {entry['seconds']:.4f} s{notes}")


def write_table(path: Path, head: Iterable[str], rows: Iterable[Sequence[object]], what: str) -> None:
    """Writes a CSV file and says what it holds."""
    from ..data.writers import atomic

    with atomic(path) as draft, draft.open("w", encoding="utf-8", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(head)
        table.writerows(rows)
    click.echo(f"wrote {path}: {what}", err=True)


def free_name(stem: str, taken: Container[str]) -> str:
    """A picture's name, or one with a number where a picture of another folder has it; not "all"."""
    names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in taken and name != "all")


def write_pictures(folder: Path, pages: Mapping[str, Any]) -> None:
    """Writes the pictures by their names, and all of them on the sheet all.png."""
    from ..deploy.annotate import png, sheet

    for name, page in pages.items():
        write_picture(folder, name, png(page))
    options.write_picture(folder / "all.png", png(sheet(list(pages.values()))))


def write_picture(folder: Path, name: str, content: bytes) -> None:
    """Writes NAME.png, and makes the folder."""
    with reporting(f"write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(content)
