"""Summaries of runs with their tags and notes: filters, an order, the comparison of several runs, and an index that
lists many runs at once."""

import dataclasses
import json
import math
import operator
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import prototxt, stored
from ..errors import CaffeliteError, did_you_mean, printable, reporting
from ..roots import Outside
from . import fields, folder as files, history, lock, registry
from .registry import RunStatus

LONGEST_TAG, MOST_TAGS, LONGEST_NOTE = 50, 50, 10_000  # characters, tags, characters


@dataclass(frozen=True)
class Notes:
    """tags: in alphabetical order, each once. note: any text."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read_notes(folder: Path) -> Notes:
    """The notes of a run; empty where it has none."""
    content = stored.read(folder / files.NOTES, {"tags": [str], "note": str})
    return Notes(tuple(sorted({*content.get("tags", ())})), content.get("note", ""))


def change_notes(
    folder: Path, *, add: Iterable[str] = (), remove: Iterable[str] = (), note: str | None = None
) -> Notes:
    """Adds and removes tags, and replaces the note unless it is None.

    Errors: not the folder of a run; a tag with a comma or a control character; too long a text; the folder cannot be
    written.
    """
    if not any((folder / name).exists() for name in (files.RUN, files.CONFIG)):
        raise CaffeliteError(f"{folder} is not the folder of a run", expected="one that caffelite train wrote")
    before = read_notes(folder)
    tags = ({*before.tags} | {_tag(tag) for tag in add}) - {tag.strip() for tag in remove}
    if len(tags) > MOST_TAGS:
        raise CaffeliteError("a run has too many tags", expected=f"at most {MOST_TAGS}", found=len(tags))
    if note is not None and len(note) > LONGEST_NOTE:
        raise CaffeliteError("the note is too long", expected=f"at most {LONGEST_NOTE} characters", found=len(note))
    changed = Notes(tuple(sorted(tags)), before.note if note is None else note.replace("\r\n", "\n"))
    with reporting(f"write {folder / files.NOTES}"):
        files.write_json(folder / files.NOTES, dataclasses.asdict(changed))
    return changed


def _tag(text: str) -> str:
    tag = text.strip()
    if not tag or len(tag) > LONGEST_TAG or "," in tag or not tag.isprintable():
        expected = f"1 to {LONGEST_TAG} characters without a comma"
        raise CaffeliteError("a tag cannot be used", expected=expected, found=f'"{printable(text, keep="")[:80]}"')
    return tag


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    **{"<=": operator.le, ">=": operator.ge, "!=": operator.ne},
    **{"=": operator.eq, "<": operator.lt, ">": operator.gt},
}
POINTS = 40  # of a curve in a list
BEST_TEST = {"iteration": int, "score": str, "value": float, "loss": float | None}
ORDERS = ("started", "name", "state", "net", "iteration", "seconds", "device", "tags")


@dataclass
class RunSummary:
    """What a list of runs shows. scores: of the last test, by name; those of further test nets as ``loss (test 1)``.

    loss: the last recorded training loss; NaN where there is none. seconds: of training, all sessions; NaN where that
    is not known. max_iterations: of the solver; 0 where that is not known. best: the best value of each score: the
    least of losses and errors, the greatest of others; of a table above history.READ_WHOLE bytes, of the rows that are
    read. curve: at most POINTS values of the training loss, at even
    intervals. best_test: iteration, score (its name), value and loss of the test of the best weights; empty where
    best_score is not set. pace: seconds for an iteration; NaN where that is not known.
    """

    status: RunStatus
    name: str
    net: str = ""
    max_iterations: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    loss: float = math.nan
    seconds: float = math.nan
    best: dict[str, float] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)
    pace: float = math.nan
    device: str = ""
    notes: Notes = Notes()
    best_test: dict[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """The seconds that a run still takes at its pace; NaN where it does not run or that is not known."""
        if self.status.state != registry.RUNNING or self.status.iteration is None:
            return math.nan
        return max(0, self.max_iterations - self.status.iteration) * self.pace

    @cached_property
    def fields(self) -> fields.RunFields | None:
        """The fields of the solver and the net; None where the folder has no solver."""
        try:
            return fields.read(self.status.folder)
        except CaffeliteError:
            return None

    def value(self, name: str) -> float | str | None:
        """A score, a column of the list, or a field by the name that ``-set`` uses; None where the run has none."""
        if name in self.scores:
            return self.scores[name]
        if name in ("name", "net", "max_iterations", "seconds", "device"):
            return getattr(self, name)
        if name == "tags":
            return ",".join(self.notes.tags)
        if name in ("state", "iteration", "started"):
            return getattr(self.status, name)
        text = self.fields.get(name) if self.fields else None
        return text if text is not None else self.loss if name == "loss" and not math.isnan(self.loss) else None

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers that are not finite become null."""
        status = ("folder", "state", "reason", "iteration", "started", "sessions")
        own = ("name", "net", "max_iterations", "scores", "loss", "seconds", "best", "left", "device", "best_test")
        values = {name: getattr(self.status, name) for name in status} | {name: getattr(self, name) for name in own}
        return stored.finite(values | dataclasses.asdict(self.notes))


