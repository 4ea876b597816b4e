"""A trial: one setting with one random seed, trained by a process of its own under its own snapshot prefix."""

import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import stored
from ..errors import CaffeliteError, reporting
from ..runs import folder as files, history, registry
from ..runs.config import RunConfig
from ..runs.open_net import read_solver
from ..training import newest
from ..training.checkpoint import snapshot
from .results import END, TrialResult
from .space import Setting

_RESULT = stored.kinds(TrialResult)
LAST = "end"  # the rung END in a trial's file
ENDED = (registry.FINISHED, registry.STOPPED, registry.FAILED)


@dataclass(frozen=True)
class Score:
    """The score that a sweep compares: an output of test net ``net``. lowest: less is better. take: "last" or
    "best"."""

    name: str
    net: int
    lowest: bool
    take: str


@dataclass(frozen=True)
class Trial:
    """number: of the setting, from 1. name: the start of the trial's files in the sweep's folder."""

    number: int
    setting: Setting
    seed: int
    name: str
    sweep: Path
    base: RunConfig

    @property
    def prefix(self) -> Path:
        """The snapshot prefix."""
        return self.sweep / self.name

    @property
    def run_folder(self) -> Path:
        return self.sweep / f"{self.name}_run"

    @property
    def config(self) -> RunConfig:
        """The configuration of the trial's run from its start."""
        own = [f"{field}={value}" for field, value in self.setting]
        own += [f"random_seed={self.seed}", f"snapshot_prefix={self.prefix}"]
        return dataclasses.replace(self.base, overrides=(*self.base.overrides, *own))

    def continuation(self, rung: int) -> RunConfig:
        """The configuration that trains on to iteration ``rung``, or END, from the newest good snapshot before it."""
        config = self.config
        state = newest(read_solver(config).message, config.solver)
        done = snapshot.read_state(Path(state)).iteration if state else 0
        if done >= rung:  # the test at the rung was not recorded
            earlier = [(at, path) for at, path in snapshot.states(self.prefix) if at < rung and snapshot.sound(path)]
            done, state = max(((at, str(path)) for at, path in earlier), default=(0, None))
        if state:
            config = dataclasses.replace(config, snapshot=state, weights=())
        return dataclasses.replace(config, until=rung) if rung < END else config

    # results

    def results_file(self) -> Path:
        return self.sweep / f"{self.name}.json"

    def saved(self) -> dict[int, TrialResult]:
        """The results by rung that earlier sessions of the sweep have recorded."""
        content = stored.read(self.results_file(), {"rungs": {str: Any}}).get("rungs", {})
        results = {}
        for rung, entry in content.items():
            if stored.fits(entry, _RESULT) and (rung == LAST or re.fullmatch("[0-9]{1,10}", rung)):
                results[END if rung == LAST else int(rung)] = TrialResult(**stored.chosen(entry, _RESULT))
        return results

    def save(self, results: dict[int, TrialResult]) -> None:
        """Records the results by rung. Errors: the file cannot be written."""
        rungs = {
            LAST if rung == END else str(rung): dataclasses.asdict(result) for rung, result in sorted(results.items())
        }
        content = {"setting": dict(self.setting), "seed": self.seed, "rungs": rungs}
        with reporting(f"write {self.results_file()}"):
            files.write_json(self.results_file(), content)

    def status(self) -> registry.RunStatus | None:
        """The status of the trial's run; None where it has not started."""
        try:
            return registry.read(self.run_folder)
        except CaffeliteError:
            return None

    def result(self, score: Score, rung: int) -> TrialResult | None:
        """The result at a rung from the records of the run; None where the run has not reached it."""
        status = self.status()
        if status is None or status.state not in ENDED:
            return None
        done = status.iteration or 0
        complete = status.state == registry.FINISHED and not status.reason  # the reason is -until
        early = registry.stopped_early(status.state, status.reason)
        if status.state == registry.FAILED:
            return TrialResult(None, done, status.state, status.reason)
        tests = self._tests(score, rung)
        untested = status.state == registry.STOPPED and rung not in tests  # a signal came before the test
        if not complete and not early and (done < rung or untested):
            return None
        value = _taken(list(tests.values()), score)
        reason = f"no test with a finite {score.name} after training" if value is None else ""
        return TrialResult(value, min(done, rung), status.state, reason)

    def _tests(self, score: Score, rung: int) -> dict[int, float]:
        """The values of the tests until a rung, by iteration, without the one before training."""
        try:
            rows = history.read_tests(self.run_folder).get(score.net, [])
        except CaffeliteError:
            return {}
        rows = [row for row in rows if score.name in row.values and 0 < row.iteration <= rung]
        return {row.iteration: row.values[score.name] for row in rows}


def _taken(values: list[float], score: Score) -> float | None:
    """The last value, or the best one; None where it is not finite, or there is none."""
    if score.take == "best":
        finite = [value for value in values if math.isfinite(value)]
        return (min if score.lowest else max)(finite, default=None)
    return values[-1] if values and math.isfinite(values[-1]) else None


def failure(reason: str) -> TrialResult:
    """The result of a trial that ended before it had a run folder."""
    return TrialResult(None, 0, registry.FAILED, reason)
