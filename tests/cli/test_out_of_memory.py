"""Memory that is too small: the plan's numbers, and a batch that fits."""

import gc
import re

import engines
import pytest

from caffelite import devices
from caffelite.devices.cpu import device
from caffelite.inspection import memory
from caffelite.training import Trainer

NET = """
layer { name: "in" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 100000 dim: 4 }
  shape { dim: 100000 dim: 1000 } } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value" inner_product_param { num_output: 1000 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
"""
SOLVER = 'net: "large.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 2 snapshot_after_train: false'


@pytest.fixture
def large(folder):
    (folder / "large.prototxt").write_text(NET)
    (folder / "large_solver.prototxt").write_text(SOLVER)


@pytest.fixture(autouse=True)
def freed():
    """Frees the large nets of a test before the next one makes its own."""
    yield
    gc.collect()


def test_memory_that_runs_out(large, call, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda gpu: 300 << 20)
    result = call("train", "-solver", "large_solver.prototxt")
    assert result.status == 2 and "blobs and their gradients" in result.err and "found 300.0 MiB at hand" in result.err
    assert re.search(r'at most 1.\d\d GiB at once, in "loss" \w+: "value" \d+.\d MiB', result.err)
    batch = int(re.search(r"a batch of (\d+) fits; iter_size makes up", result.err)[1])
    assert 1000 < batch < 100000
    changes = [f"in.dummy_data_param.shape[{i}].dim[0]={batch}" for i in (0, 1)]
    again = call(
        "train", "-solver", "large_solver.prototxt", "-record", "none", *(w for c in changes for w in ("-set", c))
    )
    assert again.status == 0


def test_an_allocation_that_fails(large, call, monkeypatch):
    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(memory, "available", lambda gpu: 1000)
    monkeypatch.setattr(device.CPU, "zeros", refuse)
    assert "not even a batch of 1 fits" in call("train", "-solver", "large_solver.prototxt").refused.err


def test_an_iteration_without_memory(large, call, monkeypatch):
    def refuse(*_):
        raise MemoryError

    monkeypatch.setattr(Trainer, "step", refuse)
    result = call("train", "-solver", "large_solver.prototxt", "-record", "none")
    assert result.status == 2 and re.search(r"out of memory: .* are needed \(blobs and their gradients", result.err)


def test_find_batch(large, call, monkeypatch):
    actual = call("find_batch", "-solver", "large_solver.prototxt", "-memory", "300M")
    batch = int(re.match(r"(\d+) samples, which take \d+\.\d MiB of 300.0 MiB", actual.out)[1])
    monkeypatch.setattr(memory, "available", lambda gpu: (300 << 20) / memory.SHARE)
    assert call("find_batch", "-solver", "large_solver.prototxt").out == actual.out and batch > 1000


def test_find_batch_needs_no_length_of_an_epoch(large, call, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda gpu: (300 << 20) / memory.SHARE)
    lengths = ("-set", "max_iter=", "-set", "max_epoch=3", "-set", "lr_policy=step", "-set", "gamma=0.1")
    result = call("find_batch", "-solver", "large_solver.prototxt", *lengths, "-set", "step_epoch=1")
    assert result.out == call("find_batch", "-solver", "large_solver.prototxt").out and "Epochs" not in result.err


def test_find_batch_at_another_precision(large, call, monkeypatch):
    engines.with_onednn("bf16")  # skips where there is none
    opened, open_device = [], devices.open_device
    monkeypatch.setattr(memory, "available", lambda gpu: (300 << 20) / memory.SHARE)
    monkeypatch.setattr(devices, "open_device", lambda *given, **how: opened.append(how) or open_device(*given, **how))
    assert call("find_batch", "-solver", "large_solver.prototxt", "-precision", "bf16").status == 0
    assert opened[0]["precision"] == "bf16"


def test_no_batch_fits(large, call):
    assert "no batch fits" in call("find_batch", "-solver", "large_solver.prototxt", "-memory", "1K").refused.err
