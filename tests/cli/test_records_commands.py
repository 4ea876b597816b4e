"""The records that `caffelite train` leaves, and the commands that read them."""

import json

import numpy as np
import pytest

from caffelite import prototxt
from caffelite.runs.history import read


def metrics(folder):
    lines = (folder / "metrics.csv").read_text().splitlines()
    return [[field for i, field in enumerate(line.split(",")) if i != 1] for line in lines]


def test_a_run_leaves_its_records(folder, call):
    call("train", "-solver", "solver.prototxt", "-set", "display=10")
    run = folder / "run_run"
    p = prototxt.read_solver(run / "solver.prototxt").message
    assert p.display == 10 and p.net_param.layer[0].hdf5_data_param.source == str(folder / "rows.txt")
    assert p.random_seed == 1
    reported = json.loads((run / "run.json").read_text())
    (session,) = reported["sessions"]
    assert session["versions"]["caffelite"] and session["folder"] == str(folder) and session["device"] == "cpu"
    assert [entry["path"] for entry in reported["data"]] == [str(folder / "rows.txt"), str(folder / "rows.h5")]
    losses = np.fromfile(run / "losses.f32", "<f4")
    history = read(run)
    assert len(losses) == 20
    assert [(r.iteration, r.values["loss"]) for r in history.train] == [(0, losses[0]), (10, losses[10])]
    assert [row.iteration for row in history.tests[0]] == [0, 10, 20]
    other = call("train", "-solver", str(run / "solver.prototxt"), "-record", "again")
    assert other.status == 0 and metrics(folder / "again") == metrics(run), "the resolved solver is the whole run"


def test_a_resumed_run_goes_on_in_its_records(folder, call):
    call("train", "-solver", "solver.prototxt", "-record", "whole")
    call("train", "-solver", "solver.prototxt", "-iterations", 13)
    call("train", "-solver", "solver.prototxt", "-snapshot", "run_iter_10.solverstate")
    assert metrics(folder / "run_run") == metrics(folder / "whole")
    assert (folder / "run_run/losses.f32").read_bytes() == (folder / "whole/losses.f32").read_bytes()
    assert [s["iteration"] for s in json.loads((folder / "run_run/run.json").read_text())["sessions"]] == [0, 10]
    seconds = [row.seconds for row in read(folder / "run_run").train]
    assert seconds == sorted(seconds)


def test_log_and_records_give_the_same_tables(folder, call):
    (folder / "log").write_text(call("train", "-solver", "solver.prototxt").err)
    (folder / "tables").mkdir()
    assert call("parse_log", "log").out == "log.train\nlog.test\n"
    assert call("parse_log", "run_run", "tables").status == 0
    for end in ("train", "test"):
        one, two = ((folder / p).read_text().splitlines() for p in (f"log.{end}", f"tables/run_run.{end}"))
        assert one[0] == two[0] == "NumIters,Seconds,LearningRate,loss"
        for a, b in zip(one[1:], two[1:], strict=True):
            a, b = ([float(x) for x in line.split(",")] for line in (a, b))
            assert a[0] == b[0] and a[2:] == pytest.approx(b[2:], rel=1e-5)


def test_plot(folder, call):
    (folder / "log").write_text(call("train", "-solver", "solver.prototxt").err)
    assert call("plot", "run_run", "log", "-out", "both.png").status == 0
    assert (folder / "both.png").read_bytes().startswith(b"\x89PNG")
    assert call("plot", "log").out.startswith("<?xml")
    assert "cannot read nowhere" in call("plot", "nowhere").refused.err
    assert "a picture is SVG, PNG or PDF" in call("plot", "log", "-out", "a.gif").err
    assert call("plot", "log", "-title", "mine", "-out", "a.pdf").status == 0
    assert (folder / "a.pdf").read_bytes().startswith(b"%PDF")
    assert "<!-- mine -->" in call("plot", "log", "-title", "mine").out


def test_a_disk_that_fails_costs_the_records_only(folder, call):
    (folder / "run_run").write_text("in the way")
    (folder / "block").write_text("")
    result = call("train", "-solver", "solver.prototxt", "-record", "block/run")
    assert result.status == 0 and "training continues without records" in result.err
