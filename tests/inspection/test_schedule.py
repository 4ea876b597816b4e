"""The run of a solver before it is run."""

import pytest
from findings import IN_EPOCHS, SHAPES, STEP, edit

from caffelite.errors import CaffeliteError
from caffelite.inspection.schedule import chart, schedule


def test_rates_tests_and_snapshots(folder):
    run = schedule("solver.prototxt", SHAPES, samples=20)
    rates = {0: 0.01, 20: 0.001, 40: 0.0001, 49: 0.0001}
    assert [(m.iteration, round(m.rate, 9)) for m in run.moments] == list(rates.items())
    assert (run.tests, run.snapshots, run.batch, run.epochs) == ([0, 10, 20, 30, 40, 50], [25, 50], 4, 10)
    assert [m.epoch for m in run.moments] == [0, 4, 8, 9.8]


def test_the_data_reports_its_size(data):
    assert schedule("solver.prototxt").samples == 12


def test_without_data_epochs_are_not_known(folder):
    run = schedule("solver.prototxt")
    assert run.epochs is None and "epochs are not known" in run.notes[0]


@pytest.mark.parametrize(
    "policy, iterations",
    [
        ('"multistep" stepvalue: 10 stepvalue: 30', [0, 10, 30, 49]),
        ('"fixed"', [0, 49]),
        ('"poly" power: 1', [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 49]),
        ('"multifixed" stageiter: 9 stageiter: 50 stagelr: 1 stagelr: 2', [0, 10, 49]),
        ('"poly" power: 1 warmup_iter: 7', [0, 5, 7, 10, 15, 20, 25, 30, 35, 40, 45, 49]),
        ('"step" gamma: 0.1 stepsize: 20 min_lr: 0.001', [0, 20, 40, 49]),
    ],
)
def test_rows(folder, policy, iterations):
    more = "" if "gamma" in policy else " gamma: 0.1"
    edit("solver.prototxt", (STEP, f"lr_policy: {policy}{more}"))
    assert [m.iteration for m in schedule("solver.prototxt", SHAPES).moments] == iterations


def test_when_min_lr_is_reached(folder):
    edit("solver.prototxt", (STEP, 'lr_policy: "exp" gamma: 0.9 min_lr: 0.0017'))
    reached = next(m for m in schedule("solver.prototxt", SHAPES).moments if m.what == "min_lr is reached")
    assert reached.rate == pytest.approx(0.0017) and 0.01 * 0.9 ** (reached.iteration - 1) > 0.0017


def test_many_steps_are_thinned_out(folder):
    edit("solver.prototxt", ("stepsize: 20", "stepsize: 2"), ("max_iter: 50", "max_iter: 2000"))
    assert len(schedule("solver.prototxt", SHAPES).moments) <= 42


def test_mistakes_are_errors(folder):
    edit("solver.prototxt", ("max_iter: 50", "max_iter: 0"))
    with pytest.raises(CaffeliteError, match="a run of no iterations"):
        schedule("solver.prototxt")


@pytest.mark.parametrize("form, start", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_chart(folder, form, start):
    assert chart(schedule("solver.prototxt", SHAPES, 20), form).startswith(start)


def test_lengths_in_epochs(data):
    """12 images, 4 in an iteration: an epoch is 3 iterations."""
    edit("solver.prototxt", *IN_EPOCHS)
    run = schedule("solver.prototxt")
    assert (run.iterations, run.tests, run.snapshots) == (30, [0, 6, 12, 18, 24, 30], [15, 30])
    assert [m.iteration for m in run.moments] == [0, 9, 18, 27, 29] and run.epochs == 10
    assert run.fields[0] == "max_epoch 10 is max_iter 30" and len(run.fields) == 4
    assert schedule("solver.prototxt", processes=3).iterations == 10


def test_lengths_in_epochs_need_the_size_of_the_data(folder):
    edit("solver.prototxt", *IN_EPOCHS)
    with pytest.raises(CaffeliteError, match="solver.prototxt:.*max_epoch needs .*; give its size with -samples N"):
        schedule("solver.prototxt", SHAPES)
    assert schedule("solver.prototxt", SHAPES, samples=40).iterations == 100
