"""caffelite visualize saliency"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .. import options
from . import image_options


@click.command(short_help="The pixels that an answer depends on")
@image_options.images
@image_options.deploy_net
@image_options.classes
@image_options.top
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    default=16,
    show_default=True,
    help="Average over N copies of the image with noise (SmoothGrad); 1: the gradient of the image itself.",
)
@image_options.out
def saliency(
    images: tuple[str, ...], net: Callable, classes: tuple[str, ...], count: int, samples: int, out: Path
) -> None:
    """Draws how much the score of a class changes with each pixel: the magnitude of the gradient, next to the image.

    \b
    Examples:
      caffelite visualize saliency cat.jpg -model caffenet.prototxt -out cat.png
      caffelite visualize saliency digits/ -model digits.prototxt -class 7 -class 1 -out sevens.pdf
    """
    from ...visualize import attribution, pictures

    form = options.picture_form(out, "pdf")
    opened, rows = net(), []
    for picture in image_options.pictures(opened, images):
        wanted = image_options.explained_classes(opened, picture, classes, count)
        found = [(text, attribution.saliency(opened, picture.input, number, samples)) for number, text in wanted]
        rows.append((picture, found))
    options.write_picture(out, pictures.maps(rows, form, "Saliency", overlay=False))
