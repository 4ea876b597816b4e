"""Training in Python: ``train`` runs one, ``list_runs`` lists those of a folder, and a ``Run`` has its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from . import prototxt
from .api import Net
from .errors import CaffeliteError, keyword_errors
from .inspection.feeds import rebatched
from .notebook import Curve, Live, Picture, pandas
from .report import collect, page
from .runs import class_scores, folder as files, history, launch, listing, open_net, registry, snapshots
from .runs.config import RunConfig
from .runs.picture import picture
from .training.checkpoint import snapshot
from .training.trainer import Trainer

OnProgress = Callable[["Step"], Any]


@dataclass(frozen=True)
class Step:
    """An iteration that has run. iteration: how many have; total: max_iter; rate: the learning rate; loss: averaged
    over average_loss iterations, to be read within the call."""

    iteration: int
    total: int
    rate: float
    trainer: Trainer

    @property
    def loss(self) -> float:
        return self.trainer.smoothed_loss()


@keyword_errors
def train(
    solver: str | Path,
    *,
    gpu: int | str | None = None,
    weights: Sequence[str | Path] | str | Path = (),
    resume: bool | str | Path = False,
    overrides: Sequence[str] = (),
    iterations: int | None = None,
    record: str | Path | None = None,
    on_progress: OnProgress | None = None,
    bar: bool = True,
) -> Run:
    """Trains as ``caffelite train`` does, with tests, snapshots and records, and returns the run.

    gpu: a GPU's number, "all", or None for what the solver says. weights: caffemodels to start from. resume: True
    continues from the newest snapshot, a path from that solverstate. overrides: fields as for -set, "base_lr=0.02".
    iterations: how many at most. record: the run's folder; default: PREFIX_run. on_progress: called after each
    iteration with a `Step`. bar: a progress bar; in a notebook a curve too. Ctrl-C ends the run in order, with a
    snapshot. Errors: CaffeliteError, as the command has.
    """
    config = RunConfig(
        str(solver),
        gpus=None if gpu is None else str(gpu),
        weights=tuple(map(str, [weights] if isinstance(weights, str | Path) else weights)),
        resume=resume is True,
        snapshot=None if isinstance(resume, bool) else str(resume),
        overrides=tuple(overrides),
        iterations=iterations,
        record=None if record is None else str(record),
    )
    launch.train(config, partial(_Progress, on_progress=on_progress, bar=bar))
    message = open_net.read_solver(config).message
    return Run(config.record or f"{snapshot.prefix(message, config.solver)}_run")


class _Progress:
    """Called after each iteration of a trainer."""

    def __init__(self, trainer: Trainer, on_progress: OnProgress | None, bar: bool):
        self._on_progress = on_progress
        self._live = Live(Curve(trainer, trainer.net.graph.name), trainer.iteration, trainer.p.max_iter, bar)

    def __call__(self, trainer: Trainer, rate: float) -> None:
        self._live.update(trainer.iteration)
        if self._on_progress:
            self._on_progress(Step(trainer.iteration, trainer.p.max_iter, rate, trainer))

    def close(self) -> None:
        self._live.close()


def list_runs(folder: str | Path = ".", depth: int | None = None) -> list[Run]:
    """The runs in a folder and below it, the latest start last. depth: how many levels below are searched; None:
    all."""
    return [Run(each.status.folder) for each in listing.ordered(listing.find([str(folder)], depth), "started", False)]


@dataclass(frozen=True)
class Confusion:
    """counts: N×N, rows are the true classes and columns the predictions; labels: names of the N classes."""

    counts: np.ndarray
    labels: list[str]

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.counts) / max(1, self.counts.sum()))

    def frame(self) -> Any:
        """A pandas DataFrame with the names of classes. Errors: pandas is not installed."""
        return pandas().DataFrame(self.counts, index=self.labels, columns=self.labels)


class Run:
    """The records of a training run, by its folder. Errors: not the folder of a run."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        registry.read(self.folder)

    def __repr__(self) -> str:
        scores = "".join(f", {name} {value:.4g}" for name, value in self.scores.items())
        return f"<Run {self.folder}: {self.state}, iteration {self.iteration}{scores}>"

    @property
    def state(self) -> str:
        """One of queued, running, finished, stopped, failed and the others that ``caffelite runs`` shows."""
        return registry.read(self.folder).label

    @property
    def iteration(self) -> int:
        return registry.read(self.folder).iteration or 0

    @property
    def scores(self) -> dict[str, float]:
        """The scores of the last test, without those of single classes, which ``history`` has."""
        scores = listing.summary(registry.read(self.folder)).scores
        return {name: scores[name] for name in history.single(scores)}

    @property
    def history(self) -> dict[str, dict[str, np.ndarray]]:
        """By phase, "train" and "test" ("test 1" for a second test net): arrays with T rows by name, with "iteration",
        "seconds", for training "rate", and the scores; NaN where a row has none. An output with a value for each class,
        as "class_accuracy", is T×C, in the order of `labels`. Empty before the first record."""
        try:
            records = history.read(self.folder)
        except CaffeliteError:
            return {}
        phases = {"train": records.train}
        phases |= {f"test {net}" if net else "test": rows for net, rows in sorted(records.tests.items())}
        return {phase: _columns(rows, phase == "train") for phase, rows in phases.items() if rows}

    @property
    def labels(self) -> list[str]:
        """The names of the C classes that tests score; empty where they score none."""
        with suppress(CaffeliteError):
            scores = class_scores.read(self.folder)
            return scores.labels if scores else []
        return []

    @property
    def losses(self) -> np.ndarray:
        """The loss of every iteration, float32."""
        path = self.folder / files.LOSSES
        return np.fromfile(path, "<f4") if path.exists() else np.zeros(0, np.float32)

    def frame(self) -> Any:
        """``history`` as one pandas DataFrame with a column "phase", and one for each class, as "class_accuracy[cat]".
        Errors: pandas is not installed."""
        pd, labels = pandas(), self.labels
        frames = [pd.DataFrame({"phase": phase, **_flat(columns, labels)}) for phase, columns in self.history.items()]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    @property
    def best(self) -> Path | None:
        """The weights of the best test; of the last snapshot where no test has been judged; None where there is
        neither."""
        return snapshots.best_model(self.folder)

    @property
    def best_test(self) -> dict[str, Any]:
        """iteration, score (the name of best_score), value and loss of the test of the best weights; empty where the
        solver sets no best_score."""
        return listing.best_test(self.folder)

    def plot(self, file: str | Path | None = None, over: str = "iteration") -> Any:
        """Draws losses, scores and rate. file: to write, .svg, .png or .pdf. Returns what a notebook shows, or None
        with a file. over: "iteration" or "seconds". Errors: matplotlib is not installed; nothing is recorded yet."""
        records = history.read(self.folder, history.CHART_PLACES)
        if file is None:
            return Picture(picture([records], "svg", over))
        Path(file).write_bytes(picture([records], Path(file).suffix.removeprefix("."), over))
        return None

    def confusion(self, weights: str | Path | None = None, gpu: int | None = None) -> Confusion:
        """Tests the run's net on all its test data. weights: default: ``best``. Errors: the net is no classifier;
        there are no weights."""
        used = weights or self.best
        if used is None:
            raise CaffeliteError(f"{self.folder} has no weights yet", remedy="wait for a snapshot")
        model = self.folder / files.NET
        document = prototxt.read_net(model)
        dev = open_net.open_device(None if gpu is None else str(gpu))

        def opened(batch: int | None, share: Any) -> Any:
            message = rebatched(document.message, batch) if batch else document.message
            return open_net.open_net(prototxt.Document(message, document.locate), dev, 1, keep=True, share=share)

        with closing(collect.NetTest(opened, lambda net: open_net.load_weights(net, [str(used)]), True)) as test:
            collector, judged = test.collector, test.collector.classification
            if judged is None:
                raise CaffeliteError(f"{model} is no classifier", remedy="caffelite test -report tests other nets")
            test.score(collect.count_batches(None, collector, everything=True))
            names = page.names_beside(collector, {"model": str(model)}, judged.classes)
            return Confusion(judged.confusion, page.class_names(judged.classes, names))

    def net(self, gpu: int | None = None) -> Net:
        """The run's net in phase TEST with its best weights."""
        return Net(self.folder / files.NET, weights=self.best, gpu=gpu)

    def _repr_html_(self) -> str:
        rows = {"state": self.state, "iteration": self.iteration, "best weights": self.best or ""}
        if test := self.best_test:
            rows["best weights"] = f"{self.best}, of iteration {test['iteration']}"
        rows |= {name: f"{value:.4g}" for name, value in self.scores.items()}
        cells = "".join(f"<tr><th>{_escaped(name)}</th><td>{_escaped(value)}</td></tr>" for name, value in rows.items())
        curves = ""
        if self.history:
            try:
                curves = str(self.plot()._repr_svg_())
            except CaffeliteError:
                curves = ""  # without matplotlib the table is enough
        return f"<b>{_escaped(self.folder)}</b><table>{cells}</table>{curves}"


def _columns(rows: list[history.Row], rated: bool) -> dict[str, np.ndarray]:
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in ("iteration", "seconds")}
    if rated:
        columns["rate"] = np.array([row.rate for row in rows])
    return columns | class_scores.columns(rows)


def _flat(columns: dict[str, np.ndarray], labels: list[str]) -> dict[str, np.ndarray]:
    """The columns, those of T×N as N columns, named by the classes where there are N of these."""
    flat = {}
    for name, values in columns.items():
        if values.ndim == 1:
            flat[name] = values
            continue
        names = labels if len(labels) == values.shape[1] else range(values.shape[1])
        flat |= {f"{name}[{label}]": column for label, column in zip(names, values.T, strict=True)}
    return flat


def _escaped(value: object) -> str:
    import html

    return html.escape(str(value))
