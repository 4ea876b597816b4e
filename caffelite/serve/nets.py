"""Nets that requests name: read with all their paths held under the roots, Python layers refused."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb, prototxt
from ..errors import CaffeliteError, Locator
from ..prototxt import Document
from ..prototxt.overrides import Overrides
from ..runs import folder as files, limits, registry, snapshots
from ..runs.limits import Outside, named_files
from .config import ServeConfig
from .inference.deploy_weights import choose_weights, is_deploy


def read(config: ServeConfig, path: Path) -> tuple[Document, list[Path]]:
    """A net and the files that it names; a deploy net without weights gets those beside it. Errors: it cannot be read;
    a Python layer where the server does not allow them; a file outside the roots, also in the list of a data layer."""
    document = prototxt.read_net(path)
    if is_deploy(document.message):
        with suppress(Outside):  # which is refused below
            config.bounds.resolve(document.message.deploy_param.weights, path.parent)
            choose_weights(document)
    limits.refuse(config.bounds, document.message, document.locate)
    return document, list(files_of(config, document.message, document.locate))


def weights(config: ServeConfig, document: Document) -> Path:
    """The weights of a deploy net that ``read`` returned. Errors: it has none; they are outside the roots."""
    named = document.message.deploy_param.weights
    if not named:
        what = "the net names no weights, and none lie beside it"
        raise CaffeliteError(what, remedy="caffelite deploy -weights FILE")
    return config.resolve(str(Path(document.locate.file).parent / named))


def files_of(config: ServeConfig, message: Message, locate: Locator) -> Iterator[Path]:
    """The files that the fields of a net name. Errors: one is outside the roots."""
    for each in named_files(message):
        yield limits.named_path(config.bounds, each.text, locate)


def without_outside(config: ServeConfig, net: pb.NetParameter, base: Path) -> pb.NetParameter:
    """A copy of a net whose layers name no files outside the roots: their shapes are then guessed."""
    copy = deepcopy(net)
    for layer in copy.layer:
        one, locate = pb.NetParameter(), Locator(str(base / files.SOLVER))
        one.layer.add().CopyFrom(layer)
        try:
            limits.refuse(config.bounds, one, locate, base)
        except (CaffeliteError, OSError):
            for each in named_files(layer):
                setattr(each.holder, each.field, "outside the roots")
    return copy


def refuse_resume(config: ServeConfig, folder: Path) -> None:
    """Refuses to resume a run whose configuration, which is a file in its folder, names files outside the roots or
    modules to import."""
    status, run = registry.read(folder), snapshots.config(folder)
    directory = Path(status.working_directory)
    for text in (run.solver, *run.weights, *([run.record] if run.record else [])):
        config.bounds.resolve(text, directory)
    limits.refuse_command(config.bounds, ["train", *run.arguments()], directory)
    for error in limits.refused_run(config.bounds, folder / files.SOLVER, Overrides(), directory):
        raise error
