"""Writes the report of a test: one HTML page with its pictures embedded, the pictures, and JSON."""

import base64
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import prototxt
from ..addresses import hide_secrets
from ..data import stored
from ..data.class_names import of_net
from ..data.drafts import together
from ..detection.names import read_label_map
from ..errors import CaffeliteError
from ..layers.base.feeding import feeding
from ..stored import finite
from . import pictures
from .collect import OutputCollector
from .multilabel import MultiLabel
from .statistics import TOP, Classification, Curve, mean

Images = dict[str, bytes | None]
LIST = "images.txt"  # of the tested images, in the folder of a report that names no data layer of a net
FILTERS: dict[str, Callable[[Any], str]] = {
    "base64": lambda body: base64.b64encode(body).decode(),
    "number": lambda value: "none" if value is None else f"{value:.6g}",
    "percent": lambda share: "" if share is None else f"{100 * share:.1f} %",
    "share": lambda value: "none" if value is None else f"{value:.4f}",
    "thousands": lambda count: f"{count:,}",
}


def report(
    collector: OutputCollector,
    scores: list[dict],
    about: dict,
    labels: list[str] | None,
    by_test: tuple[list[int], np.ndarray] | None = None,
) -> dict:
    """All that a test found, as JSON takes it. scores: name, value, low, high and over of each output; about: model,
    weights and so on. by_test: the iterations of T tests of the run that trained the weights, and the scores T×C of the
    classes in them."""
    figures = {**about, "samples": collector.samples or None, "scores": scores}
    judged = collector.classification
    if judged and judged.tested:
        names = class_names(judged.classes, labels or names_beside(collector, about, judged.classes))
        figures |= classification_figures(judged, names) | {"data_layer": _data_layer(collector)}
        if by_test and by_test[1].shape[1] == judged.classes:
            figures["by_test"] = {"iterations": by_test[0], "scores": by_test[1].T.tolist()}
    if (several := collector.multi_label) and several.samples:
        names = class_names(several.labels, labels or names_beside(collector, about, several.labels))
        rows = [{"label": name, **row} for name, row in zip(names, several.by_label(), strict=True)]
        figures["multi_label"] = {**several.figures(), "labels": rows}
    if (detected := collector.detections) and detected.detections:
        names = detected_names(collector, labels)
        figures["detection"] = detected.figures(names)
    r = collector.regression
    if collector.fit and r and collector.fit.values + collector.fit.nan:
        figures["regression"] = {
            "prediction": r.prediction.name,
            "target": r.target.name,
            **collector.fit.figures(),
            "drawn": collector.fit.points.shape[1],
            "outputs": [output.figures() for output in collector.fit.outputs],
        }
    return figures


def classification_figures(judged: Classification, names: list[str]) -> dict:
    """What a report says of a classifier's answers. names: of the classes."""
    return {
        "accuracy": judged.right / judged.tested,
        "balanced_accuracy": judged.balanced_accuracy(),
        "top": {str(k): judged.top(k) for k in TOP if k <= judged.classes},
        "top5": judged.top(5),
        "tested": judged.tested,
        "right": judged.right,
        "nan": judged.nan,
        "log_loss": judged.log_loss(),
        "calibration_error": judged.calibration_error(),
        "labels": names,
        "classes": [{"label": name, **row} for name, row in zip(names, judged.by_class(), strict=True)],
        **_class_figures(judged, names),
        "confusion": judged.confusion.tolist(),
        "calibration": judged.calibration(),
        "confused": [{"label": names[a], "answer": names[b], "times": n} for a, b, n in judged.confused()],
        "cells": [{"label": a, "answer": b, "samples": listed} for (a, b), listed in sorted(judged.cells.items())],
        "worst": [
            {"label": names[m.label], "answer": names[m.prediction]}
            | {"sample": m.sample, "score": m.score, "own": m.own}
            for m in judged.worst
        ],
    }


def detected_names(collector: OutputCollector, labels: list[str] | None) -> list[str]:
    """The names of the classes of objects: of labels, which have the background too, else of the data layer's label
    map, else numbers."""
    classes = collector.detections.classes if collector.detections else ()
    names = dict(enumerate(labels)) if labels else {}
    for node in collector.net.graph.feeds if not names else ():
        if name := feeding(node.layer).label_map(node.layer.spec):
            file = prototxt.resolve(name, node.layer.locate)
            names = read_label_map(file) if file.exists() else {}
    return [names.get(label, str(label)) for label in classes]


def _data_layer(collector: OutputCollector) -> str | None:
    """The layer that reads the tested samples, as prototxt with absolute paths; None where it reads no images."""
    for node, source in collector.net.graph.sources:
        if source is collector.source:
            with contextlib.suppress(CaffeliteError):
                spec = stored.independent(node.layer.spec, node.layer.locate)
                hide_secrets(spec)
                return prototxt.write(spec)
    return None


def names_beside(collector: OutputCollector, about: dict, count: int) -> list[str] | None:
    """The names of the classes, where a file beside the net or its data has as many; else None."""
    feeds = [(node.layer.spec, node.layer.locate) for node in collector.net.graph.feeds]
    return of_net(about["model"], feeds, count) or None


def class_names(count: int, labels: list[str] | None) -> list[str]:
    if labels is not None and len(labels) != count:
        raise CaffeliteError("labels do not fit the net", expected=f"{count}, one a class", found=len(labels))
    return labels if labels is not None else [str(i) for i in range(count)]


