"""A loss that is NaN or infinite: the report on its cause, the bundle to replay, and the recovery from a snapshot."""

import contextlib
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from foreign import texts

from caffelite import weights
from caffelite.data.writers import write_hdf5
from caffelite.errors import CaffeliteError
from caffelite.training.diagnosis import replay
from caffelite.training.diagnosis.diagnosis import Diverged
from caffelite.training.hooks.hook import Hook, Hooks

SOLVER = """
net: "plain.prototxt" base_lr: 0.05 lr_policy: "fixed" max_iter: 12 display: 1 random_seed: 3 snapshot_prefix: "run"
snapshot: 4
"""
LOG = """
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 4 dim: 3 }
  data_filler { type: "gaussian" } } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "size" type: "ReLU" bottom: "value" top: "size" }
layer { name: "root" type: "Power" bottom: "size" top: "root" power_param { power: 0.5 shift: 0 } }
layer { name: "sum" type: "Reduction" bottom: "root" top: "sum" loss_weight: 1 }
"""


def fails(train, text, **options):
    with pytest.raises(Diverged) as caught:
        train(text, **options)
    return caught.value


@pytest.fixture
def corrupted(folder):
    """Row 6 of 13 holds a NaN: it comes in iteration 1 (rows 4 to 7), with iter_size 2 in its second part of iteration
    0."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((13, 5))
    x[6, 2] = math.nan
    write_hdf5(folder / "rows.h5", {"x": x, "y": rng.standard_normal((13, 2))}, force=True)
    return folder


@pytest.mark.parametrize("parts, iteration", [(1, 1), (2, 0)])
def test_a_nan_in_the_data_names_its_sample(corrupted, train, parts, iteration, device):
    error = fails(train, SOLVER + f"iter_size: {parts}")
    first = error.report.first
    assert error.report.iteration == iteration
    assert (first.layer, first.what, first.nans, first.rows) == ("rows", 'top "x"', 1, [2])
    assert error.report.samples == ['"rows" row 6 of rows.h5'] and "the data itself" in error.report.causes[0]
    assert str(error).endswith(f"caffelite replay run_fault_iter_{iteration}")
    assert not list(corrupted.glob("run_iter*")), "no snapshot of what is corrupted"
    (corrupted / "rows.h5").unlink()
    seen = list(replay.replay(corrupted / f"run_fault_iter_{iteration}", device))
    assert next(one for one in seen if one.bad).record() == first.record()


CARRIED = """
layer {{ name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param {{ source: "rows.txt" batch_size: 4 }} }}
layer {{ name: "steps" type: "Reshape" bottom: "x" top: "steps" reshape_param {{ shape {{ dim: 2 dim: 2 dim: 5 }} }} }}
layer {{ name: "goes on" type: "DummyData" top: "on" dummy_data_param {{ shape {{ dim: 2 dim: 2 }}
  data_filler {{ value: 1 }} }} }}
layer {{ name: "memory" type: "{kind}" bottom: "steps" bottom: "on" top: "h" recurrent_param {{ num_output: 3
  weight_filler {{ type: "uniform" min: -1 max: 1 }} }} }}
layer {{ name: "all" type: "Reduction" bottom: "h" top: "all" loss_weight: 1 reduction_param {{ operation: SUMSQ }} }}
"""


@pytest.mark.parametrize("kind", ["LSTM", "RNN"])
def test_recurrent_state_is_replayed(kind, corrupted, train, device):
    """Rows 4 to 7 are steps 0 and 1 of two sequences; row 6 spoils step 1, and step 0 depends on what iteration 0
    left."""
    (corrupted / "carried.prototxt").write_text(CARRIED.format(kind=kind))
    kept, net = [], None

    class Keep(Hook):
        def after_backward(self, state):
            kept[:] = [net.blobs["h"].copy()]

    def watch(solver):
        nonlocal net
        net = solver.net
        solver.reports.hooks = Hooks(Keep(), solver.reports.hooks)

    error = fails(train, SOLVER.replace("plain", "carried"), before=watch)
    assert error.report.first.layer == "rows"
    seen = list(replay.replay(corrupted / "run_fault_iter_1", device))
    actual = next(one for one in seen if one.what == 'top "h"')
    good = kept[0][np.isfinite(kept[0])]
    assert good.size == 9
    assert (actual.least, actual.greatest, actual.nans) == pytest.approx((good.min(), good.max(), 3), rel=1e-6)


def test_the_report_names_database_keys(folder, train):
    """The label's row identifies the sample; here the weights are corrupted for all of them."""

    def corrupt(solver):
        solver.net.params.blobs[0][...] = np.inf

    report = fails(train, SOLVER.replace("plain", "everything"), before=corrupt).report
    assert (report.first.layer, report.first.what, report.first.direction) == ("conv", "parameter 0", "forward")
    assert report.samples[0].startswith('"images" sample 0 (0000000') and len(report.samples) == 8
    assert "already corrupted" in report.causes[0]


