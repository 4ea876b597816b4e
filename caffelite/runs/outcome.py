"""How a session of a run ended."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import CaffeliteError, printable

FINISHED, EARLY, TIME, SIGNAL, FAILED = "finished", "stopped early", "out of time", "stopped by a signal", "failed"


@dataclass(frozen=True)
class Outcome:
    """kind: one of the names above. reason: the score that stopped improving, the signal, the error."""

    kind: str
    reason: str = ""


def failure(error: BaseException) -> Outcome:
    """The outcome of a session that an exception ended."""
    if isinstance(error, CaffeliteError):
        return Outcome(FAILED, str(error))
    if isinstance(error, MemoryError):
        return Outcome(FAILED, f"out of memory{f' ({error})' if str(error) else ''}")
    return Outcome(FAILED, printable(f"{type(error).__name__}: {error}"))
