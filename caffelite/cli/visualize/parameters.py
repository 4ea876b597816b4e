"""caffelite visualize parameters"""

from __future__ import annotations

from pathlib import Path

import click

from .. import options
from . import image_options


@click.command(short_help="Histograms of parameters over snapshots")
@click.argument("snapshots", nargs=-1, required=True, metavar="RUN|CAFFEMODEL...")
@click.option("--layer", "layers", multiple=True, metavar="NAME", help="Only this layer; repeatable. Default: all.")
@click.option(
    "--blob",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="The number of the parameter: 0, the weights; 1, the bias.",
)
@image_options.out
def parameters(snapshots: tuple[str, ...], layers: tuple[str, ...], blob: int, out: Path) -> None:
    """Draws the distribution of each layer's parameters over the snapshots of a run, the first at the back.

    RUN is a run folder; its snapshots are found by the snapshot_prefix in it.

    \b
    Examples:
      caffelite visualize parameters lenet_run -out weights.png
      caffelite visualize parameters net_iter_50.caffemodel net_iter_90.caffemodel -layer ip1 -blob 1 -out bias.svg
    """
    from ...visualize import pictures
    from ...visualize import snapshots as records

    form = options.picture_form(out, "pdf")
    read = records.read(records.find(snapshots))
    found = records.values(read, layers, blob)
    what = ("weights", "biases")[blob] if blob < 2 else f"parameter {blob}"
    options.write_picture(out, pictures.histograms(found, form, f"{what} in {len(read)} snapshots, by iteration"))
