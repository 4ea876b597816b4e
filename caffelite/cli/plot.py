"""caffelite plot"""

import time

import click

from . import options
from .options import FiniteRange
from .output import say


@click.command(short_help="Draw loss, scores and rate of runs")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.file_option("--out", help="The picture, .svg, .png or .pdf. Default: SVG on standard output.")
@click.option("--title", metavar="TEXT", help="The title. Default: the name of the run, or the number of runs.")
@options.choice_option("--over", choices=["iteration", "seconds"], help="The horizontal axis.", default="iteration")
@click.option(
    "--watch", type=FiniteRange(0.1, 1e9), metavar="SECONDS", help="Draw again at this interval, until Ctrl-C."
)
def plot(runs, out, title, over, watch) -> None:
    """Draws loss, scores and learning rate of runs, also of live ones. RUN is a run folder, or a log of caffelite or
    Caffe.

    \b
    Examples:
      caffelite plot lenet_run -out lenet.png
      caffelite plot lenet_run caffe.log -out both.svg -over seconds
      caffelite plot lenet_run -out lenet.png -watch 10
      caffelite plot one_run two_run -title "with and without dropout" -out both.pdf
    """
    from ..runs import history
    from ..runs.history import read
    from ..runs.picture import picture

    form = options.picture_form(out, "pdf") if out else "svg"
    if watch and not out:
        raise click.UsageError("-watch needs -out, a file to draw again and again")
    while True:
        body = picture([read(run, history.CHART_PLACES) for run in runs], form, over, title)
        if out:
            options.write_picture(out, body)
        else:
            say(body.decode(), nl=False)
        if not watch:
            return
        time.sleep(watch)
