"""Drafts of a solver and its net as a page has them: what they may contain, what is wrong, what they would do.

The texts are written next to the solver under hidden names for as long as they are inspected, so that relative paths
mean what they mean in the solver itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb
from .. import inputs, prototxt
from ..errors import CaffeliteError, Where
from ..inspection import duration, nets, picture, scene, summary
from ..inspection.check import check
from ..inspection.reading import Findings, Reading, read
from ..inspection.schedule import schedule
from ..prototxt.overrides import Overrides
from ..sweep import space
from . import paths, refusals
from .config import ServeConfig
from .named_files import FIELDS, named_files

NETS = ("net", "train_net", "test_net")
SOLVER_FILES = (*NETS, "snapshot_prefix", "weights")
NET_LINE = re.compile(r"""^(\s*(?:net|train_net)\s*:\s*)(["'])([^"'\\\n]*)\2""", re.MULTILINE)
PATH_LINE = re.compile(r"""^(\s*(?:snapshot_prefix|weights)\s*:\s*)(["'])([^/"'\\\n,][^"'\\\n,]*)\2""", re.MULTILINE)


@dataclass(frozen=True)
class Draft:
    """Texts of a page. solver: the path that they belong to. root: where relative paths start."""

    solver: Path
    root: Path
    solver_text: str
    net_text: str
    settings: tuple[str, ...] = ()


@dataclass
class Files:
    """Where a draft is on the disk, and the names that pages have for these files."""

    solver: Path
    net: Path
    names: dict[str, str] = field(default_factory=dict)


def net_path(config: ServeConfig, solver: Path, text: str, root: Path) -> Path | None:
    """The file of the net that a solver's text names; None where it names none, or its net is in the solver."""
    found = NET_LINE.search(text)
    if not found or not found[3]:
        return None
    sibling = solver.parent / found[3]
    here = root / found[3]
    return paths.resolve(config, str(sibling if not here.exists() and sibling.exists() else here))


@contextmanager
def written(config: ServeConfig, draft: Draft) -> Iterator[Files]:
    """Within it the draft is on the disk, with absolute paths of data. Errors: a path that leads out of the roots; the
    disk."""
    mark = secrets.token_hex(4)
    folder = draft.solver.parent
    found = Files(folder / f".draft_{mark}_solver.prototxt", folder / f".draft_{mark}_net.prototxt")
    found.names = {str(found.solver): "solver", str(found.net): "net"}
    solver_text = NET_LINE.sub(lambda m: f'{m[1]}"{found.net}"', draft.solver_text, count=1)
    solver_text = PATH_LINE.sub(lambda m: f'{m[1]}"{draft.root}/{m[3]}"', solver_text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found.solver.write_text(solver_text, encoding="utf-8")
        found.net.write_text(_absolute(draft.net_text, draft.root), encoding="utf-8")
        yield found
    except (OSError, UnicodeEncodeError) as error:
        raise CaffeliteError(f"cannot write into {folder.name}: {inputs.reason(error)}") from None
    finally:
        for path in (found.solver, found.net):
            path.unlink(missing_ok=True)


def _absolute(text: str, root: Path) -> str:
    """The text of a net in which relative paths below the root are absolute: the server's folder is another one."""
    names = "|".join(sorted(FIELDS))

    def full(match: re.Match[str]) -> str:
        name = match[3]
        return (
            f'{match[1]}"{root / name}"' if name and not name.startswith("/") and (root / name).exists() else match[0]
        )

    return re.sub(rf"""\b((?:{names})\s*:\s*)(["'])([^"'\\\n]*)\2""", full, text)


def forbidden(config: ServeConfig, files: Files, draft: Draft) -> Findings:
    """What this server does not accept: Python layers, and paths that lead out of its roots. Only the parsed messages
    are looked at."""
    found = Findings()
    for text in draft.settings:
        _setting(config, draft.root, text, found)
    for path in (files.solver, files.net):
        reading = read(str(path), Findings())
        if reading is None:
            continue
        solver = reading.message if isinstance(reading.message, pb.SolverParameter) else None
        if solver is not None:
            for name in SOLVER_FILES:
                values = getattr(solver, name)
                for value in [values] if isinstance(values, str) else values:
                    if value and value != str(files.net):
                        for part in value.split(",") if name == "weights" else [value]:
                            _hold(config, draft.root, part.strip(), reading.locate(name), found)
                        if name in NETS:
                            _other_net(config, draft.root, value, found)
        _layers(config, draft.root, reading, found)
    return found


def _setting(config: ServeConfig, root: Path, text: str, found: Findings) -> None:
    """A setting, which may change neither a net's file nor a layer's type, and whose paths stay below the roots."""
    name, _, value = text.partition("=")
    last = name.strip().rpartition(".")[2]
    if "{" in value or last in ("type", *NETS):
        found.say("mistake", f"a setting cannot change {name.strip()[:80]} here", remedy="edit the text instead")
    elif "/" in value or ".." in value:
        for part in re.split(r"[\s,\[\]]+", value):
            _hold(config, root, part.strip("\"'"), Where("settings"), found)


def _other_net(config: ServeConfig, root: Path, text: str, found: Findings) -> None:
    """The net of another file that a solver names."""
    reading = read(str(root / text), Findings())
    if reading is not None:
        _layers(config, root, reading, found)


def _layers(config: ServeConfig, root: Path, reading: Reading, found: Findings) -> None:
    """Python layers of a net, or of the nets in a solver, and files of layers that are not below the roots."""
    for place, _ in refusals.python_layers(config, reading.message):
        where = reading.locate.at(*place)("type")
        found.say("mistake", refusals.REFUSED_PYTHON, where, remedy=refusals.PYTHON_REMEDY)
    for place, net in refusals.nets_in(reading.message):
        for i, layer in enumerate(net.layer):
            _files(config, root, layer, reading.locate.at(*place, "layer", i), found)


def _files(config: ServeConfig, root: Path, layer: pb.LayerParameter, locate: Any, found: Findings) -> None:
    for each in named_files(layer):
        _hold(config, root, each.text, locate(*each.at), found)
    try:
        refusals.refuse_listed(config, layer, root)
    except CaffeliteError as error:
        found.say("mistake", error.what, locate("type"), found=error.found, remedy=error.remedy)


def _hold(config: ServeConfig, root: Path, text: str, where: Where, found: Findings) -> None:
    """A path that does not stay below the roots is a finding."""
    try:
        paths.resolve(config, str(root / text))
    except CaffeliteError as error:
        found.say("mistake", error.what, where, found=error.found, remedy=error.remedy)


@dataclass
class Inspection:
    """What pages show of a draft. ok: whether a run can start. jobs: how many runs the settings make."""

    findings: list[dict[str, Any]]
    ok: bool
    jobs: int = 1
    picture: str = ""
    layers: list[dict[str, Any]] = field(default_factory=list)
    totals: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)


def inspect(config: ServeConfig, draft: Draft) -> Inspection:
    """Checks a draft; where a run can start, also its picture, memory, schedule and a forecast of its time."""
    with written(config, draft) as files:
        findings = forbidden(config, files, draft)
        if not findings:
            for one in check(str(files.solver)):
                findings.add(one.kind, one.error)
            if any(one.kind == "mistake" for one in findings):  # which may have kept the net from being checked
                for one in check(str(files.net)):
                    findings.add(one.kind, one.error)
        jobs = _settings(draft, files, findings)
        rows = [record(one.kind, one.error, files.names) for one in findings]
        found = Inspection(rows, not any(one.kind == "mistake" for one in findings), jobs)
        if found.ok:
            _describe(draft, files, found)
        return found


def _settings(draft: Draft, files: Files, findings: Findings) -> int:
    """Checks the settings, each value of them; returns how many runs they make."""
    try:
        fixed, axes = space.parse(draft.settings)
        if any(one.kind == "mistake" for one in findings):
            return 1
        examples = [f"{axis.field}={value}" for axis in axes for value in axis.examples()]
        for text in [*fixed, *examples]:
            document = Overrides([text]).solver(prototxt.read_solver(files.solver))
            subject = nets.subject(None, str(files.solver), {}, overrides=Overrides([text]))
            assert document and subject
        schedule(str(files.solver), {}, None, Overrides([*fixed, *(f"{a.field}={a.examples()[0]}" for a in axes)]))
    except CaffeliteError as error:
        findings.add(
            "mistake", CaffeliteError(error.what, expected=error.expected, found=error.found, remedy=error.remedy)
        )
        return 1
    count = 1
    for axis in axes:
        count *= len(axis.examples())
    return count


def record(kind: str, error: CaffeliteError, names: dict[str, str]) -> dict[str, Any]:
    """A finding as plain values; files by the names of pages."""
    where = error.where
    parts = {"expected": error.expected, "found": error.found, "remedy": error.remedy}
    texts = {name: _named(str(value), names) for name, value in parts.items() if value not in (None, "")}
    return {
        "kind": kind,
        "file": names.get(where.file, Path(where.file).name) if where else "settings",
        "line": where.line if where else 0,
        "column": where.column if where else 0,
        "message": _named(error.what, names),
        **texts,
    }


def _named(text: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def _describe(draft: Draft, files: Files, found: Inspection) -> None:
    """The picture, the layers, the memory and the schedule; what fails is left out."""
    fixed, axes = space.parse(draft.settings)
    overrides = Overrides([*fixed, *(f"{axis.field}={axis.examples()[0]}" for axis in axes)])
    try:
        subject = nets.subject(None, str(files.solver), {}, overrides=overrides, lenient=True)
        graph, guessed, _ = subject.part(pb.TRAIN)
        table = summary.table(graph, guessed)
        memory = summary.memory(subject, graphs={pb.TRAIN: graph})
        found.picture = scene.svg(picture.picture(graph))
        found.layers = [
            {"name": row.name, "type": row.type, "shape": [list(top) for top in row.tops], "parameters": row.parameters}
            for row in table.rows
        ]
        found.totals = {
            "batch": table.batch,
            "parameters": table.parameters,
            "multiply_adds": table.multiply_adds,
            "memory": memory.total,
        }
        run = schedule(str(files.solver), {}, None, overrides)
    except CaffeliteError as error:
        found.findings.append(record("note", error, files.names))
        return
    seconds = duration.forecast(table.multiply_adds, run.batch or table.batch, run.iterations)
    found.schedule = {
        "iterations": run.iterations,
        "epochs": run.epochs,
        "tests": len(run.tests),
        "snapshots": len(run.snapshots),
        "policy": run.policy,
        "curve": [list(point) for point in run.curve],
        "seconds": seconds * found.jobs,
    }
