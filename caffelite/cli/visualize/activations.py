"""caffelite visualize activations"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .. import options
from . import image_options


@click.command(short_help="What a layer computes for an image")
@click.argument("image", metavar="IMAGE", type=click.Path(path_type=Path))
@image_options.deploy_net
@click.option("--layer", metavar="NAME", help="The layer. Default: the first convolution.")
@click.option(
    "--most", type=click.IntRange(min=1), metavar="N", default=64, show_default=True, help="Draw at most N channels."
)
@image_options.out
def activations(image: Path, net: Callable, layer: str | None, most: int, out: Path) -> None:
    """Draws the output of a layer for an image, a map for each channel, all on one scale.

    \b
    Examples:
      caffelite visualize activations seven.png -model digits.prototxt -out conv1.png
      caffelite visualize activations seven.png -model digits.prototxt -layer pool2 -out pool2.svg
    """
    from ...visualize import pictures

    form = options.picture_form(out, "pdf")
    opened = net()
    nodes = opened.net.graph.nodes
    name = layer or next((n.name for n in nodes if n.layer.spec.type == "Convolution"), nodes[-1].name)
    value = opened.top(name)
    picture = opened.picture(image)
    opened.scores(picture.input)
    options.write_picture(out, pictures.activations(name, opened.values(value), picture, form, most))
