"""Training: the loop, its state, learning rates, update rules, checkpoints and hooks."""

from .checkpoint.ownership import newest
from .requests import Requests
from .scores import Scores, mean_scores
from .trainer import Trainer

__all__ = ["Requests", "Scores", "Trainer", "mean_scores", "newest"]
