"""The solver: rates, update rules, snapshots, and the loop that uses them."""

from .solver import Requests, Scores, Solver, mean_scores

__all__ = ["Requests", "Scores", "Solver", "mean_scores"]
