"""The limits of a process: the folders below which its files are, and whether it runs Python layers; what they forbid
in nets, solvers and commands; and the terms of a job, which its processes inherit in an environment variable.

The terms are bounds, and the texts of the job's solver and nets as they were when it was added: copies of the solver,
the nets and short files that these name, and the digests of all. A later edit of a file does not change the job; where
no copy is kept, as of lists, the change is named. Every field of text of every message is classified here. Nothing that
is refused is opened.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb, inputs, roots as root_folders, stored, user_modules
from ..errors import CaffeliteError, Locator, printable
from ..fork import option
from ..inspection.reading import Findings, read
from ..layers import REGISTRY
from ..layers.base.feeding import feeding_type
from ..layers.data import Feed
from ..prototxt import Document, schema
from ..prototxt.overrides import Overrides
from ..roots import Outside
from ..system import cache_folder
from . import state

LONGEST = 4096  # characters of a path
STORED = {"roots": ([str], None), "python": bool}


def _loops(path: Path) -> bool:
    """Whether symbolic links on a path lead to themselves."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _own() -> tuple[Path, ...]:
    """The folders of this program's user: records of jobs, and kernels with what was measured of them."""
    return state.folder(), cache_folder()


@dataclass(frozen=True)
class Bounds:
    """roots: the folders, links resolved, below which every file must be; None: anywhere. python: whether Python layers
    may run. The user's folder of state is below no root."""

    roots: tuple[Path, ...] | None = None
    python: bool = True

    def resolve(self, text: str, base: Path) -> Path:
        """The path that a text means, with symbolic links resolved; it need not exist. base: where relative paths
        start. Errors: Outside where the path, or a link on it, leads out of all roots; a NUL; too long a text."""
        shown = f'"{printable(text, keep="")[:200]}"'
        if "\0" in text or len(text) > LONGEST:
            raise Outside("this is not a path", found=shown)
        try:
            path = (base / text).resolve()
            loops = _loops(path)  # as Path.resolve says by a RuntimeError before Python 3.13
        except (OSError, RuntimeError, UnicodeEncodeError):
            loops = True
        if loops:
            raise Outside("this path cannot be resolved", found=shown)
        if self.roots is None:
            return path
        if "://" in text:
            raise Outside("this is an address, not a path below a root of the server", found=shown)
        if not any(path.is_relative_to(root) for root in self.roots) or path.is_relative_to(state.folder()):
            raise root_folders.outside(text)
        return path

    def hold(self, names: Iterable[str], base: Path) -> None:
        """Refuses files that are not below a root, links resolved; for many names in few folders. base: where relative
        names start. Errors: Outside."""
        if self.roots is None:
            return
        known = set()
        for name in names:
            folder, file = os.path.split(base / name)
            if folder not in known:
                self.resolve(folder, base)
                known.add(folder)
            if file == ".." or os.path.islink(base / name):
                self.resolve(name, base)

    def confinement(self) -> root_folders.Confinement | None:
        """Of what opens and creates files below the roots alone."""
        return None if self.roots is None else root_folders.Confinement.of(self.roots, _own())

    def confined(self) -> AbstractContextManager[None]:
        """Within it this thread opens and creates files below the roots alone."""
        held = self.confinement()
        return root_folders.confined(held) if held else nullcontext()

    def confine(self) -> None:
        """From now on this process opens and creates files below the roots alone."""
        if held := self.confinement():
            root_folders.confine(held)

    @property
    def unlimited(self) -> bool:
        return self.roots is None and self.python

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"roots": None if self.roots is None else [str(root) for root in self.roots], "python": self.python}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Bounds:
        """The bounds of ``to_json``."""
        roots = content["roots"]
        return cls(None if roots is None else tuple(map(Path, roots)), bool(content["python"]))


NETS = ("net", "train_net", "test_net")  # of a solver


@dataclass(frozen=True)
class NamedFile:
    """holder: the message with the field; at: the path of the field, as a Locator takes it; text: its value."""

    holder: Message
    field: str
    at: tuple[str | int, ...]
    text: str


def named_files(message: Message, at: tuple[str | int, ...] = ()) -> Iterator[NamedFile]:
    """Every file that the fields of a message name, those of its parts included. at: where the message is."""
    of_solver = isinstance(message, pb.SolverParameter)
    for field, value in message.ListFields():
        here = (*at, field.name)
        if field.type == field.TYPE_MESSAGE:
            repeated = not isinstance(value, Message)
            for i, item in enumerate(value if repeated else [value]):
                yield from named_files(item, (*here, i) if repeated else here)
        elif field.type == field.TYPE_STRING and field.name in schema.fields_of_files(of_solver):
            for text in [value] if isinstance(value, str) else value:
                for item in text.split(",") if of_solver and field.name == "weights" else [text]:
                    if item.strip():
                        yield NamedFile(message, field.name, here, item.strip() if item != text else text)


