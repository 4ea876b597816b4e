"""The curves of one or several runs, drawn by matplotlib: losses, scores, rate."""

import math
from collections.abc import Sequence
from typing import Any

from .. import charts
from ..charts import GRID, INK, logarithmic, panels, plain_text, saved, shown
from .class_scores import columns, labels, lowest
from .history import History, Row, is_loss, output_of, single

COLORS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#b83280", "#975a16", "#0987a0", "#e53e3e")
LABEL_GAP = 10.0  # minimum distance between the values at the ends of curves, in points
Curves = list[tuple[int, int | None, list[Row]]]  # number of the run, test net, rows
LOG_SPAN = 30  # ratio of maximum to minimum above which an axis is logarithmic


@plain_text
def picture(runs: Sequence[History], form: str, over: str = "iteration", title: str | None = None) -> bytes:
    """A panel a quantity, all runs in each, one color a run: training is a line, a test a line with points. form: svg,
    png or pdf.

    The scores of classes are one panel with a color a class, of one run alone; of many classes the lowest are drawn.
    title: by default the run's name, or how many there are.
    """
    panels_by_name = _panels(runs)
    figure, axes = frame([3.0 if name != "rate" else 1.4 for name in panels_by_name])
    ends: list[tuple] = []
    for axis, (name, curves) in zip(axes, panels_by_name.items(), strict=True):
        if any(name in row.values or name == "rate" for _, _, rows in curves for row in rows):
            ends += _draw(axis, runs, name, curves, over)
        else:
            _draw_classes(axis, runs[0], name, curves, over)
    figure.align_ylabels()
    axes[-1].set_xlabel(over if over == "iteration" else "seconds", color=INK)
    charts.title(axes[0], title if title is not None else runs[0].name if len(runs) == 1 else f"{len(runs)} runs")
    _tell_last(figure, ends)
    return saved(figure, form)


def _draw(axis, runs: Sequence[History], name: str, curves: Curves, over: str) -> list[tuple]:
    """Draws the curves of one quantity; the ends of those of tests."""
    ends: list[tuple] = []
    for number, net, rows in curves:
        x = [getattr(row, over) for row in rows]
        y = [_value(row, name) for row in rows]
        color = COLORS[(number if len(runs) > 1 else bool(net is not None)) % len(COLORS)]
        style: dict[str, Any] = {"linewidth": 1.2} if net is None else _test_style(rows)
        if name == "rate":
            style = {"linewidth": 1.6, "drawstyle": "steps-post"}  # a rate holds until the next one
        elif net is None and any(n is not None for _, n, _ in curves):
            style["alpha"] = 0.7
        axis.plot(x, y, color=color, label=shown(_label(runs, number, net, name)), **style)
        if net is not None and len(rows) > 1 and name != "rate" and math.isfinite(y[-1]):
            ends.append((axis, x[-1], y[-1], color))
    values = [_value(row, name) for _, _, rows in curves for row in rows]
    top = math.inf if name == "rate" else charts.limit(values)
    if (name == "rate" or is_loss(name)) and _scale(axis, [value for value in values if value <= top]):
        top = math.inf  # a logarithmic axis has room for all
    _mark_outliers(axis, [(getattr(row, over), _value(row, name)) for _, _, rows in curves for row in rows], top)
    axis.set_ylabel("learning rate" if name == "rate" else shown(name), color=INK)
    if name != "rate" and (len(curves) > 1 or len(runs) > 1):
        axis.legend(frameon=False, fontsize=8.5, labelcolor=INK, ncols=2 if len(curves) > 4 else 1)
    return ends


def _draw_classes(axis, run: History, output: str, curves: Curves, over: str) -> None:
    """Draws the score of each class, of many classes the lowest."""
    for _, _, rows in curves:
        values = columns(rows)[output]
        count = values.shape[1]
        chosen = lowest(values)
        names = labels(run.folder, count) if run.folder else list(map(str, range(count)))
        x = [getattr(row, over) for row in rows]
        for index, color in zip(chosen, COLORS, strict=False):
            axis.plot(x, values[:, index], color=color, label=charts.short(names[index]), **_test_style(rows))
        few = f"\nlowest {len(chosen)} of {count}" if len(chosen) < count else ""
        axis.set_ylabel(shown(output) + few, color=INK)
    axis.legend(frameon=False, fontsize=8.5, labelcolor=INK, ncols=4)


def _test_style(rows: Sequence[Row]) -> dict[str, Any]:
    return {"marker": "o", "markersize": 3 if len(rows) > 60 else 4.5, "linewidth": 1.8}


