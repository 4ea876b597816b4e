"""The error on which all processes of a job agree."""

from __future__ import annotations

from ..errors import CaffeliteError


class Refused(CaffeliteError):
    """An error that all ranks agree on, so that the job does not start or go on; rank 0 prints it."""

    @classmethod
    def of(cls, text: str) -> Refused:
        error = cls("")
        error.args = (text,)
        return error
