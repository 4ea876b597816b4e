"""`caffelite visualize`: draws what a net has learned. Each picture is a file here."""

from __future__ import annotations

import click

from .. import Commands

COMMANDS = ("filters", "activations", "saliency", "gradcam", "features", "parameters")


@click.group(cls=Commands, package=__name__, groups={"Commands": COMMANDS}, short_help="Draw what a net has learned")
def visualize() -> None:
    """Draws what a net has learned: filters, activations, the pixels that an answer depends on, features, parameters.

    The name of the picture decides its format: .png, .pdf or .svg. All pictures need matplotlib (extra: plot).

    \b
    Example:
      caffelite visualize filters -weights lenet_iter_10000.caffemodel -out filters.png
    """