def listed_files(layer: pb.LayerParameter, base: Path) -> Iterator[str]:
    """The files that the list, table or folder of a data layer names, as the layer reads them, with root_folder. base:
    where relative paths start. A list that the layer refuses names none."""
    kind = REGISTRY.get(layer.type)
    if kind and issubclass(kind, Feed):
        param = getattr(layer, kind.field)
        source = getattr(param, "source", "")
        path = base / source
        if source and path.exists():
            with suppress(CaffeliteError, OSError):
                yield from kind.listed_files(param, path)


FieldPath = tuple[str | int, ...]  # the path of a field in a message, as a Locator takes it
REFUSED_PYTHON = "this server runs no Python layers"
PYTHON_REMEDY = "start it with -allow_python if you trust the module"
LISTING = ("dataset", "classify", "new", "convert_imageset")  # commands whose arguments may be lists of images


def nets_in(message: Message) -> Iterator[tuple[FieldPath, pb.NetParameter]]:
    """(place, net) of each net that a net or a solver holds."""
    if isinstance(message, pb.NetParameter):
        yield (), message
    elif isinstance(message, pb.SolverParameter):
        for name in ("net_param", "train_net_param"):
            if message.HasField(name):
                yield (name,), getattr(message, name)
        for i, net in enumerate(message.test_net_param):
            yield ("test_net_param", i), net


def refused(bounds: Bounds, message: Message, locate: Locator, base: Path | None = None) -> Iterator[CaffeliteError]:
    """What a net or a solver holds that is forbidden: Python layers, files that are not below the roots, also in the
    lists of its data layers, cameras. Each error has its place.

    base: where relative paths start; None: this process's folder. As for a run, a path that does not exist there may be
    next to the prototxt.
    """
    for path, net in nets_in(message):
        for i, layer in enumerate(net.layer):
            if layer.type == "Python" and not bounds.python:
                named = printable(f'"{layer.name}" of module "{layer.python_param.module}"', keep="")
                where = locate(*path, "layer", i, "type")
                yield CaffeliteError(REFUSED_PYTHON, where=where, found=named, remedy=PYTHON_REMEDY)
    if bounds.roots is None:
        return
    held: set[FieldPath] = set()
    for each in named_files(message):
        try:
            named_path(bounds, each.text, locate, base)
        except Outside as error:
            held.add(each.at)
            yield error.replaced(where=locate(*each.at))
    for path, net in nets_in(message):
        for i, layer in enumerate(net.layer):
            at = (*path, "layer", i)
            if not any(each[: len(at)] == at for each in held):
                yield from _refused_data(bounds, layer, locate.at(*at), base or Path.cwd())


def _refused_data(bounds: Bounds, layer: pb.LayerParameter, locate: Locator, base: Path) -> Iterator[CaffeliteError]:
    """What a data layer reads besides the files that it names: a camera, the files of its list."""
    kind = REGISTRY.get(layer.type)
    if kind and feeding_type(kind).reads_camera(layer):
        name = printable(f'"{layer.name}"', keep="")
        what, remedy = "this server reads no camera for a net", "train it in a terminal"
        yield Outside(what, where=locate("type"), found=name, remedy=remedy)
    try:
        bounds.hold(listed_files(layer, base), base)
    except Outside as error:
        yield error.replaced(where=locate("type"))


def named_path(bounds: Bounds, text: str, locate: Locator, base: Path | None = None) -> Path:
    """The path that a field of a prototxt means for a run that starts in ``base``. Errors: Outside, also where this
    process, which may look at it, would take another one."""
    here = Path.cwd()
    if base is None or (base != here and os.path.lexists(here / text)):
        path = _chosen(bounds, text, locate, here)
    return path if base is None else _chosen(bounds, text, locate, base)


def _chosen(bounds: Bounds, text: str, locate: Locator, base: Path) -> Path:
    """As ``prototxt.resolve`` chooses it."""
    folder = base / Path(locate.file).parent
    near = not os.path.exists(base / text) and os.path.exists(folder / text) if "\0" not in text else False
    return bounds.resolve(text, folder if near else base)


def refuse(bounds: Bounds, message: Message, locate: Locator, base: Path | None = None) -> None:
    """Raises the first error of ``refused``."""
    for error in refused(bounds, message, locate, base):
        raise error


