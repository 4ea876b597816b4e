"""`caffelite dataset`: makes data sets, and looks into them. Each command is a file here."""

from __future__ import annotations

import click

from .. import Commands

COMMANDS = ("digits", "mnist", "cifar10", "folder", "blobs", "shapes", "detection", "info", "show")


@click.group(
    cls=Commands, package=__name__, groups={"Commands": COMMANDS}, short_help="Make a data set, or look into one"
)
def dataset() -> None:
    """Makes a data set to train on, or looks into one.

    Example: caffelite dataset digits
    """