@plain_text
def range_test(
    rates: Sequence[float], losses: Sequence[float], smooth: Sequence[float], best: float | None, form: str
) -> bytes:
    """Losses over rising rates, and the rate that follows from them."""
    figure, (axis,) = frame([3.4])
    axis.plot(rates, losses, color=COLORS[0], alpha=0.3, linewidth=1)
    axis.plot(rates, smooth, color=COLORS[0], linewidth=2)
    axis.set_xscale("log")
    logarithmic(axis.xaxis)
    finite = sorted(value for value in smooth if math.isfinite(value))
    low, high = finite[0], smooth[0] + 0.6 * (smooth[0] - finite[0])
    axis.set_ylim(low - 0.08 * (high - low), max(high, low + 1e-9))
    if best:
        axis.axvline(best, color=COLORS[1], linewidth=1.5)
        axis.annotate(f" {best:.2g}", (best, 0.03), xycoords=("data", "axes fraction"), color=COLORS[1], fontsize=10)
    axis.set_xlabel("learning rate", color=INK)
    axis.set_ylabel("loss", color=INK)
    charts.title(axis, "learning rate range test")
    return saved(figure, form)


def frame(heights: Sequence[float]):
    """A figure and its panels, one above the other. heights: inches of each."""
    figure, axes = panels((9, 0.8 + sum(heights)), len(heights), heights, dpi=160)
    for axis in axes:
        axis.grid(color=GRID)
    return figure, axes


def _panels(runs: Sequence[History]) -> dict[str, Curves]:
    """Quantities in the order losses, scores, rate, each with the rows that have it."""
    curves: dict[str, Curves] = {}
    for number, run in enumerate(runs):
        for net, rows in [(None, run.train or run.undisplayed), *sorted(run.tests.items())]:
            names = list(dict.fromkeys(name for row in rows for name in row.values))
            for name in single(names):
                curves.setdefault(name, []).append((number, net, run.curve(name, net)))
            several = dict.fromkeys(output_of(name)[0] for name in names if output_of(name)[1] is not None)
            for output in several if len(runs) == 1 else ():
                curves.setdefault(output, []).append((number, net, rows))
        if rated := [row for row in run.train if not math.isnan(row.rate)]:
            ends = [run.last_rate] if run.last_rate and run.last_rate.iteration > rated[-1].iteration else []
            curves.setdefault("rate", []).append((number, None, [*rated, *ends]))
    return dict(sorted(curves.items(), key=lambda entry: (entry[0] == "rate", not is_loss(entry[0]))))


def _mark_outliers(axis, points: list[tuple[float, float]], top: float) -> None:
    """Ends the axis at the largest value up to ``top``; what lies above is a triangle at its edge."""
    above = [(x, y) for x, y in points if top < y < math.inf]
    if not above:
        return
    highest = max(y for _, y in points if y <= top)
    axis.set_ylim(top=1.08 * highest)
    label = f"above: up to {max(y for _, y in above):.4g}"
    edge = [1.04 * highest] * len(above)
    axis.plot([x for x, _ in above], edge, "^", color=INK, markersize=4, linestyle="none", label=label)


def _value(row: Row, name: str) -> float:
    return row.rate if name == "rate" else row.values[name]


def _label(runs: Sequence[History], number: int, net: int | None, name: str) -> str:
    several = len(runs[number].tests) > 1
    phase = "" if name == "rate" else "train" if net is None else f"test {net}" if several else "test"
    return phase if len(runs) == 1 else f"{runs[number].name}, {phase}".removesuffix(", ")


def _tell_last(figure, ends: list[tuple]) -> None:
    """Writes the last value next to the end of each curve: (axes, x, y, color). Values that would overlap are moved
    apart."""
    figure.draw_without_rendering()  # lays the panels out, so that places are known
    for axis in dict.fromkeys(end[0] for end in ends):
        mine = [
            (axis.transData.transform((x, y))[1] * 72 / figure.dpi, x, y, color)
            for other, x, y, color in ends
            if other is axis
        ]
        mine.sort(key=lambda end: end[0])
        for height, (wanted, x, y, color) in zip(spread([end[0] for end in mine], LABEL_GAP), mine, strict=True):
            style = {"textcoords": "offset points", "fontsize": 8, "va": "center", "annotation_clip": False}
            axis.annotate(f"{y:.4g}", (x, y), xytext=(6, height - wanted), color=color, **style)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Moves ascending positions as little as possible, so that neighbors are ``gap`` apart: overlapping groups are
    spread around their center."""
    groups: list[list[float]] = []  # of (the sum of the starts that its members need, how many)
    for position in positions:
        groups.append([position, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] + groups[-2][1] * gap > groups[-1][0] / groups[-1][1]:
            total, many = groups.pop()
            groups[-1] = [groups[-1][0] + total - many * groups[-1][1] * gap, groups[-1][1] + many]
    return [total / many + i * gap for total, many in groups for i in range(int(many))]


def _scale(axis, values: list[float]) -> bool:
    """Whether the axis became logarithmic; without values that suit it, it is linear from 0. A rate of 0 ends the curve
    of a logarithmic axis."""
    positive = [value for value in values if 0 < value < math.inf]
    if (
        positive
        and all(value >= 0 for value in values if math.isfinite(value))
        and max(positive) / min(positive) > LOG_SPAN
    ):
        axis.set_yscale("log", nonpositive="mask")
        logarithmic(axis.yaxis)
        return True
    if positive:
        axis.set_ylim(0, 1.08 * max(positive))
    return False
