"""The report of a net with several labels for each sample."""

import json
from pathlib import Path

import numpy as np
import pytest
from report_pages import Page, write_weights

from caffelite.data.writers import write_hdf5

LABELS_NET = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "t" hdf5_data_param { source: "many.txt" batch_size: 8 } }
layer { name: "score" type: "InnerProduct" bottom: "x" top: "score"
  inner_product_param { num_output: 3 bias_term: false } }
layer { name: "loss" type: "SigmoidCrossEntropyLoss" bottom: "score" bottom: "t" top: "loss" LOSS }
"""


@pytest.fixture
def several(folder, seed):
    """Logits and targets of 50 samples with three labels; the net passes the logits on."""
    rng = np.random.default_rng(seed)
    targets = (rng.random((50, 3)) < [0.5, 0.2, 0.1]).astype(float)
    targets[:2] = [[1, 1, 1], [0, 0, 0]]
    logits = (rng.normal(size=(50, 3)) + 2 * targets - 1).round(1)
    write_hdf5(folder / "many.h5", {"x": logits, "t": targets})
    (folder / "many.txt").write_text("many.h5\n")
    (folder / "several.prototxt").write_text(LABELS_NET.replace("LOSS", ""))
    write_weights(folder / "several.caffemodel", {"score": [np.eye(3, dtype=np.float32)]})
    return logits.astype(np.float32).astype(float), targets.astype(int)


def run_several(call, *more):
    result = call("test", "-model", "several.prototxt", "-weights", "several.caffemodel", "-report", "out", *more)
    assert result.status == 0, result.err
    return json.loads(Path("out/report.json").read_text())["multi_label"]


def test_the_report_of_several_labels(several, call, folder):
    from sklearn import metrics

    logits, targets = several
    (folder / "three.txt").write_text("cat\n<dog>\nbird\n")
    actual = run_several(call, "-labels", "three.txt")
    scores = 1 / (1 + np.exp(-logits))
    answers = (scores >= 0.5).astype(int)
    assert actual["samples"] == 50 and actual["exact_match"] == pytest.approx(metrics.accuracy_score(targets, answers))
    assert actual["label_accuracy"] == pytest.approx(1 - metrics.hamming_loss(targets, answers))
    assert actual["macro_f1"] == pytest.approx(metrics.f1_score(targets, answers, average="macro"))
    assert actual["micro_f1"] == pytest.approx(metrics.f1_score(targets, answers, average="micro"))
    assert actual["mean_ap"] == pytest.approx(metrics.average_precision_score(targets, scores))
    for c, row in enumerate(actual["labels"]):
        t, a, s = targets[:, c], answers[:, c], scores[:, c]
        expected = (metrics.precision_score(t, a), metrics.recall_score(t, a), metrics.f1_score(t, a))
        assert (row["precision"], row["recall"], row["f1"]) == pytest.approx(expected)
        assert row["ap"] == pytest.approx(metrics.average_precision_score(t, s))
        assert row["auc"] == pytest.approx(metrics.roc_auc_score(t, s))
    page = Page()
    page.feed(Path("out/report.html").read_text())
    assert not page.open and "exact match" in page.text and "<dog>" in page.text
    assert sorted(p.name for p in Path("out").glob("*.png")) == ["labels.png", "precision_recall.png", "roc.png"]


def test_targets_that_are_ignored_count_for_nothing(several, call, folder):
    logits, targets = several
    marked = targets.astype(float)
    marked[5:20, 1] = 7
    write_hdf5(folder / "many.h5", {"x": logits, "t": marked}, force=True)
    (folder / "several.prototxt").write_text(LABELS_NET.replace("LOSS", "loss_param { ignore_label: 7 }"))
    actual = run_several(call)
    answers, valid = logits >= 0, marked != 7
    row, mine = actual["labels"][1], valid[:, 1]
    assert row["samples"] == 35 and row["positive"] == targets[mine, 1].sum()
    assert row["recall"] == pytest.approx((answers & (targets == 1))[mine, 1].sum() / targets[mine, 1].sum())
    assert actual["exact_match"] == pytest.approx(((answers == targets) | ~valid).all(1).mean())


def test_targets_that_are_no_labels_give_no_label_figures(several, call, folder):
    logits, targets = several
    write_hdf5(folder / "many.h5", {"x": logits, "t": targets * 0.5}, force=True)
    result = call("test", "-model", "several.prototxt", "-weights", "several.caffemodel", "-json")
    assert result.status == 0 and "multi_label" not in json.loads(result.out)


def test_infinite_scores_of_several_labels_are_reported(several, call, folder):
    logits, targets = several
    logits = logits.copy()
    logits[4, 1] = np.nan
    write_hdf5(folder / "many.h5", {"x": logits, "t": targets.astype(float)}, force=True)
    actual = run_several(call)
    assert actual["nan"] == 1 and "1 of 50 samples have scores that are NaN" in Path("out/report.html").read_text()
