"""Training: the loop, its state, learning rates, update rules, checkpoints and hooks."""

from typing import TYPE_CHECKING

from .checkpoint.ownership import newest
from .requests import Requests
from .scores import Scores, mean_scores

if TYPE_CHECKING:
    from .build import build_trainer
    from .trainer import Trainer

__all__ = ["Requests", "Scores", "Trainer", "build_trainer", "mean_scores", "newest"]


def __getattr__(name: str) -> object:
    """Imports the trainer when it is used: commands that inspect a net do without it, and start faster."""
    if name == "Trainer":
        from .trainer import Trainer

        return Trainer
    if name == "build_trainer":
        from .build import build_trainer

        return build_trainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
