"""caffelite schedule"""

from dataclasses import asdict

import click

from . import options
from .output import say


@click.command(short_help="Show a solver's rates, tests and snapshots")
@options.field_option("solver")
@options.file_option("--out", help="Draw the schedule too: .svg or .png (extra: plot).")
@options.count_option("--samples", help="Size of the training set, to count epochs if the data does not exist.")
@options.count_option(
    "--processes", help="Processes that train together with weak scaling, to count epochs.", default=1
)
@click.option("--forecast", is_flag=True, help="Add the time of the run on this CPU, within a factor of two or three.")
@options.shape
@options.code_if_asked
@options.set_fields
@options.as_json
def schedule(solver, out, samples, processes, forecast, shape, set_fields, as_json) -> None:
    """Shows a solver's schedule without running it: learning rates, epochs, tests and snapshots, as a table and, with
    -out, as a chart.

    \b
    Examples:
      caffelite schedule -solver solvers/lenet_solver.prototxt -samples 60000
      caffelite schedule -solver solvers/resnet50_solver.prototxt -out schedule.svg
    """
    from ..inspection.feeds import parse_shapes
    from ..inspection.schedule import chart, schedule as plan, seconds_of
    from ..prototxt.overrides import Overrides

    form = options.picture_form(out, "pdf") if out else None
    run = plan(solver, parse_shapes(shape), samples, Overrides(set_fields), processes)
    seconds = seconds_of(solver, run, parse_shapes(shape), Overrides(set_fields)) if forecast else None
    if as_json:
        record = asdict(run) | {"epochs": run.epochs} | ({"seconds": seconds} if forecast else {})
        options.print_json({name: value for name, value in record.items() if name != "curve"})
    else:
        say(_text(run))
        if seconds is not None:
            say(f"about {seconds:.3g} s on this CPU, within a factor of two or three")
    if out:
        options.write_picture(out, chart(run, form))


def _text(run) -> str:
    batch = f" of {run.batch:,} samples" if run.batch else ""
    epochs = f": {run.epochs:.4g} epochs of {run.samples:,}" if run.epochs else ""
    rows = [("iteration", "epoch", "rate", "")]
    for moment in run.moments:
        epoch = "" if moment.epoch is None else f"{moment.epoch:.2f}"
        rows.append((f"{moment.iteration:,}", epoch, f"{moment.rate:.6g}", moment.what))
    head = f"{run.rule}, lr_policy {run.policy}, {run.iterations:,} iterations{batch}{epochs}"
    return "\n".join([head, *run.fields, "", options.aligned(rows, left=(3,)), "", *_events(run)])


def _events(run) -> list[str]:
    tests = "no tests"
    if run.tests:
        batches = " and ".join(map(str, run.test_iterations))
        tests = f"{len(run.tests)} tests of {batches} batches: {_moments(run.tests)}"
    saved, count = "no snapshots", len(run.snapshots)
    if count:
        saved = f"{count} snapshot{'s' * (count > 1)}, {run.prefix}_iter_N: {_moments(run.snapshots)}"
    return [tests, saved, *run.notes]


def _moments(moments: list[int]) -> str:
    """0, 500, 1,000 … 10,000"""
    shown = [f"{i:,}" for i in moments]
    return ", ".join(shown) if len(shown) < 6 else f"{', '.join(shown[:3])} … {shown[-1]}"
