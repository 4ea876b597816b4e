"""A layer's message: its position in the file, and errors that state the position."""

from __future__ import annotations

from typing import Any

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Locator, Where


class LayerMessage:
    """The message of a layer of one net. ``p``: its own parameters, the message ``field`` of LayerParameter."""

    field = ""

    def __init__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        self.spec, self.phase, self.locate = spec, phase, locate
        self.name = spec.name
        self.p: Any = getattr(spec, self.field) if self.field else None

    def where(self, *path: str | int) -> Where:
        return self.locate(*((self.field, *path) if self.field and path else path))

    def error(self, what: str, *path: str | int, **parts: Any) -> CaffeliteError:
        return CaffeliteError(f'layer "{self.name}" ({self.spec.type}): {what}', where=self.where(*path), **parts)

    def outer_error(self, what: str, *path: str | int, **parts: Any) -> CaffeliteError:
        """An error in a field that every layer has."""
        return CaffeliteError(f'layer "{self.name}" ({self.spec.type}): {what}', where=self.locate(*path), **parts)

    def bottom_error(self, index: int, what: str, **parts: Any) -> CaffeliteError:
        blob = self.spec.bottom[index]
        return CaffeliteError(
            f'layer "{self.name}" ({self.spec.type}): bottom "{blob}" {what}',
            where=self.locate("bottom", index),
            **parts,
        )

    def axis(self, value: int, rank: int, name: str = "axis", end: bool = False) -> int:
        """A possibly negative axis made absolute; one that the bottom does not have is an error."""
        if not -rank <= value < rank + end:
            raise self.error(
                f"{name} {value} is outside the bottom's {rank} axes",
                name,
                expected=f"{-rank} to {rank - 1 + end}",
                found=value,
            )
        return value + rank if value < 0 else value
