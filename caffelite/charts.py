"""Shared code of charts: matplotlib where it is installed, panels of one style, and text without mathtext
markup."""

import contextlib
import functools
import io
import logging
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from .errors import missing_extra

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
FIRST_FONT = "DejaVu Sans"  # comes with matplotlib
OUTLIER = 3.0  # ratio to the 95th percentile above which a value is marked at the edge of a chart
FEW = 8  # values, below which none is an outlier
NO_GLYPH = "□"  # replaces a character that no installed font has


def figure_type(purpose: str) -> type:
    """matplotlib's Figure. Errors: matplotlib is not installed; ``purpose`` names what needs it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("matplotlib", "plot", purpose) from None
    return Figure


def plain_text(draw: Callable) -> Callable:
    """Decorates a function that draws with matplotlib: inside it no text is parsed as a formula, and texts use the
    fonts of `shown`."""

    @functools.wraps(draw)
    def drawn(*args, **named):
        figure_type("a picture")
        with _plain():
            return draw(*args, **named)

    return drawn


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    from matplotlib import rc_context

    log = logging.getLogger("matplotlib.font_manager")  # warns about each face that a fallback font lacks
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with rc_context(
            {"text.parse_math": False, "text.usetex": False, "font.family": [FIRST_FONT], "svg.hashsalt": "caffelite"}
        ):
            yield
    finally:
        log.setLevel(level)


def shown(text: str) -> str:
    """A user's text on one line, as the fonts can show it: what is not printable becomes a space, and what no font has
    a box.

    Adds the fonts that the text needs to those of the chart, so it is called inside a `plain_text` function before the
    text is placed.
    """
    from matplotlib import rcParams

    text = unicodedata.normalize("NFC", "".join(c if c.isprintable() else " " for c in text))
    families, missing = list(rcParams["font.family"]), []
    for char in text:
        if not any(ord(char) in _characters(family) for family in families):
            family = _family_with(char)
            if family is None:
                char = NO_GLYPH
            else:
                families.append(family)
        missing.append(char)
    rcParams["font.family"] = families
    return "".join(missing)


@functools.cache
def _characters(family: str) -> frozenset[int]:
    """The characters that a font's regular and bold faces both have; matplotlib warns where one of them lacks a
    character."""
    from matplotlib import font_manager

    sets = []
    for weight in ("normal", "bold"):
        path = font_manager.findfont(font_manager.FontProperties(family=family, weight=weight))
        sets.append(frozenset(font_manager.get_font(path).get_charmap()))
    return frozenset.intersection(*sets)


@functools.cache
def _family_with(char: str) -> str | None:
    from matplotlib import font_manager

    for family in sorted(
        {font.name for font in font_manager.fontManager.ttflist} - {"Last Resort High-Efficiency", "Last Resort"}
    ):
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # a font that FreeType cannot read
            if ord(char) in _characters(family):
                return family
    return None


def short(name: str, most: int = 18) -> str:
    """A name for an axis: `shown`, and cut where it is longer than ``most``."""
    name = shown(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def panels(size: tuple[float, float], count: int = 1, heights: Sequence[float] = (1.0,), dpi: int = 110):
    """A figure of (width, height) inches and its ``count`` axes, one above the other, which share x."""
    figure = figure_type("a picture")(size, dpi=dpi, layout="constrained")
    axes = figure.subplots(count, 1, sharex=True, squeeze=False, height_ratios=list(heights))[:, 0]
    for each in axes:
        bare(each)
    return figure, axes


def limit(values: Iterable[float]) -> float:
    """The largest value that an axis shows: three times the 95th percentile, so that one outlier does not flatten a
    curve; infinity for fewer than FEW values, and where the percentile is not positive."""
    finite = sorted(value for value in values if math.isfinite(value))
    percentile = finite[int(0.95 * (len(finite) - 1))] if len(finite) >= FEW else 0.0
    return OUTLIER * percentile if percentile > 0 else math.inf


def title(axes, text: str, **style: float) -> None:
    """Writes a title above the left end of the axes, as `shown` can."""
    axes.set_title(shown(text), loc="left", color=INK, fontsize=11, fontweight="bold", **style)


def bare(axes) -> None:
    """Removes the frame and tick marks; draws the grid below the data."""
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=INK, length=0, labelsize=9)
    for spine in axes.spines.values():
        spine.set_visible(False)


def logarithmic(axis) -> None:
    """Plain numbers, as in 0.001, on an axis of logarithmic scale, where text is not parsed as a formula."""
    from matplotlib.ticker import FuncFormatter

    def between(value: float, _) -> str:
        low, high = sorted(axis.get_view_interval())
        return f"{value:g}" if low > 0 and high / low < 40 and f"{value:e}"[0] in "25" else ""

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(FuncFormatter(between))


def saved(figure, form: str = "png") -> bytes:
    """The figure as a file of form png, svg or pdf; the same figure gives the same bytes."""
    out = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(out, format=form, metadata=dates.get(form))
    return out.getvalue()
