"""Writes the records of a run into its folder while the run trains."""

from __future__ import annotations

import csv
import io
import itertools
import json
import logging
import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import inputs, prototxt, roots, stored
from ..addresses import without_secrets
from ..errors import CaffeliteError
from ..fork import option
from ..layers.base.detection_base import DetectionJudge
from ..spreadsheet import cell
from ..system import usable_cores
from ..training.hooks.hook import Hook, Outputs
from ..training.scores import Scores
from ..training.state import TrainingState
from . import folder as files, resolved
from .fingerprint import fingerprint, installed_versions
from .history import FIXED
from .lock import FolderLock, is_held
from .log import LogFile
from .registry import PAUSED, SIGNAL, Outcome, discard_early_failure, is_pausing, is_queued

if TYPE_CHECKING:
    from ..training import Trainer

log = logging.getLogger("caffelite")


class Recorder(Hook):
    """Keeps the folder of a run (its files: see folder.py).

    start: what the run starts from besides its solver, {"weights": [...]} or {"snapshot": ...}. config: the
    configuration, written as JSON. log_file: is opened in the folder. A resumed run continues in its folder, without
    the records of the iterations that it repeats. An existing folder is renamed before a new run starts. A disk error
    ends the records, not the run. Errors: CaffeliteError where another run has locked the folder.
    """

    def __init__(
        self,
        folder: Path,
        trainer: Trainer,
        command: Sequence[str],
        start: dict[str, object] | None = None,
        config: dict[str, object] | None = None,
        log_file: LogFile | None = None,
    ):
        self.folder, self.command, self.start = folder, [*map(without_secrets, command)], start or {}
        self._trainer = trainer
        self._config, self._log_file = {k: _shown(v) for k, v in config.items()} if config else config, log_file
        self._metrics: io.TextIOWrapper | None = None
        self._losses: io.BufferedRandom | None = None
        self._lock: FolderLock | None = None
        self._heartbeat: Heartbeat | None = None
        self._run: dict[str, Any] = {}  # the content of run.json
        self._opened = False
        self._columns: list[str] = []
        self._seconds_before = 0.0  # of the earlier sessions
        self._since = 0.0

    # what training reports

    def started(self, state: TrainingState) -> None:
        if self._opened:
            return
        self._opened = True
        self._since = time.perf_counter()
        try:
            self._open(self._trainer)
        except OSError as error:
            self._give_up(error)

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        if self._losses:
            try:
                self._losses.seek(4 * first)
                self._losses.write(np.asarray(values, "<f4").tobytes())
                self._losses.flush()
            except OSError as error:
                self._give_up(error)

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        self._row(state.iteration, "train", outputs, rate, loss)

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        loss = scores.loss if self._trainer.p.test_compute_loss else None
        self._row(state.iteration, f"test{which or ''}", scores.counted(), None, loss)

    def all_tested(self, state: TrainingState, scores: list[Scores]) -> None:
        best = state.best
        if not self._opened or best.judged_iteration != state.iteration or best.iteration != state.iteration:
            return
        score = self._trainer.p.best_score
        content = {"iteration": best.iteration, "score": score, "value": best.value, "loss": best.loss}
        try:
            files.write_json(self.folder / files.BEST, stored.finite(content))
        except OSError as error:
            self._give_up(error)

    def restored(self, state: TrainingState) -> None:
        if self._metrics:
            self._close_tables()
            try:
                self._open_tables(state.iteration)
                self._since = time.perf_counter()
            except OSError as error:
                self._give_up(error)

    def end(self, outcome: Outcome) -> None:
        """Records how this session ended; nothing where it never began."""
        if not self._run:
            return
        session, trainer = self._run["sessions"][-1], self._trainer
        if outcome.kind == SIGNAL and is_pausing(self.folder, session["process"], session["started"]):
            outcome = Outcome(PAUSED)
        session["outcome"] = {
            "kind": outcome.kind,
            "reason": outcome.reason,
            "iteration": trainer.iteration,
            "seconds": round(self._seconds(), 6),
            "rate": trainer.rate(trainer.iteration - 1) if trainer.iteration else None,
            "ended": files.now(),
        }
        if trainer.dev.algorithms and (recorded := trainer.dev.algorithms.recorded()):
            session["algorithms"] = recorded
        try:
            files.write_json(self.folder / files.RUN, self._run)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Closes the files, then releases the folder."""
        self._close_tables()
        self._release()

    # files

    def _open(self, trainer: Trainer) -> None:
        if is_held(self.folder):
            FolderLock(self.folder).release()  # raises, with the name of the holder
        sessions = self._earlier_sessions(trainer)
        if not sessions and self.folder.exists() and not is_queued(self.folder):
            self._rename_folder()
        with roots.folder(self.folder.parent) as above:
            (above / self.folder.name).mkdir(exist_ok=True)
        self._lock = FolderLock(self.folder)
        discard_early_failure(self.folder)
        train, tests = trainer.specs
        gpu = trainer.dev.number
        complete = resolved.solver(trainer.p, train, tests, trainer.seed, gpu)
        sessions.append(self._session(trainer))
        files.write_atomically(self.folder / files.SOLVER, prototxt.write(complete))
        files.write_atomically(self.folder / files.NET, prototxt.write(resolved.net(train)))
        config = {"config": self._config} if self._config is not None else {}
        paths = dict.fromkeys(path for spec in (train, *tests) for path in resolved.data(spec))
        data = [fingerprint(path) for path in paths]
        self._run = {**config, "sessions": sessions, "seed": trainer.seed, "data": data}
        if epoch := trainer.epoch:
            self._run["epoch"] = {"samples": epoch.samples, "batch": epoch.batch, "fields": trainer.epoch_fields}
        files.write_json(self.folder / files.RUN, self._run)
        (self.folder / files.CONFIG).unlink(missing_ok=True)
        self._heartbeat = Heartbeat(self.folder, lambda: trainer.iteration)
        self._columns = [*FIXED, *_outputs(trainer)]
        self._open_tables(trainer.iteration)
        if self._log_file:
            truncate_log(self.folder / files.LOG, trainer.iteration)
            self._log_file.open(self.folder / files.LOG)

    def _open_tables(self, iteration: int) -> None:
        metrics = self.folder / files.METRICS
        self._columns, self._seconds_before = truncate_metrics(metrics, iteration, self._columns)
        self._metrics = open(metrics, "a", newline="", opener=roots.open)
        self._losses = open_losses(self.folder / files.LOSSES, iteration)

    def _close_tables(self) -> None:
        for file in (self._metrics, self._losses):
            if file:
                file.close()
        self._metrics = self._losses = None

    def _release(self) -> None:
        if self._heartbeat:
            self._heartbeat.stop()
            self._heartbeat = None
        if self._lock:
            self._lock.release()
            self._lock = None

    def _earlier_sessions(self, trainer: Trainer) -> list[dict]:
        """The sessions so far, where the folder holds the records of the run that continues, or records without a run's
        id; else none."""
        if not trainer.iteration or not (self.folder / files.RUN).exists():
            return []
        try:
            sessions = files.load(self.folder)["sessions"]
            known = {session.get("run") for session in sessions} - {None}
        except (CaffeliteError, TypeError) as error:
            log.warning("%s is renamed: its %s cannot be read (%s)", self.folder, files.RUN, error)
            return []
        return (
            sessions
            if not known or not known.isdisjoint({trainer.files.owner.run.id, trainer.files.owner.before})
            else []
        )

    def _rename_folder(self) -> None:
        if Path.cwd().is_relative_to(self.folder.resolve()):
            what = f"-record: records cannot take the place of {self.folder}, which holds the current folder"
            raise CaffeliteError(what, remedy="name a folder of their own, as in -record run_1")
        if not files.holds_records(self.folder):
            what = f"the records of the run cannot take the place of {self.folder}, which is no folder of a run"
            raise CaffeliteError(what, remedy="rename it, or name another folder: -record run_1")
        renamed = files.free(self.folder, itertools.count(1))
        os.rename(self.folder, renamed)
        # The job is this run, not the earlier one.
        if os.environ.get(files.JOB_FOLDER) == os.path.realpath(self.folder):
            self.folder.mkdir()
            for name in files.JOB_FILES:
                if (renamed / name).exists():
                    os.rename(renamed / name, self.folder / name)

    def _session(self, trainer: Trainer) -> dict[str, object]:
        software = {"python": platform.python_version(), "system": platform.platform(), **installed_versions()}
        return {
            "run": trainer.files.owner.run.id,
            "resumed_run": trainer.files.owner.before,
            "iteration": trainer.iteration,
            "started": files.now(),
            "command": self.command,
            "folder": os.getcwd(),
            **self.start,
            "net": trainer.specs[0].message.name,
            "max_iterations": trainer.p.max_iter,
            "device": trainer.dev.name,
            "processes": trainer.comm.size,
            "cores": len(usable_cores()),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "locked": bool(self._lock and self._lock.works),
            "versions": software,
            **({"fork": fork.record()} if (fork := option.current()) else {}),
        }

    def _seconds(self) -> float:
        return self._seconds_before + time.perf_counter() - self._since

    def _row(self, iteration: int, phase: str, outputs: Outputs, rate: float | None, loss: float | None) -> None:
        if not self._metrics:
            return
        row = {
            "iteration": iteration,
            "seconds": f"{self._seconds():.6f}",
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
        log.warning("%s: %s; training continues without records", self.folder, inputs.reason(error).lower())
        self._metrics = self._losses = None


def _shown(value: object) -> object:
    """A value of a configuration without the secrets of addresses."""
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return without_secrets(value) if isinstance(value, str) else value


def _outputs(trainer: Trainer) -> list[str]:
    graphs = map(trainer.learning.division.complete, [trainer.net, *(net for net, _ in trainer.tests)])
    sizes = {
        v.name: 1 if isinstance(v.node.layer, DetectionJudge) else int(np.prod(v.shape))
        for graph in graphs
        for v in graph.outputs
    }
    return [column for name, size in sizes.items() for column in _names(name, size) if column not in FIXED]


def _names(name: str, size: int) -> list[str]:
    """The columns of an output; one called as a fixed column has gets a mark."""
    name = f"{name}." if name in FIXED else str(cell(name))
    return [name] if size == 1 else [f"{name}[{i}]" for i in range(size)]


def _text(value: float | None) -> str:
    """As few digits as give the same 32 bits again."""
    return "" if value is None else str(np.float32(value))


def command() -> list[str]:
    """The command line of this process."""
    return ["caffelite", *sys.argv[1:]]


_ITERATION = re.compile(rb"\] Iteration (\d+)\b")
_OUTPUT = re.compile(rb"\] (    (Train|Test) net output #|Test loss: )")


def truncate_metrics(path: Path, iteration: int, columns: list[str]) -> tuple[list[str], float]:
    """Keeps the rows of iterations before ``iteration`` and writes the header.

    Returns the columns, which are ``columns`` and further ones of the file, and the seconds of the last row.
    Errors: OSError.
    """
    rows = []
    if path.exists():
        with open(path, newline="", opener=roots.open) as file:
            rows = [row for row in csv.DictReader(file) if _before(row["iteration"], iteration)]
    columns = list(dict.fromkeys([*columns, *(name for row in rows for name in row if name)]))
    out = io.StringIO()
    table = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore")
    table.writeheader()
    table.writerows(rows)
    files.write_atomically(path, out.getvalue())
    return columns, float(rows[-1]["seconds"] or 0) if rows else 0.0


def _before(text: str | None, iteration: int) -> bool:
    return text is not None and text.isdecimal() and int(text) < iteration


def open_losses(path: Path, iteration: int) -> io.BufferedRandom:
    """Opens the file of losses for writing, less those of ``iteration`` and later ones. Errors: OSError."""
    file = open(path, "r+b" if path.exists() else "w+b", opener=roots.open)
    if file.seek(0, io.SEEK_END) > 4 * iteration:
        file.truncate(4 * iteration)
    return file


def truncate_log(path: Path, iteration: int) -> None:
    """Removes the lines that report ``iteration`` or a later one, with the scores below them; other lines stay.

    What ended the earlier session is thus still in the log. Errors: OSError.
    """
    if not path.exists():
        return
    lines = inputs.read(path, inputs.LOG).splitlines(keepends=True)
    before = list(_log_lines_before(lines, iteration))
    if len(before) < len(lines):
        files.write_atomically(path, b"".join(before))


def _log_lines_before(lines: list[bytes], iteration: int) -> Iterator[bytes]:
    dropping = False
    for line in lines:
        if match := _ITERATION.search(line):
            dropping = int(match[1]) >= iteration
        if dropping and (match or _OUTPUT.search(line)):
            continue
        yield line


BEAT_PERIOD = 2.0  # seconds


class Heartbeat:
    """Writes ``{"iteration", "time"}`` to heartbeat.json every ``period`` seconds until ``stop``.

    iteration: returns the number of iterations that are done. The training thread does nothing for it. A disk that
    fails costs the heartbeat, not the run, and brings one warning.
    """

    def __init__(self, folder: Path, iteration: Callable[[], int], period: float = BEAT_PERIOD):
        self._path, self._iteration, self._period = folder / files.HEARTBEAT, iteration, period
        self._ended, self._warned = threading.Event(), False
        self._write()
        self._thread = threading.Thread(target=self._run, name="caffelite heartbeat", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            self._write()

    def _write(self) -> None:
        text = json.dumps({"iteration": self._iteration(), "time": round(time.time(), 3)}) + "\n"
        try:
            files.write_atomically(self._path, text)
        except OSError as error:
            if not self._warned:
                self._warned = True
                reason = inputs.reason(error).lower()
                log.warning("%s: %s; other programs may take the run for dead", self._path, reason)

    def stop(self) -> None:
        """Writes the last iteration and ends the thread."""
        self._ended.set()
        self._thread.join()
        self._write()