def refused_run(
    bounds: Bounds, solver: Path, overrides: Overrides, base: Path | None = None
) -> Iterator[CaffeliteError]:
    """What a solver and its nets hold that is forbidden, after all settings. base: as for ``refused``.

    A file that cannot be read is no matter of this function. Errors: a setting that cannot be applied.
    """
    reading = read(str(solver), Findings())
    if reading is None:
        return
    if isinstance(reading.message, pb.NetParameter):  # `check` takes it for one, too
        yield from refused(bounds, reading.message, reading.locate, base)
        return
    document = overrides.solver(Document(reading.message, reading.locate))
    own, locate = pb.SolverParameter(), document.locate
    own.CopyFrom(document.message)
    specs = [SimpleNamespace(message=net, locate=locate.at(*path)) for path, net in nets_in(document.message)]
    for name in ("net_param", "train_net_param", "test_net_param"):
        own.ClearField(name)
    mistakes = list(refused(bounds, own, locate, base))
    yield from mistakes
    if mistakes:
        return
    for name in NETS:
        value = getattr(own, name)
        for text in [value] if isinstance(value, str) else value:
            net = read(str(named_path(bounds, text, locate, base)), Findings()) if text else None
            if net is not None and isinstance(net.message, pb.SolverParameter):
                yield from refused(bounds, net.message, net.locate, base)
            elif net is not None:
                specs.append(SimpleNamespace(message=net.message, locate=net.locate))
    if specs:
        overrides.nets(specs)
    for spec in specs:
        yield from refused(bounds, spec.message, spec.locate, base)


def refuse_command(bounds: Bounds, words: Sequence[str], directory: Path) -> None:
    """Refuses a command: its paths, and the messages of the prototxts that it names, after its settings.

    words: as the queue has them. directory: where it runs. Errors: Outside; Python layers; modules to import; a setting
    that cannot be applied.
    """
    if bounds.unlimited or not words:
        return
    for name in ("python", "fork"):
        if not bounds.python and option_values(words, name):
            remedy = "start the server with -allow_python, or the job with caffelite queue run"
            what = "this server imports no modules" if name == "python" else "this server runs no code of a fork"
            raise CaffeliteError(what, found=f"-{name}", remedy=remedy)
    overrides = Overrides(option_values(words, "set") if words[0] != "sweep" else ())  # trials are held as they start
    for text in _paths(words):
        if "/" not in text and not os.path.lexists(directory / text):
            continue  # no path, or a file in the folder of the command
        path = bounds.resolve(text, directory)
        if path.suffix == ".prototxt" and path.is_file():
            _refuse_prototxt(bounds, path, overrides, directory)
        elif words[0] in LISTING and path.exists() and not (path / "data.mdb").exists():
            layer = pb.LayerParameter(type="ImageData")
            layer.image_data_param.source = str(path)
            bounds.hold(listed_files(layer, directory), directory)


def _refuse_prototxt(bounds: Bounds, path: Path, overrides: Overrides, directory: Path) -> None:
    reading = read(str(path), Findings())
    if reading is None:
        return
    if isinstance(reading.message, pb.SolverParameter):
        for error in refused_run(bounds, path, overrides, directory):
            raise error
    else:
        document = Document(reading.message, reading.locate)
        document = overrides.net(document) if overrides.own or overrides.layers else document
        refuse(bounds, document.message, document.locate, directory)


def option_values(words: Sequence[str], name: str) -> list[str]:
    """The values of an option, as --name=VALUE or --name VALUE."""
    values = [word.partition("=")[2] for word in words if word.startswith(f"--{name}=")]
    return [*values, *(words[i + 1] for i, word in enumerate(words[:-1]) if word == f"--{name}")]


def _paths(words: Sequence[str]) -> Iterator[str]:
    """Every word, or value of an option, of a command that may be a path. Settings are none: the messages have them."""
    before = ""
    for word in words[1:]:
        name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if "--set" not in (name, before) and value and not value.startswith("--"):
            yield from (path for path in (value.split(",") if not os.path.exists(value) else [value]) if path)
        before = "" if equals else name


SHORT = 1 << 20  # bytes of a file that is copied besides solvers and nets
STORED_TEXTS = {"copies": {str: str}, "digests": {str: str}, "added": str}
LISTS = ("source", "label_source", "label_names", "root_folder")  # fields of which no copy is kept: lists may be long


