"""Data-parallel training in several processes: groups, all-reduce of gradients, and a watchdog for ranks that die or
hang."""

from .group import Mesh, ProcessGroup, SingleProcess, agreed, alone, expected, expected_rank, session
from .mesh import MeshPosition, MeshShape
from .reducer import Bucket, GradientReducer, Piece, cut
from .refusal import Refused
from .watchdog_process import BACKWARD, FORWARD, SNAPSHOT, TESTING, UPDATE

__all__ = [
    "BACKWARD",
    "FORWARD",
    "SNAPSHOT",
    "TESTING",
    "UPDATE",
    "Bucket",
    "GradientReducer",
    "Mesh",
    "MeshPosition",
    "MeshShape",
    "Piece",
    "ProcessGroup",
    "Refused",
    "SingleProcess",
    "agreed",
    "alone",
    "cut",
    "expected",
    "expected_rank",
    "session",
]
