"""Repeats a recorded run and compares its losses and test scores with the records, bit for bit."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import chdir, closing
from pathlib import Path

import numpy as np

from .. import prototxt, stored
from ..errors import CaffeliteError, quoted
from ..fork import option
from ..training import Requests, Trainer
from ..training.checkpoint import snapshot
from ..training.hooks.hook import Hook
from ..training.scores import Scores
from ..training.state import TrainingState
from . import folder as files, history
from .config import RunConfig
from .fingerprint import fingerprint, version_of
from .open_net import load_weights, open_device, open_trainer

log = logging.getLogger("caffelite")

# Of the session that is repeated.
_SESSION = {"processes": int, "iteration": int, "folder": str}
_OPTIONAL = {"versions": {str: str}, "snapshot": str, "resumed_run": str, "weights": [str], "algorithms": [str]}
_OPTIONAL["fork"] = {"path": str, "layers": str, "proto": str, "sources": str}


def reproduce(folder: Path, gpu: str | None = None, iterations: int | None = None) -> tuple[Comparison, int]:
    """Repeats the run of a folder, in its working directory if that is there; nothing is written.

    Returns the comparison and how many iterations are done. Logs what changed since: data, versions. Errors: the run
    cannot be repeated by one process; there is nothing to compare.
    """
    run = files.load(folder)
    session = check(run["sessions"][0], folder)
    for line in changed_data(stored.chosen(run, {"data": [{"path": str}]}).get("data", [])):
        log.warning("%s", line)
    for package, version in session.get("versions", {}).items():
        if package not in ("python", "system") and (now := version_of(package)) != version:
            log.warning("%s is %s now, was %s", package, now or "not installed", version)
    _check_fork(session, folder)
    folder = folder.resolve()
    with chdir(session["folder"] if os.path.isdir(session["folder"]) else "."):
        return _repeat(folder, session, gpu, iterations)


def _check_fork(session: dict, folder: Path) -> None:
    """Errors: the run had a fork and this process has none, or the reverse, or other files."""
    recorded: dict = session.get("fork") or {}
    fork = option.current()
    now = fork.record() if fork else None
    if recorded and not now:
        what = f"{folder} was trained with layers of the fork in {recorded.get('path')}"
        raise CaffeliteError(what, remedy=f"if you trust that code: -fork {quoted(recorded.get('path', 'DIR'))}")
    if now and not recorded:
        raise CaffeliteError(
            f"{folder} was trained without a fork", found=f"-fork {now['path']}", remedy="leave it out"
        )
    for name, value in (now or {}).items() if recorded else ():
        if name != "path" and recorded.get(name) != value:
            log.warning("the fork's %s differ: %s now, %s then", name, value, recorded.get(name))


def _repeat(folder: Path, session: dict, gpu: str | None, iterations: int | None) -> tuple[Comparison, int]:
    """As ``reproduce``, in the current working directory."""
    document = prototxt.read_solver(folder / files.SOLVER)
    p = document.message
    p.snapshot, p.snapshot_after_train = 0, False
    p.ClearField("snapshot_keep")
    requests, config = Requests(), RunConfig(str(folder / files.SOLVER), gpus=gpu)
    dev = open_device(gpu, p)
    if dev.algorithms:
        dev.algorithms.restore(session.get("algorithms", ()))
    resume = start(session, folder)
    with closing(open_trainer(config, document, dev, requests=requests, resume=resume, snapshots=False)) as trainer:
        if session.get("weights") or p.weights and not session.get("snapshot"):
            load_weights(trainer.net, list(session.get("weights") or p.weights))
        comparison = Comparison(folder, trainer)
        trainer.reports.hooks.add(comparison)
        trainer.step(max(0, min(iterations or p.max_iter, comparison.iterations) - trainer.iteration))
        trainer.report_losses()
    if not comparison.compared:
        raise CaffeliteError(f"{folder} has no loss or score to compare", expected="the record of an iteration or more")
    return comparison, trainer.iteration


class Comparison(Hook):
    """Compares losses and test scores with those of a run folder; requests a stop at the first that differs.

    ``differs``: (iteration, name, recorded, found), None as long as all are the same. ``compared``: how many numbers
    were compared.
    """

    def __init__(self, folder: Path, trainer: Trainer):
        count = (folder / files.LOSSES).stat().st_size // 4
        self._losses = history.recorded_losses(folder, count)
        self._tests = history.read_tests(folder)
        self._trainer = trainer
        self.differs: tuple[int, str, float, float] | None = None
        self.compared = 0

    @property
    def iterations(self) -> int:
        """How many the record has."""
        return len(self._losses)

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            if i < len(self._losses):
                self._compare(i, "loss", self._losses[i], value)

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        row = next((row for row in self._tests.get(which, ()) if row.iteration == state.iteration), None)
        recorded = row.values if row else {}
        for name, _, values in scores.outputs:
            if values.size == 1 and name in recorded:
                self._trainer.report_losses()
                self._compare(state.iteration, f"test {name}", recorded[name], values[0])

    def _compare(self, iteration: int, name: str, recorded: float, computed: float) -> None:
        self.compared += 1
        a, b = np.float32(recorded), np.float32(computed)
        if self.differs is None and a != b and not (np.isnan(a) and np.isnan(b)):
            self.differs = iteration, name, float(a), float(b)
            self._trainer.learning.requests.stop = True


def changed_data(entries: Sequence[dict]) -> list[str]:
    """A line for each data file of a run that is gone or differs. entries: what `fingerprint` returned."""
    changed = []
    for entry in entries:
        path = Path(entry["path"])
        if not path.exists():
            changed.append(f"{path} no longer exists")
        elif fingerprint(path) != entry:
            changed.append(f"{path} is not what it was")
    return changed


def start(session: dict, folder: Path) -> str | None:
    """The state from which a session continued: where it was, or where a later run moved it. Errors: neither is that
    state."""
    if not (named := session.get("snapshot")):
        return None
    run, moved = session.get("resumed_run", ""), folder / Path(named).name
    candidates = [path for path in (Path(named), moved) if path.exists() and (not run or snapshot.run_of(path) == run)]
    if not candidates:
        what = f"{named}, from which {folder} continued, does not exist any more"
        raise CaffeliteError(
            what, expected=f"the state of run {run}" if run else None, remedy=f"copy it to {moved}, with its model"
        )
    return str(candidates[0])


def check(first: dict, folder: Path) -> dict:
    """The fields of a run's first session. Errors: it lacks one; one process cannot repeat it."""
    session = stored.chosen(first, _SESSION | _OPTIONAL)
    if missing := [name for name in _SESSION if name not in session]:
        what = f'{folder / files.RUN}: the first session has no valid "{missing[0]}"'
        raise CaffeliteError(what, expected="a file that caffelite train wrote")
    if session["processes"] > 1:
        what, remedy = f"{folder} was trained by {session['processes']} processes", "repeat its command: see run.json"
        raise CaffeliteError(what, expected="a run of one process", remedy=remedy)
    if session["iteration"] and not session.get("snapshot"):
        what = f"{folder} begins at iteration {session['iteration']}"
        raise CaffeliteError(what, expected="a run from its start, or its snapshot's name")
    return session
