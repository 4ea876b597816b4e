"""What the server refuses to run: nets with Python layers, configurations that lead out of its roots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from .. import prototxt
from ..errors import CaffeliteError, printable
from ..runs import folder as files
from ..runs import registry, snapshots
from . import paths
from .config import ServeConfig
from .named_files import listed_files, named_files

Place = tuple[str | int, ...]  # the path of a field in a message, as a Locator takes it
REFUSED_PYTHON = "this server runs no Python layers"
PYTHON_REMEDY = "start it with -allow_python if you trust the module"


def refuse_python(config: ServeConfig, message: Message) -> None:
    """Refuses a net, or a solver with nets in it, that has Python layers, by its message alone: nothing is built and
    nothing imported. Errors: CaffeliteError, unless -allow_python was given."""
    for _, layer in python_layers(config, message):
        found = printable(f'"{layer.name}" of module "{layer.python_param.module}"', keep="")
        raise CaffeliteError(REFUSED_PYTHON, found=found, remedy=PYTHON_REMEDY)


def python_layers(config: ServeConfig, message: Message) -> Iterator[tuple[Place, pb.LayerParameter]]:
    """(place, layer) of each layer of a net, or of the nets in a solver, that the server refuses because it runs a
    module; none with -allow_python."""
    for place, net in nets_in(message):
        for i, layer in enumerate(net.layer):
            if layer.type == "Python" and not config.allow_python:
                yield (*place, "layer", i), layer


def refuse_outside(config: ServeConfig, net: pb.NetParameter, base: Path) -> None:
    """Refuses a net whose layers, or the lists of whose data layers, name files outside the roots, or whose layers read
    a camera. base: where relative paths start. Errors: paths.Outside."""
    for each in named_files(net):
        paths.resolve(config, each.text, base=base)
    for layer in net.layer:
        refuse_listed(config, layer, base)


def refuse_listed(config: ServeConfig, layer: pb.LayerParameter, base: Path) -> None:
    """Refuses a layer that reads a camera, or whose list names a file outside the roots. Errors: paths.Outside."""
    if layer.type == "VideoData" and layer.video_data_param.video_type == pb.VideoDataParameter.WEBCAM:
        found = printable(f'"{layer.name}"', keep="")
        raise paths.Outside("this server reads no camera for a net", found=found, remedy="train it in a terminal")
    paths.hold(config, listed_files(layer, base), base)


def without_outside(config: ServeConfig, net: pb.NetParameter, base: Path) -> pb.NetParameter:
    """A copy of a net whose layers name no files outside the roots: their shapes are then guessed."""
    found = pb.NetParameter()
    found.CopyFrom(net)
    for layer in found.layer:
        one = pb.NetParameter()
        one.layer.add().CopyFrom(layer)
        try:
            refuse_outside(config, one, base)
        except (CaffeliteError, OSError):
            for each in named_files(layer):
                setattr(each.holder, each.field, "outside the roots")
    return found


def nets_in(message: Message) -> Iterator[tuple[Place, pb.NetParameter]]:
    """(place, net) of each net that a net or a solver holds."""
    if isinstance(message, pb.NetParameter):
        yield (), message
    elif isinstance(message, pb.SolverParameter):
        yield ("net_param",), message.net_param
        yield ("train_net_param",), message.train_net_param
        for i, net in enumerate(message.test_net_param):
            yield ("test_net_param", i), net


def refuse_resume(config: ServeConfig, folder: Path) -> None:
    """Refuses to resume a run whose configuration, which is a file in its folder, names files outside the roots or
    modules to import."""
    refuse_python(config, prototxt.read_solver(folder / files.SOLVER).message)
    status, run = registry.read(folder), snapshots.config(folder)
    directory = Path(status.working_directory)
    for text in (run.solver, *run.weights, *([run.record] if run.record else [])):
        paths.resolve(config, text, base=directory)
    solver = paths.resolve(config, run.solver, base=directory)
    message = prototxt.read_solver(solver).message
    refuse_python(config, message)
    for name in [message.net, message.train_net, *message.test_net]:
        if name:
            near = directory / name
            file = paths.resolve(config, name, base=directory if near.exists() else solver.parent)
            net = prototxt.read_net(file).message
            refuse_python(config, net)
            refuse_outside(config, net, directory)
    if run.python_folders and not config.allow_python:
        raise CaffeliteError("this server imports no modules", remedy="start it with -allow_python")
