"""The names of classes, by the files that commands write beside a net or a data set."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .. import caffelite_pb2 as pb
from .. import inputs
from ..errors import Locator
from ..layers import REGISTRY
from ..layers.feeding import feeding_type
from ..prototxt import resolve

PROJECT = "labels.txt"  # of `caffelite new`
ENDINGS = ("_train_lmdb", "_test_lmdb", "_lmdb", "_train.txt", "_test.txt", ".txt")


def of_data(path: Path) -> list[str]:
    """The names of a set's classes: of its class folders, or of the file that `caffelite dataset` and `caffelite new`
    write next to it; empty where there is none."""
    if path.is_dir() and not (path / "data.mdb").exists() and not (path / "CURRENT").exists():
        return sorted(each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    stem = path.name
    for part in ENDINGS:
        stem = stem.removesuffix(part)
    for name in (f"{stem}_labels.txt", PROJECT, "synset_words.txt"):
        if names := _lines(path.with_name(name)):
            return names
    return []


def of_net(model: str | Path, feeds: Iterable[tuple[pb.LayerParameter, Locator]], count: int) -> list[str]:
    """The names of a net's classes: of the project of its prototxt, else of the data that its layers read; empty where
    none of them has ``count`` names. feeds: data layers with their locators."""
    lists = [_lines(Path(model).with_name(PROJECT))]
    for spec, locate in feeds:
        if source := _source_of(spec):
            with suppress(OSError):
                lists.append(of_data(resolve(source, locate)))
    return next((names for names in lists if len(names) == count), [])


def _source_of(spec: pb.LayerParameter) -> str:
    kind = REGISTRY.get(spec.type)
    return getattr(getattr(spec, kind.field), "source", "") if kind and feeding_type(kind).reads_source else ""


def _lines(path: Path) -> list[str]:
    try:
        return inputs.read_text(path, errors="replace").rstrip("\n").split("\n")
    except OSError:
        return []
