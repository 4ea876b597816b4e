"""Several processes as one: who they are, how gradients are summed over them, and how a job ends whose ranks die or
hang."""

from .buckets import Bucket, GradientReducer, Piece, cut
from .comm import ProcessGroup, SingleProcess
from .guard import BACKWARD, FORWARD, SNAPSHOT, TESTING, UPDATE
from .session import Refused, agreed, expected, expected_rank, session

__all__ = [
    "BACKWARD",
    "FORWARD",
    "SNAPSHOT",
    "TESTING",
    "UPDATE",
    "SingleProcess",
    "Bucket",
    "GradientReducer",
    "Piece",
    "ProcessGroup",
    "Refused",
    "agreed",
    "cut",
    "expected",
    "expected_rank",
    "session",
]