def test_a_high_rate_is_reported_as_the_cause(folder, train, device):
    error = fails(train, SOLVER.replace("0.05", "1e15").replace("12", "100").replace("snapshot: 4", "snapshot: 0"))
    report = error.report
    assert report.iteration < 20 and report.norms[-2][1] > report.norms[0][1]
    assert report.norms[-1].iteration == report.iteration
    assert any("the rate is too high: the loss grew" in cause for cause in report.causes[:2])
    model = weights.read_model(folder / f"run_fault_iter_{report.iteration}/fault_iter_{report.iteration}.caffemodel")
    assert all(np.isfinite(blob).all() for blobs in model.values() for blob in blobs)
    seen = list(replay.replay(folder / f"run_fault_iter_{report.iteration}", device))
    assert next(one for one in seen if one.bad).layer == report.first.layer


def test_inputs_that_are_not_scaled_are_named(folder, train):
    pixels = LOG.replace('type: "gaussian"', "value: 200").replace("power: 0.5 shift: 0", "power: 20")
    (folder / "pixels.prototxt").write_text(pixels)
    causes = fails(train, SOLVER.replace("plain", "pixels")).report.causes
    assert any('inputs are large: top "x" reaches 200; scale them' in cause for cause in causes)


def test_only_the_gradient_is_not_finite(folder, train):
    """The root of 0 has no derivative: the iteration before the loss fails is found by repeating from a snapshot."""
    (folder / "log.prototxt").write_text(LOG)
    text = SOLVER.replace("plain", "log").replace("snapshot: 4", "snapshot: 1")
    (folder / "log.prototxt").write_text(LOG.replace("shift: 0", "shift: 1"))
    train(text, iterations=3)
    (folder / "log.prototxt").write_text(LOG)
    report = fails(train, text.replace("snapshot: 1", "snapshot: 0"), resume="run_iter_3.solverstate").report
    assert (report.iteration, report.first.direction, report.first.layer) == (3, "backward", "root")
    assert "the gradient alone" in report.causes[1] and [entry[0] for entry in report.norms] == [3]


@pytest.fixture
def waiting(device, monkeypatch):
    """A device that is not asked each iteration, as a GPU."""
    monkeypatch.setattr(device, "traits", replace(device.traits, synchronous=False))


@pytest.mark.parametrize("extra", ["display: 4 ", "display: 0 "])
def test_pending_losses_are_diagnosed_from_a_snapshot(folder, train, waiting, extra):
    """The loss is looked at now and then; the iteration is found by repeating from the snapshot before it."""
    exact = SOLVER.replace("0.05", "1e4").replace("max_iter: 12", "max_iter: 40").replace("display: 1", extra)
    report = fails(train, exact).report
    again = fails(train, exact.replace(extra, "display: 1")).report
    assert report.iteration == again.iteration and report.first.record() == again.first.record()


def test_nan_recovery_halves_the_rate(folder, train):
    text = SOLVER.replace("0.05", "1e4").replace("max_iter: 12", "max_iter: 60")
    assert fails(train, text).report.iteration > 4

    with pytest.raises(Diverged):
        train(text, nan_recoveries=3)
    rates = SOLVER + "gamma: 1"
    run = train(rates.replace("max_iter: 12", "max_iter: 14"), before=partial(spoil_once, 6), nan_recoveries=1)
    assert run.solver.iteration == 14 and run.solver.state.rate_factor == 0.5 and run.solver.state.nan_recoveries == 1
    assert "NaN recovery (1 of 1): continuing from iteration 4 with 0.5 of the rate" in run.log
    assert [line for line in run.log if "lr = " in line][-1] == "Iteration 13, lr = 0.025"
    whole = run.params()
    resumed = train(rates.replace("max_iter: 12", "max_iter: 14"), resume="run_iter_8.solverstate")
    np.testing.assert_equal(resumed.params(), whole)
    assert resumed.solver.state.rate_factor == 0.5


def spoil_once(iteration, solver):
    """A NaN in the weights at one iteration, the first time that it comes."""
    forward, done = solver.net.forward, []

    def corruption(at, *rest):
        if at == iteration and not done:
            done.append(at)
            solver.net.params.blobs[0][...] = np.nan
        forward(at, *rest)

    solver.net.forward = corruption


