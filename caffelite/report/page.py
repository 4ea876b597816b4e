"""Writes the report of a test: one HTML page with its pictures embedded, the pictures, and JSON."""

from __future__ import annotations

import contextlib
import html
import json
import math
from pathlib import Path

from .. import prototxt
from ..data import stored
from ..data.class_names import of_net
from ..detection.names import read_label_map
from ..errors import CaffeliteError
from . import detection, metrics_page, pictures
from .collect import OutputCollector
from .elements import image, number, percent, section, table
from .statistics import TOP

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #f5f7fa; margin: 0 }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem }
section { background: #fff; border-radius: 8px; padding: 1rem 1.5rem; margin: 1rem 0; box-shadow: 0 1px 3px #0002 }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 0 0 .5rem } p { margin: .3rem 0; color: #52606d }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th { text-align: left; color: #52606d; font-weight: 600 }
td, th { padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid #e4e7eb } td.n { text-align: right }
img { max-width: 100% } .big { font-size: 2.2rem; font-weight: 700 } .bad { color: #c53030 }
.scroll { max-height: 30rem; overflow: auto }
"""


def report(collector: OutputCollector, scores: list[dict], about: dict, labels: list[str] | None) -> dict:
    """All that a test found, as JSON takes it. scores: name, value, low, high and over of each output; about: model,
    weights and so on."""
    found = {**about, "samples": collector.samples or None, "scores": scores}
    judged = collector.classification
    if judged and judged.tested:
        names = class_names(judged.classes, labels or names_beside(collector, about, judged.classes))
        found |= {
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
            **metrics_page.class_figures(judged, names),
            "confusion": judged.confusion.tolist(),
            "calibration": judged.calibration(),
            "confused": [{"label": names[a], "answer": names[b], "times": n} for a, b, n in judged.confused()],
            "cells": [{"label": a, "answer": b, "samples": listed} for (a, b), listed in sorted(judged.cells.items())],
            "data_layer": _data_layer(collector),
            "worst": [
                {"sample": m.sample, "label": names[m.label], "answer": names[m.answer], "score": m.score, "own": m.own}
                for m in judged.worst
            ],
        }
    if (several := collector.multi_label) and several.samples:
        names = class_names(several.labels, labels or names_beside(collector, about, several.labels))
        rows = [{"label": name, **row} for name, row in zip(names, several.by_label(), strict=True)]
        found["multi_label"] = {**several.found(), "labels": rows}
    if (detected := collector.detections) and detected.found:
        names = detected_names(collector, labels)
        found["detection"] = detected.figures(names)
    r = collector.regression
    if collector.fit and r and collector.fit.values + collector.fit.nan:
        found["regression"] = {
            "prediction": r.prediction.name,
            "target": r.target.name,
            **collector.fit.found(),
            "drawn": collector.fit.points.shape[1],
            "outputs": [output.found() for output in collector.fit.outputs],
        }
    return found


def detected_names(collector: OutputCollector, labels: list[str] | None) -> list[str]:
    """The names of the classes of objects: of labels, which have the background too, else of the data layer's label
    map, else numbers."""
    classes = collector.detections.classes if collector.detections else ()
    names = dict(enumerate(labels)) if labels else {}
    for node in collector.net.graph.feeds if not names else ():
        if name := node.layer.spec.annotated_data_param.label_map_file:
            file = prototxt.resolve(name, node.layer.locate)
            names = read_label_map(file) if file.exists() else {}
    return [names.get(label, str(label)) for label in classes]


def _data_layer(collector: OutputCollector) -> str | None:
    """The layer that reads the tested samples, as prototxt with absolute paths; None where it reads no images."""
    for node in collector.net.graph.nodes:
        if collector.source is not None and getattr(node.layer, "source", None) is collector.source:
            with contextlib.suppress(CaffeliteError):
                return prototxt.write(stored.independent(node.layer.spec, node.layer.locate))
    return None


def names_beside(collector: OutputCollector, about: dict, count: int) -> list[str] | None:
    """The names of the classes, where a file beside the net or its data has as many; else None."""
    feeds = [(node.layer.spec, node.layer.locate) for node in collector.net.graph.feeds]
    return of_net(about["model"], feeds, count) or None


def class_names(count: int, labels: list[str] | None) -> list[str]:
    if labels is not None and len(labels) != count:
        raise CaffeliteError("labels do not fit the net", expected=f"{count}, one a class", found=len(labels))
    return labels if labels is not None else [str(i) for i in range(count)]


def write(folder: Path, collector: OutputCollector, found: dict) -> Path:
    """Writes a self-contained report.html, report.json, and the pictures in the same folder; returns the page's path.
    Errors: it cannot be written."""
    images: dict[str, bytes | None] = {}
    judged, several = collector.classification, collector.multi_label
    if judged and "labels" in found:
        names = found["labels"]
        images = {
            "confusion": pictures.confusion(judged, names),
            "classes": pictures.classes(judged, names),
            "calibration": pictures.calibration(judged),
            "mistakes": pictures.mistakes(judged, collector.source, names),
            **metrics_page.class_images(judged, names),
        }
    if several and "multi_label" in found:
        images |= metrics_page.label_images(several, found["multi_label"])
    if collector.detections and "detection" in found:
        names = [row["label"] for row in found["detection"]["classes"]]
        images["precision_recall"] = pictures.precision_recall(collector.detections.curves(), names)
    if collector.fit and "regression" in found:
        points = collector.fit.points
        images |= {
            "predictions": pictures.predictions(points),
            "residuals": pictures.residuals(points),
            "residuals_over_predictions": pictures.residuals_over_predictions(points),
        }
    files = {f"{name}.png": body for name, body in images.items() if body}
    files["report.json"] = as_json(found).encode()
    files["report.html"] = page(found, images).encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in files.items():
            (folder / name).write_bytes(body)
    except OSError as error:
        raise CaffeliteError(f"cannot write to {folder}: {error.strerror}") from None
    return folder / "report.html"


def as_json(found: dict) -> str:
    """The report as JSON. A score that is not finite becomes null, because JSON has no NaN."""

    def finite(part):
        if isinstance(part, dict):
            return {key: finite(value) for key, value in part.items()}
        if isinstance(part, list):
            return [finite(value) for value in part]
        return None if isinstance(part, float) and not math.isfinite(part) else part

    return json.dumps(finite(found), indent=1, ensure_ascii=False, allow_nan=False)


def nan_note(found: dict) -> str | None:
    """How many samples have no answer, in words; None where all have one."""
    if fit := found.get("regression"):
        if not fit["nan"]:
            return None
        count = f"{fit['nan']:,} of {fit['nan'] + fit['values']:,}"
        return f"{count} values, predicted or true, are not finite: counted in no error, shown in no chart"
    if several := found.get("multi_label"):
        if not several["nan"]:
            return None
        count = f"{several['nan']:,} of {several['samples']:,}"
        return f"{count} samples have scores that are NaN (not a number) or infinite: counted as the answer no"
    if not found.get("nan"):
        return None
    return (
        f"{found['nan']:,} of {found['tested']:,} samples have scores that are NaN (not a number): counted as "
        "wrong, shown in no chart"
    )


def page(found: dict, images: dict[str, bytes | None]) -> str:
    title = f"{found['name'] or 'Net'}: test report"
    parts = [f"<section><h1>{html.escape(title)}</h1>{_about(found)}</section>"]
    if "accuracy" in found:
        parts.append(_headline(found))
    spans = [f"{number(s['low'])} to {number(s['high'])}" if s["low"] is not None else "" for s in found["scores"]]
    rows = [[s["name"], number(s["value"]), span, s["over"]] for s, span in zip(found["scores"], spans, strict=True)]
    text = "Means over the tested samples, with 95 % confidence intervals."
    parts.append(section("Scores", text, table(["output", "value", "95 %", "over"], rows)))
    if "accuracy" in found:
        parts += [*_classifier(found, images), *metrics_page.class_sections(found, images)]
    if "detection" in found:
        parts += detection.sections(found, images)
    if "multi_label" in found:
        parts += metrics_page.label_sections(found, images, nan_note(found))
    if "regression" in found:
        parts += _regression(found, images)
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def _about(found: dict) -> str:
    rows = [
        ("net", found["model"]),
        ("weights", found["weights"]),
        ("phase", found["phase"]),
        ("samples", found["samples"]),
        ("made", found["made"]),
    ]
    return "".join(f"<p>{name}: {html.escape(str(value))}</p>" for name, value in rows if value is not None)


def _headline(found: dict) -> str:
    score = next(
        (s for s in found["scores"] if s["low"] is not None and abs(s["value"] - found["accuracy"]) < 1e-6), None
    )
    span = f" (95 %: {100 * score['low']:.2f} to {100 * score['high']:.2f})" if score else ""
    five = f"; top 5: {100 * found['top5']:.2f} %" if len(found["labels"]) > 5 else ""
    text = f"{found['right']:,} of {found['tested']:,} correct{span}{five}"
    text += f"; balanced accuracy, the mean recall of the classes: {100 * found['balanced_accuracy']:.2f} %"
    text += f"; log loss {found['log_loss']:.4f}" if found["log_loss"] is not None else ""
    note = f'<p class="bad">{html.escape(nan_note(found) or "")}</p>' if found["nan"] else ""
    return f'<section><div class="big">{100 * found["accuracy"]:.2f} %</div><p>{text}</p>{note}</section>'


def _classifier(found: dict, images: dict[str, bytes | None]) -> list[str]:
    confused = table(
        ["label", "predicted as", "samples"], [[c["label"], c["answer"], c["times"]] for c in found["confused"]]
    )
    rows = [
        [c["label"], c["samples"], *(percent(c[key]) for key in ("precision", "recall")), _span(c), percent(c["f1"])]
        for c in found["classes"]
    ]
    alts = _alts(found)
    by_class = f'<div class="scroll">{table(["class", "samples", "precision", "recall", "95 %", "F1"], rows)}</div>'
    sections = [
        section(
            "Confusion matrix",
            "Rows are labels, columns are predictions; the most frequent errors follow below.",
            image(images["confusion"], alts["confusion"]) + confused,
        ),
        section(
            "Classes",
            "The chart has the lowest recall first; the table has the order of the classes.",
            image(images["classes"], alts["classes"]) + by_class,
        ),
        section(
            "Calibration",
            "On the dashed line predictions with a confidence of 80 % are right in 80 of 100 cases; below it the net "
            "is overconfident.",
            image(images["calibration"], alts["calibration"]),
        ),
    ]
    if images.get("mistakes"):
        sections.append(
            section(
                "Worst errors",
                "Label > predicted class, with its probability. The images are shown as they are stored.",
                image(images["mistakes"], alts["mistakes"]),
            )
        )
    elif found["right"] + found["nan"] == found["tested"]:
        sections.append(
            section(
                "Worst errors",
                "No errors." if not found["nan"] else "No errors, except for the samples with NaN.",
                "",
            )
        )
    return sections


def _regression(found: dict, images: dict[str, bytes | None]) -> list[str]:
    fit = found["regression"]
    errors = {
        "mae": "MAE, the mean absolute error",
        "rmse": "RMSE, the root of the mean squared error",
        "mean_error": "mean error, prediction less true value",
        "r2": "R², the share of the variance that is explained",
    }
    rows = [[text, number(fit[key]) if fit[key] is not None else "none"] for key, text in errors.items()]
    note = f'<p class="bad">{html.escape(nan_note(found) or "")}</p>' if fit["nan"] else ""
    text = f"{fit['values']:,} values of {fit['prediction']}, compared with {fit['target']}."
    errors_text = f"MAE {rows[0][1]}, RMSE {rows[1][1]}, R² {rows[3][1]}"
    sections = [section("Errors", text, note + table(["error", "value"], rows) + metrics_page.outputs_table(fit))]
    part = f" {fit['drawn']:,} of the values are drawn." if fit["drawn"] < fit["values"] else ""
    if images.get("predictions"):
        alts = (
            f"Predictions over true values as points, and the diagonal on which both are equal; {errors_text}.",
            f"Histogram of the errors, prediction less true value; their mean is {rows[2][1]}.",
            "Errors over predictions as points; a line marks an error of 0.",
        )
        sections += [
            section(
                "Predicted and true values",
                f"On the dashed line both are equal.{part}",
                image(images["predictions"], alts[0]),
            ),
            section(
                "Residuals",
                f"How often an error is how large, and how errors depend on the prediction; an error is prediction "
                f"less true value.{part}",
                image(images["residuals"], alts[1]) + image(images["residuals_over_predictions"], alts[2]),
            ),
        ]
    return sections


def _alts(found: dict) -> dict[str, str]:
    """The caption of each picture."""
    most = found["confused"][0] if found["confused"] else None
    recalls = [(c["recall"], c["label"]) for c in found["classes"] if c["recall"] is not None]
    worst = (
        f"; the most frequent error is {most['label']} predicted as {most['answer']} ({most['times']})"
        if most
        else "; there are no errors"
    )
    least = f"; the lowest recall is {percent(min(recalls)[0])}, of {min(recalls)[1]}" if recalls else ""
    return {
        "confusion": f"Confusion matrix of {len(found['labels'])} classes, labels by predictions{worst}.",
        "classes": f"Precision and recall of each class, the lowest recall first{least}.",
        "calibration": "Accuracy over the probability of the predicted class, and the number of samples; the expected "
        "calibration error is "
        f"{found['calibration_error']:.4f}.",
        "mistakes": f"Worst errors as images ({len(found['worst'])}), with label, predicted class and probability.",
    }


def _span(row: dict) -> str:
    return "" if row["low"] is None else f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
