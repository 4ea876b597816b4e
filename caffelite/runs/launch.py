"""Runs a training run from its configuration to its exit status: devices, processes, trainer, records; and what ends it
early: signals, a time limit."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import parallel, user_modules
from ..addresses import without_secrets
from ..data.repeated import Repeated
from ..errors import CaffeliteError
from ..fork import option
from ..inspection import memory
from ..layers.base.extension_files import load_permitted
from ..parallel.transports import star
from ..prototxt import Document
from ..prototxt.overrides import Overrides
from ..training import Requests, Trainer, nets, newest
from ..training.checkpoint.ownership import described
from ..training.hooks.hook import Hook
from ..training.state import TrainingState
from . import fields, folder as files, registry
from .config import RunConfig
from .log import LogFile
from .open_net import (
    explained,
    gpus,
    load_initial_weights,
    open_assigned_device,
    open_trainer,
    read_solver,
    without_extras,
)
from .recorder import Recorder
from .registry import Outcome
from .tracking import TrackedRun, Tracking, open_trackers

if TYPE_CHECKING:
    from ..inspection.nets import InspectedNet


log = logging.getLogger("caffelite")

Progress = Callable[[Trainer], Any]  # makes what is called after each iteration with (solver, rate), and closed


def train(config: RunConfig, make_progress: Progress | None = None) -> int:
    """Trains as configured: in this process, in one process for each of several GPUs, or as one process of a job that
    mpirun or srun started.

    Returns the exit status: 0, 128 + 15 after a SIGTERM, or that of the first process that failed. Errors:
    CaffeliteError, after the outcome is recorded.
    """
    try:
        return _train(config, make_progress)
    except Exception as error:
        if config.record and config.keeps_records and not parallel.expected_rank():
            registry.record_early_failure(Path(config.record), error)
        raise


def _train(config: RunConfig, make_progress: Progress | None) -> int:
    started = time.monotonic()
    user_modules.permit(config.python_folders)
    load_permitted()
    option.use(config.fork, config.fork_layers)
    if config.data_threads:
        from ..data import set_workers

        set_workers(config.data_threads)
    several, rank, document, gpu_ids = parallel.expected() > 1, parallel.expected_rank(), None, None
    if not several:
        document = read_solver(config)
        gpu_ids = gpus(config.gpus, document.message)
        if len(gpu_ids) > 1:
            from ..devices import cuda

            with explained(gpu_ids):
                cuda.check_shared(gpu_ids)
            return star.launch(["train", *config.arguments()], len(gpu_ids))
    log_file = LogFile() if config.keeps_records and not rank else None

    def report(line: bytes) -> None:
        write_to_stderr(line)
        if log_file:
            log_file.write(line)

    signals = Signals(
        config.sigint_effect, config.sighup_effect, report=None if rank else report, min_interval=1 if several else 0
    )
    with _copied_to(log_file), signals, parallel.session(config.hang_seconds) as comm:
        run = _Run(config, comm, signals, log_file, started)
        run.train(document, gpu_ids, make_progress)
        return max(comm.gather(signals.status))


@contextmanager
def _copied_to(log_file: LogFile | None) -> Iterator[None]:
    """Within it the log goes to a file too, and so does the error that ends the run. A program that has not set a level
    gets what the command line logs, INFO."""
    if not log_file:
        yield
        return
    level = log.level
    log.setLevel(level or logging.INFO)
    log.addHandler(log_file)
    try:
        yield
    except Exception as error:
        reason = registry.failed_outcome(error).reason
        log_file.write(f"caffelite: {reason}\n".encode(errors="backslashreplace"))
        raise
    finally:
        log.setLevel(level)
        log.removeHandler(log_file)
        log_file.close()


class _Run:
    """One session of a run in one process."""

    def __init__(
        self,
        config: RunConfig,
        comm: parallel.SingleProcess,
        signals: Signals,
        log_file: LogFile | None,
        started: float,
    ):
        self._config, self._comm, self._signals, self._log_file = config, comm, signals, log_file
        self._started = started
        self._time_limit: TimeLimit | None = None

    def train(self, document: Document | None, gpu_ids: list[int] | None, make_progress: Progress | None) -> None:
        """document: the solver, where it is read. gpu_ids: of GPUs, where they are chosen."""
        config, comm = self._config, self._comm
        trainer = parallel.agreed(comm, lambda: self._open(document or read_solver(config), gpu_ids))
        parallel.agreed(comm, trainer.claim)  # when all processes have read what they start from
        if not config.overfit:
            _log_start(trainer)
        recorder = self._recorder(trainer) if config.keeps_records and not comm.rank else None
        hooks: list = [recorder] if recorder else []
        try:
            hooks += self._other_hooks(trainer)
            for hook in hooks:
                trainer.reports.hooks.add(hook)
            parallel.agreed(comm, lambda: recorder.started(trainer.state) if recorder else None)
            if recorder:
                comm.record_failure_in(recorder.folder / files.OUTCOME)
            self._solve(trainer, make_progress)
            ended = self._outcome(trainer)
            if recorder:
                recorder.end(ended)
        except BaseException as error:
            if recorder:
                recorder.end(registry.failed_outcome(error))
            raise
        finally:
            trainer.close()
            for hook in hooks:
                hook.close()
        self._log_continuation(trainer)

    def _open(self, document: Document, gpu_ids: list[int] | None) -> Trainer:
        """Opens the device and the trainer. Errors: CaffeliteError for all that keeps the run from starting."""
        config = self._config
        if config.overfit:
            document.message = without_extras(document.message, display=document.message.display)
        p = document.message
        gpu_ids = gpus(config.gpus, p) if gpu_ids is None else gpu_ids
        dev = open_assigned_device(
            gpu_ids, self._comm.local_rank, config.device_options(), lambda: nets.train_net(p, document.locate).message
        )
        state = config.snapshot
        if config.resume:
            state = newest(p, config.solver)
            text = "Resuming from the newest good snapshot" if state else "There is no snapshot yet to resume from"
            log.info("%s", text)
        with self._explained(dev):
            trainer = open_trainer(
                config,
                document,
                dev,
                comm=self._comm,
                requests=self._signals.requests,
                resume=state,
                snapshots=not config.overfit,
            )
        memory.check(trainer, self._subject)
        if not state:
            load_initial_weights(trainer, config)
        return trainer

    def _subject(self) -> InspectedNet:
        """The net of the run, for an error that names its memory."""
        from ..inspection.nets import inspected_net

        config = self._config
        return inspected_net(None, config.solver, {}, config.level, config.stages, Overrides(config.overrides))

    def _explained(self, dev: Any) -> AbstractContextManager:
        """Within it a MemoryError becomes an error that names what takes the memory, and the batch that fits."""
        return memory.explained(self._subject, dev.number, bool(self._config.split), self._comm.size)

    def _recorder(self, trainer: Trainer) -> Recorder:
        config, resumed = self._config, trainer.files.owner.resumed
        start: dict[str, object]
        start = {"snapshot": str(resumed)} if resumed else {"weights": list(config.weights)} if config.weights else {}
        command = ["caffelite", "train", *config.arguments()]
        return Recorder(self._folder(trainer), trainer, command, start, config.to_json(), self._log_file)

    def _other_hooks(self, trainer: Trainer) -> list:
        config = self._config
        if config.overfit:
            return [Overfit(trainer, config.overfit)]
        trackers = [] if self._comm.rank else open_trackers(config)
        return [Tracking(trackers, lambda: self._tracked(trainer), lambda: self._final(trainer))] if trackers else []

    def _tracked(self, trainer: Trainer) -> TrackedRun:
        """What trackers record at the start."""
        folder, values = self._folder(trainer), {}
        with suppress(CaffeliteError):  # the disk failed, and the run continues without records
            values = fields.read(folder).values
        return TrackedRun(trainer.files.owner.run.id, folder.name, trainer.net.graph.name, folder, values)

    def _final(self, trainer: Trainer) -> tuple[str, list[Path]]:
        """(state, final files) of the session: its records and the last model."""
        folder, written = self._folder(trainer), trainer.files.checkpoints.written
        paths = [folder / name for name in (files.SOLVER, files.NET, files.METRICS, files.LOG)]
        if written:
            paths.append(Path(str(written[-1][1]).replace(".solverstate", ".caffemodel")))
        state = registry.FAILED
        with suppress(CaffeliteError):
            state = registry.state(folder)
        return state, [path for path in paths if path.exists()]

    def _folder(self, trainer: Trainer) -> Path:
        return Path(self._config.record or f"{trainer.prefix}_run")

    def _solve(self, trainer: Trainer, make_progress: Progress | None) -> None:
        progress = make_progress(trainer) if make_progress else None
        each, limit = progress, self._config.max_seconds
        if limit:
            each = self._time_limit = TimeLimit(self._started + limit, self._signals.requests, progress)
        with closing(progress) if progress else nullcontext(), self._explained(trainer.dev):
            until = self._config.until
            trainer.solve(each, max(0, until - trainer.iteration) if until else self._config.iterations)

    def _outcome(self, trainer: Trainer) -> Outcome:
        """How the session ended, by what any of the processes received."""
        expired = bool(self._time_limit and self._time_limit.expired)
        received = self._comm.gather((self._signals.stopped_by, expired), "an agreement")
        if trainer.iteration >= trainer.p.max_iter:
            return Outcome(registry.FINISHED)
        if trainer.stopped_early:
            best, name = trainer.state.best, trainer.p.best_score
            value = f"{name} has not been better than {best.value:.6g} in {best.tests_since} tests"
            return Outcome(registry.EARLY, f"{value}; the best weights are of iteration {best.iteration}")
        if number := next((name for name, _ in received if name), ""):
            return Outcome(registry.SIGNAL, number)
        if any(expired for _, expired in received):
            return Outcome(registry.OUT_OF_TIME, f"{self._config.max_seconds:g} seconds are over")
        if self._config.until:
            return Outcome(registry.FINISHED, f"at iteration {trainer.iteration}, as requested")
        return Outcome(registry.FINISHED, f"after the {self._config.iterations} iterations that were requested")

    def _log_continuation(self, trainer: Trainer) -> None:
        written = trainer.files.checkpoints.written
        unfinished = trainer.iteration < trainer.p.max_iter and not trainer.stopped_early
        if unfinished and written and written[-1][0] == trainer.iteration:
            where = ", under mpirun or srun as before" if self._comm.kind == "MPI" else ""
            log.info("To continue%s: %s", where, without_secrets(self._config.continuation(written[-1][1])))


def _log_start(trainer: Trainer) -> None:
    """Logs to which run the coming snapshots belong, and where they go."""
    owner, prefix = trainer.files.owner, trainer.p.snapshot_prefix
    name = described(owner.run).capitalize()
    if owner.resumed:
        log.info("%s resumes from %s; snapshots: %s_iter_*", name, owner.resumed, trainer.prefix)
    else:
        log.info("%s begins; snapshots: %s_iter_*", name, trainer.prefix)
    if prefix and not prefix.endswith("/") and trainer.prefix != prefix:
        text = (
            "snapshot_prefix %s is a folder: snapshots and records are written into it, next to its files; choose "
            "another name, or end it with /"
        )
        log.warning(text, prefix)


class Overfit(Hook):
    """Feeds the train net its first ``batches`` batches over and over; ``close`` logs whether it learned them."""

    def __init__(self, trainer: Trainer, batches: int):
        self._batches = batches
        self._first = self._last = float("nan")
        passes = batches * trainer.learning.division.divisions  # a micro-batch is a part of a batch
        for node, source in trainer.net.graph.sources:
            trainer.replace_source(node, Repeated(source, passes))

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        self._first = values[0] if first == 0 else self._first
        self._last = min(values[-self._batches :], key=lambda loss: (loss == loss, loss))  # NaN before any number

    def close(self) -> None:
        learned = self._last < 0.1 * self._first
        verdict = (
            "it learns" if learned else "it does not overfit them; train longer, or check rate, fillers and labels"
        )
        text = "Loss of the same %d batches: %.6g at first, %.6g at last: %s"
        log.info(text, self._batches, self._first, self._last, verdict)


ENDING = (signal.SIGTERM, signal.SIGUSR1)
STOPPING = b"Stopping after this iteration, with a snapshot; a second signal stops at once.\n"


def write_to_stderr(line: bytes) -> None:
    """Writes a line from a signal handler. No log here: the signal may have come in the middle of a line of it."""
    with contextlib.suppress(OSError):
        os.write(2, line)


class Signals:
    """Turns SIGINT, SIGHUP, SIGTERM and SIGUSR1 into requests.

    ``status`` is the exit status: 128 + 15 after a SIGTERM, 128 + 10 after a SIGUSR1, which schedulers of clusters send
    before the time of a job is over. ``stopped_by`` is the name of the signal that requested the
    stop. report: writes the line that says so. min_interval: seconds within which the same signal counts once, since
    both a terminal and the process that started this one may pass it on.
    """

    def __init__(
        self,
        sigint_effect: str = "stop",
        sighup_effect: str = "snapshot",
        *,
        report: Callable[[bytes], None] | None = write_to_stderr,
        min_interval: float = 0,
    ):
        self.requests, self.status, self.stopped_by = Requests(), 0, ""
        self._report, self._min_interval = report, min_interval
        self._last: dict[int, float] = {}
        self._effects = {signal.SIGINT: sigint_effect, signal.SIGHUP: sighup_effect}
        self._effects |= dict.fromkeys(ENDING, "stop")

    def __enter__(self) -> Signals:
        main = threading.current_thread() is threading.main_thread()  # the only one that may set handlers
        self._before = {number: signal.signal(number, self._handle) for number in self._effects if main}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        effect = self._effects[signal.Signals(number)]
        last, self._last[number] = self._last.get(number, -self._min_interval), time.monotonic()
        if self._last[number] - last < self._min_interval:
            return
        if effect == "snapshot":
            self.requests.snapshot = True
        elif effect == "stop":
            if self.requests.stop:
                os._exit(128 + number)
            self.requests.stop, self.stopped_by = True, signal.Signals(number).name
            if self._report:
                self._report(STOPPING)
            self.status = 128 + number if number in ENDING else 0


class TimeLimit:
    """Called after each iteration: requests a stop when ``time.monotonic()`` has reached ``end``.

    progress: is called first. ``expired``: whether this limit requested the stop.
    """

    def __init__(self, end: float, requests: Requests, progress: Callable[[Trainer, float], None] | None):
        self._end, self._requests, self._progress = end, requests, progress
        self.expired = False

    def __call__(self, trainer: Trainer, rate: float) -> None:
        if self._progress:
            self._progress(trainer, rate)
        if not self._requests.stop and time.monotonic() >= self._end:
            log.info("The time that -max_time gives is up.")
            self._requests.stop = self.expired = True
