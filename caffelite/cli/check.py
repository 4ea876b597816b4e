"""caffelite check"""

import os
import re
import sys
from collections import Counter

import click

from .. import inputs
from ..errors import UnknownType, quoted
from ..file_names import SOLVER
from ..zoo import named_files
from . import options
from .output import say


@click.command(short_help="Find the mistakes in nets and solvers")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.shape
@options.code_if_asked
@options.state
@click.option("--strict", is_flag=True, help="Exit with status 1 for lint too.")
@options.as_json
@options.rare_collection()
def check(files, shape, phase, level, stage, strict, as_json) -> None:
    """Reports every mistake in nets and solvers with its line, and what is valid but odd (lint). Nothing is run.

    The nets of a solver are checked with it; a folder means its solver.prototxt. The data need not exist; checks that
    depend on it are then left out.
    The exit status is 1 if there are mistakes.

    \b
    Examples:
      caffelite check solvers/lenet_solver.prototxt
      caffelite check models/alexnet/*.prototxt --strict
    """
    from .. import caffelite_pb2 as pb
    from ..inspection.check import check as find
    from ..inspection.feeds import parse_shapes

    phases = [pb.Phase.Value(phase.upper())] if phase else []
    said, findings = set(), []
    for file in (named_files.in_folder(file, (SOLVER,)) if os.path.isdir(file) else file for file in files):
        for finding in find(file, parse_shapes(shape), phases, level, stage):
            if str(finding.error) not in said:
                said.add(str(finding.error))
                findings.append(finding)
    every = [(f.kind, error) for f in findings for error in getattr(f.error, "rest", [f.error])]
    counts = {kind: sum(other == kind for other, _ in every) for kind in ("mistake", "lint", "note")}
    if as_json:
        options.print_json({"findings": [_record(*one) for one in every], "counts": counts})
    else:
        for finding in findings:
            say(_text(finding))
        if unknown := _unknown_types(every):
            say(unknown)
        mistakes, lint, notes = counts.values()
        say(f"{_many(mistakes, 'mistake')}, {lint} lint, {_many(notes, 'note')} in {_many(len(files), 'file')}")
    sys.exit(1 if counts["mistake"] or (strict and counts["lint"]) else 0)


def _unknown_types(every: list) -> str:
    """What helps with types that are unknown, and no slips of the pen; nothing where there are none."""
    kinds = [
        error.what.partition('unknown type "')[2].rstrip('"') for _, error in every if isinstance(error, UnknownType)
    ]
    near = {error.what for _, error in every if (error.remedy or "").startswith("did you mean")}
    counts = Counter(kind for kind in kinds if kind and not any(f'"{kind}"' in what for what in near))
    if not counts:
        return ""
    names = ", ".join(f"{_shown(kind)} ({_many(count, 'layer')})" for kind, count in counts.items())
    start = f"caffelite new layer {quoted(_shown(next(iter(counts))))}"
    return (
        f"no type here: {names}. With the sources of the Caffe that has them: -fork DIR. Else each can be a Python "
        f"file of yours; to start one: {start}"
    )


def _many(count: int, word: str) -> str:
    return f"{count or 'no'} {word}{'s' * (count != 1)}"


def _line(where) -> str:
    if not where or not where.line:
        return ""
    try:
        data = inputs.read(where.file, inputs.TEXT)
        return data.decode(inputs.encoding(data), "replace").splitlines()[where.line - 1]
    except (OSError, ValueError, IndexError):
        return ""


def _details(error) -> dict[str, str]:
    """The further parts of an error, as text that any terminal can show."""
    details = {"expected": error.expected, "found": error.found, "remedy": error.remedy}
    return {name: _shown(str(text)) for name, text in details.items() if text is not None and text != ""}


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _text(finding) -> str:
    error, where = finding.error, finding.error.where
    lines = [
        f"{_shown(str(where))}: {finding.kind}: {_shown(error.what)}"
        if where
        else f"{finding.kind}: {_shown(error.what)}"
    ]
    if line := _shown(_line(where).replace("\t", " ")):
        number, at = str(where.line), where.column - 1
        token = re.match(r'"[^"]*"|[\w.+-]+|.?', line[at:])
        under = token[0] if token else ""
        lines.append(f"  {number} | {line}")
        if where.column:
            lines.append(f"  {' ' * len(number)} | {' ' * at}^{'~' * (len(under) - 1)}")
    details_by_name = _details(error)
    details = ", ".join(f"{name} {details_by_name[name]}" for name in ("expected", "found") if name in details_by_name)
    lines += [f"    {text}" for text in (details, details_by_name.get("remedy")) if text]
    return "\n".join(lines)


def _record(kind: str, error) -> dict:
    where = error.where
    position = {"file": where.file, "line": where.line or None, "column": where.column or None} if where else {}
    return {"kind": kind, **position, "message": error.what, **_details(error), "text": _line(where) or None}
