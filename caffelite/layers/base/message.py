"""A layer's message: its position in the file, and errors that state the position."""

from typing import Any

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError, Locator


class LayerMessage:
    """The message of a layer of one net. ``p``: its own parameters, the message ``field`` of LayerParameter."""

    field = ""

    def __init__(self, spec: pb.LayerParameter, phase: int, locate: Locator):
        self.spec, self.phase, self.locate = spec, phase, locate
        self.name = spec.name
        self.p: Any = getattr(spec, self.field) if self.field else None

    def error(self, what: str, *path: str | int, outer: bool = False, **parts: Any) -> CaffeliteError:
        """An error in a field of the layer's own message. outer: in one that every layer has."""
        own = (self.field,) if self.field and path and not outer else ()
        return self.locate.error(f'layer "{self.name}" ({self.spec.type}): {what}', *own, *path, **parts)

    def bottom_error(self, index: int, what: str, **parts: Any) -> CaffeliteError:
        return self.error(f'bottom "{self.spec.bottom[index]}" {what}', "bottom", index, outer=True, **parts)

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
