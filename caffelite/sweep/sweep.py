"""Runs a sweep: proposes settings, trains their trials rung by rung, and continues where an earlier session ended."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import CaffeliteError, Collector, did_you_mean, missing_extra, quoted, reporting
from ..inspection import nets as inspected
from ..inspection.schedule import schedule
from ..layers.base import unknown_types
from ..prototxt.overrides import Overrides
from ..runs import folder as files, registry
from ..runs.config import RunConfig
from ..runs.lock import FolderLock
from ..runs.open_net import read_solver
from ..runs.queue.job import ANY
from ..runs.queue.local import Local, Slots
from ..runs.queue.scheduler import Scheduler
from ..runs.queue.slurm import Slurm, SlurmOptions
from ..runs.tracking import open_trackers
from ..training import epochs, nets
from ..training.nets import NetSpec
from . import config, space
from .config import OPTUNA, SweepConfig
from .jobs import PERIOD, Item, Jobs, Stop
from .results import SettingResult, SweepResults, TrialResult, promoted, ranked, rungs
from .space import CHOICE, INT, LOG, Axis, Setting
from .trials import Score, Trial, failure

if TYPE_CHECKING:
    import optuna


log = logging.getLogger("caffelite")

ATTEMPTS = 3  # of a trial whose process is killed, in one session of the sweep
CSV, JSON = "results.csv", "results.json"


class Sweep:
    """A sweep in its folder.

    definition: written to the folder where it is new. devices: where trials run, one at a time on each entry: the
    number of a GPU, or None for the CPU. stop: ends the sweep, by a signal or after a time. repeat_failed: trials that
    failed in an earlier session run again. queue: the root of the queue that runs the trials, one GPU each where
    ``devices`` has GPUs; None: one in the sweep's folder, of which this process is the scheduler. cluster: what each
    trial requests of SLURM; None: none runs there. Errors: CaffeliteError for every mistake that can be
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
        check_values(definition)
        self.score: Score = compared_score(definition)
        self._sampler = sampler(definition, self.score.lowest)
        # Only halving compares trials before their ends.
        self._end, self._interval = run_length(definition) if definition.factor else (0, 1)
        self._attempts: dict[str, int] = {}
        self._results: dict[str, dict[int, TrialResult]] = {}
        self._settings: list[Setting] = []

    def run(self) -> SweepResults:
        """Trains what is not trained yet and returns the results, complete unless a stop was requested."""
        with self._open(), contextlib.closing(self._jobs()) as jobs:
            return self._run(jobs)

    def _jobs(self) -> Jobs:
        if self._cluster:
            return Jobs(self.folder, "", Scheduler(self.folder, Slurm(self._cluster)))
        gpus = tuple(number for number in self._devices if number is not None)
        if self._queue:
            return Jobs(self._queue, ANY if gpus else "")
        engine = Local(Slots(gpus, len(self._devices)), self.config.threads)
        return Jobs(self.folder, ANY if gpus else "", Scheduler(self.folder, engine), len(self._devices))

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
        with reporting(f"write to {self.folder}"):
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
        config = trial.continuation(rung)
        if self.config.threads and config.data_threads is None and not (self._queue or self._cluster):
            config = dataclasses.replace(config, data_threads=self.config.threads)
        return config

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
        if self._attempts.get(trial.name, 0) < ATTEMPTS:
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
        value = f"{result.state}: {result.reason}"
        if result.score is not None:
            value = f"{self.score.name} = {result.score:.6g}"
        log.info("%s, iteration %d: %s%s: %s", trial.name, result.iteration, text, seed, value)

    def _summary(self, rows: dict[int, SettingResult], complete: bool) -> SweepResults:
        """The results, written to the folder too."""
        order = ranked(list(rows.values()), self.score.lowest)
        seeds, total = list(self.config.all_seeds), self._sampler.total
        results = SweepResults(
            self.score.name, self.score.lowest, seeds, order, total, complete and len(order) == total
        )
        with reporting(f"write to {self.folder}"):
            files.write_atomically(self.folder / CSV, results.to_csv())
            files.write_json(self.folder / JSON, results.to_json())
        return results


def check_values(config: SweepConfig) -> None:
    """Raises what the values of the axes would raise in their trials. Errors: all of them in one; the package of a
    tracker is not installed."""
    open_trackers(config.base)
    document = read_solver(config.base)
    mistakes = Collector()
    for axis in config.axes:
        for value in axis.examples():
            overrides = Overrides([*config.base.overrides, f"{axis.field}={value}"])
            try:
                changed = overrides.solver(document)
                overrides.nets(_specs(config.base, changed))
            except CaffeliteError as error:
                mistakes.add(error)
    mistakes.raise_any()


def _specs(base: RunConfig, document) -> list[NetSpec]:
    p, locate = epochs.provisional(document.message, document.locate)
    train = nets.train_net(p, locate, base.level, base.stages, unknown_types.tolerate)
    return [train, *nets.test_nets(p, locate, unknown_types.tolerate)]


