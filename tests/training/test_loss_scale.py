"""The loss scale of fp16: it cancels out, adapts to the gradients and is resumed."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from training.capturing import SOLVER, compare

from caffelite.devices.cuda import GPU

pytestmark = pytest.mark.host


@pytest.fixture
def device():
    return GPU(0, "float32", HostBackend())


def half_precision() -> GPU:
    return GPU(0, "float32", HostBackend(), precision="fp16")


@pytest.mark.parametrize("more", ["", "clip_gradients: 0.3 iter_size: 2"])
def test_the_loss_scale_cancels_out(folder, train, more):
    """The scale cancels out: losses are those of float32 as far as products of 16-bit numbers tell."""
    device = half_precision()
    assert compare(train, device, SOLVER + more)[0] >= 3
    plain = train(SOLVER + more).solver  # on the fixture's device
    scaled = train(SOLVER + more, device=half_precision()).solver
    assert scaled.updater.clipping.factor() == 2**10 and plain.updater.clipping.factor() == 1
    np.testing.assert_allclose(scaled.loss_window(8), plain.loss_window(8), rtol=2e-3)
    norms = [solver.updater.clipping.norm(solver.net.params.data) for solver in (scaled, plain)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_an_overflow_halves_the_scale_and_skips_the_update(folder, make):
    """Gradients overflow: nothing is learned, nothing corrupted, until halving has made it small enough."""
    device = half_precision()
    solver = make(
        SOLVER.replace("test_interval: 9", "test_interval: 9 test_initialization: false") + 'type: "Adam"',
        device=device,
    )
    solver.updater.clipping.loss_scale.load(2.0**127)
    before = device.download(solver.net.params.data)
    history = [device.download(flat) for flat in solver.updater.history]
    solver.step(1)
    np.testing.assert_array_equal(device.download(solver.net.params.data), before)
    for flat, held in zip(solver.updater.history, history, strict=True):
        np.testing.assert_array_equal(device.download(flat), held)
    assert solver.updater.clipping.factor() == 2.0**126
    solver.updater.clipping.loss_scale.load(2.0**9, good=7)
    solver.step(1)
    assert np.abs(device.download(solver.net.params.data) - before).max() > 1e-3
    assert solver.updater.clipping.loss_scale.state() == (2.0**9, 8)


def test_the_loss_scale_is_resumed(folder, train):
    device = half_precision()
    run = train(SOLVER, stop_at=20, device=device).solver
    assert run.updater.clipping.loss_scale.state() == (2.0**10, 20)
    again = train(SOLVER, device=half_precision(), resume="s_iter_20.solverstate", iterations=3).solver
    assert again.updater.clipping.loss_scale.state() == (2.0**10, 23)
