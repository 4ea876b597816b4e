"""Logs and metrics are read the same; a run that was resumed is one curve; Caffe's tables come out byte for byte."""

import json
import math
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs import history
from caffelite.runs.history import of_log, of_metrics, read, read_tests
from caffelite.runs.picture import _panels

METRICS = """iteration,seconds,phase,rate,smoothed_loss,accuracy,loss
0,0.5,test,,,0.1,
0,1,train,0.1,2.5,,2.5
20,2,train,0.1,2,,2
40,3,test,,,0.5,
40,4,train,0.01,1.5,,1.5
60,5,train,0.01,nan,,nan
40,6.5,test,,,0.6,
40,7,train,0.01,1.5,,1.5
60,8,train,0.001,1,,1
80,9,test,,,0.7,
"""


def curves(history):
    train = [(r.iteration, r.values["loss"], r.rate) for r in history.train]
    return train, [(r.iteration, r.values["accuracy"]) for r in history.tests[0]]


@pytest.mark.parametrize("form", ["log", "metrics"])
def test_an_interrupted_run_is_one_curve(form, interrupted):
    actual = of_log(interrupted, "log") if form == "log" else of_metrics(METRICS + "80,9.5,tra", "run")
    assert curves(actual) == (
        [(0, 2.5, 0.1), (20, 2, 0.1), (40, 1.5, 0.01), (60, 1, 1e-3)],
        [(0, 0.1), (40, 0.6), (80, 0.7)],
    )
    assert actual.train[1].loss == 2
    seconds = [row.seconds for row in actual.train]
    assert seconds == sorted(seconds) and seconds[-1] == pytest.approx(8, abs=0.1), "the year ended meanwhile"


