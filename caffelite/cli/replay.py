"""caffelite replay"""

import sys
from pathlib import Path

import click

from . import options
from .logs import start
from .output import say


@click.command(short_help="Repeat the iteration that ended a run")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.gpu
@options.code
@click.option("--all", "everything", is_flag=True, help="Continue after the first array that is not finite.")
@options.as_json
def replay(folder, gpu, everything, as_json) -> None:
    """Repeats the iteration that ended a run with a NaN or infinity, layer by layer, from the bundle that the run
    wrote.

    Each row is an array: minimum, maximum and mean absolute value of its finite numbers, and how many are NaN or
    infinite. The exit status is 1 if one is.

    \b
    Example:
      caffelite replay lenet_fault_iter_120
    """
    start()
    from ..runs.open_net import open_device
    from ..training.diagnosis.replay import replay as run

    arrays, first = [], None
    for one in run(folder, open_device(gpu)):
        first = first or (one if one.bad else None)
        arrays.append(one)
        if first and not everything:
            break
    if as_json:
        options.print_json({"first": first and first.record(), "arrays": [one.record() for one in arrays]})
    else:
        say(_table(arrays))
        text = "all of it is finite: the fault does not come again on this device"
        if first:
            text = f'first not finite, in {first.direction}: layer "{first.layer}" ({first.type}), {first.what}'
        say(text)
    sys.exit(1 if first else 0)


def _table(arrays: list) -> str:
    rows = [("", "layer", "array", "shape", "least", "greatest", "mean |x|", "NaN", "infinite")]
    for one in arrays:
        statistics = [f"{value:.4g}" for value in (one.least, one.greatest, one.mean_abs)]
        counts = [str(count or "") for count in (one.nans, one.infinities)]
        rows.append((one.direction, one.layer, one.what, "×".join(map(str, one.shape)) or "1", *statistics, *counts))
    return options.aligned(rows, left=range(4))