def run_length(config: SweepConfig) -> tuple[int, int]:
    """(iterations, iterations between tests) of a run with the fields that hold for all trials; lengths in epochs are
    resolved by the size of the data. Errors: no end is set; the data is missing where epochs count."""
    document = read_solver(config.base)
    p = document.message
    if epochs.given(p):
        overrides = Overrides(config.base.overrides)
        run = schedule(config.base.solver, {}, None, overrides)
        return run.iterations, run.tests[1] - run.tests[0] if len(run.tests) > 1 else 1
    if not p.max_iter:
        where, remedy = document.locate(), "set it: -set max_iter=N"
        raise CaffeliteError("-halving needs max_iter in the solver", where=where, remedy=remedy)
    return p.max_iter, p.test_interval or 1


def compared_score(config: SweepConfig) -> Score:
    """The score to compare. Errors: the solver has no test net; no test net has an output of this name."""
    document = read_solver(config.base)
    p, locate = document.message, document.locate
    _, *tests = _specs(config.base, document)
    if not tests:
        remedy = "give the solver test_iter and test_interval, and the net a TEST phase"
        raise locate.error("a sweep compares scores of a test net, and this solver has none", remedy=remedy)
    if 0 < p.max_iter < p.test_interval and not epochs.given(p):
        expected, remedy = f"1 to {p.max_iter}, which is max_iter", "set it: -set test_interval=N"
        what = "no test follows training, and a sweep compares tests"
        raise locate.error(what, "test_interval", expected=expected, found=p.test_interval, remedy=remedy)
    Overrides(config.base.overrides).nets([nets.train_net(p, locate, config.base.level, config.base.stages), *tests])
    known: dict[str, tuple[int, bool]] = {}
    for i, spec in enumerate(tests):
        subject = inspected.InspectedNet(spec.message, spec.locate, {}, states=(spec.state,))
        graph, _ = subject.graph(spec.state.phase)
        for value in graph.outputs:
            known.setdefault(value.name, (i, bool(value.node and value.node.layer.loss)))
    if not known:
        raise locate.error("the test net has no outputs")
    name = config.score or p.best_score or ("accuracy" if "accuracy" in known else next(iter(known)))
    if name not in known:
        what = f'no test net has an output "{name}"'
        raise CaffeliteError(what, expected=f"one of {', '.join(known)}", remedy=did_you_mean(name, known))
    net, loss = known[name]
    lowest = p.best_lowest if p.HasField("best_lowest") and name == p.best_score else loss
    return Score(name, net, lowest, config.take)


class Sampler(Protocol):
    """Proposes settings round by round. total: how many in all."""

    total: int

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        """The settings of the next round; none after the last. results: of the round before, in its order."""
        ...


class Fixed:
    """All settings in one round."""

    def __init__(self, settings: Sequence[Setting]):
        self._pending, self.total = list(settings), len(settings)

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        settings, self._pending = self._pending, []
        return settings


class OptunaSampler:
    """Optuna's TPE sampler, ``together`` settings at a time.

    The settings are a function of the seed and of the results, so a sweep that continues proposes the same ones again.
    Errors: Optuna is not installed.
    """

    def __init__(self, axes: Sequence[Axis], count: int, together: int, seed: int, lowest: bool):
        try:
            import optuna
        except ImportError:
            raise missing_extra("optuna", "optuna", "-sampler optuna") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(direction="minimize" if lowest else "maximize", sampler=sampler)
        self._axes = {axis.field: axis for axis in axes}
        self._ranges = {axis.field: _distribution(optuna, axis) for axis in axes}
        self._left, self._together, self.total = count, together, count
        self._open: list[optuna.Trial] = []

    def propose(self, results: Sequence[SettingResult]) -> list[Setting]:
        for trial, result in zip(self._open, results, strict=True):
            if result.mean is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, result.mean)
        count = min(self._together, self._left)
        self._left -= count
        self._open = [self._study.ask(self._ranges) for _ in range(count)]
        return [
            tuple((field, _text(self._axes[field], trial.params[field])) for field in self._ranges)
            for trial in self._open
        ]


def _distribution(optuna: Any, axis: Axis) -> Any:
    if axis.kind == CHOICE:
        return optuna.distributions.CategoricalDistribution(axis.values)
    if axis.kind == INT:
        return optuna.distributions.IntDistribution(int(axis.low), int(axis.high))
    return optuna.distributions.FloatDistribution(axis.low, axis.high, log=axis.kind == LOG)


def _text(axis: Axis, value: object) -> str:
    return space.shown(value) if isinstance(value, float) and axis.kind != CHOICE else str(value)


def sampler(config: SweepConfig, lowest: bool) -> Sampler:
    """The sampler of a sweep. Errors: those of `space.grid` and `OptunaSampler`."""
    if not config.draws:
        return Fixed(space.grid(config.axes))
    if config.sampler == OPTUNA:
        return OptunaSampler(config.axes, config.draws, config.together, config.first_seed, lowest)
    return Fixed(space.draws(config.axes, config.draws, config.first_seed))