def test_tests_are_read_without_the_rows_of_training(tmp_path):
    """A table of millions of displays needs no memory for them."""
    many = "".join(f"{i},{i},train,0.1,1,,1\n" for i in range(81, 30000))
    (tmp_path / "metrics.csv").write_text(METRICS + many + "30000,9,test,,,0.8,\n30001,9,te")
    tracemalloc.start()
    tests = read_tests(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert repr(tests) == repr(read(tmp_path).tests)
    assert [row.values["accuracy"] for row in tests[0]] == [0.1, 0.6, 0.7, 0.8]
    assert peak < len(many) / 4
    with pytest.raises(CaffeliteError, match=r"cannot read .*absent.metrics.csv: no such file"):
        read_tests(tmp_path / "absent")


def test_nan_and_several_nets(interrupted):
    actual = of_log(
        [*interrupted[:11], *[line.replace("#0)", "#1)").replace("0.5", "0.9") for line in interrupted[9:11]]], "log"
    )
    assert [(n, [row.values["accuracy"] for row in rows]) for n, rows in actual.tests.items()] == [
        (0, [0.1, 0.5]),
        (1, [0.9]),
    ]
    assert math.isnan(of_log(interrupted[:17], "log").train[-1].values["loss"])


def test_tables(tmp_path, interrupted):
    log = tmp_path / "run.log"
    log.write_text("\n".join(interrupted))
    paths = history.write_tables(read(log), tmp_path)
    assert [path.name for path in paths] == ["run.log.train", "run.log.test"]
    head, *rows = paths[1].read_text().splitlines()
    assert head == "NumIters,Seconds,LearningRate,accuracy"
    assert [row.split(",")[0::2] for row in rows] == [["0.0", "0.1"], ["40.0", "0.1"], ["80.0", "0.001"]], (
        "the rate displayed before a row"
    )
    assert paths[0].read_text().splitlines()[2] == "20.0,2.01,0.1,2.0"


def test_caffes_own_log_gives_its_own_tables(tmp_path):
    folder = os.environ.get("CAFFELITE_LOGS")
    if not folder:
        pytest.skip("CAFFELITE_LOGS, a folder of Caffe's logs with their tables, is not set")
    logs = [path for path in Path(folder).glob("*.log") if path.with_name(f"{path.name}.train").exists()]
    assert logs
    for log in logs:
        for path in history.write_tables(read(log), tmp_path):
            assert path.read_text() == (log.parent / path.name).read_text()


def test_a_loss_after_the_last_display_ends_the_curve(tmp_path, interrupted):
    """A run's records have the loss of every iteration, a log has that of the last one."""
    losses = np.linspace(3, 0.5, 80, dtype="<f4")
    losses[[0, 20, 40, 60]] = 2.5, 2, 1.5, 1
    text = METRICS.replace(",0.1,2,,2", ",0.1,9,,2")
    (tmp_path / "metrics.csv").write_text(text)  # the smoothed loss is another number
    losses.tofile(tmp_path / "losses.f32")
    actual = read(tmp_path)
    assert [(r.iteration, r.values["loss"]) for r in actual.curve("loss")[-2:]] == [(60, 1), (79, 0.5)]
    assert actual.curve("loss")[-1].seconds == pytest.approx(8 + 19 * 7 / 60) and len(actual.train) == 4
    assert [r.iteration for r in actual.curve("accuracy", 0)] == [0, 40, 80]
    logged = of_log([*interrupted, "I0101 00:00:07.000 77 solver.cpp:1] Iteration 80, loss = 0.5"], "log")
    assert [(r.iteration, r.values["loss"]) for r in logged.curve("loss")[-2:]] == [(60, 1), (80, 0.5)]


def test_a_run_without_display_has_a_loss_curve(tmp_path):
    """Of the losses alone; Caffe's tables have no such rows."""
    losses = np.linspace(3, 0.5, 2500, dtype="<f4")
    losses.tofile(tmp_path / "losses.f32")
    (tmp_path / "metrics.csv").write_text("iteration,seconds,phase,rate,smoothed_loss,accuracy\n")
    outcome = {"iteration": 2500, "seconds": 50.0, "rate": 0.01}
    (tmp_path / "run.json").write_text(json.dumps({"sessions": [{"outcome": outcome}]}))
    actual = read(tmp_path)
    rows = actual.curve("loss")
    assert len(rows) <= 1001 and rows[0].iteration == 0 and rows[-1].iteration == 2499 and not actual.train
    assert [row.values["loss"] for row in rows] == [losses[row.iteration] for row in rows]
    assert rows[-1].seconds == pytest.approx(49.98) and actual.last_rate is None
    (tmp_path / "run.json").write_text("[]")
    assert math.isnan(read(tmp_path).curve("loss")[-1].seconds)


def test_the_rate_curve_ends_with_the_run(tmp_path):
    (tmp_path / "metrics.csv").write_text(METRICS)
    np.linspace(9, 8, 80, dtype="<f4").tofile(tmp_path / "losses.f32")
    outcome = {"iteration": 80, "seconds": 10.0, "rate": 5e-4}
    (tmp_path / "run.json").write_text(json.dumps({"sessions": [{"outcome": outcome}]}))
    (curve,) = _panels([read(tmp_path)])["rate"]
    assert [(row.iteration, row.rate) for row in curve[2][-2:]] == [(60, 1e-3), (79, 5e-4)]
    outcome["iteration"] = 70  # of another session than the losses
    (tmp_path / "run.json").write_text(json.dumps({"sessions": [{"outcome": outcome}]}))
    assert read(tmp_path).last_rate is None


def test_a_loss_that_no_score_shows_ends_no_curve(tmp_path, interrupted):
    (tmp_path / "metrics.csv").write_text(METRICS)
    np.linspace(9, 8, 80, dtype="<f4").tofile(tmp_path / "losses.f32")
    assert read(tmp_path).curve("loss")[-1].iteration == 60
    of_two = [line.replace("output #0: loss = ", "output #0: loss = 7") for line in interrupted]
    assert (
        of_log([*of_two, "I0101 00:00:07 77 solver.cpp:1] Iteration 80, loss = 0.5"], "log").curve("loss")[-1].iteration
        == 60
    )


def test_a_number_of_iterations_that_no_run_reaches_is_none(interrupted):
    damaged = [line.replace("Iteration 20", "Iteration " + "2" * 5000) for line in interrupted]
    assert damaged != interrupted
    assert 20 not in [row.iteration for row in of_log(damaged, "log").train]


@pytest.mark.parametrize(
    "text, message", [("", "contains no iteration"), ("hello\n", "contains no iteration"), (None, "no such file")]
)
def test_what_is_no_run(tmp_path, text, message):
    if text is not None:
        (tmp_path / "log").write_text(text)
    with pytest.raises(CaffeliteError, match=message):
        read(tmp_path / "log")
