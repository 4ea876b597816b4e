"""Lengths in epochs: max_epoch, test_epoch, snapshot_epoch and step_epoch."""

import re

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError, Locator
from caffelite.training import epochs
from caffelite.training.epochs import Epoch

# 13 rows, 4 in an iteration: an epoch is 4 iterations
BASE = 'net: "plain.prototxt" base_lr: 0.05 gamma: 0.5 display: 1 random_seed: 3 snapshot_prefix: "run" test_iter: 2 '
IN_EPOCHS = BASE + 'lr_policy: "step" step_epoch: 1.5 max_epoch: 3 test_epoch: 0.5 snapshot_epoch: 1'
IN_ITERATIONS = BASE + 'lr_policy: "step" stepsize: 6 max_iter: 12 test_interval: 2 snapshot: 4'


def solver(text):
    document = prototxt.parse(text, pb.SolverParameter, "solver.prototxt")
    return document.message, document.locate


def test_epochs_train_as_the_same_iterations(folder, train):
    actual = train(IN_EPOCHS)
    expected = train(IN_ITERATIONS.replace('"run"', '"other"'))
    lines = [line for line in actual.log if "poch" not in line]
    assert [line.replace("other_iter", "run_iter") for line in expected.log] == lines
    np.testing.assert_equal(actual.params(), expected.params())
    assert (
        "Epochs: 13 samples, 4 in an iteration, 4 iterations each; max_epoch 3 is max_iter 12, test_epoch 0.5 is "
        "test_interval 2, snapshot_epoch 1 is snapshot 4, step_epoch 1.5 is stepsize 6"
    ) in actual.log
    assert [line for line in actual.log if "epoch = " in line][5] == f"Iteration 5, epoch = {20 / 13:.6g}"


def test_iter_size_and_processes_shorten_an_epoch():
    class Data:
        length, shapes = 13, [(4, 5)]

    class Endless:
        length = None

    assert epochs.epoch_of([Endless(), Data()], 2, 1) == Epoch(13, 8)
    assert epochs.epoch_of([Data()], 1, 3).iterations == 2
    assert epochs.epoch_of([Endless()], 1, 1) is None
    assert Epoch(13, 100).iterations == 1 and Epoch(12, 4).iterations == 3


@pytest.mark.parametrize(
    "value, iterations, expected",
    [("0.7", 10, 7), ("0.1", 3910, 391), ("2.5", 3, 7), ("0.01", 4, 1), ("10", 391, 3910)],
)
def test_fractions_are_rounded_down_as_written(value, iterations, expected):
    p, locate = epochs.resolve(*solver(f'max_epoch: {value} lr_policy: "fixed"'), Epoch(iterations, 1))
    assert p.max_iter == expected and not p.HasField("max_epoch")
    assert str(locate("max_iter")) == "solver.prototxt:1:12"


def test_multistep_takes_several_steps():
    p, locate = epochs.resolve(*solver('lr_policy: "multistep" step_epoch: 2 step_epoch: 3.5'), Epoch(100, 10))
    assert list(p.stepvalue) == [20, 35] and not p.step_epoch
    assert locate("stepvalue", 1) == solver('lr_policy: "multistep" step_epoch: 2 step_epoch: 3.5')[1]("step_epoch", 1)


@pytest.mark.parametrize("field, other", [*epochs.COUNTERPARTS.items(), ("step_epoch", "stepsize")])
def test_both_of_a_pair_are_refused_with_both_places(field, other):
    with pytest.raises(CaffeliteError) as error:
        epochs.check(*solver(f'lr_policy: "step"\n{field}: 2\n{other}: 30'))
    actual = re.fullmatch(rf"solver.prototxt:2:\d+: both {field} and {other} \(solver.prototxt:3:\d+\) are set; .*",
                         str(error.value))  # fmt: skip
    assert actual, error.value


@pytest.mark.parametrize(
    "text, message",
    [
        ("max_epoch: 0", "max_epoch must be a finite number above 0; found 0"),
        ("test_epoch: -1", "test_epoch must be a finite number above 0; found -1"),
        ("snapshot_epoch: nan", "snapshot_epoch must be a finite number above 0; found nan"),
        ('lr_policy: "poly" step_epoch: 1', 'lr_policy "poly" does not use step_epoch; expected one of step, sigmoid'),
        ('lr_policy: "step" step_epoch: 1 step_epoch: 2', 'lr_policy "step" takes one step_epoch; found 2'),
        ('lr_policy: "multistep" step_epoch: 3 step_epoch: 2', "step_epoch must rise; found 3, 2"),
        ('lr_policy: "multistep" step_epoch: 3 stepvalue: 2', "both step_epoch and stepvalue"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(CaffeliteError, match=re.escape(message)):
        epochs.check(*solver(text))


def test_more_iterations_than_32_bits():
    with pytest.raises(CaffeliteError, match="max_epoch 3e\\+06 is more iterations than max_iter can hold"):
        epochs.resolve(*solver("max_epoch: 3e6"), Epoch(1000, 1))
    p, _ = epochs.provisional(*solver("max_epoch: 1e30"))
    assert p.max_iter == epochs.MOST_ITERATIONS


def test_mistakes_of_the_solver_come_before_the_data(folder, make):
    with pytest.raises(CaffeliteError, match='unknown lr_policy "stepp"'):
        make(IN_EPOCHS.replace('"step" step_epoch: 1.5', '"stepp"').replace("plain.prototxt", "nowhere.prototxt"))


def test_data_of_unknown_length_is_an_error(folder, make):
    text = (folder / "plain.prototxt").read_text()
    first, rest = text.split("\n", 3)[1:3], text.split("\n", 3)[3]
    assert "HDF5Data" in first[1]
    dummy = 'layer { name: "rows" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 4 dim: 5 } '
    (folder / "plain.prototxt").write_text(f"{dummy}shape {{ dim: 4 dim: 2 }} }} }}\n{rest}")
    with pytest.raises(CaffeliteError) as error:
        make(IN_EPOCHS)
    what = "max_epoch needs the size of the training set, which no data layer of the train net has"
    assert what in str(error.value) and "set max_iter, test_interval, snapshot, stepsize instead" in str(error.value)
    assert str(error.value).startswith("solver.prototxt:1:")


def test_a_resumed_run_continues_its_epochs(folder, train):
    whole = train(IN_EPOCHS)
    resumed = train(IN_EPOCHS.replace('"run"', '"again"'), resume="run_iter_8.solverstate")
    np.testing.assert_equal(whole.params(), resumed.params())
    assert not any("The snapshot has read" in line for line in resumed.log)


def test_a_resume_with_another_batch_is_reported(folder, train):
    train(IN_EPOCHS)
    resumed = train(IN_EPOCHS.replace('"run"', '"again"') + " iter_size: 2", resume="run_iter_4.solverstate")
    note = next(line for line in resumed.log if "The snapshot has read" in line)
    assert "read 16 samples (1.231 epochs) in 4 iterations, but this run reads 8 in an iteration" in note
    assert "of which 4 are 2.462 epochs" in note and resumed.solver.iteration == 6


def test_a_solver_without_epochs_is_unchanged():
    p, locate = solver("max_iter: 5")
    assert epochs.resolve(p, locate, None)[0] is p and epochs.provisional(p, Locator("x"))[0] is p
