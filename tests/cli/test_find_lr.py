"""The range test of rates, and training on the same batches over and over."""

import json

import pytest

from caffelite.data import Source
from caffelite.runs.launch import Repeated


def test_find_lr(folder, call):
    result = call("find_lr", "-solver", "solver.prototxt", "-out", "rates.png", "-json")
    actual = json.loads(result.out)
    assert result.status == 0 and 1e-3 < actual["best"] < 1 and actual["rates"][0] == pytest.approx(1e-6)
    assert len(actual["rates"]) < 200 and actual["smoothed"][-1] > actual["smoothed"][0], (
        "it ends where the loss blows up"
    )
    assert (folder / "rates.png").read_bytes().startswith(b"\x89PNG")
    assert not list(folder.glob("run*"))
    assert call("find_lr", "-solver", "solver.prototxt").out.startswith(f"base_lr: {actual['best']:.2g} ")


def test_rates_at_which_nothing_is_learned(folder, call):
    assert "the loss never falls" in call("find_lr", "-solver", "solver.prototxt", "-from", 1e-12, "-to", 1e-11).out
    assert call("find_lr", "-solver", "solver.prototxt", "-from", 1, "-to", 0.1).status == 2


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "command",
    [
        ("find_lr", "-solver", "solver.prototxt", "-from"),
        ("find_lr", "-solver", "solver.prototxt", "-to"),
        ("train", "-solver", "solver.prototxt", "-hang_seconds"),
        ("plan", "-bandwidth"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(folder, call, command, value):
    assert f"{value} is no finite number" in call(*command, value).refused.err


@pytest.mark.parametrize("field", ["base_lr", "momentum", "clip_gradients", "weight_decay", "delta"])
def test_solver_fields_that_are_not_finite_are_refused(folder, call, field):
    result = call("train", "-solver", "solver.prototxt", "-set", f"{field}=nan")
    assert result.status == 2 and f"{field} is no finite number" in result.err and len(result.lines) < 3


def test_overfit(folder, call):
    result = call("train", "-solver", "solver.prototxt", "-overfit", 1, "-set", "max_iter=300", "-set", "base_lr=0.2")
    assert result.status == 0 and result.lines[-1].endswith("it learns")
    assert "Loss of the same 1 batches" in result.lines[-1]
    assert not list(folder.glob("run*")) and not any("Testing" in line for line in result.lines)
    result = call("train", "-solver", "solver.prototxt", "-overfit", 2, "-set", "base_lr=1e-9")
    assert "it does not overfit them" in result.lines[-1]


def test_the_same_batches(folder):
    class Counting(Source):
        def tasks(self, position, batch):
            batch.arrays[0][:] = position
            yield from ()

    source = Repeated(Counting([(2, 1)], 100), 3)
    first = [float(source.next()[0][0, 0]) for _ in range(7)]
    assert first == [0, 2, 4, 0, 2, 4, 0] and source.position == 14
    source.seek(10)
    assert float(source.next()[0][0, 0]) == 4
    source.close()
