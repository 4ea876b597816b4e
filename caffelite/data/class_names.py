"""The names of classes: of a file, or of those that commands write beside a net or a data set."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs
from ..detection.names import read_label_map
from ..errors import Locator, Where
from ..layers import REGISTRY
from ..layers.base.feeding import feeding_type
from ..prototxt import resolve

PROJECT = "labels.txt"  # of `caffelite new`
ENDING = re.compile(r"(_(train|test|val)(_[^_]+)?|_lmdb)?(\.txt)?$")  # of a data set's files, after its name


def read(path: str | Path) -> list[str]:
    """The names by number, of a LabelMap (.prototxt) or a line each. Errors: it cannot be read."""
    path = Path(path)
    if path.suffix == ".prototxt":
        names = read_label_map(path)
        return [names.get(label, f"class {label}") for label in range(max(names, default=-1) + 1)]
    try:
        return _lines(path)
    except OSError as mistake:
        raise Where(str(path)).error(f"cannot read the names of classes: {inputs.reason(mistake)}") from None


def of_data(path: Path) -> list[str]:
    """The names of a set's classes: of its class folders, or of the file that `caffelite dataset` and `caffelite new`
    write next to it; empty where there is none."""
    if path.is_dir() and not (path / "data.mdb").exists() and not (path / "CURRENT").exists():
        return sorted(each.name for each in path.iterdir() if each.is_dir() and not each.name.startswith("."))
    stem = ENDING.sub("", path.name, count=1)
    return next(filter(None, (_beside(path, name) for name in (f"{stem}_labels.txt", PROJECT, "synset_words.txt"))), [])


def of_net(model: str | Path, feeds: Iterable[tuple[pb.LayerParameter, Locator]], count: int) -> list[str]:
    """The names of a net's classes: of the project of its prototxt, else of the data that its layers read; empty where
    none of them has ``count`` names. feeds: data layers with their locators."""
    lists = [_beside(Path(model), PROJECT)]
    for spec, locate in feeds:
        if source := _source_of(spec):
            with suppress(OSError):
                lists.append(of_data(resolve(source, locate)))
    return next((names for names in lists if len(names) == count), [])


def _source_of(spec: pb.LayerParameter) -> str:
    kind = REGISTRY.get(spec.type)
    return getattr(getattr(spec, kind.field), "source", "") if kind and feeding_type(kind).reads_source else ""


def _beside(path: Path, name: str) -> list[str]:
    try:
        return _lines(path.with_name(name))
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in inputs.read_text(path, errors="replace").rstrip().split("\n")]
