"""A run compared with the records of an earlier one, bit for bit, while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import CaffeliteError
from ..training import Requests
from ..training.checkpoint import snapshot
from ..training.hooks.hook import Observer
from ..training.scores import Scores
from . import folder as files
from . import history
from .fingerprint import fingerprint


class Comparison(Observer):
    """Compares losses and test scores with those of a run's folder; asks to stop at the first that differs.

    ``differs``: (iteration, what, recorded, found), None as long as all is the same. ``compared``: how many numbers
    were.
    """

    def __init__(self, folder: Path, requests: Requests):
        self._losses = np.fromfile(folder / files.LOSSES, "<f4")
        self._tests = history.read(folder).tests
        self._requests = requests
        self.differs: tuple[int, str, float, float] | None = None
        self.compared = 0

    @property
    def iterations(self) -> int:
        """How many the record has."""
        return len(self._losses)

    def losses(self, solver, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            if i < len(self._losses):
                self._compare(i, "loss", self._losses[i], value)

    def tested(self, solver, which: int, scores: Scores) -> None:
        row = next((row for row in self._tests.get(which, ()) if row.iteration == solver.iteration), None)
        for name, _, values in scores.outputs if row else ():
            if values.size == 1 and name in row.values:
                solver.tell_losses()
                self._compare(solver.iteration, f"test {name}", row.values[name], values[0])

    def _compare(self, iteration: int, what: str, recorded: float, found: float) -> None:
        self.compared += 1
        a, b = np.float32(recorded), np.float32(found)
        if self.differs is None and a != b and not (np.isnan(a) and np.isnan(b)):
            self.differs = iteration, what, float(a), float(b)
            self._requests.stop = True


def changed_data(told: dict) -> list[str]:
    """What became of the data that a run was trained with: a line for each file that is gone or differs."""
    found = []
    for entry in told["data"]:
        path = Path(entry["path"])
        if not path.exists():
            found.append(f"{path} is gone")
        elif fingerprint(path) != entry:
            found.append(f"{path} is not what it was")
    return found


def start(session: dict, folder: Path) -> str | None:
    """The state that a session went on from: where it was, or where a later run moved it. Errors: neither is that
    state."""
    if not (named := session.get("snapshot")):
        return None
    run, moved = session.get("resumed_run", ""), folder / Path(named).name
    found = [path for path in (Path(named), moved) if path.exists() and (not run or snapshot.run_of(path) == run)]
    if not found:
        what = f"{named}, which {folder} went on from, is not there any more"
        raise CaffeliteError(
            what, expected=f"the state of run {run}" if run else None, remedy=f"copy it to {moved}, with its model"
        )
    return str(found[0])


def check(told: dict, folder: Path) -> dict:
    """The first session of a run that one process can repeat; else the reason why not."""
    session = told["sessions"][0]
    if session["processes"] > 1:
        what, remedy = (
            f"{folder} was trained by {session['processes']} processes",
            "repeat its command, as run.json has it",
        )
        raise CaffeliteError(what, expected="a run of one process", remedy=remedy)
    if session["iteration"] and not session.get("snapshot"):
        raise CaffeliteError(
            f"{folder} begins at iteration {session['iteration']}",
            expected="a run from its start, or its snapshot's name",
        )
    return session
