"""The score of each class over the tests of a run: as arrays, in pictures, lists of runs and reports."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_project import NET, SOLVER

import caffelite
from caffelite.cli.runs import comparison_text, list_text
from caffelite.runs import class_scores, history, listing
from caffelite.runs.history import History, Row
from caffelite.runs.picture import picture

ACCURACY = """layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" top: "right"
  include { phase: TEST } }
"""


@pytest.fixture
def run(in_tmp_path):
    """A run of a net of two classes, cat and dog, whose four tests score each."""
    Path("net.prototxt").write_text(NET + ACCURACY)
    Path("labels.txt").write_text("cat\ndog\n")
    test = "test_iter: 2 test_interval: 1 best_score: 'accuracy' random_seed: 3\n"
    Path("solver.prototxt").write_text(SOLVER + test)
    trained = caffelite.train("solver.prototxt", record="tiny_run", bar=False)
    Path("tiny_run/labels.txt").write_text("cat\ndog\n")
    return trained


def test_the_history_has_a_column_for_each_class(run):
    test = run.history["test"]
    assert run.labels == ["cat", "dog"] and test["right"].shape == (4, 2)
    np.testing.assert_array_equal(test["right"][:, 0], test["accuracy"])
    assert np.isnan(test["right"][:, 1]).all(), "no sample is of class 1"
    frame = run.frame().query("phase == 'test'")
    assert frame["right[cat]"].tolist() == test["right"][:, 0].tolist() and "right[dog]" in frame
    assert set(run.scores) == {"loss", "accuracy"}


def test_lists_of_runs_have_no_column_for_each_class(run):
    runs = listing.find(["."])
    assert "right" not in list_text(runs) and "accuracy" in list_text(runs)
    assert listing.chosen(runs, conditions=["right[0]>=0"]) == runs, "a condition may name one"
    assert "right[0]" in comparison_text(listing.compare(runs * 2))
    assert "right" not in comparison_text(listing.compare(runs * 7)), "a row for each run"


def test_a_report_has_the_classes_of_the_tests_of_its_run(run, call):
    words = ["test", "-model", "net.prototxt", "-weights", str(run.best), "-report"]
    assert call(*words, "out").status == 0
    actual = json.loads(Path("out/report.json").read_text())["by_test"]
    assert actual["iterations"] == [0, 1, 2, 3]
    np.testing.assert_array_equal(np.array(actual["scores"], float).T, run.history["test"]["right"])
    assert Path("out/by_test.png").exists() and "Classes while it trained" in Path("out/report.html").read_text()
    Path("tiny_run").rename("elsewhere_run")
    content = json.loads(Path("elsewhere_run/run.json").read_text())
    content["sessions"][0]["run"] = "another"
    Path("elsewhere_run/run.json").write_text(json.dumps(content))
    assert call(*words, "other").status == 0
    assert "by_test" not in json.loads(Path("other/report.json").read_text()), "the run is another one"


def test_the_lowest_classes_are_drawn_where_there_are_many(monkeypatch):
    count = 12
    rows = [Row(i, i, {f"right[{c}]": (c * 5 % count) / 20 + i / 10 for c in range(count)}) for i in range(3)]
    few = [Row(row.iteration, row.seconds, {f"right[{c}]": 0.5 for c in range(3)}) for row in rows]
    figures = []
    monkeypatch.setattr("caffelite.runs.picture.saved", lambda figure, form: figures.append(figure) or b"")
    picture([History("many", tests={0: rows})], "svg")
    picture([History("few", tests={0: few})], "svg")
    (many_axis,), (few_axis,) = (figure.axes for figure in figures)
    assert many_axis.get_ylabel() == "right\nlowest 8 of 12" and few_axis.get_ylabel() == "right"
    lowest = sorted(range(count), key=lambda c: c * 5 % count)[:8]
    assert [line.get_label() for line in many_axis.lines] == [str(c) for c in sorted(lowest)]
    assert len(few_axis.lines) == 3
    accuracy = Row(0, 0.0, {"accuracy": 0.5})
    two = [History(name, tests={0: [*rows, accuracy]}) for name in "ab"]
    picture(two, "svg")
    assert [axis.get_ylabel() for axis in figures[2].axes] == ["accuracy"], "of several runs the classes are left out"


def test_a_class_without_a_score_is_nan_and_the_last_to_be_drawn():
    rows = [Row(0, 0.0, {"loss": 1.0}), Row(1, 1.0, {"right[0]": 0.5, "right[2]": 0.25})]
    actual = class_scores.columns(rows)
    assert set(actual) == {"loss", "right"}
    np.testing.assert_array_equal(actual["right"], [[np.nan] * 3, [0.5, np.nan, 0.25]])
    assert class_scores.lowest(actual["right"], 2) == [0, 2]


@pytest.mark.parametrize("name, index", [("right[12]", 12), ("right", None), ("right[b]", None)])
def test_the_output_of_a_score(name, index):
    assert history.output_of(name) == (name if index is None else "right", index)
