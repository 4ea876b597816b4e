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
from .named_files import named_files


def read(config: ServeConfig, path: Path) -> tuple[Document, list[Path]]:
    """A net and the files that it names. Errors: it cannot be read; a Python layer where the server does not allow
    them; a file outside the roots."""
    document = prototxt.read_net(path)
    refusals.refuse_python(config, document.message)
    return document, list(files(config, document.message, document.locate))


def files(config: ServeConfig, message: Message, locate: Locator) -> Iterator[Path]:
    """The files that the fields of a net name. Errors: one is outside the roots."""
    for each in named_files(message):
        found = prototxt.resolve(each.text, locate)
        base = Path.cwd() if found.exists() else Path(locate.file).parent
        yield paths.resolve(config, str(found), base=base)
