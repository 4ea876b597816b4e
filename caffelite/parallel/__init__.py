"""Several processes as one: who they are, how gradients are summed over them, and how a job ends whose ranks die or hang."""

from .buckets import Bucket, Exchange, Piece, cut
from .comm import Alone, Ranks
from .guard import BACKWARD, FORWARD, SNAPSHOT, TESTING, UPDATE
from .session import Refused, agreed, expected, expected_rank, session

__all__ = [
    "BACKWARD",
    "FORWARD",
    "SNAPSHOT",
    "TESTING",
    "UPDATE",
    "Alone",
    "Bucket",
    "Exchange",
    "Piece",
    "Ranks",
    "Refused",
    "agreed",
    "cut",
    "expected",
    "expected_rank",
    "session",
]
