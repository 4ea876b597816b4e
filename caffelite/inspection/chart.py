"""A run's schedule as a chart, by matplotlib."""

from __future__ import annotations

from ..charts import GRID, INK, bare, logarithmic, panels, plain_text, saved, shown
from .schedule import Run

RATE, TEST, SAVE = "#2b6cb0", "#38a169", "#c05621"


@plain_text
def chart(run: Run, form: str) -> bytes:
    """The rate over the iterations, tests and snapshots below it, epochs above; form: svg or png."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, (axes, marks) = panels((9, 4.6), 2, (6, 1), dpi=160)
    x, y = zip(*run.curve, strict=True)
    stepped = run.policy in ("fixed", "step", "multistep", "multifixed", "plateau")
    axes.plot(
        x, y, color=RATE, linewidth=2, drawstyle="steps-post" if stepped and len(x) < run.iterations else "default"
    )
    positive = [value for value in y if value > 0]
    if positive and max(y) / min(positive) > 30:
        axes.set_yscale("log")
        logarithmic(axes.yaxis)
    else:
        axes.set_ylim(0, max(y) * 1.08 or 1)
    axes.set_xlim(0, run.iterations)
    axes.set_ylabel("learning rate", color=INK)
    axes.set_title(
        shown(f"{run.rule}, {run.policy}: {run.solver}"), loc="left", color=INK, fontsize=11, fontweight="bold"
    )
    axes.grid(color=GRID)
    for row, (name, places, colour) in enumerate((("tests", run.tests, TEST), ("snapshots", run.snapshots, SAVE))):
        marks.plot(places, [row] * len(places), "|", color=colour, markersize=11, markeredgewidth=1.4)
        marks.text(
            1.005,
            1 - (row + 0.5) / 2,
            f"{len(places)} {name}",
            transform=marks.transAxes,
            color=colour,
            va="center",
            fontsize=9,
        )
    marks.set_ylim(1.5, -0.5)
    marks.set_yticks([])
    marks.set_xlabel("iteration", color=INK)
    marks.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    marks.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if run.epochs:
        per = run.epochs / run.iterations
        above = axes.secondary_xaxis("top", functions=(lambda i: i * per, lambda e: e / per))
        above.set_xlabel("epoch", color=INK)
        bare(above)
    return saved(figure, form)
