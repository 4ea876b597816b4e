"""Finds what bounds forbid: in a net, in a solver with its nets after all settings, in a command.

Every field of text of every message is classified in `named_files`. Nothing that is refused is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from google.protobuf.message import Message

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError, Locator, Where, printable
from ...inspection.reading import Findings, Reading, read
from ...prototxt import Document, schema
from ...prototxt.overrides import Overrides
from .bounds import Bounds, Outside
from .named_files import NETS, listed_files, named_files

Place = tuple[str | int, ...]  # the path of a field in a message, as a Locator takes it
REFUSED_PYTHON = "this server runs no Python layers"
PYTHON_REMEDY = "start it with -allow_python if you trust the module"
LISTING = ("dataset", "classify", "new", "convert_imageset")  # commands whose arguments may be lists of images


def nets_in(message: Message) -> Iterator[tuple[Place, pb.NetParameter]]:
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
    held: set[Place] = set()
    for each in named_files(message):
        try:
            named_path(bounds, each.text, locate, base)
        except Outside as error:
            held.add(each.at)
            yield _at(error, locate(*each.at))
    for path, net in nets_in(message):
        for i, layer in enumerate(net.layer):
            at = (*path, "layer", i)
            if not any(each[: len(at)] == at for each in held):
                yield from _refused_data(bounds, layer, locate.at(*at), base or Path.cwd())


def _refused_data(bounds: Bounds, layer: pb.LayerParameter, locate: Locator, base: Path) -> Iterator[CaffeliteError]:
    """What a data layer reads besides the files that it names: a camera, the files of its list."""
    if (
        layer.type == "VideoData"
        and "VideoData" not in schema.users
        and layer.video_data_param.video_type == pb.VideoDataParameter.WEBCAM
    ):
        name = printable(f'"{layer.name}"', keep="")
        what, remedy = "this server reads no camera for a net", "train it in a terminal"
        yield Outside(what, where=locate("type"), found=name, remedy=remedy)
    try:
        bounds.hold(listed_files(layer, base), base)
    except Outside as error:
        yield _at(error, locate("type"))


def _at(error: CaffeliteError, where: Where) -> CaffeliteError:
    return type(error)(error.what, where=where, expected=error.expected, found=error.found, remedy=error.remedy)


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
    if not bounds.python and options(words, "python"):
        remedy = "start the server with -allow_python, or the job with caffelite queue run"
        raise CaffeliteError("this server imports no modules", found="-python", remedy=remedy)
    overrides = Overrides(options(words, "set") if words[0] != "sweep" else ())  # trials are held as they start
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
        document = _with_settings(reading, overrides)
        refuse(bounds, document.message, document.locate, directory)


def _with_settings(reading: Reading, overrides: Overrides) -> Document:
    document = Document(reading.message, reading.locate)
    return overrides.net(document) if overrides.own or overrides.layers else document


def options(words: Sequence[str], name: str) -> list[str]:
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
