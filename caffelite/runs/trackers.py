"""Opens the trackers that the configuration of a run names."""

from __future__ import annotations

from .config import RunConfig
from .tracking import Tracker


def open_trackers(config: RunConfig) -> list[Tracker]:
    """The trackers of a run. Errors: a package that is not installed."""
    found: list[Tracker] = []
    if config.tensorboard:
        from .events import Events

        found.append(Events())
    if config.trackers:
        from .services import MLflow, WandB

        found += [MLflow() if name == "mlflow" else WandB() for name in dict.fromkeys(config.trackers)]
    return found
