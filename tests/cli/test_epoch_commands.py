"""Commands on a solver whose lengths are in epochs."""

import json

import pytest

from caffelite import prototxt

# 13 rows, 4 in an iteration: an epoch is 4 iterations
IN_EPOCHS = """
net: "net.prototxt" test_iter: 2 test_epoch: 2.5 base_lr: 0.05 lr_policy: "inv" gamma: 0.1 power: 0.75
max_epoch: 5 display: 5 snapshot_epoch: 2.5 snapshot_prefix: "run" random_seed: 1
"""


@pytest.fixture
def in_epochs(folder):
    (folder / "solver.prototxt").write_text(IN_EPOCHS)
    return folder


def test_records_hold_iterations_and_reproduce(in_epochs, call):
    result = call("train", "-solver", "solver.prototxt").ok
    recorded = prototxt.read_solver("run_run/solver.prototxt").message
    assert (recorded.max_iter, recorded.test_interval, recorded.snapshot) == (20, 10, 10)
    assert not recorded.HasField("max_epoch") and not recorded.HasField("test_epoch")
    assert call("reproduce", "run_run").out.startswith("the same to the last bit")
    assert any(line.startswith("Epochs: 13 samples") for line in result.lines)
    assert "Epochs: 13 samples" in (in_epochs / "run_run/log.txt").read_text()


def test_options_of_the_command_line(in_epochs, call):
    assert call("train", "-solver", "solver.prototxt", "-set", "max_epoch=1").status == 0
    assert (in_epochs / "run_iter_4.caffemodel").exists()
    result = call("train", "-solver", "solver.prototxt", "-set", "max_iter=7")
    assert result.status == 2 and "both max_epoch and max_iter (-set max_iter=7) are set" in result.err
    assert call("train", "-solver", "solver.prototxt", "-set", "max_iter=7", "-set", "max_epoch=").status == 0
    assert (in_epochs / "run_iter_7.caffemodel").exists()


@pytest.mark.parametrize("option", [["-resume", "auto"], ["-overfit", "1"], ["-iterations", "3"]])
def test_other_ways_to_train(in_epochs, call, option):
    result = call("train", "-solver", "solver.prototxt", *option)
    assert result.status == 0, result.err


def test_find_lr_and_schedule(in_epochs, call):
    result = call("find_lr", "-solver", "solver.prototxt", "-iterations", 5)
    assert result.status == 0 and "max_iter" not in result.err  # a trial needs no length
    result = call("schedule", "-solver", "solver.prototxt", "-json")
    assert json.loads(result.out)["fields"][0] == "max_epoch 5 is max_iter 20"
    assert "max_epoch 5 is max_iter 40" in call("schedule", "-solver", "solver.prototxt", "-samples", 32).out
