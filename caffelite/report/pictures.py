"""A report's pictures: confusion matrix, precision and recall, calibration, by matplotlib; the worst errors, by
OpenCV."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from ..charts import FAINT, GRID, INK, figure_type, logarithmic, panels, plain_text, saved, short
from ..data.images import opencv, resize
from ..data.samples import DataSource
from ..data.sheet import contact_sheet
from ..errors import missing_extra
from .multilabel import MultiLabel
from .statistics import Classification, Curve, thinned

BLUE, RED, GREEN = "#2b6cb0", "#c53030", "#38a169"
MOST_NAMED = 30  # maximum number of classes with names and numbers shown
MOST_CURVES = 10  # of more classes those with the lowest average precision are drawn
COLORS = ("#2b6cb0", "#c53030", "#38a169", "#b7791f", "#6b46c1", "#0987a0", "#b83280", "#4a5568", "#9c4221", "#2c7a7b")


@plain_text
def confusion(judged: Classification, labels: list[str]) -> bytes:
    """PNG: labels in rows, predictions in columns; shades are shares of the row; numbers where classes are few."""
    few = judged.classes <= MOST_NAMED
    from matplotlib.colors import PowerNorm

    side = min(11.0, 3.2 + 0.42 * judged.classes) if few else 8.0
    figure, (axes,) = panels((side + 0.8, side))
    figure.set_layout_engine("compressed")  # the matrix is square: its labels move with it
    counts = judged.confusion
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    norm = PowerNorm(0.5, 0, 1)  # rare mistakes show too
    shown = axes.imshow(shares, cmap="Blues", norm=norm, interpolation="nearest")
    bar = figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, length=0, labelsize=8)
    bar.set_label("share of the label's samples", color=INK, fontsize=9)
    axes.set_xlabel("prediction", color=INK)
    axes.set_ylabel("label", color=INK)
    if few:
        names = [short(name) for name in labels]
        turned = {"rotation": 60, "ha": "right"} if max(map(len, names)) >= 4 else {}
        axes.set_xticks(range(judged.classes), names, **turned)
        axes.set_yticks(range(judged.classes), names)
        for (row, column), count in np.ndenumerate(counts):
            if count:
                color = "white" if shares[row, column] > 0.3 else INK if row == column else RED
                axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8, color=color)
    return saved(figure)


@plain_text
def classes(judged: Classification, labels: list[str]) -> bytes:
    """PNG: precision and recall of each class, the worst recall first; recall with its 95 % interval."""
    rows = [(row, name) for row, name in zip(judged.by_class(), labels, strict=True) if row["samples"]]
    rows = sorted(rows, key=lambda pair: pair[0]["recall"])[:MOST_NAMED]
    figure, (axes,) = panels((7.2, 1.2 + 0.34 * len(rows)))
    for y, (row, _) in enumerate(rows):
        axes.plot([row["low"], row["high"]], [y, y], color=BLUE, linewidth=5, alpha=0.25, solid_capstyle="round")
        axes.plot(row["recall"], y, "o", color=BLUE, markersize=6, label="recall, with 95 %" if y == 0 else None)
        if row["precision"] is not None:
            axes.plot(row["precision"], y, "D", color=GREEN, markersize=5, label="precision" if y == 0 else None)
    axes.set_yticks(range(len(rows)), [short(name) for _, name in rows])
    axes.invert_yaxis()
    least = min([1.0, *(value for row, _ in rows for value in (row["low"], row["precision"]) if value is not None)])
    axes.set_xlim(max(-0.02, least - 0.1 * (1 - least)), 1 + 0.05 * (1 - least) + 1e-3)
    axes.grid(axis="x", color=GRID)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9, labelcolor=INK)
    return saved(figure)


@plain_text
def by_test(scores: dict, labels: list[str]) -> bytes:
    """PNG: the score of each class in the tests of a run; of many classes those with the lowest last one."""
    values = np.array(scores["scores"], float)
    last = np.nan_to_num(values[:, -1], nan=np.inf)
    figure, (axes,) = panels((8.2, 4.4))
    for row, color in zip(np.argsort(last, kind="stable")[:MOST_CURVES].tolist(), COLORS, strict=False):
        axes.plot(scores["iterations"], values[row], "o-", color=color, markersize=3.5, label=short(labels[row]))
    axes.set_ylim(-0.02, 1.02)
    position = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(**position, frameon=False, fontsize=9, labelcolor=INK, title="the lowest first")
    return _finished(figure, axes, "iteration", "share that is right")


@plain_text
def calibration(judged: Classification) -> bytes:
    """PNG: accuracy over the probability of the predicted class, and below it the number of samples."""
    rows = judged.calibration()
    figure, (axes, below) = panels((6.4, 5.6), 2, (3, 1))
    axes.plot([0, 1], [0, 1], color="#9aa5b1", linewidth=1, linestyle="--")
    sure, hits = [row["confidence"] for row in rows], [row["accuracy"] for row in rows]
    sizes = 20 + 180 * np.sqrt(np.array([row["samples"] for row in rows]) / max(judged.tested, 1))
    axes.vlines(sure, np.minimum(sure, hits), np.maximum(sure, hits), color=RED, linewidth=2, alpha=0.6)
    axes.scatter(sure, hits, s=sizes, color=BLUE, zorder=3)
    axes.set_ylabel("accuracy", color=INK)
    axes.set_title(f"expected calibration error {judged.calibration_error():.4f}", loc="left", color=INK, fontsize=9)
    middles, counts = [(row["from"] + row["to"]) / 2 for row in rows], [row["samples"] for row in rows]
    below.bar(middles, counts, width=0.9 / len(judged.bins[0]), color=BLUE, alpha=0.6)
    if rows:
        below.set_yscale("log")
        logarithmic(below.yaxis)
    below.set_ylabel("samples", color=INK)
    below.set_xlabel("probability of the predicted class", color=INK)
    for each in (axes, below):
        each.set_xlim(0, 1.02)
        each.grid(color=GRID)
    axes.set_ylim(-0.02, 1.05)
    return saved(figure)


def _finished(figure: Any, axes: Any, x: str, y: str, grid: str = "both") -> bytes:
    """The PNG of a figure whose axes get these labels and a grid."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.grid(axis=grid, color=GRID)
    return saved(figure)


