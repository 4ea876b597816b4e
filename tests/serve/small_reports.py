"""A test report of a classifier of two classes, as `caffelite test -report` writes it."""

import json

import cv2
import numpy as np
from small_runs import NET, train


def write_report(folder, source, weights="x.caffemodel"):
    """The report of the images of a list: two of class a are taken for b, of which the first one is listed."""
    param = f'image_data_param {{ source: "{source}" batch_size: 1 }}'
    classes = [{"label": "a", "recall": 1 / 3}, {"label": "b", "recall": 1.0}]
    content = {
        **{"name": "n", "weights": str(weights), "made": "2026-01-01", "accuracy": 0.75, "tested": 4, "samples": 4},
        "data_layer": f'name: "data" top: "data" top: "label" type: "ImageData" {param}',
        **{"labels": ["a", "b"], "confusion": [[1, 2], [0, 1]], "top": {}, "right": 2, "nan": 0, "scores": []},
        **{"balanced_accuracy": 0.5, "calibration_error": 0.1, "log_loss": 0.3, "calibration": []},
        "classes": [{**each, "samples": 3, "precision": 1.0, "f1": None} for each in classes],
        "confused": [{"label": "a", "answer": "b", "times": 2}],
        "worst": [{"sample": 0, "label": "a", "answer": "b", "score": 0.99}],
        "cells": [{"label": 0, "answer": 1, "samples": [0]}],
    }
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(content))
    (folder / "report.html").write_text("")


def make_tested_run(root):
    """Pictures of two classes, a list of them, the run "first" that learned from it, and its report. The working folder
    must be the root."""
    rng, lines = np.random.default_rng(3), []
    for i in range(8):
        path = root / "pets" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), rng.integers(0, 255, (8, 8, 3), np.uint8))
        lines.append(f"pets/{path.parent.name}/{i}.png {i % 2}\n")
    (root / "lists").mkdir()
    (root / "lists/train.txt").write_text("".join(lines))
    (root / "lists/labels.txt").write_text("a\nb\n")
    layer = 'type: "ImageData" top: "data" top: "label" transform_param { scale: 0.00390625 }'
    layer += ' image_data_param { source: "lists/train.txt" batch_size: 4 }'
    start, end = NET.index("layer {"), NET.index('layer { name: "conv"')
    (root / "net.prototxt").write_text(f'{NET[:start]}layer {{ name: "data" {layer} }}\n{NET[end:]}')
    train(root, "first", "best_score=accuracy")
    write_report(root / "report", root / "lists/train.txt", root / "first_best.caffemodel")
