"""caffelite visualize filters"""

from __future__ import annotations

from pathlib import Path

import click

from .. import options
from . import image_options


@click.command(short_help="The filters of a layer")
@click.option("--weights", required=True, metavar="FILE", type=click.Path(), help="A caffemodel.")
@click.option("--layer", metavar="NAME", help="The layer. Default: the first one with filters.")
@click.option(
    "--most", type=click.IntRange(min=1), metavar="N", default=64, show_default=True, help="Draw at most N filters."
)
@click.option(
    "--channel_order",
    type=click.Choice(["bgr", "rgb"], case_sensitive=False),
    default="bgr",
    show_default=True,
    help="The channel order of the net's input, for filters of three channels.",
)
@image_options.out
def filters(weights: str, layer: str | None, most: int, channel_order: str, out: Path) -> None:
    """Draws the filters of a layer from a caffemodel; the weights of an InnerProduct as a matrix.

    Filters of three channels are shown as colours, 0 as gray; others in red (positive) and blue (negative).

    \b
    Examples:
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -out filters.png
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -layer conv2 -out conv2.pdf
    """
    from ...visualize import pictures, snapshots

    form = options.picture_form(out, "pdf")
    name, values = snapshots.filters(weights, layer)
    options.write_picture(out, pictures.filters(name, values, form, most, channel_order.lower() == "bgr"))
