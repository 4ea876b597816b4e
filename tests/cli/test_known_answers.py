"""`caffelite classify -list` and its report: the figures of `caffelite test` for pictures with known answers."""

import json

import numpy as np
import pytest

from caffelite.report import known


@pytest.fixture
def digits(tmp_path, monkeypatch, call):
    """A net that ships, whose pictures have a folder for each class, and a seven among the ones."""
    monkeypatch.chdir(tmp_path)
    assert call("models", "lenet_mnist").ok
    seven = tmp_path / "lenet_mnist/pictures/7/7.png"
    seven.rename(tmp_path / "lenet_mnist/pictures/1/seven.png")
    return tmp_path


def classify(call, *words):
    return call("classify", "-model", "lenet_mnist", *words)


def test_class_folders_are_scored_with_a_report(digits, call, caplog):
    (digits / "lenet_mnist/pictures/1/notes.txt").write_text("none")
    actual = classify(call, "-list", "lenet_mnist/pictures", "-report", "report").ok
    assert "accuracy: 0.9, 95 % between" in actual.out
    assert "1/notes.txt: not an image by its name" in caplog.text
    report = json.loads((digits / "report/report.json").read_text())
    assert (report["right"], report["tested"], report["confusion"][1][7]) == (9, 10, 1)
    listed = (digits / "report/images.txt").read_text().splitlines()
    assert [listed[row["sample"]] for row in report["worst"]] == [f"{digits}/lenet_mnist/pictures/1/seven.png 1"]
    assert "9 of 10 correct" in (digits / "report/report.html").read_text()


def test_corrected_labels_count(digits, call):
    (digits / "lenet_mnist/pictures_corrections.csv").write_text("file,label\n1/seven.png,7\n0/0.png,\n")
    actual = classify(call, "-list", "lenet_mnist/pictures", "-json").ok
    scores = {score["name"]: score for score in json.loads(actual.out)["scores"]}
    assert (scores["accuracy"]["value"], scores["accuracy"]["samples"], "0" in scores) == (1, 9, False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("lenet_mnist/pictures", "-report", "report"), "-report needs known answers"),
        (("-list", "other"), "another class"),
        (("-list", "empty"), "no class folders"),
    ],
)
def test_what_cannot_be_scored_is_refused(digits, call, words, expected):
    (digits / "other/cat").mkdir(parents=True)
    (digits / "lenet_mnist/pictures/2/2.png").rename(digits / "other/cat/2.png")
    (digits / "empty").mkdir()
    result = classify(call, *words)
    assert result.status == 2 and expected in result.err and not (digits / "report").exists()


def test_scores_that_are_no_probabilities_get_a_softmax():
    rows = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert known.probabilities(rows) is rows
    actual = known.probabilities(np.array([[1000.0, 1000.0], [-1.0, 3.0]]))
    assert actual.sum(1) == pytest.approx([1, 1]) and actual[0] == pytest.approx([0.5, 0.5])


def test_a_folder_says_what_it_leaves_out(digits, call, caplog):
    for name in ("notes.txt", ".hidden", "Thumbs.db"):
        (digits / "lenet_mnist/pictures/1" / name).write_text("none")
    actual = classify(call, "lenet_mnist/pictures", "-json").ok
    assert len(json.loads(actual.out)) == 10
    (warned,) = [text for text in caplog.messages if "left out" in text]
    assert warned.endswith("no pictures by their names, 1 file is left out: lenet_mnist/pictures/1/notes.txt")


def test_a_tie_is_no_hit_as_in_a_test():
    judged = known.judge(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1]))
    assert [score.value for score in known.classes(judged, ["a", "b"])] == [0.5, 0, 1]
