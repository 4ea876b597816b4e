"""Iterations captured in graphs do what eager ones do, bit for bit. On a GPU whose graphs are lists of calls."""

from dataclasses import replace

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from devices.host.streams import Event
from training.capturing import CONVOLVING, FIXED, SOLVER, STANDING, TRAVELING, assert_same, compare, trained

from caffelite.devices.cuda import GPU
from caffelite.net import net


@pytest.fixture
def device():
    return GPU(0, "float32", HostBackend())


KNOWN: dict = {}  # runs of the device that computes at once, to which several tests compare


def once(key, run):
    if key not in KNOWN:
        KNOWN[key] = run()
    return KNOWN[key]


VARIANTS = [
    "",
    "clip_gradients: 0.3",
    'type: "Adam" momentum2: 0.99',
    "ema_decay: 0.9",
    "iter_size: 2",
    "average_loss: 5",
]
VARIANTS += ['local_lr_auto: true lr_policy: "step" stepsize: 3', 'lr_policy: "plateau" plateau_winsize: 2']


@pytest.mark.slow
@pytest.mark.parametrize("more", VARIANTS)
def test_captured_iterations_equal_eager_ones(folder, train, device, more):
    text = SOLVER.replace('lr_policy: "inv"', "") if "lr_policy" in more else SOLVER
    graphs, runs = compare(train, device, text + more)
    assert graphs >= 3 and runs > 20


@pytest.mark.host
def test_one_launch_runs_several_iterations(folder, train, device):
    """Data that stands on the device: 60 iterations and 6 tests of 16 batches take a fraction of as many launches."""
    (folder / "standing.prototxt").write_text(STANDING)
    text = f"{FIXED} test_iter: 16 test_interval: 12 max_iter: 60"
    graphs, runs = compare(train, device, text)
    assert 0 < runs < 60
    assert max(map(len, device.backend.graphs)) > 80, "a graph of several iterations"


@pytest.mark.host
def test_batches_copied_through_two_slots(folder, train, device, monkeypatch):
    """No room on the GPU: batches are copied, into two places in turn."""
    (folder / "standing.prototxt").write_text(STANDING)
    monkeypatch.setattr(device.backend, "free_bytes", lambda: 10)
    assert compare(train, device, TRAVELING)[1] > 35


@pytest.mark.host
@pytest.mark.parametrize("room", [10, 1 << 30])
@pytest.mark.parametrize(
    "text", [SOLVER, TRAVELING, f"{TRAVELING} iter_size: 2"], ids=["everything", "standing", "iter_size"]
)
def test_overlapping_copies_change_nothing(folder, train, device, late, monkeypatch, room, text):
    """Copies and computing overlap as CUDA may let them; nothing changes."""
    (folder / "standing.prototxt").write_text(STANDING)
    for dev in (device, late):
        monkeypatch.setattr(dev.backend, "free_bytes", lambda: room)
    expected = once((text, room), lambda: trained(train, device, text))
    assert_same(trained(train, late, text), expected)


@pytest.mark.host
@pytest.mark.parametrize("aside", ["early", "late"])
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_weight_gradients_run_on_a_side_stream(folder, train, aside, precision):
    """Beside those of the bottoms, in workspace of their own; both are there when the next layer asks for them."""
    (folder / "convolving.prototxt").write_text(CONVOLVING)
    text = 'net: "convolving.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 64 display: 0 random_seed: 1'

    def run(backend):
        actual = trained(train, plans.device(precision, backend=backend), text)
        assert any(isinstance(call.args[0], Event) for graph in backend.graphs for call in graph._calls if call.args)
        return actual

    expected, actual = once(precision, lambda: run(HostBackend())), run(HostBackend("late", aside))
    assert_same(actual, expected)
    assert np.isfinite(actual[1]).all()


@pytest.mark.host
def test_resume_is_exact(folder, train, device):
    whole = trained(train, device, SOLVER)
    train(SOLVER, stop_at=20)
    again = trained(train, device, SOLVER, resume="s_iter_20.solverstate")
    np.testing.assert_equal(again[2], whole[2])
    assert again[1] == whole[1]


@pytest.mark.host
@pytest.mark.parametrize("room", [0, 5])
def test_large_outputs_are_read_in_small_groups(folder, train, device, monkeypatch, room):
    """No room, or room for two passes of two scores."""
    (folder / "standing.prototxt").write_text(STANDING)
    monkeypatch.setattr(net, "RECORDED_NUMBERS", room)
    text = f"{FIXED} test_iter: 7 test_interval: 5 max_iter: 10"
    compare(train, device, text)
    run = train(text, device=device)
    assert {len(ring) for ring in run.solver.tests[0][0]._rings} == {max(1, room // 2)}


@pytest.mark.host
def test_other_images_on_the_device_are_another_signature(folder, train, device):
    """Graphs that read the earlier ones are not launched."""
    (folder / "standing.prototxt").write_text(STANDING)
    net = train(TRAVELING.replace("max_iter: 40", "max_iter: 1"), device=device).solver.net
    source = net.graph.feeds[0].layer.source
    batch, before = source.draw(), net.signature()
    assert batch.resident and net.signature() == before
    source.draw = lambda: replace(batch, pixels=batch.pixels.copy())
    net.feed([(1, 0)])
    assert net.signature() != before
