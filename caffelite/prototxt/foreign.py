"""The schema of a fork by which prototxts are read and written, where the user has given one (see `fork/`)."""

from typing import Protocol

from google.protobuf.message import Message

from ..errors import Locator


class Foreign(Protocol):
    """Messages of a schema that has the fields of this one and more."""

    def text_class(self, kind: type[Message]) -> type[Message]:
        """The class with which text of a message of this schema is read."""
        ...

    def native(self, message: Message, kind: type[Message], locate: Locator) -> Message:
        """A message of ``text_class`` in this schema. Errors: fields that change results and have no counterpart."""
        ...

    def from_bytes(self, data: bytes, kind: type[Message], file: str) -> Message:
        """A message from the fork's wire format. Errors: DecodeError."""
        ...

    def text_form(self, message: Message) -> Message:
        """The reverse of ``native``."""
        ...

    def has_type(self, name: str) -> bool:
        """Whether a type of layers is the fork's."""
        ...

    def fields(self, message: str) -> frozenset[str]:
        """The names of the fields of a message of the fork's; none where it has no such message."""
        ...


current: Foreign | None = None


def empty(kind: type[Message]) -> Message:
    """A message to read text of one of this schema into; ``native`` follows."""
    return (current.text_class(kind) if current else kind)()


def native(message: Message, kind: type[Message], locate: Locator) -> Message:
    """A message of ``empty`` in this schema. Errors: as `Foreign.native`."""
    return current.native(message, kind, locate) if current else message


def text_form(message: Message) -> Message:
    """A message of this schema as text has it."""
    return current.text_form(message) if current else message