def find(roots: Iterable[str | Path], depth: int | None = None) -> list[RunSummary]:
    """The runs below folders, each once. Names are paths relative to the current folder, where they are below it.
    Errors: a root that is no folder."""
    runs: dict[str, RunSummary] = {}
    for root in map(Path, roots):
        if not root.is_dir():
            raise CaffeliteError(f"{root} is no folder", expected="a run folder, or a folder with run folders below it")
        for status in registry.find(root, depth):
            runs.setdefault(os.path.realpath(status.folder), summary(status))
    return list(runs.values())


def summary(status: RunStatus) -> RunSummary:
    """The summary of a run. Parts that its folder does not hold yet are empty."""
    run = RunSummary(status, _name(status.folder), notes=read_notes(status.folder))
    run.best_test = best_test(status.folder)
    session = _last_session(status.folder)
    run.device = str(session.get("device", ""))
    if "net" in session and isinstance(session.get("max_iterations"), int):
        run.net, run.max_iterations = str(session["net"]), session["max_iterations"]
    else:
        _read_solver(run)
    try:
        records = history.read(status.folder, history.LIST_PLACES)
    except CaffeliteError:
        return run
    for number, rows in sorted(records.tests.items()):
        mark = f" (test {number})" if number else ""
        run.scores |= {name + mark: value for name, value in rows[-1].values.items()} if rows else {}
    run.best = {name: _best(records, name) for name in run.scores}
    last = records.last or next(iter(reversed(records.train or records.undisplayed)), None)
    run.loss = last.loss if last else math.nan
    run.curve = _curve(records)
    rows = [*records.train, *records.undisplayed, *(row for tests in records.tests.values() for row in tests)]
    timed = [row for row in [*rows, records.last_rate] if row and math.isfinite(row.seconds)]
    latest = max(timed, key=lambda row: row.seconds, default=None)
    if latest:
        run.seconds = latest.seconds
        run.pace = latest.seconds / latest.iteration if latest.iteration else math.nan
    if records.last_rate and math.isfinite(records.last_rate.seconds):
        run.seconds = records.last_rate.seconds
    return run


def best_test(folder: Path) -> dict[str, Any]:
    """iteration, score (its name), value and loss of the test of a run's best weights; empty where none is recorded."""
    test = stored.read(folder / files.BEST, BEST_TEST)
    return test if len(test) == len(BEST_TEST) else {}


def _last_session(folder: Path) -> dict[str, Any]:
    """The last session of run.json; empty where there is none."""
    sessions = files.sessions(folder)
    return stored.chosen(sessions[-1], {"device": str, "net": str, "max_iterations": int}) if sessions else {}


def _read_solver(run: RunSummary) -> None:
    try:
        solver = prototxt.read_solver(run.status.folder / files.SOLVER).message
    except CaffeliteError:
        return
    net = solver.train_net_param if solver.HasField("train_net_param") else solver.net_param
    run.net, run.max_iterations = net.name, solver.max_iter


def _best(records: history.History, score: str) -> float:
    """The best value of a score, whose name may end in `` (test N)``."""
    name, _, mark = score.partition(" (test ")
    values = [row.values[name] for row in records.tests[int(mark.rstrip(")") or 0)] if name in row.values]
    known = [value for value in values if math.isfinite(value)]
    return (min if history.is_loss(name) else max)(known, default=math.nan)