def _scatter(axes: Any, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
    """Points that are smaller and paler where they are many."""
    size = 36 if len(x) < 100 else 14 if len(x) < 1000 else 6
    axes.scatter(x, y, s=size, alpha=0.6 if len(x) < 1000 else 0.3, color=BLUE, linewidths=0, **options)


@plain_text
def predictions(points: np.ndarray) -> bytes | None:
    """PNG: predictions over true values and the diagonal, on which both are equal. points: 2×P, targets and
    predictions."""
    if not points.size:
        return None
    figure, (axes,) = panels((6.0, 5.6))
    low, high = float(points.min()), float(points.max())
    margin = 0.04 * (high - low) or 1.0
    ends = [low - margin, high + margin]
    axes.plot(ends, ends, color=FAINT, linewidth=1, linestyle="--")
    _scatter(axes, *points, zorder=3)
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    return _finished(figure, axes, "true value", "prediction")


@plain_text
def residuals(points: np.ndarray) -> bytes | None:
    """PNG: a histogram of prediction less true value. points: 2×P, targets and predictions."""
    if not points.size:
        return None
    figure, (axes,) = panels((6.4, 3.4))
    error = points[1] - points[0]
    axes.hist(error, bins=int(np.clip(np.sqrt(len(error)), 5, 50)), color=BLUE, alpha=0.7)
    axes.axvline(0, color=FAINT, linewidth=1, linestyle="--")
    return _finished(figure, axes, "prediction less true value", "values", grid="y")


def _chosen(curves: list[Curve | None], labels: list[str]) -> list[tuple[str, Curve]]:
    """The name and curve of the classes to draw, the lowest average precision first."""
    known = [(name, curve) for name, curve in zip(labels, curves, strict=True) if curve]
    return sorted(known, key=lambda pair: pair[1].ap)[:MOST_CURVES]


@plain_text
def roc(curves: list[Curve | None], labels: list[str]) -> bytes | None:
    """PNG: the true positive rate over the false positive rate of each class against the rest; None where no class has
    a curve."""
    chosen = _chosen(curves, labels)
    if not chosen:
        return None
    figure, (axes,) = panels((6.8, 5.4))
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle="--")
    for (name, curve), color in zip(chosen, COLORS, strict=False):
        fpr, tpr, _ = thinned(curve)
        axes.plot(fpr, tpr, color=color, linewidth=1.6, label=f"{short(name)}  {curve.auc:.3f}")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    axes.legend(loc="lower right", frameon=False, fontsize=9, labelcolor=INK, title="area under the curve")
    return _finished(figure, axes, "false positive rate", "true positive rate (recall)")