def write(folder: Path, figures: dict, images: Images, listed: str | None = None) -> Path:
    """Writes a self-contained report.html, report.json, and the pictures in the same folder; returns the page's path.
    listed: the tested images, as lines of a list, for `LIST`. Errors: it cannot be written."""
    files = {f"{name}.png": body for name, body in images.items() if body}
    files["report.json"] = as_json(figures).encode()
    files["report.html"] = page(figures, images).encode()
    if listed is not None:
        files[LIST] = listed.encode("utf-8", "surrogateescape")
    with together([folder / name for name in files], force=True) as drafts:
        for name, body in files.items():
            drafts[folder / name].write_bytes(body)
    return folder / "report.html"


def collected_images(collector: OutputCollector, figures: dict) -> Images:
    """The pictures of a report of a test, by name. figures: what ``report`` returned."""
    images: Images = {}
    judged, several = collector.classification, collector.multi_label
    if judged and "labels" in figures:
        mistakes = pictures.worst_errors_png(judged, pictures.stored_images(collector.source), figures["labels"])
        images = classification_images(judged, figures, mistakes)
    if several and "multi_label" in figures:
        images |= _label_images(several, figures["multi_label"])
    if collector.detections and "detection" in figures:
        names = [row["label"] for row in figures["detection"]["classes"]]
        images["precision_recall"] = pictures.precision_recall(collector.detections.curves(), names)
    if collector.fit and "regression" in figures:
        points = collector.fit.points
        images |= {
            "predictions": pictures.predictions(points),
            "residuals": pictures.residuals(points),
            "residuals_over_predictions": pictures.residuals_over_predictions(points),
        }
    return images


def classification_images(judged: Classification, figures: dict, mistakes: bytes | None) -> Images:
    """The pictures of a classifier's answers, by name. mistakes: that of the worst errors."""
    names = figures["labels"]
    images: Images = {
        "confusion": pictures.confusion(judged, names),
        "classes": pictures.classes(judged, names),
        "calibration": pictures.calibration(judged),
        "mistakes": mistakes,
        **_class_images(judged, names),
    }
    if "by_test" in figures:
        images["by_test"] = pictures.by_test(figures["by_test"], names)
    return images


def as_json(figures: dict) -> str:
    """The report as JSON. A score that is not finite becomes null, because JSON has no NaN."""
    return json.dumps(finite(figures), indent=1, ensure_ascii=False, allow_nan=False)


def nan_note(figures: dict) -> str | None:
    """How many samples have no answer, in words; None where all have one."""
    if fit := figures.get("regression"):
        if not fit["nan"]:
            return None
        count = f"{fit['nan']:,} of {fit['nan'] + fit['values']:,}"
        return f"{count} values, predicted or true, are not finite: counted in no error, shown in no chart"
    if several := figures.get("multi_label"):
        if not several["nan"]:
            return None
        count = f"{several['nan']:,} of {several['samples']:,}"
        return f"{count} samples have scores that are NaN (not a number) or infinite: counted as the answer no"
    if not figures.get("nan"):
        return None
    return (
        f"{figures['nan']:,} of {figures['tested']:,} samples have scores that are NaN (not a number): counted as "
        "wrong, shown in no chart"
    )


def page(figures: dict, images: Images) -> str:
    """The page of a report, with its pictures embedded."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= FILTERS
    template = environment.get_template("report.html")
    label_curves = _label_curves(figures["multi_label"]) if "multi_label" in figures else None
    more = {"label_curves": label_curves, "most_curves": pictures.MOST_CURVES}
    return template.render(r=figures, images=images, nan_note=nan_note(figures), **more)


def _label_curves(several: dict) -> dict:
    areas = [row["auc"] for row in several["labels"]]
    return {
        "samples": several["curve_samples"],
        "auc": areas,
        "ap": [row["ap"] for row in several["labels"]],
        "mean_auc": mean(areas),
        "mean_ap": several["mean_ap"],
    }


def _class_figures(judged: Classification, names: list[str]) -> dict:
    """For JSON: the area under the ROC curve and the average precision of each class and their means, or, where labels
    belong to pixels, the intersection over union."""
    if judged.pixels:
        shares = judged.intersection_over_union()
        by_class = dict(zip(names, shares, strict=True)) if len(set(names)) == len(names) else None
        return {"segmentation": {"mean_iou": mean(shares), "iou": shares, "iou_by_class": by_class}}
    curves = judged.curves()
    areas, precisions = ([getattr(c, key) if c else None for c in curves] for key in ("auc", "ap"))
    tested = judged.tested - judged.nan
    return {
        "curves": {
            "samples": -(-tested // judged.sample.stride),
            "mean_auc": mean(areas),
            "mean_ap": mean(precisions),
            "auc": areas,
            "ap": precisions,
        }
    }


def _class_images(judged: Classification, names: list[str]) -> Images:
    """The pictures of curves or, of pixels, of the intersection over union, by name."""
    if judged.pixels:
        return {"iou": pictures.intersection_over_union(judged, names)}
    return _curve_images(judged.curves(), names)


def _label_images(judged: MultiLabel, several: dict) -> Images:
    names = [row["label"] for row in several["labels"]]
    return {"labels": pictures.label_scores(judged, names), **_curve_images(judged.curves(), names)}


def _curve_images(curves: list[Curve | None], names: list[str]) -> Images:
    return {"roc": pictures.roc(curves, names), "precision_recall": pictures.precision_recall(curves, names)}