def _curve(records: history.History) -> list[float]:
    rows = records.train or records.undisplayed
    step = max(1, -(-len(rows) // POINTS))
    losses = [row.loss if math.isfinite(row.loss) else next(iter(row.values.values()), math.nan) for row in rows]
    chosen = losses[::step]
    if rows and (len(rows) - 1) % step:
        chosen.append(losses[-1])
    return [value for value in chosen if math.isfinite(value)]


def _name(folder: Path) -> str:
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else relative


def chosen(
    runs: Iterable[RunSummary],
    states: Sequence[str] = (),
    net: str = "",
    conditions: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> list[RunSummary]:
    """The runs in one of the states (all if none is given), with a net whose name contains ``net`` and with all tags,
    that meet every condition: NAME=VALUE, or with < <= > >= !=, of a score, a column or a field.

    Errors: a condition that cannot be read.
    """
    tests = [_condition(text) for text in conditions]
    return [
        run
        for run in runs
        if (not states or run.status.state in states or run.status.label in states)
        and net.lower() in run.net.lower()
        and set(tags) <= set(run.notes.tags)
        and all(test(run) for test in tests)
    ]


def _condition(text: str) -> Callable[[RunSummary], bool]:
    match = re.fullmatch(r"\s*([^<>=!]+?)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*", text)
    if not match:
        expected = "NAME=VALUE, or with < <= > >= !=, as in accuracy>0.9 or base_lr=0.01"
        raise CaffeliteError(f"-where {text} cannot be read", expected=expected)
    name, sign, value = match.groups()

    def meets(run: RunSummary) -> bool:
        actual = run.value(name)
        if actual is None:
            return False
        one, other = number(actual), number(value)
        if one is not None and other is not None:
            same = sign in ("=", "!=") and math.isclose(one, other, rel_tol=1e-6)
            return (sign == "=") if same else OPERATORS[sign](one, other)
        return sign in ("=", "!=") and OPERATORS[sign](str(actual), value)

    return meets


def number(value: object) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except ValueError:
        return None


def ordered(runs: Sequence[RunSummary], by: str, reverse: bool = False) -> list[RunSummary]:
    """The runs in ascending order of a column, a score or a field; runs without it come last. Errors: none has it."""
    values = [(run, run.value(by)) for run in runs]
    known = [(run, value) for run, value in values if value not in (None, "")]
    if runs and not known and by not in ORDERS:
        names = [*ORDERS, *dict.fromkeys(name for run in runs for name in run.scores)]
        expected = f"one of {', '.join(names)}, or a field as in base_lr"
        raise CaffeliteError(f'no run has "{by}" to sort by', expected=expected, remedy=did_you_mean(by, names))
    numeric = all(number(value) is not None for _, value in known)

    def key(entry: tuple[RunSummary, Any]) -> Any:
        return number(entry[1]) if numeric else str(entry[1])

    first = [run for run, _ in sorted(known, key=key, reverse=reverse)]
    return [*first, *(run for run, value in values if value in (None, ""))]


@dataclass
class Comparison:
    """Runs side by side: the fields in which they differ."""

    runs: list[RunSummary]
    fields: list[fields.Difference]

    def to_json(self) -> dict[str, Any]:
        rows = [{"field": each.field, "values": list(each.values)} for each in self.fields]
        return {"runs": [run.to_json() for run in self.runs], "fields": rows}


def compare(runs: Sequence[RunSummary]) -> Comparison:
    """The comparison of two or more runs. Errors: fewer than two; a run that has no solver yet."""
    if len(runs) < 2:
        name = runs[0].name if runs else "none"
        raise CaffeliteError("a comparison needs two runs or more", found=name, remedy="name their folders")
    return Comparison(list(runs), fields.differences([run.fields or fields.read(run.status.folder) for run in runs]))


def histories(runs: Sequence[RunSummary]) -> list[history.History]:
    """The histories of runs under names that tell them apart, for a chart. Errors: a run without records."""
    every = [history.read(run.status.folder, history.CHART_PLACES) for run in runs]
    if len({each.name for each in every}) < len(every):
        for each, run in zip(every, runs, strict=True):
            each.name = run.name
    return every


_SUMMARY = stored.kinds(RunSummary)
INDEX = ".caffelite_runs.json"
INDEX_FORMAT = 2  # of the file; another one is not read
WATCHED = (
    *(files.RUN, files.CONFIG, files.OUTCOME, files.METRICS, files.LOSSES, files.SOLVER, files.NOTES),
    *(files.JOB, files.PROCESS, files.BEST),
)
CHANGING = (registry.RUNNING, registry.QUEUED)  # states that also change without a change of these files
FRESH = 0.7  # seconds for which a list is not made again
SAVED = 10.0  # seconds between writes of the file


class Index:
    """Lists the runs below folders. file: where the index is kept; None: in memory only. Safe for several threads."""

    def __init__(self, roots: Sequence[Path], depth: int | None, file: Path | None):
        self._roots, self._file = list(roots), file
        self._run_folders = [registry.run_folders(root, depth) for root in roots]
        self._entries: dict[str, tuple[list[Any], RunSummary]] = {}
        self._lock = threading.Lock()
        self._made, self._saved = -FRESH, -SAVED
        self._runs: list[RunSummary] = []
        self._changed = False
        self._load()

    def runs(self) -> list[RunSummary]:
        """The summaries of all runs, by folder."""
        with self._lock:
            if time.monotonic() - self._made > FRESH:
                self._runs = [run for folder in self._folders() if (run := self._summary(folder))]
                self._made = time.monotonic()
                known = {str(run.status.folder) for run in self._runs}
                for gone in self._entries.keys() - known:
                    del self._entries[gone]
                    self._changed = True
                if self._changed and time.monotonic() - self._saved > SAVED:
                    self._save()
            return list(self._runs)

    def read_ahead(self) -> None:
        """Reads the runs, so that the first list need not."""
        with self._lock:
            for folder in self._folders():
                self._summary(folder)

    def forget(self) -> None:
        """Makes the next list read the folders again."""
        self._made = -FRESH

    def save(self) -> None:
        """Writes the file if anything changed."""
        with self._lock:
            if self._changed:
                self._save()

    def _folders(self) -> list[Path]:
        folders: dict[str, Path] = {}
        for root in self._run_folders:
            for folder in (Path(listing.path) for listing in root):
                if not files.leads_out(folder, self._roots):
                    folders.setdefault(os.path.realpath(folder), folder)
        return list(folders.values())

    def _summary(self, folder: Path) -> RunSummary | None:
        key, stamps = str(folder), _stamps(folder)
        held = lock.is_held(folder)
        entry = self._entries.get(key)
        if entry and entry[0] == stamps and not held and entry[1].status.state not in CHANGING:
            return entry[1]
        try:
            status = registry.read(folder)
            known = entry[1] if entry and entry[0] == stamps else None
            run = dataclasses.replace(known, status=status) if known else summary(status)
        except CaffeliteError:
            return None
        self._changed = self._changed or not known
        self._entries[key] = stamps, run
        return run

    def _load(self) -> None:
        content: dict[str, Any] = {}
        with suppress(Outside):
            content = stored.read(self._file, {"format": int, "entries": {str: [Any]}}) if self._file else {}
        if content.get("format") != INDEX_FORMAT:
            return
        for key, entry in content.get("entries", {}).items():
            if len(entry) == 2 and isinstance(entry[0], list) and stored.fits(entry[1], _SUMMARY):
                with suppress(TypeError, ValueError, KeyError):
                    self._entries[key] = entry[0], _summary_from(key, entry[1])

    def _save(self) -> None:
        self._saved, self._changed = time.monotonic(), False
        if self._file:
            content = {key: [stamps, _summary_values(run)] for key, (stamps, run) in self._entries.items()}
            with suppress(OSError):
                files.write_atomically(self._file, json.dumps({"format": INDEX_FORMAT, "entries": content}))


def _stamps(folder: Path) -> list[Any]:
    stamps: list[Any] = []
    for name in WATCHED:
        try:
            status = os.stat(f"{folder}/{name}")
            stamps.append([status.st_mtime_ns, status.st_size])
        except OSError:
            stamps.append(None)
    return stamps


def _summary_values(run: RunSummary) -> dict[str, Any]:
    values = dataclasses.asdict(run)
    values["status"]["folder"] = str(run.status.folder)
    return values


def _summary_from(key: str, values: dict[str, Any]) -> RunSummary:
    status, notes = values["status"], values["notes"]
    status |= {"folder": Path(key), "command": tuple(status["command"])}
    fields = {**values, "status": RunStatus(**status), "notes": Notes(tuple(notes["tags"]), notes["note"])}
    return RunSummary(**fields)