@plain_text
def precision_recall(curves: list[Curve | None], labels: list[str]) -> bytes | None:
    """PNG: precision over recall of each class against the rest; None where no class has a curve."""
    chosen = _chosen(curves, labels)
    if not chosen:
        return None
    figure, (axes,) = panels((8.2, 5.4))
    for (name, curve), color in zip(chosen, COLORS, strict=False):
        _, recall, precision = thinned(curve)
        axes.step(recall, precision, where="pre", color=color, linewidth=1.6, label=f"{short(name)}  {curve.ap:.3f}")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
    position = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(**position, frameon=False, fontsize=9, labelcolor=INK, title="average precision")
    return _finished(figure, axes, "recall", "precision")


def _bars(values: dict[str, list[float | None]], labels: list[str], order: list[int]) -> bytes:
    """PNG: one row for each label with a marker for each of its values, from 0 to 1."""
    shown = order[:MOST_NAMED]
    figure, (axes,) = panels((6.8, 1.4 + 0.3 * len(shown)))
    for (name, column), color, marker in zip(values.items(), (BLUE, GREEN, RED), "oDs", strict=False):
        points = [(column[i], y) for y, i in enumerate(shown) if column[i] is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=color, markersize=6, alpha=0.85, label=name)
    axes.set_yticks(range(len(shown)), [short(labels[i]) for i in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.grid(axis="x", color=GRID)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=9, labelcolor=INK)
    return saved(figure)


def _rising(values: list[float | None]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (values[i] is None, values[i]))


@plain_text
def intersection_over_union(judged: Classification, labels: list[str]) -> bytes:
    """PNG: the intersection over union of each class, the lowest first."""
    values = judged.intersection_over_union()
    return _bars({"intersection over union": values}, labels, _rising(values))


@plain_text
def label_scores(judged: MultiLabel, labels: list[str]) -> bytes:
    """PNG: precision, recall and average precision of each label, the lowest average precision first."""
    rows = judged.by_label()
    columns = {"precision": "precision", "recall": "recall", "average precision": "ap"}
    values = {name: [row[key] for row in rows] for name, key in columns.items()}
    return _bars(values, labels, _rising(values["average precision"]))


@plain_text
def residuals_over_predictions(points: np.ndarray) -> bytes | None:
    """PNG: the error, prediction less true value, over the prediction. points: 2×P, targets and predictions."""
    if not points.size:
        return None
    figure, (axes,) = panels((6.4, 3.8))
    axes.axhline(0, color=FAINT, linewidth=1, linestyle="--")
    _scatter(axes, points[1], points[1] - points[0])
    return _finished(figure, axes, "prediction", "prediction less true value")


Read = Callable[[list[int]], list[np.ndarray]]  # the images C×H×W of samples, by their numbers


def stored_images(source: object) -> Read | None:
    """Reads the images of a data layer's source as they are stored; None where it has none."""
    if not isinstance(source, DataSource):
        return None
    samples = source.samples

    def read(indices: list[int]) -> list[np.ndarray]:
        contents = samples.read(np.array(indices))
        return [samples.image(index, content)[0] for index, content in zip(indices, contents, strict=True)]

    return read


def worst_errors_png(judged: Classification, read: Read | None, labels: list[str]) -> bytes | None:
    """PNG: the images of the worst errors, each above its label, the predicted class and its probability; None where
    there are none."""
    if not judged.worst or read is None:
        return None
    images = read([m.sample for m in judged.worst])
    if len({image.shape for image in images}) > 1 or images[0].shape[0] not in (1, 3):
        images = [_square(image) for image in images]
    captions = [f"{labels[m.label]} > {labels[m.prediction]}  {100 * m.score:.0f}%" for m in judged.worst]
    return contact_sheet(list(np.stack(images)), captions)[0]


def _square(image: np.ndarray, side: int = 128) -> np.ndarray:
    return resize(np.ascontiguousarray(image[:3] if len(image) >= 3 else image[:1]), side, side)


def check_installed(mistakes: bool = True) -> None:
    """Raises before a long test what the pictures would raise after it. Errors: matplotlib, Jinja2 or, for mistakes,
    OpenCV is not installed."""
    figure_type("a report's charts")
    if importlib.util.find_spec("jinja2") is None:
        raise missing_extra("Jinja2", "plot", "a report")
    if mistakes:
        opencv("a report of errors")
