"""A run that meets a NaN: what the command says, what replay shows, and that a run may be forgiven."""

import json
import math

import numpy as np
import pytest

from caffelite.data.writers import write_hdf5

TRAIN = "train -solver solver.prototxt -set test_interval=1000000 -set test_initialization=false".split()


@pytest.fixture
def corrupted(folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((13, 5))
    x[6, 2] = math.nan
    write_hdf5(folder / "rows.h5", {"x": x, "y": rng.standard_normal((13, 2))}, force=True)
    return folder


def test_a_nan_is_reported_and_replayed(corrupted, call):
    result = call(*TRAIN).refused
    assert result.err.splitlines()[-1] == (
        'caffelite: the loss is not finite at iteration 1: layer "rows" (HDF5Data), top "x"; look at it layer by '
        "layer: caffelite replay run_fault_iter_1"
    )
    assert any('"rows" row 6 of rows.h5' in line for line in result.lines)
    assert any("perhaps (1)" in line for line in result.lines)
    shown = call("replay", "run_fault_iter_1")
    assert shown.status == 1
    assert shown.out.splitlines()[-1] == 'first not finite, in forward: layer "rows" (HDF5Data), top "x"'
    reported = json.loads(call("replay", "run_fault_iter_1", "-all", "-json").out)
    assert reported["first"]["rows"] == [2] and reported["arrays"][-1]["what"] == "gradient of parameter 1"
    assert call("replay", "nowhere").status == 2


def test_the_bundle_of_an_earlier_run_is_renamed(corrupted, call):
    call(*TRAIN)
    before = (corrupted / "run_fault_iter_1/report.json").read_bytes()
    call(*TRAIN, "-set", "base_lr=0.01", "-set", "snapshot=1", "-forgive", 2)
    assert (corrupted / "run_fault_iter_1_1/report.json").read_bytes() == before
    assert sorted(path.name for path in corrupted.glob("run_fault*")) == ["run_fault_iter_1", "run_fault_iter_1_1"]


def test_the_number_of_nan_recoveries_is_limited(corrupted, call):
    result = call(*TRAIN, "-set", "snapshot=1", "-forgive", 2)
    assert result.status == 2 and sum("NaN recovery (" in line for line in result.lines) == 2
    assert "NaN recovery (2 of 2): continuing from iteration 1 with 0.25 of the rate" in result.lines
