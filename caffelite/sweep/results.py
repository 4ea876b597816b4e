"""The results of a sweep: scores of trials, their mean and interval for each setting, as table, CSV and JSON; and
successive halving, which compares them at rungs.

Nothing here depends on time, so that a sweep that was interrupted gives the same files as one that was not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import charts
from ..charts import FAINT, GRID, INK, panels, plain_text, saved, short, shown
from ..errors import CaffeliteError
from ..report.statistics import mean_interval
from ..spreadsheet import csv_text
from .space import Setting

END = 1 << 31  # the rung at the end of a run, whatever its number of iterations


@dataclass(frozen=True)
class TrialResult:
    """The score of a trial at a rung. score: None where it has none or a value that is not finite. iteration: how many
    are done. state, reason: see `runs.registry`."""

    score: float | None
    iteration: int
    state: str
    reason: str = ""


@dataclass(frozen=True)
class SettingResult:
    """The results of a setting's trials at a rung, one a seed, in the order of the seeds."""

    number: int
    setting: Setting
    rung: int
    trials: tuple[TrialResult, ...]

    @property
    def iterations(self) -> int:
        """How many the trials have done."""
        return max((trial.iteration for trial in self.trials), default=0)

    @property
    def scores(self) -> list[float]:
        return [trial.score for trial in self.trials if trial.score is not None]

    @property
    def mean(self) -> float | None:
        """The mean score over seeds; None where a trial has none."""
        return math.fsum(self.scores) / len(self.trials) if len(self.scores) == len(self.trials) else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean by Student; None of one seed."""
        return mean_interval(self.scores) if self.mean is not None else None

    @property
    def note(self) -> str:
        """Why there is no score."""
        bad = [trial for trial in self.trials if trial.score is None]
        if not bad:
            return ""
        count = f"{len(bad)} of {len(self.trials)} " if len(self.trials) > 1 else ""
        return f"{count}{bad[0].state}{f': {bad[0].reason}' if bad[0].reason else ''}"


def ranked(results: Sequence[SettingResult], lowest: bool) -> list[SettingResult]:
    """The results in order of rank: later rungs first, then the better mean; settings without a score last."""

    def key(result: SettingResult) -> tuple[bool, int, float, int]:
        mean = result.mean
        worth = math.inf if mean is None else mean if lowest else -mean
        return mean is None, -result.rung, worth, result.number

    return sorted(results, key=key)


@dataclass
class SweepResults:
    """The results of all settings, each at its last rung, in order of rank. score: its name; lowest: whether less is
    better. total: the number of settings that the sweep has; complete: whether all of them have results."""

    score: str
    lowest: bool
    seeds: list[int]
    rows: list[SettingResult] = field(default_factory=list)
    total: int = 0
    complete: bool = True

    @property
    def best(self) -> SettingResult | None:
        """The setting of the first rank; None where none has a score."""
        return self.rows[0] if self.rows and self.rows[0].mean is not None else None

    def table(self) -> list[list[str]]:
        """A header and a row for each setting."""
        fields = list(dict.fromkeys(name for row in self.rows for name, _ in row.setting))
        several = len(self.seeds) > 1
        head = ["rank", "setting", *fields, self.score, *(["low", "high"] if several else []), "iterations"]
        head += [f"seed {seed}" for seed in self.seeds] if several else []
        noted = any(row.note for row in self.rows)
        rows = [head + ["note"] * noted]
        for rank, row in enumerate(self.rows, 1):
            values = dict(row.setting)
            low, high = row.interval or (None, None)
            cells = [str(rank), str(row.number), *(values.get(name, "") for name in fields), number(row.mean)]
            cells += [number(low), number(high)] if several else []
            cells += [str(row.iterations), *([number(trial.score) for trial in row.trials] if several else [])]
            rows.append(cells + [row.note] * noted)
        return rows

    def to_csv(self) -> str:
        return csv_text(self.table())

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "rank": rank,
                "setting": row.number,
                "fields": dict(row.setting),
                "mean": row.mean,
                "interval": row.interval and list(row.interval),
                "iterations": row.iterations,
                "trials": [
                    {"seed": seed, "score": trial.score, "state": trial.state, "reason": trial.reason}
                    for seed, trial in zip(self.seeds, row.trials, strict=True)
                ],
            }
            for rank, row in enumerate(self.rows, 1)
        ]
        return {"score": self.score, "lowest": self.lowest, "complete": self.complete, "settings": rows}


def number(value: float | None) -> str:
    """A score to six significant digits."""
    return "" if value is None else f"{value:.6g}"


def rungs(settings: int, factor: int, first: int, max_iterations: int, step: int) -> list[int]:
    """The iterations at which settings are compared, in ascending order; the last one is END.

    Each rung has ``factor`` times the iterations of the one before. first: iterations of the first rung; 0: so many
    that one setting remains at the end. step: rungs are multiples of it, where they are not smaller, so that a test has
    just run. factor 0: the end is the only rung. Errors: ``first`` is not below the end.
    """
    if not factor:
        return [END]
    if first >= max_iterations:
        remedy = "choose a smaller -first"
        what = "the first rung is not before the end"
        raise CaffeliteError(what, expected=f"below {max_iterations}", found=first, remedy=remedy)
    if first:
        steps = [first * factor**i for i in range(max_iterations.bit_length()) if first * factor**i < max_iterations]
    else:
        levels = math.ceil(math.log(settings, factor) - 1e-9)
        steps = [max_iterations // factor ** (levels - i) for i in range(levels)]
    steps = [rung - rung % step if rung > step else step for rung in steps]
    return sorted({*(rung for rung in steps if rung < max_iterations), END})


def promoted(results: Sequence[SettingResult], factor: int, lowest: bool) -> list[int]:
    """The numbers of the settings that continue: the best 1/factor of them, at least one, without failed ones."""
    keep = max(1, math.ceil(len(results) / factor))
    good = [result for result in ranked(results, lowest) if result.mean is not None]
    return sorted(result.number for result in good[:keep])


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
        color = GREEN if y == 0 else BLUE
        if row.interval:
            axes.plot(row.interval, [y, y], color=color, linewidth=5, alpha=0.2 * paler, solid_capstyle="round")
        if len(row.trials) > 1:
            axes.plot(row.scores, [y] * len(row.scores), "|", color=color, markersize=9, alpha=0.8 * paler)
        if row.mean is not None:
            axes.plot(row.mean, y, "o", color=color, markersize=6, alpha=paler)
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
    charts.title(axes, head, pad=14)
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
