"""The solver: rates, update rules, snapshots, and the loop that uses them."""

from .scores import Scores, mean_scores
from .snapshot import newest
from .solver import Requests, Solver

__all__ = ["Requests", "Scores", "Solver", "mean_scores", "newest"]
