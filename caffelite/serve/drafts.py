"""Drafts of a solver and its net as a page has them: what they may contain, what is wrong, what they would do.

The texts are written next to the solver under hidden names for as long as they are inspected, so that relative paths
mean what they mean in the solver itself.
"""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, inputs, roots
from ..errors import CaffeliteError
from ..inspection import nets, picture, scene, summary
from ..inspection.check import check
from ..inspection.reading import Findings
from ..inspection.schedule import forecast, schedule
from ..prototxt import schema
from ..prototxt.overrides import Overrides
from ..roots import Outside
from ..runs import limits
from ..runs.limits import NETS
from ..sweep import space
from .config import ServeConfig

NET = "net|train_net"  # fields of a solver
MOST_TEXT, MOST_VALUES = 10_000, 100  # characters of all settings, values of those with several
SETTINGS: dict[str, Any] = {"file": "settings", "line": 0, "column": 0}  # the place of a finding


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


def _paths(fields: str) -> re.Pattern[str]:
    """Matches a text value of one of the fields, names with | between: name, colon, quote, value. Comments and other
    texts match without a name. A value with an escape does not: only messages tell what it names."""
    return re.compile(rf"""#[^\n]*|\b({fields})(\s*:\s*)(["'])([^"'\\\n]*)\3|"[^"\n]*"|'[^'\n]*'""")


def _with_paths(text: str, fields: str, replace: Callable[[str], str]) -> str:
    return _paths(fields).sub(lambda m: f'{m[1]}{m[2]}"{replace(m[4])}"' if m[1] else m[0], text)


def net_path(config: ServeConfig, solver: Path, text: str, root: Path) -> Path | None:
    """The file of the net that a solver's text names; None where it names none, or its net is in the solver."""
    name = next((match[4] for match in _paths(NET).finditer(text) if match[1]), "")
    if not name:
        return None
    sibling = solver.parent / name
    here = root / name
    return config.resolve(str(sibling if not here.exists() and sibling.exists() else here))


@contextmanager
def written(config: ServeConfig, draft: Draft) -> Iterator[Files]:
    """Within it the draft is on the disk, with absolute paths of data. Errors: a path that leads out of the roots; the
    disk."""
    mark = secrets.token_hex(4)
    folder = draft.solver.parent
    files = Files(folder / f".draft_{mark}_solver.prototxt", folder / f".draft_{mark}_net.prototxt")
    files.names = {str(files.solver): "solver", str(files.net): "net"}
    solver_text = _with_paths(draft.solver_text, NET, lambda _: str(files.net))
    solver_text = _with_paths(solver_text, "snapshot_prefix|weights", lambda name: _below(draft.root, name))
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    texts = {files.solver: solver_text, files.net: _absolute(draft.net_text, draft.root)}
    try:
        with roots.folder(folder, make=True) as opened:
            try:
                for path, text in texts.items():
                    with open(opened / path.name, "x", encoding="utf-8", newline="") as file:
                        file.write(text)
                yield files
            finally:
                for path in texts:
                    (opened / path.name).unlink(missing_ok=True)
    except (OSError, UnicodeEncodeError) as error:
        raise CaffeliteError(f"cannot write into {folder.name}: {inputs.reason(error)}") from None
    finally:
        with suppress(OSError, Outside):  # of a folder that others use by now
            for path in made:
                with roots.folder(path.parent) as above:
                    (above / path.name).rmdir()


def _below(root: Path, name: str) -> str:
    return name if not name or name.startswith("/") or "," in name else f"{root}/{name}"


def _absolute(text: str, root: Path) -> str:
    """The text of a net in which relative paths below the root are absolute: the server's folder is another one."""

    def full(name: str) -> str:
        return str(root / name) if name and not name.startswith("/") and (root / name).exists() else name

    return _with_paths(text, "|".join(sorted(schema.fields_of_files(of_solver=False))), full)


