"""Nets that requests name: read with all their paths held under the roots, Python layers refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import Message

from .. import prototxt
from ..errors import Locator
from ..prototxt import Document
from . import paths, refusals
from .config import ServeConfig

# Fields that name files which a net reads.
PATH_FIELDS = frozenset(
    {"source", "mean_file", "label_source", "label_map_file", "weights", "root_folder", "file_name"}
    | {"class_weight_source", "meanfile"}
)


def read(config: ServeConfig, path: Path) -> tuple[Document, list[Path]]:
    """A net and the files that it names. Errors: it cannot be read; a Python layer where the server does not allow
    them; a file outside the roots."""
    document = prototxt.read_net(path)
    refusals.refuse_python(config, document.message)
    return document, list(files(config, document.message, document.locate))


def files(config: ServeConfig, message: Message, locate: Locator) -> Iterator[Path]:
    """The files that the fields of a net name. Errors: one is outside the roots."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in [value] if isinstance(value, Message) else value:
                yield from files(config, each, locate)
        elif field.type == field.TYPE_STRING and field.name in PATH_FIELDS:
            for text in [value] if isinstance(value, str) else value:
                if text:
                    found = prototxt.resolve(text, locate)
                    base = Path.cwd() if found.exists() else Path(locate.file).parent
                    yield paths.resolve(config, str(found), base=base)
