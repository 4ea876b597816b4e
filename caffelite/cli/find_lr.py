"""caffelite find_lr"""

import click

from . import options
from .logs import start
from .options import POSITIVE
from .output import say


@click.command("find_lr", short_help="Find a learning rate")
@options.field_option("solver")
@options.gpu
@options.code
@options.weights
@options.set_fields
@options.number_option("--from", "low", help="The first learning rate.", kind=POSITIVE, default=1e-6, metavar="RATE")
@options.number_option("--to", "high", help="The last learning rate.", kind=POSITIVE, default=10.0, metavar="RATE")
@options.iterations("Iterations of the test; more of them make a smoother curve.", 200)
@options.file_option("--out", help="Draw the curve, .svg or .png (extra: plot).")
@options.rules
@options.as_json
def find_lr(solver, gpu, weights, set_fields, low, high, iterations, out, level, stage, as_json) -> None:
    """Finds a learning rate: trains briefly at increasing rates, and looks where the loss falls fastest. Nothing is
    written but the curve.

    \b
    Example:
      caffelite find_lr -solver solvers/lenet_solver.prototxt -out rates.png
    """
    from ..errors import CaffeliteError

    if low >= high:
        raise CaffeliteError("-from must be below -to", found=f"{low:g} and {high:g}")
    form = options.picture_form(out, "pdf") if out else None
    start()
    from ..runs.config import RunConfig
    from ..runs.trial import find_rate

    config = RunConfig(solver, gpus=gpu, weights=weights, overrides=set_fields, level=level, stages=stage)
    curve = find_rate(config, low, high, iterations)
    if as_json:
        content = {"best": curve.best, "rates": curve.rates, "losses": curve.measured, "smoothed": curve.smooth}
        options.print_json(content, indent=None)
    elif curve.best:
        say(
            f"base_lr: {curve.best:.2g}  (the loss falls fastest there; it was followed from {low:g} to "
            f"{curve.rates[-1]:.2g})"
        )
    else:
        say(
            f"the loss never falls between {low:g} and {curve.rates[-1]:.2g}: look at the net, the data and the fillers"
        )
    if out:
        from ..runs.picture import range_test as draw

        options.write_picture(out, draw(curve.rates, curve.measured, curve.smooth, curve.best, form))
