"""Training: the loop, its state, learning rates, update rules, checkpoints and hooks."""

from .checkpoint.ownership import newest
from .requests import Requests
from .scores import Scores, mean_scores
from .trainer import Trainer

Solver = Trainer

__all__ = ["Requests", "Scores", "Solver", "Trainer", "mean_scores", "newest"]
