"""The names of classes: of a file, or of those that commands write beside a net or a data set."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs
from ..detection.names import read_label_map
from ..errors import CaffeliteError, Locator, Where
from ..layers import REGISTRY
from ..layers.base.feeding import feeding_type
from ..prototxt import resolve
from .listing import files_below, list_classes, read_columns

PROJECT = "labels.txt"  # of `caffelite new`
ENDING = re.compile(r"(_(train|test|val)(_[^_]+)?|_lmdb|_leveldb)?(\.txt)?$")  # of a set's files, after its name


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


def names_itself(path: Path) -> bool:
    """Whether a set names its labels: a folder of class folders, or a .csv table."""
    if path.is_dir():
        return not (path / "data.mdb").exists() and not (path / "CURRENT").exists()
    return path.suffix.lower() == ".csv" and path.is_file()


def of_data(path: Path) -> list[str]:
    """The names of a set's labels in their order: its class folders, the columns of its table, or the lines of the file
    that `caffelite dataset`, `convert_imageset` and `new` write next to it; empty where there is none."""
    if names_itself(path):
        return list(read_columns(path)) if path.is_file() else class_folders(path)
    file = file_beside(path)
    return read(file) if file else []


def class_folders(path: Path) -> list[str]:
    """The names of class folders in the order of their labels; files that are no images are passed over. Errors: it has
    no class folders."""
    return list_classes(files_below(path), str(path), left_out=[])[1]


def file_beside(path: Path) -> Path | None:
    """The file next to a set that names its classes, where there is one."""
    stem = ENDING.sub("", path.name, count=1)
    whole = re.sub(r"_(lmdb|leveldb)$", "", path.name)
    maps = f"{whole}_labelmap.prototxt", f"{stem}_labelmap.prototxt"  # of `caffelite dataset detection`
    names = f"{path.name}_labels.txt", f"{whole}_labels.txt", f"{stem}_labels.txt", *maps, PROJECT, "synset_words.txt"
    return next((path.with_name(name) for name in names if _beside(path, name)), None)


def of_net(model: str | Path, feeds: Iterable[tuple[pb.LayerParameter, Locator]], count: int) -> list[str]:
    """The names of a net's classes: those by which its data layers number labels, else of the project of its prototxt,
    else of a file beside the data; empty where none of them has ``count`` names. feeds: data layers with their
    locators."""
    own: list[list[str]] = []
    beside: list[list[str]] = []
    for spec, locate in feeds:
        with suppress(OSError, CaffeliteError):
            if text := spec.image_data_param.label_names:
                own.append(named(resolve(text, locate)))
            elif source := source_of(spec):
                path = resolve(source, locate)
                (own if names_itself(path) else beside).append(of_data(path))
    lists = [*own, _beside(Path(model), PROJECT), *beside]
    return readable(next((names for names in lists if len(names) == count), []))


def readable(names: Iterable[str]) -> list[str]:
    """Names as text that messages and files hold: of folders whose names are not UTF-8, as Windows has written them."""
    texts = []
    for name in names:
        content = name.encode("utf-8", "surrogateescape")
        try:
            texts.append(content.decode())
        except UnicodeDecodeError:
            texts.append(content.decode("cp1252", "backslashreplace"))
    return texts


def named(path: Path) -> list[str]:
    """The names that a field label_names gives: of a set, or of a file with one on each line. Errors: it cannot be
    read; a name twice."""
    names = of_data(path) if names_itself(path) else read(path)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Where(str(path)).error("two labels have one name", found=f'"{twice}"')
    return names


def source_of(spec: pb.LayerParameter) -> str:
    """The path of the data that a layer reads; "" where it names none."""
    kind = REGISTRY.get(spec.type)
    return getattr(getattr(spec, kind.field), "source", "") if kind and feeding_type(kind).reads_source else ""


def _beside(path: Path, name: str) -> list[str]:
    try:
        return _lines(path.with_name(name))
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in inputs.read_text(path, errors="replace").rstrip().split("\n")]
