"""`caffelite visualize`: draws what a net has learned."""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import CaffeliteError
from . import Commands, options
from .logs import start
from .options import field_option, open_named_net

if TYPE_CHECKING:
    from ..visualize.explained import ExplainedNet, Picture


@click.group(cls=Commands, short_help="Draw what a net has learned")
def visualize() -> None:
    """Draws what a net has learned: filters, activations, the pixels that an answer depends on, features, parameters.

    The name of the picture decides its format: .png, .pdf or .svg. All pictures need matplotlib (extra: plot).

    \b
    Example:
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -out filters.png
    """


_out = options.file_option("--out", help="The picture: .png, .pdf or .svg.", required=True)
_weights = field_option("weights", help="caffemodels. Default: the one that the deploy net names.")
_images = click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
_classes = click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="CLASS",
    help="Explain this class, a label or a number; repeatable. Default: the best answer of each image.",
)
_top = options.count_option("--top", "count", help="Explain the best N answers.", default=1)


def _most(what: str) -> Callable:
    return options.count_option("--most", help=f"Draw at most N {what}.", default=64)


def _deploy_net(command: Callable) -> Callable:
    """-model, -weights, -gpu and -python, which the command takes as ``net``, a function that opens an ExplainedNet."""

    @functools.wraps(command)
    def call(*arguments: Any, model: str, weights: tuple[str, ...], gpu: str | None, **others: Any) -> None:
        command(*arguments, net=functools.partial(_open, model, weights, gpu), **others)

    return options.deploy_net(_weights(options.gpu(options.code(call))))


@visualize.command(short_help="The filters of a layer")
@click.option("--weights", required=True, metavar="FILE", type=click.Path(), help="A caffemodel.")
@click.option("--layer", metavar="NAME", help="The layer. Default: the first one with filters.")
@_most("filters")
@options.choice_option(
    "--channel_order",
    choices=["bgr", "rgb"],
    help="The channel order of the net's input, for filters of three channels.",
    default="bgr",
    case_sensitive=False,
)
@_out
def filters(weights: str, layer: str | None, most: int, channel_order: str, out: Path) -> None:
    """Draws the filters of a layer from a caffemodel; the weights of an InnerProduct as a matrix.

    Filters of three channels are shown as colors, 0 as gray; others in red (positive) and blue (negative).

    \b
    Examples:
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -out filters.png
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -layer conv2 -out conv2.pdf
    """
    from ..visualize import pictures, snapshots

    form = options.picture_form(out, "pdf")
    name, values = snapshots.filters(weights, layer)
    options.write_picture(out, pictures.filters(name, values, form, most, channel_order.lower() == "bgr"))


@visualize.command(short_help="What a layer computes for an image")
@click.argument("image", metavar="IMAGE", type=click.Path(path_type=Path))
@_deploy_net
@click.option("--layer", metavar="NAME", help="The layer. Default: the first convolution.")
@_most("channels")
@_out
def activations(image: Path, net: Callable, layer: str | None, most: int, out: Path) -> None:
    """Draws the output of a layer for an image, a map for each channel, all on one scale.

    \b
    Examples:
      caffelite visualize activations seven.png -model digits.prototxt -out conv1.png
      caffelite visualize activations seven.png -model digits.prototxt -layer pool2 -out pool2.svg
    """
    from ..visualize import pictures

    form = options.picture_form(out, "pdf")
    opened = net()
    nodes = opened.net.graph.nodes
    name = layer or next((n.name for n in nodes if n.layer.spec.type == "Convolution"), nodes[-1].name)
    value = opened.top(name)
    picture = opened.picture(image)
    opened.scores(picture.input)
    options.write_picture(out, pictures.activations(name, opened.values(value), picture, form, most))


@visualize.command(short_help="The pixels that an answer depends on")
@_images
@_deploy_net
@_classes
@_top
@options.count_option(
    "--samples",
    help="Average over N copies of the image with noise (SmoothGrad); 1: the gradient of the image itself.",
    default=16,
)
@_out
def saliency(
    images: tuple[str, ...], net: Callable, classes: tuple[str, ...], count: int, samples: int, out: Path
) -> None:
    """Draws how much the score of a class changes with each pixel: the magnitude of the gradient, next to the image.

    \b
    Examples:
      caffelite visualize saliency cat.jpg -model caffenet.prototxt -out cat.png
      caffelite visualize saliency digits/ -model digits.prototxt -class 7 -class 1 -out sevens.pdf
    """
    from ..visualize import pictures

    form = options.picture_form(out, "pdf")
    opened, rows = net(), []
    for picture in _pictures(opened, images):
        wanted = _explained_classes(opened, picture, classes, count)
        maps = [(text, opened.saliency(picture.input, number, samples)) for number, text in wanted]
        rows.append((picture, maps))
    options.write_picture(out, pictures.maps(rows, form, "Saliency", overlay=False))


@visualize.command(short_help="The regions that speak for a class")
@_images
@_deploy_net
@_classes
@_top
@click.option("--layer", metavar="NAME", help="The layer with the maps. Default: the last convolution, after its ReLU.")
@_out
def gradcam(
    images: tuple[str, ...], net: Callable, classes: tuple[str, ...], count: int, layer: str | None, out: Path
) -> None:
    """Draws Grad-CAM over images: the regions that raise the score of a class, red where they do most.

    The channels of a convolution are weighted with the mean gradient of the score, summed, and cut at 0.

    \b
    Examples:
      caffelite visualize gradcam cat.jpg -model caffenet.prototxt -out cat.png
      caffelite visualize gradcam photos/ -model squeezenet.prototxt -top 3 -layer fire9/concat -out photos.pdf
    """
    from ..visualize import pictures

    form = options.picture_form(out, "pdf")
    opened, rows = net(), []
    name, value = (layer, opened.top(layer)) if layer else opened.last_map()
    if len(value.shape) != 4:
        shape = "×".join(map(str, value.shape))
        raise CaffeliteError(f'layer "{name}" has no maps', expected="N×C×H×W", found=shape)
    for picture in _pictures(opened, images):
        wanted = _explained_classes(opened, picture, classes, count)
        rows.append((picture, [(text, opened.grad_cam(number, value)) for number, text in wanted]))
    options.write_picture(out, pictures.maps(rows, form, f"Grad-CAM, {name}", overlay=True))


