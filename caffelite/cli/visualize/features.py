"""caffelite visualize features"""

from __future__ import annotations

from pathlib import Path

import click

from .. import options
from ..deploy import read_labels
from ..option_types import field_option
from . import image_options


@click.command(short_help="Features of many samples in two dimensions")
@options.model
@field_option("weights", required=True, help="caffemodels of the net.")
@click.option("--blob", required=True, metavar="NAME", help="The blob whose values are the features, as ip1.")
@click.option(
    "--method",
    type=click.Choice(["tsne", "pca"]),
    default="tsne",
    show_default=True,
    help="t-SNE keeps neighbours together; PCA keeps distances along the two directions of greatest variance.",
)
@click.option(
    "--samples", type=click.IntRange(min=3), metavar="N", default=1000, show_default=True, help="Project N samples."
)
@click.option(
    "--labels", metavar="FILE", type=click.Path(path_type=Path), help="Names of the classes, one on each line."
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="The seed of t-SNE."
)
@options.gpu
@options.python
@options.set_layers
@options.level
@options.stage
@options.phase
@image_options.out
def features(model, weights, blob, method, samples, labels, seed, gpu, set_fields, level, stage, phase, out) -> None:
    """Draws the features that a net computes for its data in two dimensions, one colour a class (extra: features).

    The net runs in phase TEST with the data that it names, as in caffelite test.

    \b
    Examples:
      caffelite visualize features -model models/lenet/train_val.prototxt -weights a.caffemodel -blob ip1 -out ip1.png
      caffelite visualize features -model net.prototxt -weights net.caffemodel -blob fc7 -method pca -out fc7.svg
    """
    from ...runs.open_net import load_weights
    from ...visualize import features as projection
    from ...visualize import pictures
    from ..logs import start
    from ..net_options import open_net

    form = options.picture_form(out, "pdf")
    names = read_labels(labels) if labels else []
    start()
    net = open_net(model, gpu, phase or "TEST", level, stage, None, True, set_fields)
    try:
        load_weights(net, weights)
        found = projection.collect(net, blob, samples)
    finally:
        net.close()
    points, what = projection.project(found, method, seed)
    title = f"{blob}, {len(points)} samples of {found.rows.shape[1]} features; {what}"
    options.write_picture(out, pictures.points(points, found.labels, names, form, title))
