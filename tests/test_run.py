"""Training in Python: the same run as the command's, its records as arrays, and what a notebook shows of it."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tiny_project import NET, SOLVER

import caffelite
from caffelite.errors import CaffeliteError

TESTED = "test_iter: 2 test_interval: 2 display: 1 best_score: 'accuracy' random_seed: 3 max_iter: 6"
ACCURACY = 'layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" include { phase: TEST } }\n'


@pytest.fixture
def solver(in_tmp_path):
    Path("net.prototxt").write_text(NET + ACCURACY.replace('bottom: "label"', 'bottom: "label" top: "accuracy"'))
    Path("solver.prototxt").write_text(SOLVER.replace("max_iter: 3", "") + TESTED)
    return "solver.prototxt"


def test_a_run_is_that_of_the_command(solver):
    steps = []
    run = caffelite.train(solver, on_progress=lambda s: steps.append((s.iteration, s.total, s.rate, s.loss)), bar=False)
    assert [step[:2] for step in steps] == [(i, 6) for i in range(1, 7)]
    np.testing.assert_allclose([step[3] for step in steps], run.losses, rtol=1e-5)
    np.testing.assert_allclose([step[2] for step in steps], 0.01)
    assert (run.state, run.iteration, len(run.losses)) == ("finished", 6, 6)
    words = ["train", "-solver", solver, "-record", "other_run", "-set", "snapshot_prefix=other"]
    subprocess.run([sys.executable, "-m", "caffelite", *words], check=True, capture_output=True)
    other = caffelite.Run("other_run")
    np.testing.assert_array_equal(run.losses, other.losses)
    for phase, columns in run.history.items():
        for name in columns.keys() - {"seconds"}:
            np.testing.assert_array_equal(columns[name], other.history[phase][name])
    assert run.history["test"]["iteration"].tolist() == [0, 2, 4, 6]
    assert run.scores["accuracy"] == run.history["test"]["accuracy"][-1]
    assert {each.folder.name for each in caffelite.list_runs()} == {"tiny_run", "other_run"}


def test_arguments_are_those_of_the_command(solver):
    ends: set[int] = set()
    first = caffelite.train(
        solver,
        iterations=3,
        overrides=["base_lr=0.5"],
        record="short_run",
        bar=False,
        on_progress=lambda step: ends.add(step.trainer.state.end),
    )
    assert ends == {3}, "what the log's time left counts to"
    assert (first.iteration, first.history["train"]["rate"].tolist()) == (3, [0.5] * 3)
    resumed = caffelite.train(solver, resume=True, record="short_run", bar=False)
    assert resumed.iteration == 6 and len(resumed.losses) == 6
    with pytest.raises(CaffeliteError, match="no layer of the file|cannot read"):
        caffelite.train(solver, weights="absent.caffemodel", bar=False)


def test_what_a_notebook_shows(solver):
    run = caffelite.train(solver, bar=False)
    assert run.frame().query("phase == 'test'")["accuracy"].tolist() == run.history["test"]["accuracy"].tolist()
    shown = run._repr_html_()
    tests = run.history["test"]
    most = tests["accuracy"].max()
    best = min(zip(tests["loss"], tests["iteration"], tests["accuracy"], strict=True), key=lambda t: (-t[2], t[0]))
    assert (run.best_test["iteration"], run.best_test["score"], run.best_test["value"]) == (best[1], "accuracy", most)
    assert "finished" in shown and f"tiny_best.caffemodel, of iteration {best[1]}" in shown and "<svg" in shown
    run.plot("curves.png")
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    assert repr(run).startswith("<Run tiny_run: finished, iteration 6, ")
    np.testing.assert_array_equal(
        run.net().params["ip"][0].data, caffelite.Net("tiny_run/net.prototxt", run.best).params["ip"][0].data
    )


def test_the_confusion_is_that_of_all_test_data(solver):
    run = caffelite.train(solver, bar=False)
    confusion = run.confusion()
    words = ["test", "-model", "net.prototxt", "-weights", str(run.best), "-json"]
    printed = subprocess.run([sys.executable, "-m", "caffelite", *words], check=True, capture_output=True, text=True)
    assert json.loads(printed.stdout)["confusion"] == confusion.counts.tolist()
    assert confusion.counts.shape == (2, 2) and confusion.counts.sum() > 0
    assert confusion.accuracy == confusion.counts[0, 0] / confusion.counts.sum(), "all samples are of class 0"
    assert list(confusion.frame().index) == ["0", "1"]


def test_a_thread_may_train(solver):
    thread = threading.Thread(target=caffelite.train, args=(solver,), kwargs={"bar": False})
    thread.start()
    thread.join()
    assert caffelite.Run("tiny_run").state == "finished"


def test_a_folder_without_a_run_is_an_error(in_tmp_path):
    Path("empty").mkdir()
    with pytest.raises(CaffeliteError):
        caffelite.Run("empty")


def test_the_names_of_the_package_are_listed():
    assert {"Net", "Solver", "Run", "train", "list_runs", "load", "new_project"} <= {*dir(caffelite)}
    assert all(getattr(caffelite, name) is not None for name in dir(caffelite))