def test_no_recovery_without_a_snapshot(folder, train):
    with pytest.raises(Diverged):
        train(SOLVER, before=partial(spoil_once, 2), nan_recoveries=1)


def test_a_bundle_holds_the_report(corrupted, train):
    fails(train, SOLVER)
    reported = json.loads((corrupted / "run_fault_iter_1/report.json").read_text())
    assert reported["first"]["rows"] == [2] and reported["samples"] and reported["norms"][0][1] > 0
    assert reported["causes"]


def test_a_folder_without_a_bundle_is_refused(folder, device):
    with pytest.raises(CaffeliteError, match="is no bundle of a fault"):
        next(replay.replay(folder, device))


def test_a_damaged_bundle_is_refused(corrupted, train, device):
    fails(train, SOLVER)
    bundle = corrupted / "run_fault_iter_1"
    report = bundle / "report.json"
    original = report.read_text()
    for text in texts({name: json.loads(original)[name] for name in ("iteration", "seed", "parts", "rank", "size")}):
        report.write_text(text)
        with contextlib.suppress(CaffeliteError):
            next(replay.replay(bundle, device))
    report.write_text(original)
    for path in bundle.glob("fault_iter_*"):
        path.rename(bundle / "aside")
        with pytest.raises(CaffeliteError, match="is no bundle of a fault .0 files are called fault_iter_"):
            next(replay.replay(bundle, device))
        (bundle / "aside").rename(path)
    np.savez(bundle / "batch.npz", x=np.zeros(1))
    with pytest.raises(CaffeliteError, match="batch.npz has no 0/rows/0"):
        next(replay.replay(bundle, device))


def test_a_disabled_check_lets_the_run_continue(corrupted, train):
    def unguarded(solver):
        solver.reports.nan_recovery.enabled = False

    assert math.isnan(train(SOLVER, before=unguarded).losses()[-1])


# A NaN pixel spoils a ninth of the weights: neither the maximum nor ReLU lets it through to the loss.
HIDING = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "pixels.txt" batch_size: 4 } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }
layer { name: "value" type: "InnerProduct" bottom: "pool" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
"""


@pytest.fixture
def hiding(folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 1, 6, 6))
    x[6, 0, 0, 0] = math.nan
    write_hdf5(folder / "pixels.h5", {"x": x, "y": rng.standard_normal((12, 2))})
    (folder / "plain.prototxt").write_text(HIDING)
    return folder


AT = SOLVER.replace("display: 1", "display: 0").replace("snapshot: 4", "snapshot: 0 snapshot_after_train: false")
TESTED = "test_iter: 1 test_interval: 3 test_initialization: false"


@pytest.mark.parametrize(
    "text, iteration",
    [
        (AT.replace("display: 0", "display: 3"), 3),
        (AT + TESTED, 3),
        (AT.replace("snapshot: 0", "snapshot: 5"), 5),
        (AT.replace("snapshot_after_train: false", ""), 12),
        (AT, 12),
    ],
    ids=["display", "test", "snapshot", "last snapshot", "end"],
)
def test_weights_that_are_not_finite_end_the_run(hiding, train, text, iteration):
    error = fails(train, text)
    assert str(error).startswith(f'the weights are not finite at iteration {iteration}: layer "conv" (Convolution)')
    assert "parameter 0" in str(error) and not list(hiding.glob("run_iter*"))
    assert error.report.causes[0].startswith('the data hold NaN or infinity: "rows" row 6 of pixels.h5; ')
    assert error.report.norms[-1].iteration == iteration - ("display: 3" not in text), "no loss of a later iteration"


def test_the_update_that_corrupts_weights_is_found(hiding, train):
    """Rows 4 to 7 come in iteration 1; the snapshot of iteration 1 is the last good one."""
    report = fails(train, AT.replace("snapshot: 0", "snapshot: 1")).report
    assert (report.iteration, report.first.layer, report.samples) == (1, "rows", ['"rows" row 6 of pixels.h5'])
    assert "the data itself" in report.causes[0]


def test_weights_that_are_not_finite_are_recovered_from(hiding, train):
    write_hdf5(hiding / "pixels.h5", {"x": np.ones((12, 1, 6, 6)), "y": np.ones((12, 2))}, force=True)
    run = train(AT.replace("snapshot: 0", "snapshot: 4 gamma: 1"), before=partial(spoil_once, 6), nan_recoveries=1)
    assert run.solver.iteration == 12 and run.solver.state.nan_recoveries == 1
    assert "NaN recovery (1 of 1): continuing from iteration 4 with 0.5 of the rate" in run.log
