"""caffelite visualize gradcam"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .. import options
from . import image_options


@click.command(short_help="The regions that speak for a class")
@image_options.images
@image_options.deploy_net
@image_options.classes
@image_options.top
@click.option("--layer", metavar="NAME", help="The layer with the maps. Default: the last convolution, after its ReLU.")
@image_options.out
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
    from ...errors import CaffeliteError
    from ...visualize import attribution, pictures

    form = options.picture_form(out, "pdf")
    opened, rows = net(), []
    name, value = (layer, opened.top(layer)) if layer else opened.last_map()
    if len(value.shape) != 4:
        found = "×".join(map(str, value.shape))
        raise CaffeliteError(f'layer "{name}" has no maps', expected="N×C×H×W", found=found)
    for picture in image_options.pictures(opened, images):
        wanted = image_options.explained_classes(opened, picture, classes, count)
        rows.append((picture, [(text, attribution.grad_cam(opened, number, value)) for number, text in wanted]))
    options.write_picture(out, pictures.maps(rows, form, f"Grad-CAM, {name}", overlay=True))
