"""caffelite draw"""

import click

from . import options
from .output import say


@click.command(short_help="Draw a net")
@options.net_or_solver
@options.file_option("--out", help="The picture, .svg or .png. Default: SVG on standard output.")
@options.inspected
@options.split
@options.rare_collection()
def draw(model, solver, out, shape, set_fields, phase, level, stage, split) -> None:
    """Draws a net: layers colored by kind, shapes on the edges. Nothing is run, no data is needed.

    A layer that works in place is drawn on the one that it changes. SVG needs no extra; PNG needs matplotlib
    (extra: plot). Of a net with both phases, TRAIN is drawn. Layers that cannot be built, such as those of unknown
    types, are left out and reported, and unknown fields are ignored and reported; the exit status is then 1.
    With -split layers are colored by the stage that runs them, and divided layers are marked.

    \b
    Examples:
      caffelite draw -model models/googlenet/train_val.prototxt -out googlenet.svg
      caffelite draw -model models/lenet/train_val.prototxt -phase TEST -out lenet.png
      caffelite draw -model models/alexnet/train_val.prototxt -split stages=2,shards=2 -out alexnet.svg
    """
    from ..inspection import nets, picture, scene
    from ..inspection.feeds import parse_shapes
    from ..inspection.split import placement_of
    from ..prototxt.overrides import Overrides

    form = options.picture_form(out) if out else "svg"
    chosen, changes = options.one_of(model, solver), Overrides(set_fields)
    subject = nets.inspected_net(model, chosen, parse_shapes(shape), level, stage, changes, lenient=True, either=True)
    graph, guessed, wrong = subject.buildable(nets.phases(phase, subject.message)[0])
    drawn = picture.picture(graph, placement_of(graph, split) if split else None)
    for note in guessed:
        say(f"Data is missing: {note}", err=True)
    body = scene.png(drawn) if form == "png" else scene.svg(drawn).encode()
    if out:
        options.write_picture(out, body)
    else:
        say(body.decode(), nl=False)
    options.left_out(wrong, subject.ignored)
