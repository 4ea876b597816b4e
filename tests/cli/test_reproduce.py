"""A recorded run is run again: the same, or the first iteration that differs."""

import json

import numpy as np

from caffelite.devices.choices import Choices


def test_the_same_to_the_last_bit(folder, call):
    call("train", "-solver", "solver.prototxt", "-iterations", 12)
    call("train", "-solver", "solver.prototxt", "-snapshot", "run_iter_10.solverstate")
    before = sorted(p.name for p in folder.iterdir())
    result = call("reproduce", "run_run")
    assert result.status == 0 and result.out == "the same to the last bit: 22 losses and scores of 20 iterations\n", (
        result.err
    )
    assert sorted(p.name for p in folder.iterdir()) == before


def test_the_first_iteration_that_differs(folder, call):
    call("train", "-solver", "solver.prototxt")
    losses = np.fromfile(folder / "run_run/losses.f32", "<f4")
    losses[13] = np.nextafter(losses[13], 9, dtype=np.float32)
    losses[17] += 1
    losses.tofile(folder / "run_run/losses.f32")
    result = call("reproduce", "run_run")
    assert result.status == 1 and result.out.startswith("differs first at iteration 13: loss is 0.")
    assert call("reproduce", "run_run", "-iterations", 13).status == 0


def test_a_record_without_losses_is_no_proof(folder, call):
    call("train", "-solver", "solver.prototxt")
    (folder / "run_run/losses.f32").write_bytes(b"")
    result = call("reproduce", "run_run")
    assert result.status == 2 and "run_run has no loss or score to compare" in result.err and not result.out


def test_what_changed_is_reported(folder, call):
    call("train", "-solver", "solver.prototxt")
    reported = json.loads((folder / "run_run/run.json").read_text())
    reported["sessions"][0]["versions"]["numpy"] = "0.1"
    reported["data"][0]["hash"] = "other"
    (folder / "run_run/run.json").write_text(json.dumps(reported))
    lines = call("reproduce", "run_run").lines
    assert any("numpy is" in line and "was 0.1" in line for line in lines)
    assert f"{folder}/rows.txt is not what it was" in lines


def test_the_same_algorithms_are_taken(folder, call, monkeypatch):
    """Those that the CPU had measured: another measurement could choose others."""
    monkeypatch.setattr(Choices, "recorded", lambda self: ["a convolution: winograd4"])
    call("train", "-solver", "solver.prototxt")
    monkeypatch.undo()
    taken = []
    monkeypatch.setattr(Choices, "restore", lambda self, lines: taken.extend(lines))
    assert call("reproduce", folder / "run_run").status == 0
    assert taken == ["a convolution: winograd4"]


def test_what_is_no_run(folder, call):
    assert "is not the folder of a run" in call("reproduce", ".").refused.err


def test_a_resumed_run_whose_snapshot_was_moved(folder, call):
    """A later run took the name of the state that it went on from: the moved one is taken, never the other."""
    call("train", "-solver", "solver.prototxt", "-iterations", 10)
    call("train", "-solver", "solver.prototxt", "-snapshot", "run_iter_10.solverstate", "-record", "run_run_5")
    reported = json.loads((folder / "run_run_5/run.json").read_text())["sessions"][0]
    assert reported["snapshot"] == "run_iter_10.solverstate" and reported["resumed_run"] == reported["run"]
    call("train", "-solver", "solver.prototxt", "-set", "random_seed=7")
    assert (folder / "run_run_5/run_iter_10.solverstate").exists()
    assert call("reproduce", "run_run_5").ok.out.startswith("the same to the last bit: 1")
    (folder / "run_run_5/run_iter_10.solverstate").unlink()
    result = call("reproduce", "run_run_5").refused
    assert "run_iter_10.solverstate, from which " in result.err and "does not exist any more" in result.err
