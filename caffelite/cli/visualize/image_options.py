"""Options of the commands that explain a deploy net's answer to images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import options
from ..option_types import field_option

if TYPE_CHECKING:
    from ...visualize.explained import ExplainedNet, Picture

out = click.option(
    "--out", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The picture: .png, .pdf or .svg."
)
model = click.option(
    "--model", required=True, metavar="FILE", type=click.Path(), help="A deploy net, as caffelite deploy writes it."
)
weights = field_option("weights", help="caffemodels. Default: the one that the deploy net names.")
images = click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
classes = click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS",
    help="Explain this class, a label or a number; repeatable. Default: the best answer of each image.",
)
top = click.option(
    "--top",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    default=1,
    show_default=True,
    help="Explain the best N answers.",
)


def deploy_net(command: Callable) -> Callable:
    """-model, -weights, -gpu and -python, which the command takes as ``net``, a function that opens an ExplainedNet."""

    @functools.wraps(command)
    def call(*arguments: Any, model: str, weights: tuple[str, ...], gpu: str | None, **others: Any) -> None:
        command(*arguments, net=functools.partial(_open, model, weights, gpu), **others)

    return model(weights(options.gpu(options.python(call))))


def _open(model: str, weights: tuple[str, ...], gpu: str | None) -> ExplainedNet:
    from ... import prototxt
    from ...layers import unknown_types
    from ...runs.device_choice import open_device
    from ...visualize.explained import ExplainedNet

    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    return ExplainedNet(document, open_device(gpu), weights)


def pictures(net: ExplainedNet, names: tuple[str, ...]) -> list[Picture]:
    """The images that files, folders and patterns name."""
    import glob

    from ...deploy.classify import gather

    return [net.picture(file) for file in gather(list(names), glob.glob)]


def explained_classes(
    net: ExplainedNet, picture: Picture, classes: tuple[str, ...], count: int
) -> list[tuple[int, str]]:
    """(class, caption) of what is explained in a picture."""
    import numpy as np

    from ...visualize.explained import probabilities

    scores = net.scores(picture.input)
    chances = probabilities(scores)
    numbers = [net.class_number(text) for text in classes] or np.argsort(-scores, kind="stable")[:count].tolist()
    return [(number, f"{net.labels[number]} ({chances[number]:.1%})") for number in numbers]
