"""What a fork of Caffe has beyond BVLC's, which of it caffelite has, compiles, and reads."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, inputs
from ..errors import CaffeliteError
from ..fork import history
from ..fork.build import Build
from ..fork.option import Fork
from ..layers import REGISTRY
from ..prototxt import foreign
from ..prototxt.textformat import Reader
from .check import check

ENDINGS = (".prototxt", ".pt", ".prototxt.txt")
MOST_NETS = 1000
OWN, MISSING, DATA = "caffelite's", "the fork's", "data"

Progress = Callable[[str], None]


@dataclass
class TypeReport:
    """A layer type that BVLC's Caffe lacks. computed_by: whose code a net gets; error: why the fork's does not
    compile, None where it does or was not tried."""

    name: str
    place: str
    computed_by: str
    error: str | None = None
    compiled: bool = False


@dataclass
class NetReport:
    """A net below the folder, and its first mistake."""

    path: str
    mistake: str | None


@dataclass
class ForkReport:
    """What a fork has. fields: by message, those that BVLC's lacks, with whether caffelite has each; changed: types of
    BVLC's by the files that the fork changed."""

    path: str
    proto: str | None
    sources: int
    types: list[TypeReport] = field(default_factory=list)
    fields: dict[str, dict[str, bool]] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)
    nets: list[NetReport] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(fork: Fork, builds: bool = True, on_progress: Progress = print) -> ForkReport:
    """Reports on a fork in use. builds: whether types that caffelite lacks are compiled, and nets below the folder
    checked, which compiles what they need."""
    tree = fork.tree
    proto = tree.location(tree.proto) if tree.proto else None
    made = ForkReport(str(fork.path), proto, len(tree.files), fields=_fields(fork))
    for name in sorted(tree.types):
        modern = fork.modern_name(name)
        if modern in history.types():
            if paths := fork.changed_files(name):
                made.changed[modern] = [tree.location(path) for path in paths]
        else:
            made.types.append(_type(fork, name, modern))
    if builds:
        build = Build(tree, fork.schema.descriptor_set, on_progress)
        for one in made.types:
            if one.computed_by == MISSING:
                on_progress(f"compiling {one.name}")
                one.error = _compile_error(build, one.name)
                one.compiled = one.error is None
        made.nets = list(_nets(fork, on_progress))
    return made


def _type(fork: Fork, name: str, modern: str) -> TypeReport:
    source = fork.tree.types[name]
    place = f"{fork.tree.location(source.registered)}:{source.line}"
    known = modern in REGISTRY and REGISTRY[modern].__module__ != "caffelite.fork.layer"
    return TypeReport(name, place, OWN if known else MISSING)


def _compile_error(made: Build, name: str) -> str | None:
    try:
        made.library([name])
    except CaffeliteError as error:
        return str(error)
    return None


def _fields(fork: Fork) -> dict[str, dict[str, bool]]:
    """Fields and enum values that BVLC's messages lack, and the messages that it lacks as a whole, in the schema's
    order."""
    fields: dict[str, dict[str, bool]] = {}
    for message in fork.schema.messages():
        name = fork.schema.name_here(message.name)
        known = history.words(name) or history.words(message.name)
        words = [each.name for each in message.field] + [v.name for enum in message.enum_type for v in enum.value]
        if known is not None and (more := [word for word in words if word not in known]):
            own = _own_words(name)
            fields[name] = {word: word in own for word in more}
    return fields


def _own_words(message: str) -> set[str]:
    """The fields and enum values of a message of caffelite's."""
    kind = getattr(pb, message, None)
    if kind is None:
        return set()
    return set(kind.DESCRIPTOR.fields_by_name) | set(kind.DESCRIPTOR.enum_values_by_name)


def _nets(fork: Fork, on_progress: Progress) -> Iterator[NetReport]:
    """Checks the nets below the folder."""
    paths = [path for path in sorted(fork.path.rglob("*")) if path.name.endswith(ENDINGS) and path.is_file()]
    for path in [each for each in paths if _is_net(each)][:MOST_NETS]:
        on_progress(f"checking {path.relative_to(fork.path)}")
        mistakes = [each.error for each in check(str(path)) if each.kind == "mistake"]
        yield NetReport(str(path.relative_to(fork.path)), str(mistakes[0]) if mistakes else None)


def _is_net(path: Path) -> bool:
    """Whether a text has layers, and is no solver."""
    try:
        text = inputs.read_text(path, inputs.TEXT, "replace")
    except OSError:
        return False
    readers = []
    for kind in (pb.NetParameter, pb.SolverParameter):
        reader, message = Reader(text, ""), foreign.empty(kind)
        reader.block(message, (), None)
        readers.append((reader.known, message))
    (known, net), (other, _) = readers
    layers: Any = net
    return known >= other and bool(layers.layer or layers.layers)
