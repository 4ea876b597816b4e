"""caffelite reproduce"""

import sys
from pathlib import Path

import click

from . import options
from .logs import start
from .output import say


@click.command(short_help="Repeat a recorded run and compare")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.gpu
@options.code
@options.iterations("Compare N iterations. Default: all recorded ones.")
def reproduce(folder, gpu, iterations) -> None:
    """Repeats a recorded run, and reports the first iteration whose loss or test score is not equal to the last bit.

    DIR is the run folder. Nothing is written. The exit status is 1 if a number differs.

    \b
    Example:
      caffelite reproduce lenet_run
    """
    start()
    from ..runs import reproduce as repeated

    comparison, done = repeated.reproduce(folder, gpu, iterations)
    if comparison.differs:
        iteration, what, recorded, computed = comparison.differs
        say(f"differs first at iteration {iteration}: {what} is {computed:.9g}, was {recorded:.9g}")
        sys.exit(1)
    say(f"the same to the last bit: {comparison.compared} losses and scores of {done} iterations")
