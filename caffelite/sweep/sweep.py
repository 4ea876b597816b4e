"""Runs a sweep: proposes settings, trains their trials rung by rung, and continues where an earlier session ended."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from ..errors import CaffeliteError, quoted
from ..runs import folder as files
from ..runs import registry
from ..runs.config import RunConfig
from ..runs.lock import FolderLock
from ..runs.queue.job import ANY
from ..runs.queue.scheduler import Scheduler
from ..runs.queue.slurm import Slurm, SlurmOptions
from . import checks, config
from .config import SweepConfig
from .jobs import PERIOD, Item, Jobs, Processes, QueuedJobs, Stop
from .results import SettingResult, SweepResults, TrialResult, promoted, ranked, rungs
from .sampling import sampler
from .space import Setting
from .trials import Score, Trial, failure

log = logging.getLogger("caffelite")

ATTEMPTS = 3  # of a trial whose process is killed, in one session of the sweep
CSV, JSON = "results.csv", "results.json"


class Sweep:
    """A sweep in its folder.

    definition: written to the folder where it is new. devices: where trials run, one at a time on each entry: the
    number of a GPU, or None for the CPU. stop: ends the sweep, by a signal or after a time. repeat_failed: trials that
    failed in an earlier session run again. queue: the root of the queue that runs the trials, one GPU each where
    ``devices`` has GPUs; None: processes of the sweep run them, or a cluster does. cluster: what each trial requests of
    SLURM; None: none runs there. Errors: CaffeliteError for every mistake that can be
    known before the first trial; a folder that another sweep uses, or that holds another definition.
    """

    def __init__(
        self,
        definition: SweepConfig,
        folder: Path,
        devices: Sequence[int | None] = (None,),
        stop: Stop | None = None,
        repeat_failed: bool = False,
        queue: Path | None = None,
        cluster: SlurmOptions | None = None,
    ):
        self.config, self.folder = definition, folder
        self._devices, self._stop = list(devices), stop or Stop()
        self._repeat_failed, self._queue, self._cluster = repeat_failed, queue, cluster
        checks.check_values(definition)
        self.score: Score = checks.score(definition)
        self._sampler = sampler(definition, self.score.lowest)
        # Only halving compares trials before their ends.
        self._end, self._interval = checks.length(definition) if definition.factor else (0, 1)
        self._attempts: dict[str, int] = {}
        self._results: dict[str, dict[int, TrialResult]] = {}
        self._settings: list[Setting] = []

    def run(self) -> SweepResults:
        """Trains what is not trained yet and returns the results, complete unless a stop was requested."""
        lock = self._open()
        try:
            with contextlib.closing(self._jobs()) as jobs:
                return self._run(jobs)
        finally:
            lock.release()

    def _jobs(self) -> Jobs:
        """What runs the trials: processes of this one, a queue, or a cluster through a queue in the sweep's folder."""
        if self._cluster:
            scheduler = Scheduler(self.folder, Slurm(self._cluster))
            return QueuedJobs(self.folder, "", scheduler)
        if self._queue:
            return QueuedJobs(self._queue, ANY if self._devices[0] is not None else "")
        return Processes(self._devices, self.config.threads)

    def _run(self, jobs: Jobs) -> SweepResults:
        rows: dict[int, SettingResult] = {}
        results: list[SettingResult] = []
        while not self._stop.requested and (proposed := self._sampler.propose(results)):
            first = len(self._settings) + 1
            self._settings += proposed
            settings = list(range(first, first + len(proposed)))
            steps = rungs(len(settings), self.config.factor, self.config.first, self._end, self._interval)
            left = settings
            for rung in steps:
                self._train(left, rung, jobs)
                done = [row for number in left if (row := self._result(number, rung))]
                rows |= {row.number: row for row in done}
                if len(done) < len(left):
                    return self._summary(rows, complete=False)
                if rung != steps[-1]:
                    left = promoted(done, self.config.factor, self.score.lowest)
                    log.info("Iteration %d: %d of %d settings continue", rung, len(left), len(done))
            results = [rows[number] for number in settings]
        return self._summary(rows, complete=not self._stop.requested or len(rows) == self._sampler.total)

    # the folder

    def _open(self) -> FolderLock:
        """Creates or reads the folder and locks it."""
        path = self.folder / config.FILE
        with files.reporting(f"write to {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock = FolderLock(self.folder)
            except CaffeliteError:
                remedy = "let it end, or give this one another folder: -folder DIR"
                raise CaffeliteError(f"another sweep runs in {self.folder}", remedy=remedy) from None
            if path.exists():
                self._check_definition(lock)
            else:
                files.write_json(path, self.config.to_json())
        return lock

    def _check_definition(self, lock: FolderLock) -> None:
        try:
            known = config.read(self.folder)
            mine, theirs = self.config.to_json(), known.to_json()
            differ = [name for name in mine if mine[name] != theirs[name]]
            if "base" in differ:
                base, other = mine["base"], theirs["base"]
                differ[differ.index("base") : differ.index("base") + 1] = [n for n in base if base[n] != other[n]]
            if differ:
                raise CaffeliteError(
                    f"{self.folder} holds a sweep with another definition",
                    found=f"other {', '.join(differ)}",
                    remedy=f"continue it with -resume {quoted(self.folder)}, or choose another folder: -folder DIR",
                )
        except CaffeliteError:
            lock.release()
            raise

    # trials

    def _trials(self, number: int) -> list[Trial]:
        """The trials of a setting, one a seed."""
        width, config = len(str(self._sampler.total)), self.config
        trials = []
        for seed in config.all_seeds:
            name = f"trial_{number:0{width}d}" + f"_seed_{seed}" * (config.seeds > 1)
            trials.append(Trial(number, self._settings[number - 1], seed, name, self.folder, config.base))
        return trials

    def _known(self, trial: Trial) -> dict[int, TrialResult]:
        """The recorded results of a trial by rung."""
        if trial.name not in self._results:
            saved = trial.saved()
            if self._repeat_failed:
                saved = {rung: each for rung, each in saved.items() if each.state != registry.FAILED}
            self._results[trial.name] = saved
        return self._results[trial.name]

    def _result(self, number: int, rung: int) -> SettingResult | None:
        """The result of a setting at a rung; None where a trial has not reached it."""
        trials = self._trials(number)
        results = [self._known(trial).get(rung) for trial in trials]
        done = tuple(result for result in results if result is not None)
        return SettingResult(number, trials[0].setting, rung, done) if len(done) == len(trials) else None

    def _train(self, settings: Sequence[int], rung: int, jobs: Jobs) -> None:
        """Trains the trials of settings to a rung, those that have not reached it. Seeds change slowest, so that each
        setting has a first result early."""
        every = [self._trials(number) for number in settings]
        trials = [trial for same in zip(*every, strict=True) for trial in same]
        pending = [(trial, rung) for trial in trials if rung not in self._known(trial)]
        jobs.run(pending, self._configuration, self._ended, self._stop)

    def _configuration(self, item: Item) -> RunConfig | None:
        """The configuration of a trial to its rung; None where an earlier session trained it."""
        trial, rung = item
        if (status := trial.status()) and status.state == registry.RUNNING:
            log.info("Waiting for %s, which process %s trains", trial.name, status.process)
            while status and status.state == registry.RUNNING:
                if self._stop.requested:
                    return None
                time.sleep(PERIOD)
                status = trial.status()
        result = trial.result(self.score, rung)
        if result is not None and not (self._repeat_failed and result.state == registry.FAILED):
            self._record(trial, rung, result)
            return None
        self._attempts[trial.name] = self._attempts.get(trial.name, 0) + 1
        return trial.continuation(rung)

    def _ended(self, item: Item, status: int, tail: str) -> bool:
        """Records the result of a trial whose process ended; True: it runs again."""
        trial, rung = item
        result = trial.result(self.score, rung)
        if result is not None and (not status or result.score is None):
            self._record(trial, rung, result)
            return False
        if self._stop.requested:
            return False
        if status == 2:
            lines = [line for line in tail.splitlines() if line.strip()] or ["exit status 2"]
            self._record(trial, rung, failure(lines[-1].removeprefix("caffelite: ")))
            return False
        if self._attempts[trial.name] < ATTEMPTS:
            log.warning("%s ended with status %d; it runs again from its newest snapshot", trial.name, status)
            return True
        remedy = f"see {trial.run_folder / files.LOG}; then continue: caffelite sweep -resume {quoted(self.folder)}"
        raise CaffeliteError(f"{trial.name} ended {ATTEMPTS} times with status {status}", remedy=remedy)

    def _record(self, trial: Trial, rung: int, result: TrialResult) -> None:
        known = self._known(trial)
        known[rung] = result
        trial.save(known)
        text = " ".join(f"{name}={value}" for name, value in trial.setting)
        seed = f" seed {trial.seed}" if self.config.seeds > 1 else ""
        value = (
            f"{self.score.name} = {result.score:.6g}"
            if result.score is not None
            else f"{result.state}: {result.reason}"
        )
        log.info("%s, iteration %d: %s%s: %s", trial.name, result.iteration, text, seed, value)

    def _summary(self, rows: dict[int, SettingResult], complete: bool) -> SweepResults:
        """The results, written to the folder too."""
        order = ranked(list(rows.values()), self.score.lowest)
        seeds, total = list(self.config.all_seeds), self._sampler.total
        results = SweepResults(
            self.score.name, self.score.lowest, seeds, order, total, complete and len(order) == total
        )
        with files.reporting(f"write to {self.folder}"):
            files.write_atomically(self.folder / CSV, results.to_csv())
            files.write_json(self.folder / JSON, results.to_json())
        return results
