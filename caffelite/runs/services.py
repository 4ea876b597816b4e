"""The trackers MLflow and Weights & Biases."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import missing_extra
from . import registry
from .tracking import TrackedRun

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
