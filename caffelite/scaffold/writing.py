"""Writes the files of a project."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from .. import caffelite_pb2 as pb
from .. import data as data_package
from .. import prototxt
from ..data.samples import DataSource
from ..data.writers import atomic
from ..deploy.convert import convert
from ..deploy.prepare import describe
from ..errors import quoted
from ..net import graph
from ..training import nets
from . import comments, files
from .dataset import CLASSES, LABELS, NUMBERS, Dataset, Part

ANSWERS = {
    CLASSES: pb.DeployParameter.CLASSES,
    LABELS: pb.DeployParameter.LABELS,
    NUMBERS: pb.DeployParameter.NUMBERS,
}


def texts(
    folder: Path, data: Dataset, train: Part, test: Part, run: files.Run, net: str, decisions: list[str]
) -> dict[str, str]:
    """The project's text files by name, but for the deploy net. net: the text of the train and test net."""
    lists = {}
    if train.database is None:
        lists = {
            list_name(part, name): files.list_text(part, data.names)
            for name, part in (("train", train), ("test", test))
        }
    return lists | {
        files.NAMES: "".join(f"{name}\n" for name in data.names),
        files.NET: net,
        files.README: files.readme_text(folder, decisions, following(folder, data, test, run), run.seed),
        files.SOLVER: files.solver_text(folder, run),
    }


def list_name(part: Part, name: str) -> str:
    return f"{name}.{'txt' if part.values is None else 'csv'}"


def following(folder: Path, data: Dataset, test: Part, run: files.Run) -> list[tuple[str, str]]:
    """(command, what it does) of what to do next."""
    listed = None if test.database else folder / list_name(test, "test")
    example = test.listed[0].name if test.listed else "IMAGE"
    return files.commands(folder, run.schedule.iterations, data.task, listed, example)


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes text files."""
    for name, text in texts.items():
        with atomic(folder / name) as unfinished:
            unfinished.write_text(text, errors="surrogateescape")


def write_deploy(folder: Path, data: Dataset, run: files.Run) -> None:
    """The net for new images, of the net in the folder: what the images of its data look like is measured."""
    document = prototxt.read_net(folder / files.NET)
    state = nets.state(pb.TEST, document.message, None, None, ())
    found = graph.build(document.message, state, document.locate, functools.partial(data_package.open_source, seed=0))
    source: DataSource = found.feeds[0].layer.source
    try:
        made = convert(found, ["numbers"] if data.task == NUMBERS else []).message
        how = made.deploy_param
        describe(how, source, found.values["data"].shape[1:2], "BGR")
        size = getattr(source.samples, "size", (0, 0))
        if all(size) and size != tuple(source.shapes[0][2:]):
            how.height, how.width = size
    finally:
        source.close()
    made.name = run.name
    how.label.extend(data.names)
    how.weights = f"{folder.name}_iter_{run.schedule.iterations}.caffemodel"
    how.answer = ANSWERS[data.task]
    head = (
        f"Net for new images: caffelite classify -model {quoted((folder / files.DEPLOY).as_posix())} IMAGE. "
        "deploy_param names the weights that the run writes at its end, the outputs, and how images are "
        "prepared. For Caffe, leave deploy_param out."
    )
    with atomic(folder / files.DEPLOY) as unfinished:
        unfinished.write_text("\n".join([*comments.wrapped(head), comments.plain(made)]))
