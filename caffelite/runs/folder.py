"""A run's folder: what it was told, what it ran on, and all that it told, ready to be drawn and to be run again.

solver.prototxt (complete, its nets within), net.prototxt, run.json (commands, versions, data), metrics.csv (what was
displayed and tested), losses.f32 (every iteration's loss, float32, little-endian, from iteration 0 on).
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import inputs, prototxt
from ..errors import CaffeliteError
from ..training.checkpoint.ownership import RUN
from ..training.hooks.hook import Observer, Outputs
from ..training.scores import Scores
from . import resolved
from .fingerprint import fingerprint
from .history import FIXED, LOSSES, METRICS

if TYPE_CHECKING:
    from ..training import Solver

log = logging.getLogger("caffelite")

SOLVER, NET = "solver.prototxt", "net.prototxt"
PACKAGES = (
    "caffelite",
    "numpy",
    "numba",
    "scipy",
    "protobuf",
    "lmdb",
    "h5py",
    "opencv-python-headless",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "nvidia-cudnn-cu12",
    "nvidia-cudnn-cu13",
    "onednn-cpu-gomp",
)


class Recorder(Observer):
    """Keeps a run's folder. start: what the run begins with besides, {"weights": [...]} or {"snapshot": ...}.

    A resumed run goes on in its folder, less what the first one told beyond the iteration that it resumes at; the
    folder of a run that is begun anew makes way: it is renamed. A disk that fails costs the records, not the run.
    """

    def __init__(self, folder: Path, command: Sequence[str], start: dict[str, object] | None = None):
        self.folder, self.command, self.start = folder, list(command), start or {}
        self._metrics: io.TextIOWrapper | None = None
        self._losses: io.BufferedRandom | None = None
        self._before = 0.0  # seconds of the sessions before

    # what the solver tells

    def began(self, solver: Solver) -> None:
        if self._metrics:
            return
        self._since = time.perf_counter()
        try:
            self._open(solver)
        except OSError as error:
            self._give_up(error)

    def losses(self, solver: Solver, first: int, values: Sequence[float]) -> None:
        if self._losses:
            try:
                self._losses.seek(4 * first)
                self._losses.write(np.asarray(values, "<f4").tobytes())
                self._losses.flush()
            except OSError as error:
                self._give_up(error)

    def shown(self, solver: Solver, rate: float, loss: float, outputs: Outputs) -> None:
        self._row(solver.iteration, "train", outputs, rate, loss)

    def tested(self, solver: Solver, which: int, scores: Scores) -> None:
        self._row(
            solver.iteration,
            f"test{which or ''}",
            scores.outputs,
            None,
            scores.loss if solver.p.test_compute_loss else None,
        )

    def rewound(self, solver: Solver) -> None:
        if self._metrics:
            self.close()
            try:
                self._before = _cut(self.folder / METRICS, solver.iteration, self._columns)
                self._since = time.perf_counter()
                self._append(solver.iteration)
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        for file in (self._metrics, self._losses):
            if file:
                file.close()
        self._metrics = self._losses = None

    # files

    def _open(self, solver: Solver) -> None:
        sessions = self._sessions(solver)
        goes_on = bool(sessions)
        if not goes_on and self.folder.exists():
            self._make_way()
        self.folder.mkdir(exist_ok=True)
        train, tests = solver.specs
        gpu = None if solver.dev.name == "cpu" else solver.dev.number
        whole = resolved.solver(solver.p, train, tests, solver.seed, gpu)
        sessions.append(self._session(solver))
        _write(self.folder / SOLVER, prototxt.write(whole))
        _write(self.folder / NET, prototxt.write(resolved.net(train)))
        _write(
            self.folder / RUN,
            json.dumps({"sessions": sessions, "seed": solver.seed, "data": _data([train, *tests])}, indent=2) + "\n",
        )
        self._columns = [*FIXED, *_outputs(solver)]
        self._before = _cut(self.folder / METRICS, solver.iteration, self._columns)
        self._append(solver.iteration)

    def _append(self, iteration: int) -> None:
        self._metrics = open(self.folder / METRICS, "a", newline="")
        path = self.folder / LOSSES
        self._losses = open(path, "r+b" if path.exists() else "w+b")
        if self._losses.seek(0, io.SEEK_END) > 4 * iteration:
            self._losses.truncate(4 * iteration)

    def _sessions(self, solver: Solver) -> list[dict]:
        """The sessions so far, where the folder holds the records of the run that goes on, or records that say no run;
        else none."""
        if not solver.iteration or not (self.folder / RUN).exists():
            return []
        try:
            sessions = load(self.folder)["sessions"]
            known = {session.get("run") for session in sessions} - {None}
        except (CaffeliteError, AttributeError, KeyError, TypeError) as error:
            log.warning("%s is renamed: its %s cannot be read (%s)", self.folder, RUN, error)
            return []
        return sessions if not known or not known.isdisjoint({solver.owner.run.id, solver.owner.before}) else []

    def _make_way(self) -> None:
        number = next(n for n in range(1, 10**6) if not self.folder.with_name(f"{self.folder.name}_{n}").exists())
        os.rename(self.folder, self.folder.with_name(f"{self.folder.name}_{number}"))

    def _session(self, solver: Solver) -> dict[str, object]:
        versions = {"python": platform.python_version(), "system": platform.platform()}
        for package in PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
        return {
            "run": solver.owner.run.id,
            "resumed_run": solver.owner.before,
            "iteration": solver.iteration,
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "command": self.command,
            "folder": os.getcwd(),
            **self.start,
            "device": solver.dev.name,
            "processes": solver.comm.size,
            "cores": len(os.sched_getaffinity(0)),
            "versions": versions,
        }

    def _row(self, iteration: int, phase: str, outputs: Outputs, rate: float | None, loss: float | None) -> None:
        if not self._metrics:
            return
        seconds = self._before + time.perf_counter() - self._since
        row = {
            "iteration": iteration,
            "seconds": f"{seconds:.6f}",
            "phase": phase,
            "rate": _text(rate),
            "smoothed_loss": _text(loss),
        }
        for name, _, values in outputs:
            row |= {column: _text(value) for column, value in zip(_names(name, values.size), values, strict=True)}
        try:
            csv.DictWriter(self._metrics, self._columns, lineterminator="\n").writerow(row)
            self._metrics.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("%s: %s; training goes on without records", self.folder, (error.strerror or str(error)).lower())
        self._metrics = self._losses = None


def load(folder: Path) -> dict:
    """run.json of a folder."""
    try:
        return json.loads(inputs.read_text(folder / RUN))
    except (OSError, ValueError):
        expected = f"a folder with {RUN}, as caffelite train leaves it"
        raise CaffeliteError(f"{folder} is not the folder of a run", expected=expected) from None


def _data(specs: list) -> list[dict[str, object]]:
    paths = dict.fromkeys(path for spec in specs for path in resolved.data(spec))
    return [fingerprint(path) for path in paths]


def _outputs(solver: Solver) -> list[str]:
    nets = [solver.net, *(net for net, _ in solver.tests)]
    sizes = {v.name: int(np.prod(v.shape)) for net in nets for v in net.graph.outputs}
    return [column for name, size in sizes.items() for column in _names(name, size) if column not in FIXED]


def _names(name: str, size: int) -> list[str]:
    """The columns of an output; one called as a fixed column has gets a mark."""
    name = f"{name}." if name in FIXED else name
    return [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]


def _text(value: float | None) -> str:
    """As few digits as give the same 32 bits again."""
    return "" if value is None else str(np.float32(value))


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)


def _cut(path: Path, iteration: int, columns: list[str]) -> float:
    """Leaves the metrics of iterations before ``iteration``, in these columns and any that were there; the seconds of
    the last one."""
    kept = []
    if path.exists():
        with open(path, newline="") as file:
            kept = [
                row
                for row in csv.DictReader(file)
                if (row["iteration"] or "").isdecimal() and int(row["iteration"]) < iteration
            ]
    columns[:] = dict.fromkeys([*columns, *(name for row in kept for name in row if name)])
    out = io.StringIO()
    table = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    table.writerows(kept)
    _write(path, out.getvalue())
    return float(kept[-1]["seconds"] or 0) if kept else 0.0


def command() -> list[str]:
    """The command line of this process."""
    return ["caffelite", *sys.argv[1:]]
