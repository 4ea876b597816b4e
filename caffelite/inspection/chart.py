"""A run's schedule as a chart, by matplotlib."""

from __future__ import annotations

import io

from ..errors import missing_extra
from .schedule import Run

INK, GRID, RATE, TEST, SAVE = "#1f2933", "#e4e7eb", "#2b6cb0", "#38a169", "#c05621"


def chart(run: Run, form: str) -> bytes:
    """The rate over the iterations, tests and snapshots below it, epochs above; form: svg or png."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot", "a chart") from None
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure = Figure((9, 4.6), dpi=160, layout="constrained")
    axes, marks = figure.subplots(2, 1, sharex=True, height_ratios=(6, 1))
    x, y = zip(*run.curve, strict=True)
    stepped = run.policy in ("fixed", "step", "multistep", "multifixed", "plateau")
    axes.plot(x, y, color=RATE, linewidth=2, drawstyle="steps-post" if stepped and len(x) < run.iterations else "default")
    positive = [value for value in y if value > 0]
    if positive and max(y) / min(positive) > 30:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, max(y) * 1.08 or 1)
    axes.set_xlim(0, run.iterations)
    axes.set_ylabel("learning rate", color=INK)
    axes.set_title(f"{run.rule}, {run.policy}: {run.solver}", loc="left", color=INK, fontsize=11, fontweight="bold", parse_math=False)
    axes.grid(color=GRID)
    for row, (name, places, colour) in enumerate((("tests", run.tests, TEST), ("snapshots", run.snapshots, SAVE))):
        marks.plot(places, [row] * len(places), "|", color=colour, markersize=11, markeredgewidth=1.4)
        marks.text(1.005, 1 - (row + 0.5) / 2, f"{len(places)} {name}", transform=marks.transAxes, color=colour, va="center", fontsize=9)
    marks.set_ylim(1.5, -0.5)
    marks.set_yticks([])
    marks.set_xlabel("iteration", color=INK)
    marks.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    marks.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for each in (axes, marks):
        each.set_axisbelow(True)
        each.tick_params(which="both", colors=INK, length=0)
        for side in each.spines.values():
            side.set_visible(False)
    if run.epochs:
        per = run.epochs / run.iterations
        above = axes.secondary_xaxis("top", functions=(lambda i: i * per, lambda e: e / per))
        above.set_xlabel("epoch", color=INK)
        above.tick_params(colors=INK, length=0)
        above.spines["top"].set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()
