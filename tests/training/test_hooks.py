"""Hooks of a training run, each by itself: the events that they receive, and what they do with a state."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import NOWHERE
from caffelite.parallel import SingleProcess
from caffelite.training import Requests
from caffelite.training.hooks.display import ClippingReports, PlateauReports
from caffelite.training.hooks.hook import EVENTS, Hook, Hooks, LossReports
from caffelite.training.hooks.snapshots import Snapshots
from caffelite.training.hooks.time_left import TimeLeft
from caffelite.training.optim import rates
from caffelite.training.requests import Agreement
from caffelite.training.state import IterationStart, LossWindow, RecurrentState, SourceState, TrainingState


@pytest.fixture
def state(device):
    """The state of a run without a net."""
    window, start = LossWindow(device, 3), IterationStart(device, [], [])
    return TrainingState(pb.RunOrigin(id="1"), 0, device.zeros(4), [], window, [], [], start)


class Recording(Hook):
    """Records the events that it receives as (name, event)."""

    def __init__(self, name, events, result=None):
        self.name, self.events, self.result = name, events, result

    def after_backward(self, state):
        self.events.append((self.name, "after_backward"))
        return self.result

    def finished(self, state):
        self.events.append((self.name, "finished"))

    def losses(self, state, first, values):
        self.events.append((self.name, first, list(values)))


def test_hooks_receive_events_in_order(state):
    events = []
    hooks = Hooks(Recording("a", events), Recording("last", events))
    hooks.add(Recording("b", events))
    assert not hooks.after_backward(state)
    hooks.finished(state)
    assert [name for name, _ in events] == ["a", "b", "last", "last", "b", "a"]


def test_no_hook_follows_a_restored_state(state):
    events = []
    assert Hooks(Recording("a", events, True), Recording("b", events)).after_backward(state)
    assert events == [("a", "after_backward")]


def test_every_event_reaches_hooks():
    """The composite overrides each event of the interface."""
    assert "after_update" in EVENTS and not [event for event in EVENTS if event not in vars(Hooks)]


def test_each_loss_is_reported_once(state, device):
    events = []
    reports, loss = LossReports(Recording("a", events)), device.zeros(1)
    for state.iteration in range(5):
        device.fill(loss, state.iteration)
        state.losses.append(loss, 1)
        state.inspected = state.iteration == 2
        reports.after_backward(state)
    assert events == [("a", 0, [0, 1, 2])]
    state.iteration = 5
    reports.report(state)
    reports.report(state)
    assert events[1:] == [("a", 3, [3, 4])] and state.losses.smoothed() == 3


def test_the_plateau_is_logged_when_the_rate_falls(state, device, caplog):
    p = pb.SolverParameter(lr_policy="plateau", base_lr=1, gamma=0.5, plateau_winsize=[2])
    schedule = rates.policy(p, NOWHERE)
    state.plateau, hook, loss = schedule.plateau, PlateauReports(schedule), device.zeros(1)
    with caplog.at_level(logging.INFO, "caffelite"):
        for state.iteration in range(3):
            state.losses.append(loss, 1)
            hook.after_backward(state)
    assert caplog.messages == ["Plateau Status: Iteration 2, step = 1"] and schedule(3) == 0.5


@pytest.mark.parametrize("every, lines", [(True, 1), (False, 0)])
def test_clipped_gradients_are_logged(state, caplog, every, lines):
    clipping = SimpleNamespace(new_norms=lambda: [1.0, 4.0])
    with caplog.at_level(logging.INFO, "caffelite"):
        ClippingReports(clipping, 2.0, every).after_update(state)
    assert len(caplog.messages) == lines and all("4 > 2) by scale factor 0.5" in text for text in caplog.messages)


class FakeCheckpoints:
    def __init__(self):
        self.written = []

    def write(self, state):
        self.written.append(state.iteration)


@pytest.fixture
def snapshots(device):
    """Makes the hook with fake checkpoints, and the requests that it reads."""

    def make(enabled=True, **fields):
        p, requests, comm = pb.SolverParameter(max_iter=10, **fields), Requests(), SingleProcess()
        checkpoints, net = FakeCheckpoints(), SimpleNamespace(graph=SimpleNamespace(nodes=[]))
        agreement = Agreement(requests, comm)
        hook = Snapshots(p, net, comm, checkpoints, agreement, LossReports(Hooks()), lambda state: False, enabled)
        return hook, checkpoints.written, requests

    return make


def test_snapshots_at_their_interval_and_on_request(state, snapshots):
    hook, written, requests = snapshots(snapshot=4)
    for state.iteration in range(1, 8):
        requests.snapshot = state.iteration == 6
        hook.after_iteration(state)
    assert written == [4, 6] and not requests.snapshot


def test_a_stop_writes_a_snapshot(state, snapshots):
    hook, written, requests = snapshots()
    requests.stop, state.iteration = True, 3
    hook.after_iteration(state)
    assert written == [3]


@pytest.mark.parametrize(
    "after_train, at, expected", [(True, 10, [10]), (False, 10, []), (False, 7, [7]), (True, 5, [])]
)
def test_the_snapshot_after_training(state, snapshots, after_train, at, expected):
    """A run that ends before max_iter writes one in any case; none is written twice."""
    hook, written, _ = snapshots(snapshot_after_train=after_train, snapshot=5 if at == 5 else 0)
    state.iteration = at
    hook.finished(state)
    assert written == expected


def test_disabled_snapshots_write_nothing(state, snapshots):
    hook, written, requests = snapshots(enabled=False, snapshot=1)
    state.iteration = 1
    hook.after_iteration(state)
    assert not written


def test_processes_agree_on_a_stop():
    requests = Requests(snapshot=True)
    agreement = Agreement(requests, SingleProcess())
    agreement.join()
    np.testing.assert_array_equal(agreement.send(), [0, 1])
    assert not requests.snapshot and not agreement.take_snapshot(), "what was sent counts when it is received"
    agreement.receive(np.array([True, True]))
    assert agreement.stop and agreement.take_snapshot() and not agreement.take_snapshot()
    agreement.receive(np.array([False, False]))
    assert agreement.stop


def test_an_iteration_start_is_restored(device):
    class Source:
        position = 7

        def seek(self, position):
            self.position = position

    source, carried = Source(), device.zeros(2)
    start = IterationStart(device, [SourceState("train", "data", source)], [RecurrentState("train", "lstm", [carried])])
    start.record()
    source.position = 11
    device.fill(carried, 5)
    start.restore()
    assert source.position == 7 and not device.download(carried).any()


def test_the_time_left_is_that_of_the_speed_so_far(state, caplog):
    """The first iteration, which compiles, takes 100 s; the others take 2 s each. A test of 30 s slows the run down."""
    moments = [100.0 + 2 * i + (30 if i >= 10 else 0) for i in range(200)]
    clock = iter(moments)
    hook = TimeLeft(lambda: next(clock))
    hook.started(state)
    state.end = 200
    with caplog.at_level(logging.INFO, "caffelite"):
        for iteration in range(1, 201):
            state.iteration = iteration
            hook.after_iteration(state)
    assert caplog.messages[0] == "Iteration 6 of 200: 6m28s left"
    assert caplog.messages[1] == "Iteration 11 of 200: 15m45s left"
    assert len(caplog.messages) < 7 and caplog.messages[-1].endswith("s left")