def combinations(settings: Sequence[str]) -> tuple[list[Overrides], int]:
    """The settings as runs have them: the first values, then each other value; and how many runs they make. Errors:
    settings that cannot be read, or that name another net; more than a page checks."""
    if sum(map(len, settings)) > MOST_TEXT:
        raise CaffeliteError("the settings are too long for a page", expected=f"at most {MOST_TEXT:,} characters")
    fixed, axes = space.parse(settings)
    if (values := sum(len(axis.examples()) for axis in axes)) > MOST_VALUES:
        expected, remedy = f"at most {MOST_VALUES}", "start them in a terminal: caffelite sweep"
        raise CaffeliteError("a page checks each value of a setting", expected=expected, found=values, remedy=remedy)
    for name in [*(text.partition("=")[0].strip() for text in fixed), *(axis.field for axis in axes)]:
        if name in NETS:
            raise CaffeliteError(f"a setting cannot change {name} here", remedy="edit the text instead")
    first = [f"{axis.field}={axis.examples()[0]}" for axis in axes]
    overrides, count = [Overrides([*fixed, *first])], 1
    for i, axis in enumerate(axes):
        count *= len(axis.examples())
        for value in axis.examples()[1:]:
            overrides.append(Overrides([*fixed, *first[:i], f"{axis.field}={value}", *first[i + 1 :]]))
    return overrides, count


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
    """Checks a draft; where a run can start, also its picture, memory, schedule and a forecast of its time. What the
    server does not accept, in the messages after all settings, is never opened."""
    with written(config, draft) as files:
        findings, wrong, jobs, every = Findings(), Findings(), 1, [Overrides()]
        try:
            _refuse(config, draft, files, every, findings)
            chosen, jobs = combinations(draft.settings)
            if draft.settings and not findings:
                _refuse(config, draft, files, chosen, findings)
            every = chosen
        except CaffeliteError as error:  # settings that cannot be applied, or only because of mistakes of the texts
            wrong.add("mistake", error)
        if not findings:
            for one in check(str(files.solver)):
                findings.add(one.kind, one.error)
            if any(one.kind == "mistake" for one in findings):  # which may have kept the net from being checked
                _check_net(config, draft, files, findings)
        ok = not any(one.kind == "mistake" for one in findings)
        wrong = Findings() if not ok else wrong or _settings(files, every)
        rows = [record(one.kind, one.error, files.names) for one in findings]
        rows += [record(one.kind, one.error, files.names) | SETTINGS for one in wrong]
        inspection = Inspection(rows, ok and not wrong, jobs)
        if inspection.ok:
            _describe(every[0], files, inspection)
        return inspection


def _refuse(config: ServeConfig, draft: Draft, files: Files, every: Sequence[Overrides], findings: Findings) -> None:
    for overrides in every:
        for error in limits.refused_run(config.bounds, files.solver, overrides, draft.root):
            findings.add("mistake", error)


def _check_net(config: ServeConfig, draft: Draft, files: Files, findings: Findings) -> None:
    """Checks the draft's net on its own: the solver's text may name another one."""
    refusals = list(limits.refused_run(config.bounds, files.net, Overrides(), draft.root))
    for error in refusals:
        findings.add("mistake", error)
    for one in check(str(files.net)) if not refusals else ():
        findings.add(one.kind, one.error)


def _settings(files: Files, every: Sequence[Overrides]) -> Findings:
    findings = Findings()
    try:
        for overrides in every:
            nets.inspected_net(None, str(files.solver), {}, overrides=overrides)
        schedule(str(files.solver), {}, None, every[0])
    except CaffeliteError as error:
        findings.add("mistake", error)
    return findings


def record(kind: str, error: CaffeliteError, names: dict[str, str]) -> dict[str, Any]:
    """A finding as plain values; files by the names of pages."""
    where = error.where
    details = {"expected": error.expected, "found": error.found, "remedy": error.remedy}
    file = "" if not where or where.file.startswith("-set ") else names.get(where.file, Path(where.file).name)
    texts = {name: _named(str(value), names) for name, value in details.items() if value not in (None, "")}
    return {
        "kind": kind,
        "message": _named(error.what, names),
        **texts,
        **SETTINGS,
        **({"file": file, "line": where.line, "column": where.column} if where and file else {}),
    }


def _named(text: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def _describe(overrides: Overrides, files: Files, inspection: Inspection) -> None:
    """The picture, the layers, the memory and the schedule; what fails is left out."""
    try:
        subject = nets.inspected_net(None, str(files.solver), {}, overrides=overrides, lenient=True)
        graph, guessed, _ = subject.buildable(pb.TRAIN)
        table = summary.table(graph, guessed)
        memory = summary.memory(subject, graphs={pb.TRAIN: graph})
        inspection.picture = scene.svg(picture.picture(graph))
        inspection.layers = [
            {"name": row.name, "type": row.type, "shape": [list(top) for top in row.tops], "parameters": row.parameters}
            for row in table.rows
        ]
        inspection.totals = {
            "batch": table.batch,
            "parameters": table.parameters,
            "multiply_adds": table.multiply_adds,
            "memory": memory.total,
        }
        run = schedule(str(files.solver), {}, None, overrides)
    except CaffeliteError as error:
        inspection.findings.append(record("note", error, files.names))
        return
    seconds = forecast(table.multiply_adds, run.batch or table.batch, run.iterations)
    inspection.schedule = {
        "iterations": run.iterations,
        "epochs": run.epochs,
        "tests": len(run.tests),
        "snapshots": len(run.snapshots),
        "policy": run.policy,
        "curve": [list(point) for point in run.curve],
        "seconds": seconds * inspection.jobs,
    }