@dataclass
class Texts:
    """copies: text by path, links resolved. digests: of every file, also those without a copy. added: when."""

    copies: dict[str, str] = dataclasses.field(default_factory=dict)
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    added: str = dataclasses.field(default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S"))

    def bodies(self) -> dict[str, bytes]:
        """The copies as bytes."""
        return {path: text.encode("utf-8", "surrogateescape") for path, text in self.copies.items()}

    def add(self, path: Path, copy: bool, most: int = inputs.TEXT) -> None:
        """Adds a file; one that cannot be read, or is no file, is left out."""
        name = os.path.realpath(path)
        body = _body(path)
        if body is None:
            return
        self.digests[name] = hashlib.sha256(body).hexdigest()
        if copy and len(body) <= most and b"\0" not in body:
            self.copies[name] = body.decode("utf-8", "surrogateescape")

    def changed(self) -> Iterator[str]:
        """The files that are not what they were, or are gone."""
        for path, digest in self.digests.items():
            body = _body(Path(path), raw=True)
            if body is None or hashlib.sha256(body).hexdigest() != digest:
                yield path


def _body(path: Path, raw: bool = False) -> bytes | None:
    """The content of a regular file of at most inputs.TEXT bytes; None for others. raw: on the disk, not the copy that
    this process may have."""
    try:
        if raw:
            with inputs.open_file(path, inputs.TEXT) as file:
                return file.readall()
        return inputs.read(path, inputs.TEXT)
    except OSError:
        return None


def of_solver(solver: Path, overrides: Overrides, directory: Path) -> Texts:
    """The texts of a training run. directory: where relative paths start. A file that cannot be read is left out: the
    run reports it."""
    texts = Texts()
    texts.add(solver, copy=True)
    reading = read(str(solver), Findings(), (pb.SolverParameter,))
    if reading is None:
        return texts
    document = Document(reading.message, reading.locate)
    with suppress(CaffeliteError):
        document = overrides.solver(document)
    message = document.message
    inside = (message.net_param, message.train_net_param, *message.test_net_param)
    specs = [SimpleNamespace(message=net, locate=document.locate) for net in inside]
    for name in NETS:
        value = getattr(message, name)
        for text in [value] if isinstance(value, str) else value:
            path = _regular_file(text, directory, solver.parent) if text else None
            if path is None:
                continue
            texts.add(path, copy=True)
            net = read(str(path), Findings(), (pb.NetParameter,))
            if net is not None:
                specs.append(SimpleNamespace(message=net.message, locate=net.locate))
    with suppress(CaffeliteError):
        overrides.nets(specs)
    for spec in specs:
        folder = Path(spec.locate.file).parent
        for each in named_files(spec.message):
            if path := _regular_file(each.text, directory, folder):
                texts.add(path, each.field not in LISTS, SHORT)
    return texts


def _regular_file(text: str, directory: Path, folder: Path) -> Path | None:
    """The regular file that a text names, as ``prototxt.resolve`` finds it."""
    for path in (directory / text, folder / text):
        with suppress(OSError, ValueError):
            if stat.S_ISREG(os.stat(path).st_mode):
                return path
    return None


TERMS_VARIABLE = "CAFFELITE_TERMS"  # {"bounds", "texts": a file of `Texts`, or ""}


def terms_environment(bounds: Bounds, texts: Path | None) -> dict[str, str]:
    """The variable for the processes of a job. texts: the file of its texts."""
    return {TERMS_VARIABLE: json.dumps({"bounds": bounds.to_json(), "texts": str(texts or "")})}


def inherited_bounds() -> Bounds:
    """The bounds of this process, which hold for the jobs that it adds."""
    text = os.environ.get(TERMS_VARIABLE)
    return Bounds.from_json(json.loads(text)["bounds"]) if text else Bounds()


def apply_terms(words: Sequence[str]) -> None:
    """Makes this process, which runs a command of a job, read the texts of the job, and refuses what its bounds forbid.
    Errors: as for `refuse_command`; the texts are gone."""
    texts = _texts()
    if texts:
        inputs.replace(texts.bodies())
    bounds = inherited_bounds()
    bounds.confine()
    if not bounds.python:
        user_modules.refuse()
        option.refuse()
    refuse_command(bounds, words, Path.cwd())


def changed_texts() -> Iterator[str]:
    """A sentence for each file of the job that has changed since it was added."""
    texts = _texts()
    for path in texts.changed() if texts else ():
        use = f"as it was on {texts.added}" if texts and path in texts.copies else "as it is now"
        yield f"{path} has changed since this job was added; the job uses it {use}"


def _texts() -> Texts | None:
    path = json.loads(os.environ.get(TERMS_VARIABLE, "{}")).get("texts")
    try:
        return Texts(**stored.load(path, STORED_TEXTS, most=inputs.LIST)) if path else None
    except CaffeliteError as error:
        raise CaffeliteError(f"the texts of this job cannot be read: {error}", remedy="add the job again") from None
