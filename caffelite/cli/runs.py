"""caffelite runs"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..progress import duration
from . import options
from .output import say

if TYPE_CHECKING:
    from ..runs.listing import Comparison, RunSummary

# Those of registry.STATES, and the words of registry.label
STATES = ("queued", "running", "finished", "stopped", "paused", "out of time", "failed", "killed", "crashed")
WIDE = 6  # runs that a comparison shows side by side; more of them get a row each


@click.command(short_help="List training runs, or compare them")
@click.argument("folders", nargs=-1, metavar="[DIR...]")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Only runs in this state; repeatable."
)
@click.option("--net", default="", metavar="TEXT", help="Only runs of nets whose name contains this text.")
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="Only runs with this tag; repeatable.")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only runs that meet a condition on a score, a column or a field as -set names it, with = != < <= > >=: "
    "accuracy>0.9, base_lr=0.01, conv1.convolution_param.num_output>=32; repeatable.",
)
@click.option(
    "--sort",
    metavar="NAME",
    default="started",
    show_default=True,
    help="Sort by started, name, state, net, iteration, seconds, a score or a field; runs without it come last.",
)
@click.option("--reverse", is_flag=True, help="Sort in descending order.")
@options.count_option("--limit", help="Only the first N runs of that order.")
@options.depth
@click.option("--compare", is_flag=True, help="Show the solver and net fields in which the runs differ.")
@options.file_option("--out", help="Draw the curves of the runs in one chart: .svg, .png or .pdf (extra: plot).")
@options.as_json
def runs(folders, states, net, tags, conditions, sort, reverse, limit, depth, compare, out, as_json) -> None:
    """Lists the run folders found in DIR and below it, by default the current folder: state, net, iterations, the
    scores of the last test, training time, start.

    With -compare it shows a table of the fields of solver and net in which the runs differ, with their scores.

    \b
    Examples:
      caffelite runs
      caffelite runs experiments -state finished -where "accuracy>0.98" -sort accuracy -reverse
      caffelite runs lenet_run lenet_run_1 -compare -out both.png
      caffelite runs -json
    """
    from ..runs import listing

    form = options.picture_form(out, "pdf") if out else ""
    every = listing.find(folders or ["."], depth)
    listed = listing.ordered(listing.chosen(every, states, net, conditions, tags), sort, reverse)[:limit]
    compared = listing.compare(listed) if compare else None
    if as_json:
        content = compared.to_json() if compared else [run.to_json() for run in listed]
        options.print_json(content)
    elif compared:
        say(comparison_text(compared))
    elif listed:
        say(list_text(listed))
    else:
        why = f"; none of {len(every)} meets the conditions" if every else ""
        say(f"no run folder was found{why}", err=True)
    if out:
        from ..runs.picture import picture

        options.write_picture(out, picture(listing.histories(listed), form))


def list_text(runs: Sequence[RunSummary]) -> str:
    """The list as aligned columns."""
    from ..runs.history import single

    names = single(name for run in runs for name in run.scores)
    tagged = any(run.notes.tags for run in runs)
    head = ["run", "state", "net", "iteration", *names, "loss" if "loss" not in names else "train loss", "time"]
    rows = []
    for run in runs:
        scores = map(score_text, (*(run.scores.get(name) for name in names), run.loss))
        times = duration(run.seconds), run.status.started[:16].replace("T", " ")
        tags = [", ".join(run.notes.tags)] * tagged
        rows.append([run.name, run.status.label, run.net, _iterations(run), *scores, *times, *tags])
    head += ["started", *["tags"] * tagged]
    return options.aligned([head, *rows], left=(0, 1, 2, *[len(head) - 1] * tagged))


def comparison_text(compared: Comparison) -> str:
    """A row a field and a column a run; with many runs a row a run, without the scores of single classes."""
    from ..runs.history import single

    runs = compared.runs
    every = [name for run in runs for name in run.scores]
    names = single(every) if len(runs) > WIDE else list(dict.fromkeys(every))
    lines = [["", *(run.name for run in runs)]]
    lines += [[each.field, *each.values] for each in compared.fields]
    lines += [["state", *(run.status.label for run in runs)], ["iteration", *map(_iterations, runs)]]
    lines += [[name, *(score_text(run.scores.get(name)) for run in runs)] for name in names]
    lines += [["time", *(duration(run.seconds) for run in runs)]]
    if not compared.fields:
        lines[1:1] = [["no field differs", *[""] * len(runs)]]
    if len(runs) > WIDE:
        lines = [list(column) for column in zip(*lines, strict=True)]
    return options.aligned(lines, left=(0,))


def score_text(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _iterations(run: RunSummary) -> str:
    done = "" if run.status.iteration is None else str(run.status.iteration)
    return f"{done}/{run.max_iterations}" if done and run.max_iterations else done
