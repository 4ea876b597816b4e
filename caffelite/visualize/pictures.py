"""The pictures, drawn by matplotlib as PNG, SVG or PDF."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import charts
from ..charts import FAINT, GRID, INK, bare, figure_type, plain_text, saved, short, shown
from .explained import Picture

DIVERGING, SEQUENTIAL, HEAT = "RdBu_r", "viridis", "inferno"
MOST_LEGEND = 20  # classes that a legend names
DENSITY_BINS = 60


def _figure(size: tuple[float, float], title: str = "") -> Any:
    """A figure with a title on the left. size: inches of width and height."""
    figure = figure_type("a picture")(size, dpi=160, layout="constrained")
    if title:
        figure.suptitle(shown(title), x=0.02, ha="left", color=INK, fontsize=11, fontweight="bold")
    return figure


def _grid(count: int, columns: int, cell: tuple[float, float], title: str, right: float = 0.0) -> tuple[Any, Any]:
    """A figure and its axes, row by row; cell: inches of width and height."""
    rows = -(-count // columns)
    size = (max(3.2, columns * cell[0] + 0.3 + right), rows * cell[1] + 0.75)
    figure = _figure(size, title)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for each in axes:
        each.axis("off")
    return figure, axes


def _columns(count: int) -> int:
    return max(1, min(16, math.ceil(math.sqrt(count * 1.6))))


@plain_text
def filters(layer: str, weights: np.ndarray, form: str, most: int = 64, blue_first: bool = True) -> bytes:
    """The filters of a layer. weights: N×C×h×w, or a matrix N×F.

    Filters of three channels are colored, each scaled by its own maximum, with 0 gray. Of other convolutions a row is
    a filter and a column an input channel, in red (positive) and blue on one scale. At most ``most`` filters and 16
    channels are drawn.
    """
    count = min(len(weights), most)
    total = f"{layer}: {'×'.join(map(str, weights.shape))}" + f", the first {count} filters" * (count < len(weights))
    limit = float(np.abs(weights).max()) or 1.0
    if weights.ndim == 2:
        figure = _figure((9, 2.2 + min(6.0, 0.12 * len(weights))), total)
        axes = figure.subplots()
        drawn = axes.imshow(weights, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        bare(axes)
        axes.set_ylabel("output", color=INK)
        axes.set_xlabel("input", color=INK)
        _scale(figure, drawn, axes)
        return saved(figure, form)
    channels = weights.shape[1]
    if channels == 3:
        figure, axes = _grid(count, _columns(count), (0.62, 0.62), total)
        for each, filter_ in zip(axes, weights[:count], strict=False):
            color = filter_[::-1] if blue_first else filter_
            each.imshow(0.5 + 0.5 * color.transpose(1, 2, 0) / (np.abs(color).max() or 1), interpolation="nearest")
        return saved(figure, form)
    across = min(channels, 16)
    if channels == 1:
        figure, axes = _grid(count, _columns(count), (0.62, 0.62), total, right=0.6)
        maps = [each[0] for each in weights[:count]]
    else:
        count = min(count, 16)
        note = f" (filters 0 to {count - 1} down, channels 0 to {across - 1} across)"
        figure, axes = _grid(count * across, across, (0.45, 0.45), total.partition(",")[0] + note, right=0.6)
        maps = [channel for each in weights[:count] for channel in each[:across]]
    for each, values in zip(axes, maps, strict=False):
        drawn = each.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    _scale(figure, drawn, list(axes))
    return saved(figure, form)


def _scale(figure: Any, drawn: Any, axes: Any) -> None:
    bar = figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.015)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, length=0, labelsize=8)


@plain_text
def activations(layer: str, values: np.ndarray, picture: Picture, form: str, most: int = 64) -> bytes:
    """What a layer computes for an image: a map for each channel, all on one scale; a bar for each value where it has
    no maps. values: C×h×w, or C."""
    flat = values.ndim < 3 or values.shape[1:] == (1, 1)
    values = values.reshape(-1) if flat else values
    count = len(values) if flat else min(len(values), most)
    shape = "×".join(map(str, values.shape))
    title = f"{layer}: {shape}" + f", the first {count}" * (count < len(values)) + f"; {picture.file.name}"
    if flat:
        figure = _figure((9, 3), title)
        image, axes = figure.subplots(1, 2, width_ratios=(1, 3))
        image.imshow(picture.pixels, interpolation="nearest")
        image.axis("off")
        bare(axes)
        axes.bar(range(count), values, width=0.8 if count < 100 else 1, color="#2b6cb0")
        axes.grid(axis="y", color=GRID)
        axes.set_xlabel("channel", color=INK)
        return saved(figure, form)
    figure, axes = _grid(count + 1, _columns(count + 1), (0.8, 0.8), title, right=0.6)
    axes[0].imshow(picture.pixels, interpolation="nearest")
    low, high = float(values.min()), float(values.max())
    for each, map_ in zip(axes[1:], values[:count], strict=False):
        drawn = each.imshow(map_, cmap=SEQUENTIAL, vmin=low, vmax=high, interpolation="nearest")
    _scale(figure, drawn, list(axes))
    return saved(figure, form)


@plain_text
def maps(
    rows: Sequence[tuple[Picture, Sequence[tuple[str, np.ndarray]]]], form: str, title: str, overlay: bool
) -> bytes:
    """A row for each picture: the image, then the map of each class under its label. overlay: the map lies over the
    image in colors; else it stands alone, white where it is greatest."""
    columns = 1 + max(len(class_maps) for _, class_maps in rows)
    figure, axes = _grid(len(rows) * columns, columns, (2.1, 2.25), title)
    for i, (picture, class_maps) in enumerate(rows):
        line = axes[i * columns : (i + 1) * columns]
        height, width = picture.pixels.shape[:2]
        extent = (-0.5, width - 0.5, height - 0.5, -0.5)
        smooth = "nearest" if max(height, width) < 64 else "bilinear"
        line[0].imshow(picture.pixels, interpolation=smooth)
        line[0].set_title(shown(short(picture.file.name, 26)), color=INK, fontsize=8.5)
        for each, (label, values) in zip(line[1:], class_maps, strict=False):
            top = float(np.quantile(values, 0.995 if not overlay else 1)) or 1.0
            scaled = np.clip(values / top, 0, 1)
            if overlay:
                each.imshow(picture.pixels.mean(2), cmap="gray", vmin=0, vmax=255, interpolation=smooth)
                each.imshow(scaled, cmap="jet", vmin=0, vmax=1, alpha=0.5, extent=extent, interpolation="bicubic")
                each.set_xlim(-0.5, width - 0.5)
                each.set_ylim(height - 0.5, -0.5)
            else:
                each.imshow(scaled, cmap=HEAT, vmin=0, vmax=1, extent=extent, interpolation=smooth)
            each.set_title(shown(short(label, 30)), color=INK, fontsize=8.5)
    return saved(figure, form)


@plain_text
def points(positions: np.ndarray, classes: np.ndarray | None, labels: Sequence[str], form: str, title: str) -> bytes:
    """Projected features N×2, one color a class, with the label at the median of each class. labels: by number."""
    from matplotlib import colormaps

    figure = _figure((8.2, 6.4))
    axes = figure.subplots()
    bare(axes)
    axes.set_xticks([])
    axes.set_yticks([])
    size = 22 if len(positions) < 500 else 10 if len(positions) < 3000 else 4
    if classes is None:
        axes.scatter(*positions.T, s=size, color="#2b6cb0", alpha=0.7, linewidths=0)
    else:
        present = sorted(set(classes.tolist()))
        colors = colormaps["tab10" if len(present) <= 10 else "tab20" if len(present) <= 20 else "gist_rainbow"]
        for i, index in enumerate(present):
            color = colors(i if len(present) <= 20 else i / len(present))
            mine = positions[classes == index]
            name = labels[index] if 0 <= index < len(labels) else str(index)
            name = shown(short(name))
            axes.scatter(*mine.T, s=size, color=color, alpha=0.75, linewidths=0, label=f"{name} ({len(mine)})")
            if len(present) <= MOST_LEGEND:
                box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "alpha": 0.75, "edgecolor": "none"}
                axes.text(*np.median(mine, 0), name, color=INK, fontsize=9, ha="center", va="center", bbox=box)
        if len(present) <= MOST_LEGEND:
            legend = axes.legend(
                frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1, 0.5)
            )
            for handle in legend.legend_handles:
                handle.set_alpha(1)
    charts.title(axes, title)
    return saved(figure, form)


@plain_text
def histograms(layers: Mapping[str, Sequence[tuple[int, np.ndarray]]], form: str, title: str) -> bytes:
    """A panel a layer: the distribution of its parameter in each snapshot, the earliest at the back and on top."""
    columns = 2 if len(layers) in (2, 4) else min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = _figure((3.6 * columns + 0.6, 2.9 * rows + 0.6), title)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (layer, snapshots) in zip(panels, layers.items(), strict=False):
        _ridges(axes, layer, snapshots)
    for axes in panels[len(layers) :]:
        axes.axis("off")
    return saved(figure, form)


def _ridges(axes: Any, layer: str, snapshots: Sequence[tuple[int, np.ndarray]]) -> None:
    from matplotlib import colormaps

    finite = [(at, values[np.isfinite(values)]) for at, values in snapshots]
    every = np.concatenate([values for _, values in finite])
    low, high = (float(q) for q in np.quantile(every, (0.001, 0.999))) if every.size else (0.0, 1.0)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    bins = np.linspace(low, high, int(np.clip(np.sqrt(len(finite[0][1])), 8, DENSITY_BINS)) + 1)
    counts = [np.histogram(np.clip(values, low, high), bins)[0] / max(len(values), 1) for _, values in finite]
    top = max((float(count.max()) for count in counts), default=1.0) or 1.0
    step, centers = 0.45, (bins[1:] + bins[:-1]) / 2
    last = len(finite) - 1
    for i, ((_, values), count) in enumerate(zip(finite, counts, strict=True)):
        color = colormaps["Blues"](0.35 + 0.55 * (i / last if last else 1))
        base = (last - i) * step
        height = base + count / top
        axes.fill_between(centers, base, height, step="mid", color=color, linewidth=0, zorder=i + 1)
        axes.step(centers, height, where="mid", color="white", linewidth=0.8, zorder=i + 1)
        if not len(values):
            axes.text(0.5, base, "not finite", color=FAINT, transform=axes.get_yaxis_transform())
    bare(axes)
    marks = sorted({round(k * last / 5) for k in range(6)}) if last > 5 else range(last + 1)
    axes.set_yticks([(last - i) * step for i in marks], [f"{finite[i][0]:,}" for i in marks])
    axes.grid(axis="x", color=GRID)
    axes.set_title(shown(short(layer, 40)), loc="left", color=INK, fontsize=9.5)
