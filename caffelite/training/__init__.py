"""The solver: rates, update rules, snapshots, and the loop that uses them."""

from .checkpoint.ownership import newest
from .scores import Scores, mean_scores
from .trainer import Requests, Solver

__all__ = ["Requests", "Scores", "Solver", "mean_scores", "newest"]
