"""The chart of a sweep: the score of each setting, best first, with its interval and its trials."""

from __future__ import annotations

from ..charts import FAINT, GRID, INK, panels, plain_text, saved, short, shown
from .results import SettingResult, SweepResults

BLUE, GREEN = "#2b6cb0", "#2f855a"
MOST = 40  # settings that are drawn


@plain_text
def picture(results: SweepResults, form: str, title: str = "") -> bytes:
    """A row a setting: a point at its mean score, a bar over the 95 % interval of several seeds, small points for
    trials. Settings that stopped at an earlier rung are paler. form: svg, png or pdf."""
    rows = [row for row in results.rows if row.scores][:MOST]
    figure, (axes,) = panels((9, 1.3 + 0.3 * max(len(rows), 1)), dpi=160)
    last = max((row.rung for row in rows), default=0)
    for y, row in enumerate(rows):
        paler = 1.0 if row.rung == last else 0.45
        colour = GREEN if y == 0 else BLUE
        if row.interval:
            axes.plot(row.interval, [y, y], color=colour, linewidth=5, alpha=0.2 * paler, solid_capstyle="round")
        if len(row.trials) > 1:
            axes.plot(row.scores, [y] * len(row.scores), "|", color=colour, markersize=9, alpha=0.8 * paler)
        if row.mean is not None:
            axes.plot(row.mean, y, "o", color=colour, markersize=6, alpha=paler)
            axes.annotate(
                f"{row.mean:.4g}", (1.01, y), xycoords=("axes fraction", "data"), color=INK, fontsize=8, va="center"
            )
    axes.set_yticks(range(len(rows)), [shown(short(_label(row, last), 60)) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _limits(axes, rows)
    better = "less is better" if results.lowest else "more is better"
    axes.set_xlabel(f"{shown(results.score)} ({better})", color=INK)
    axes.grid(axis="x", color=GRID)
    if len(results.seeds) > 1:
        note = f"point: mean of {len(results.seeds)} seeds; lines: each seed; bar: 95 % interval of the mean"
        axes.text(1, 1.0, note, transform=axes.transAxes, color=FAINT, fontsize=8, ha="right", va="bottom")
    hidden = len([row for row in results.rows if row.scores]) - len(rows)
    head = f"{title or 'sweep'}: {len(results.rows)} settings{f', the best {MOST} shown' * (hidden > 0)}"
    axes.set_title(shown(head), loc="left", color=INK, fontsize=11, fontweight="bold", pad=14)
    return saved(figure, form)


def _label(row: SettingResult, last: int) -> str:
    """The last parts of field names suffice."""
    text = "  ".join(f"{name.rsplit('.', 1)[-1]}={value}" for name, value in row.setting)
    return text if row.rung == last else f"{text}  ({row.iterations} iterations)"


def _limits(axes, rows: list[SettingResult]) -> None:
    """The range of the scores: an interval of few seeds may be far wider and is cut."""
    values = [score for row in rows for score in row.scores]
    if values:
        low, high = min(values), max(values)
        margin = 0.15 * (high - low) or 0.05 * abs(high) or 0.05
        axes.set_xlim(low - margin, high + margin)
