"""Nets that requests name: read with all their paths held under the roots, Python layers refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from .. import prototxt
from ..errors import CaffeliteError, Locator
from ..prototxt import Document
from . import paths
from .config import ServeConfig

PYTHON = "Python"
# Fields that name files which a net reads. Names in lists of images are checked where the images are read.
PATH_FIELDS = frozenset(
    {"source", "mean_file", "label_source", "label_map_file", "weights", "root_folder", "file_name"}
)


def read(config: ServeConfig, path: Path) -> tuple[Document, list[Path]]:
    """A net and the files that it names. Errors: it cannot be read; a Python layer where the server does not allow
    them; a file outside the roots."""
    document = prototxt.read_net(path)
    check(config, document)
    return document, list(files(config, document.message, document.locate))


def check(config: ServeConfig, document: Document) -> None:
    """Refuses a net with Python layers, before any graph is built of it, unless the server allows them."""
    if config.allow_python:
        return
    for place, layer in enumerate(document.message.layer):
        if layer.type == PYTHON:
            where = document.locate("layer", place, "type")
            remedy = "start the server with -allow_python if you trust it"
            raise CaffeliteError("this server runs no Python layers", where=where, remedy=remedy)


def files(config: ServeConfig, message: Message, locate: Locator) -> Iterator[Path]:
    """The files that the fields of a net name. Errors: one is outside the roots."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for each in value if _repeated(field) else [value]:
                yield from files(config, each, locate)
        elif field.type == field.TYPE_STRING and field.name in PATH_FIELDS:
            for text in value if _repeated(field) else [value]:
                if text:
                    yield paths.resolve(config, str(prototxt.resolve(text, locate)), base=Path.cwd())


def layer(config: ServeConfig, spec: pb.LayerParameter, locate: Locator) -> None:
    """Refuses a data layer that names a file outside the roots, or a list of such files."""
    for _ in files(config, spec, locate):
        pass
    listed = spec.image_data_param.source
    if not listed or not Path(listed).is_file():
        return
    root = spec.image_data_param.root_folder
    with open(listed, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name = line.strip().rsplit(" ", 1)[0].split(",")[0]
            if name and (name.startswith("/") or ".." in name or root):
                paths.resolve(config, root + name, base=Path.cwd())


def _repeated(field: FieldDescriptor) -> bool:
    """Whether a field is a list; protobuf 5 has no `is_repeated`."""
    found = getattr(field, "is_repeated", None)
    return bool(getattr(field, "label", None) == field.LABEL_REPEATED if found is None else found)
