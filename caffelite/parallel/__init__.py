"""Data-parallel training in several processes: groups, all-reduce of gradients, and a watchdog for ranks that die or
hang."""

from .group import ProcessGroup, Refused, SingleProcess, agreed, expected, expected_rank, session
from .reducer import Bucket, GradientReducer, Piece, cut
from .watchdog_process import BACKWARD, FORWARD, SNAPSHOT, TESTING, UPDATE

__all__ = [
    "BACKWARD",
    "FORWARD",
    "SNAPSHOT",
    "TESTING",
    "UPDATE",
    "Bucket",
    "GradientReducer",
    "Piece",
    "ProcessGroup",
    "Refused",
    "SingleProcess",
    "agreed",
    "cut",
    "expected",
    "expected_rank",
    "session",
]
