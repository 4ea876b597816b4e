"""A trial: one setting with one random seed, trained by a process of its own under its own snapshot prefix."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

from ..errors import CaffeliteError
from ..runs import folder as files
from ..runs import history, registry
from ..runs.config import RunConfig
from ..runs.open_net import read_solver
from ..training import newest
from ..training.checkpoint import snapshot
from .results import TrialResult
from .space import Setting

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

    def continuation(self, rung: int, end: int) -> RunConfig:
        """The configuration that trains on to iteration ``rung``, from the newest good snapshot before it. end: the
        last iteration of the solver."""
        config = self.config
        state = newest(read_solver(config).message, config.solver)
        done = snapshot.read_state(Path(state)).iteration if state else 0
        if done >= rung < end:  # the test at the rung was not recorded
            earlier = [(at, path) for at, path in snapshot.states(self.prefix) if at < rung and snapshot.sound(path)]
            done, state = max(((at, str(path)) for at, path in earlier), default=(0, None))
        if state:
            config = dataclasses.replace(config, snapshot=state, weights=())
        return dataclasses.replace(config, iterations=rung - done) if rung < end else config

    # results

    def results_file(self) -> Path:
        return self.sweep / f"{self.name}.json"

    def saved(self) -> dict[int, TrialResult]:
        """The results by rung that earlier sessions of the sweep have recorded."""
        content = files.read_json(self.results_file()).get("rungs")
        found = {}
        for rung, entry in (content if isinstance(content, dict) else {}).items():
            try:
                found[int(rung)] = TrialResult(**entry)
            except (TypeError, ValueError):
                continue
        return found

    def save(self, results: dict[int, TrialResult]) -> None:
        """Records the results by rung. Errors: the file cannot be written."""
        rungs = {str(rung): dataclasses.asdict(result) for rung, result in sorted(results.items())}
        content = {"setting": dict(self.setting), "seed": self.seed, "rungs": rungs}
        try:
            files.write_json(self.results_file(), content)
        except OSError as error:
            raise CaffeliteError(f"cannot write {self.results_file()}: {error.strerror}") from None

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
        reached = status.iteration is not None and status.iteration >= rung
        early = status.state == registry.STOPPED and status.reason.startswith("stopped early")
        if status.state == registry.FAILED:
            return TrialResult(None, status.iteration or 0, status.state, status.reason)
        if not reached and not early:
            return None
        found = self._score(score, rung)
        if found is None:
            return TrialResult(None, status.iteration or 0, status.state, f"no test with a finite {score.name}")
        return TrialResult(found[1], found[0], status.state)

    def _score(self, score: Score, rung: int) -> tuple[int, float] | None:
        """(iteration, value) of the last test until a rung, or of the best one."""
        try:
            rows = history.read(self.run_folder).tests.get(score.net, [])
        except CaffeliteError:
            return None
        found = [(row.iteration, row.values[score.name]) for row in rows if score.name in row.values]
        found = [(at, value) for at, value in found if at <= rung]
        if score.take == "best":
            found = [entry for entry in found if math.isfinite(entry[1])]
            return min(found, key=lambda e: e[1] if score.lowest else -e[1], default=None)
        return found[-1] if found and math.isfinite(found[-1][1]) else None


def failure(reason: str) -> TrialResult:
    """The result of a trial that ended before it had a run folder."""
    return TrialResult(None, 0, registry.FAILED, reason)
