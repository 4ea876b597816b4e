"""`caffelite dataset`: makes data sets, and looks into them."""

import click

from .. import Commands
from .images import detection, folder
from .inspection import info, show
from .known import blobs, cifar10, digits, mnist, motions, shapes, words


@click.group(cls=Commands, short_help="Make a data set, or look into one")
def dataset() -> None:
    """Makes a data set to train on, or looks into one.

    Example: caffelite dataset digits
    """


for command in (digits, mnist, cifar10, folder, blobs, shapes, words, motions, detection, info, show):
    dataset.add_command(command)
