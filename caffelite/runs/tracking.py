"""The hook that reports a run to trackers, and the trackers: TensorBoard, MLflow, Weights & Biases."""

from __future__ import annotations

import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import CaffeliteError, missing_extra
from ..training.hooks.hook import Hook, Outputs
from ..training.scores import Scores
from ..training.state import TrainingState
from . import folder as files, registry
from .config import RunConfig

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

log = logging.getLogger("caffelite")


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker records of a run at its start. id: of the run; a run that continues has the same one. name: of its
    folder. net: its name. config: fields of the solver and options, as text by name."""

    id: str
    name: str
    net: str
    folder: Path
    config: dict[str, str]


class Tracker(Protocol):
    """Receives the numbers of a run. Names are ``train/total_loss``, ``train/…``, ``test/…`` and ``rate``."""

    name: str

    def open(self, run: TrackedRun, iteration: int) -> None:
        """The run starts, or continues at ``iteration`` after ``open`` or another session; numbers of that iteration
        and of later ones come again."""

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        """Numbers of an iteration. Those of one iteration may come in several calls."""

    def close(self, state: str, files: Sequence[Path]) -> None:
        """The session ended with a state of `registry`. files: the final ones."""


class Tracking(Hook):
    """Reports a run to trackers. run: called at the start. ended: (state, final files), called at the end.

    A tracker that fails after the start costs its records, not the run.
    """

    def __init__(
        self, trackers: Sequence[Tracker], run: Callable[[], TrackedRun], ended: Callable[[], tuple[str, list[Path]]]
    ):
        self._trackers, self._run, self._ended = list(trackers), run, ended
        self._opened: TrackedRun | None = None

    def started(self, state: TrainingState) -> None:
        if self._opened:
            return
        self._opened = run = self._run()
        for tracker in self._trackers:
            try:
                tracker.open(run, state.iteration)
            except CaffeliteError:
                raise
            except Exception as error:
                what = f"{tracker.name} cannot record the run: {type(error).__name__}: {error}"
                raise CaffeliteError(what.splitlines()[0]) from None

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self._add(i, {"train/total_loss": float(value)})

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        self._add(state.iteration, {"rate": rate, **_values("train", outputs)})

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        self._add(state.iteration, _values(f"test{which or ''}", scores.outputs))

    def restored(self, state: TrainingState) -> None:
        run = self._opened
        if run:
            self._each(lambda tracker: tracker.open(run, state.iteration))

    def close(self) -> None:
        """Reports the end of the session to the trackers that were opened."""
        if self._opened:
            state, files = self._ended()
            self._each(lambda tracker: tracker.close(state, files))

    def _add(self, iteration: int, values: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.add(iteration, values))

    def _each(self, call: Callable[[Tracker], Any]) -> None:
        for tracker in list(self._trackers):
            try:
                call(tracker)
            except Exception as error:
                text = str(error).splitlines()[0] if str(error) else type(error).__name__
                log.warning("%s: %s; training continues without it", tracker.name, text)
                self._trackers.remove(tracker)


def _values(phase: str, outputs: Outputs) -> dict[str, float]:
    return {
        f"{phase}/{name}" + f"[{i}]" * (len(values) > 1): float(value)
        for name, _, values in outputs
        for i, value in enumerate(values)
    }


class Events:
    """The tracker TensorBoard: writes events into a folder of the run; a resumed run removes the events of the
    iterations that it does again. Errors: tensorboardX is not installed."""

    name = "TensorBoard"

    def __init__(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboardX", "tensorboard", "-tensorboard") from None
        self._make_writer: Any = SummaryWriter
        self._writer: SummaryWriter | None = None

    def open(self, run: TrackedRun, iteration: int) -> None:
        """Opens a writer of the events from ``iteration`` on, to a new file; later events are removed."""
        if self._writer:
            self._writer.close()
        folder = run.folder / files.EVENTS
        truncate_events(folder, iteration)
        count = len(list(folder.glob("events.out.tfevents.*")))
        # A TensorBoard that has read the removed events already forgets them at purge_step.
        self._writer = self._make_writer(str(folder), purge_step=iteration or None, filename_suffix=f".{count}")

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        assert self._writer, "open comes first"
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)

    def close(self, state: str, final_files: Sequence[Path]) -> None:
        if self._writer:
            self._writer.close()


def truncate_events(folder: Path, iteration: int) -> None:
    """Removes the events of ``iteration`` and later ones from a folder's event files, and what follows a record that is
    cut off or damaged."""
    for path in sorted(folder.glob("events.out.tfevents.*")):
        body = path.read_bytes()
        before = b"".join(_events_before(body, iteration))
        if len(before) < len(body):
            files.write_atomically(path, before)


def _events_before(body: bytes, iteration: int) -> Iterator[bytes]:
    """The records of earlier iterations. A record is a length of 8 bytes, its checksum of 4, the event, its checksum
    of 4."""
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.event_pb2 import Event

    start = 0
    while start + 12 <= len(body):
        (length,) = struct.unpack_from("<Q", body, start)
        end = start + length + 16
        try:
            event = Event.FromString(body[start + 12 : end - 4])
        except DecodeError:
            return
        if end > len(body):
            return
        if not event.HasField("summary") or event.step < iteration:
            yield body[start:end]
        start = end


BUFFER = 500  # numbers that are sent together
TAG = "caffelite.run"
MLFLOW_STORE = "sqlite:///mlflow.db"  # what `mlflow ui` reads by default


class MLflow:
    """Records a run with MLflow: to MLFLOW_TRACKING_URI, or to mlflow.db in the current folder.

    A continued run continues its MLflow run. Errors: MLflow is not installed.
    """

    name = "MLflow"

    def __init__(self) -> None:
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError:
            raise missing_extra("mlflow", "mlflow", "-track mlflow") from None
        self._metric, self._param = Metric, Param
        self._client: Any = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI", MLFLOW_STORE))
        self._run, self._pending = "", list[Any]()

    def open(self, run: TrackedRun, iteration: int) -> None:
        if self._run:
            return  # a number that comes again has a later time, which MLflow shows
        client, name = self._client, run.net or "caffelite"
        experiment = client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else client.create_experiment(name)
        known = client.search_runs([number], f"tags.`{TAG}` = '{run.id}'", max_results=1)
        if known:
            self._run = known[0].info.run_id
            client.set_terminated(self._run, "RUNNING")
            return
        self._run = client.create_run(number, tags={TAG: run.id}, run_name=run.name).info.run_id
        items = [self._param(_allowed(field), text[:500]) for field, text in run.config.items()]
        for start in range(0, len(items), 100):
            client.log_batch(self._run, params=items[start : start + 100])

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self._pending += [self._metric(_allowed(name), value, now, iteration) for name, value in values.items()]
        if len(self._pending) >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            self._client.log_batch(self._run, metrics=pending)

    def close(self, state: str, files: Sequence[Path]) -> None:
        self._flush()
        for path in files:
            self._client.log_artifact(self._run, str(path))
        status = {registry.FINISHED: "FINISHED", registry.FAILED: "FAILED"}.get(state, "KILLED")
        self._client.set_terminated(self._run, status)


def _allowed(name: str) -> str:
    """A name with the characters that MLflow accepts."""
    return re.sub(r"[^\w./ -]", "_", name)


class WandB:
    """Records a run with Weights & Biases, in offline mode unless WANDB_MODE is set; its files are in the run folder.

    Errors: wandb is not installed.
    """

    name = "Weights & Biases"

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError:
            raise missing_extra("wandb", "wandb", "-track wandb") from None
        self._wandb: Any = wandb
        self._run: Any = None

    def open(self, run: TrackedRun, iteration: int) -> None:
        if self._run:
            return
        self._folder = run.folder
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or re.sub(r"[/\\#?%:]", "_", run.net or "caffelite"),
            name=run.name,
            id=run.id,
            resume="allow",
            mode=os.environ.get("WANDB_MODE", "offline"),
            dir=str(run.folder),
            config=dict(run.config),
            settings=self._wandb.Settings(console="off", silent=True, x_disable_stats=True),
        )
        # Tests and losses are not reported in the order of iterations, which wandb's own step requires.
        self._run.define_metric("iteration")
        self._run.define_metric("*", step_metric="iteration")

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        self._run.log({"iteration": iteration, **values})

    def close(self, state: str, files: Sequence[Path]) -> None:
        self._run.summary["state"] = state
        for path in files:
            inside = path.resolve().is_relative_to(self._folder.resolve())
            self._run.save(
                str(path.resolve()), base_path=str((self._folder if inside else path.parent).resolve()), policy="now"
            )
        self._run.finish(exit_code=1 if state == registry.FAILED else 0)


def open_trackers(config: RunConfig) -> list[Tracker]:
    """The trackers of a run. Errors: a package that is not installed."""
    events: list[Tracker] = [Events()] if config.tensorboard else []
    return events + [MLflow() if name == "mlflow" else WandB() for name in dict.fromkeys(config.trackers)]