@visualize.command(short_help="Features of many samples in two dimensions")
@options.model
@field_option("weights", required=True, help="caffemodels of the net.")
@click.option("--blob", required=True, metavar="NAME", help="The blob whose values are the features, as ip1.")
@options.choice_option(
    "--method",
    choices=["tsne", "pca"],
    help="t-SNE keeps neighbors together; PCA keeps distances along the two directions of greatest variance.",
    default="tsne",
)
@options.count_option("--samples", help="Project N samples.", default=1000, least=3)
@options.file_option("--labels", help="Names of the classes, one on each line.")
@options.count_option("--seed", help="The seed of t-SNE.", default=0, least=0)
@options.gpu
@options.code
@options.set_layers
@options.rules
@options.phase
@_out
def features(model, weights, blob, method, samples, labels, seed, gpu, set_fields, level, stage, phase, out) -> None:
    """Draws the features that a net computes for its data in two dimensions, one color a class (extra: features).

    The net runs in phase TEST with the data that it names, as in caffelite test.

    \b
    Examples:
      caffelite visualize features -model models/lenet/train_val.prototxt -weights a.caffemodel -blob ip1 -out ip1.png
      caffelite visualize features -model net.prototxt -weights net.caffemodel -blob fc7 -method pca -out fc7.svg
    """
    from ..data import class_names
    from ..runs.open_net import load_weights
    from ..visualize import features as projection, pictures

    form = options.picture_form(out, "pdf")
    names = class_names.read(labels) if labels else []
    start()
    with closing(open_named_net(model, gpu, phase or "TEST", level, stage, None, True, set_fields)) as net:
        load_weights(net, weights)
        collected = projection.collect(net, blob, samples)
    points, what = projection.project(collected, method, seed)
    title = f"{blob}, {len(points)} samples of {collected.rows.shape[1]} features; {what}"
    options.write_picture(out, pictures.points(points, collected.labels, names, form, title))


def _models(path: Path) -> list[Path]:
    """The models of the snapshots of a run folder, or the one that is named. Errors: the run has none."""
    from ..runs import snapshots

    if not path.is_dir():
        return [path]
    models = [model for _, model in snapshots.models(path)]
    if not models:
        expected, remedy = f"{snapshots.prefix(path)}_iter_N.caffemodel", "set snapshot, or name the caffemodels"
        raise CaffeliteError(f"no snapshots of {path}", expected=expected, remedy=remedy)
    return models


@visualize.command(short_help="Histograms of parameters over snapshots")
@click.argument("snapshots", nargs=-1, required=True, metavar="RUN|CAFFEMODEL...")
@click.option("--layer", "layers", multiple=True, metavar="NAME", help="Only this layer; repeatable. Default: all.")
@options.count_option("--blob", help="The number of the parameter: 0, the weights; 1, the bias.", default=0, least=0)
@_out
def parameters(snapshots: tuple[str, ...], layers: tuple[str, ...], blob: int, out: Path) -> None:
    """Draws the distribution of each layer's parameters over the snapshots of a run, the first at the back.

    RUN is a run folder; its snapshots are found by the snapshot_prefix in it.

    \b
    Examples:
      caffelite visualize parameters lenet_run -out weights.png
      caffelite visualize parameters net_iter_50.caffemodel net_iter_90.caffemodel -layer ip1 -blob 1 -out bias.svg
    """
    from ..visualize import pictures, snapshots as records

    form = options.picture_form(out, "pdf")
    paths = [path for name in snapshots for path in _models(Path(name))]
    read = records.load_snapshots(records.in_order(paths))
    histories = records.parameter_history(read, layers, blob)
    what = ("weights", "biases")[blob] if blob < 2 else f"parameter {blob}"
    options.write_picture(out, pictures.histograms(histories, form, f"{what} in {len(read)} snapshots, by iteration"))


def _open(model: str, weights: tuple[str, ...], gpu: str | None) -> ExplainedNet:
    from .. import prototxt
    from ..layers.base import unknown_types
    from ..runs.open_net import open_device
    from ..visualize.explained import ExplainedNet

    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    return ExplainedNet(document, open_device(gpu), weights)


def _pictures(net: ExplainedNet, names: tuple[str, ...]) -> list[Picture]:
    """The images that files, folders and patterns name."""
    from ..deploy.classify import gather

    return [net.picture(file) for file in gather(list(names), glob.glob)]


def _explained_classes(
    net: ExplainedNet, picture: Picture, classes: tuple[str, ...], count: int
) -> list[tuple[int, str]]:
    """(class, caption) of what is explained in a picture."""
    import numpy as np

    from ..visualize.explained import probabilities

    scores = net.scores(picture.input)
    chances = probabilities(scores)
    indices = [net.class_number(text) for text in classes] or np.argsort(-scores, kind="stable")[:count].tolist()
    return [(number, f"{net.labels[number]} ({chances[number]:.1%})") for number in indices]
