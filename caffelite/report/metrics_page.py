"""Sections of a report beyond the confusion matrix: curves, top-k, segmentation, several labels, several outputs."""

from __future__ import annotations

import html

from . import pictures
from .elements import image, number, percent, section, table
from .multilabel import MultiLabel
from .ranking import mean
from .statistics import Classification

Images = dict[str, bytes | None]


def class_figures(judged: Classification, names: list[str]) -> dict:
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


def class_images(judged: Classification, names: list[str]) -> Images:
    """The pictures of ``class_sections``, by name."""
    if judged.pixels:
        return {"iou": pictures.intersection_over_union(judged, names)}
    curves = judged.curves()
    if not curves:
        return {}
    return {"roc": pictures.roc(curves, names), "precision_recall": pictures.precision_recall(curves, names)}


def class_sections(found: dict, images: Images) -> list[str]:
    """Top-k, then curves or, of pixels, the intersection over union."""
    names, sections = found["labels"], []
    if len(names) > 2:
        rows = [[f"top {k}", percent(share)] for k, share in found["top"].items()]
        sections.append(section("Top k", "The share of labels among the k best scores.", table(["", "share"], rows)))
    if part := found.get("segmentation"):
        rows = [[name, percent(share)] for name, share in zip(names, part["iou"], strict=True)]
        alt = f"Intersection over union of each class; the mean is {percent(part['mean_iou'])}."
        body = image(images.get("iou"), alt) + _scroll(table(["class", "IoU"], rows))
        text = (
            f"Mean IoU {percent(part['mean_iou'])}, over the classes that are a label or an answer of any pixel. The "
            "intersection over union of a class is TP / (TP + FP + FN)."
        )
        return [*sections, section("Segmentation", text, body)]
    return [*sections, *_curve_sections(found["curves"], names, images)]


def _curve_sections(part: dict, names: list[str], images: Images) -> list[str]:
    if part["mean_auc"] is None:
        return []
    rows = [[name, _share(auc), _share(ap)] for name, auc, ap in zip(names, part["auc"], part["ap"], strict=True)]
    several = f" Drawn are the {pictures.MOST_CURVES} classes with the lowest average precision."
    text = (
        f"Each class against the rest, over all thresholds of its probability, from {part['samples']:,} samples. Means "
        f"over classes: area under the ROC curve {_share(part['mean_auc'])}, average precision "
        f"{_share(part['mean_ap'])}.{several if len(names) > pictures.MOST_CURVES else ''}"
    )
    body = image(images.get("roc"), f"ROC curves by class; the mean area is {_share(part['mean_auc'])}.")
    alt = f"Precision over recall by class; the mean average precision is {_share(part['mean_ap'])}."
    body += image(images.get("precision_recall"), alt)
    body += _scroll(table(["class", "area under ROC", "average precision"], rows))
    return [section("ROC and precision-recall curves", text, body)]


def label_images(judged: MultiLabel, found: dict) -> Images:
    """The pictures of ``label_sections``, by name."""
    names = [row["label"] for row in found["labels"]]
    curves = judged.curves()
    return {
        "labels": pictures.label_scores(judged, names),
        "roc": pictures.roc(curves, names),
        "precision_recall": pictures.precision_recall(curves, names),
    }


def label_sections(found: dict, images: Images, note: str | None) -> list[str]:
    """Of several labels for each sample: the figures over all and by label, then the curves."""
    part = found["multi_label"]
    names = {
        "exact_match": "exact match: samples with every label right",
        "label_accuracy": "right decisions of all",
        "mean_ap": "mean average precision of the labels",
        "macro_f1": "macro F1, the mean over labels",
        "micro_f1": "micro F1, over all decisions",
    }
    rows = [[text, _share(part[key])] for key, text in names.items()]
    by_label = [
        [
            r["label"],
            r["samples"],
            r["positive"],
            *(_share(r[key]) for key in ("precision", "recall", "f1", "ap", "auc")),
        ]
        for r in part["labels"]
    ]
    head = ["label", "samples", "positive", "precision", "recall", "F1", "AP", "ROC area"]
    warning = f'<p class="bad">{html.escape(note)}</p>' if note else ""
    text = f"{part['samples']:,} samples; a label is answered with yes from a probability of {part['threshold']:g} on."
    alt = f"Precision, recall and average precision of each label; the mean AP is {_share(part['mean_ap'])}."
    sections = [
        section("Several labels", text, warning + table(["figure", "value"], rows)),
        section("Labels", "The lowest average precision first in the picture, in their order in the table.",
                image(images.get("labels"), alt) + _scroll(table(head, by_label))),
    ]  # fmt: skip
    curves = {
        "samples": part["curve_samples"],
        "auc": [r["auc"] for r in part["labels"]],
        "ap": [r["ap"] for r in part["labels"]],
        "mean_ap": part["mean_ap"],
    }
    curves["mean_auc"] = mean(curves["auc"])
    return sections + _curve_sections(curves, [r["label"] for r in part["labels"]], images)


def outputs_table(fit: dict) -> str:
    """The errors of each number of a regression that predicts several."""
    rows = [
        [str(i), *("none" if one[key] is None else number(one[key]) for key in ("mae", "rmse", "r2"))]
        for i, one in enumerate(fit["outputs"])
    ]
    return _scroll(table(["output", "MAE", "RMSE", "R²"], rows)) if rows else ""


def _scroll(body: str) -> str:
    return f'<div class="scroll">{body}</div>'


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
