"""The training loop: iterations, and hooks around them."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, data
from ..devices.protocol import Device
from ..errors import CaffeliteError, Locator
from ..layers.base.feeding import feeding
from ..net import graph
from ..net.net import Net
from ..parallel import UPDATE, SingleProcess
from . import epochs, gradients
from .captured import CapturedIterations
from .checkpoint.checkpoints import Checkpoints
from .checkpoint.ownership import Ownership
from .epochs import Epoch
from .hooks.best import BestWeights
from .hooks.hook import Hooks, LossReports
from .hooks.nan_recovery import NanRecovery
from .hooks.snapshots import Snapshots
from .hooks.testing import Testing
from .iteration import Iteration
from .nets import NetSpec
from .optim.rates import Schedule
from .optim.updates import Updater
from .requests import Agreement, Requests
from .state import PENDING_LOSSES, TrainingState
from .trigger import due
from .whole_net import WholeNet

log = logging.getLogger("caffelite")


@dataclass(eq=False, kw_only=True)
class Learning:
    """What trains: the nets of this process, and what computes an iteration.

    division: of the nets; the processes that train together are its ``mesh``. learns: whether the train net has a loss
    with a learned parameter below it. tests: nets with their test_iter. agreement: of the processes on ``requests``.
    """

    net: Net
    tests: list[tuple[Net, int]]
    division: WholeNet
    learns: bool
    state: TrainingState
    schedule: Schedule
    iteration: Iteration
    captured: CapturedIterations
    requests: Requests
    agreement: Agreement


@dataclass(eq=False, kw_only=True)
class Reports:
    """What a training reports, and what follows from it: every hook in its order, and those that are asked by name."""

    hooks: Hooks
    losses: LossReports
    testing: Testing
    best: BestWeights
    nan_recovery: NanRecovery


@dataclass(eq=False, kw_only=True)
class Files:
    """What a training writes: when snapshots are due, how they reach the disk, and whose their names are."""

    snapshots: Snapshots
    checkpoints: Checkpoints
    owner: Ownership


@dataclass(eq=False, kw_only=True)
class Trainer:
    """Trains the net of a solver.prototxt on one device; ``build.build_trainer`` makes one.

    p, locate: the solver, with iterations in place of its ``epoch_fields``, and its places. specs: of the train net and
    the test nets. epoch: of the data of the train net. strong_scaling, fp16_gradients: see ``build.Options``.
    """

    p: pb.SolverParameter
    locate: Locator
    specs: tuple[NetSpec, list[NetSpec]]
    seed: int
    epoch: epochs.Epoch | None
    epoch_fields: dict[str, Any]
    strong_scaling: bool
    fp16_gradients: bool
    learning: Learning
    reports: Reports
    files: Files

    # what others read

    @property
    def net(self) -> Net:
        return self.learning.net

    @property
    def tests(self) -> list[tuple[Net, int]]:
        """The test nets, with their test_iter."""
        return self.learning.tests

    @property
    def state(self) -> TrainingState:
        return self.learning.state

    @property
    def dev(self) -> Device:
        return self.learning.net.dev

    @property
    def comm(self) -> SingleProcess:
        """The processes that train together."""
        return self.learning.iteration.comm

    @property
    def prefix(self) -> str:
        """Of the names of snapshots."""
        return self.files.owner.prefix

    @property
    def updater(self) -> Updater:
        return self.learning.iteration.updater

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self.state.iteration

    @property
    def batch(self) -> int:
        """Samples that a pass reads."""
        return self.learning.division.complete(self.net).batch_size

    @property
    def stopped_early(self) -> bool:
        """Whether tests have not improved for early_stop of them."""
        return self.reports.best.over(self.state)

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        return self.learning.schedule(iteration) * self.state.rate_factor

    def loss_window(self, count: int = 0) -> list[float]:
        """The losses of the last ``count`` iterations (0: the last average_loss ones), oldest first."""
        return self.state.losses.last(count)

    def smoothed_loss(self) -> float:
        """The mean loss of the last average_loss iterations."""
        return self.state.losses.smoothed()

    # the loop

    def solve(self, progress: Callable[[Trainer, float], None] | None = None, iterations: int | None = None) -> None:
        """Trains to max_iter, or a given number of iterations (then with a snapshot), or until a stop is requested."""
        left = max(0, self.p.max_iter - self.iteration)
        end = self.iteration + (left if iterations is None else min(iterations, left))
        self.state.end = end
        self._log_start()
        restored = True
        while restored:
            self.step(end - self.iteration, progress)
            if self.learning.agreement.stop or self.stopped_early:
                log.info("Optimization stopped early.")
                return
            restored = self.reports.nan_recovery.recover_bad_weights(self.state)
        self.report_losses()
        self.reports.hooks.finished(self.state)
        self.learning.iteration.check_faults()
        log.info("Optimization Done.")

    def step(self, count: int, progress: Callable[[Trainer, float], None] | None = None) -> None:
        """Runs ``count`` iterations. progress(trainer, rate): called after each, or after several of one launch."""
        state, hooks = self.state, self.reports.hooks
        self._start()
        end = state.iteration + count
        while state.iteration < end:
            if hooks.before_iteration(state):
                self.snapshot()
                return
            done = self._run_captured(end) or self._run_eagerly()
            if not done:  # an earlier state was restored
                continue
            state.iteration += done
            if progress:
                progress(self, self.rate(state.iteration - 1))
            hooks.after_iteration(state)
            if self.learning.agreement.stop:
                return

    def _run_captured(self, end: int) -> int:
        """Runs iterations before ``end`` as one launch, where the host need not observe them; how many."""
        count = self.learning.captured.count(end)
        if count:
            self.learning.captured.run(count)
            self._mark_update()
        return count

    def _run_eagerly(self) -> int:
        """Runs one iteration; 0 where it restored an earlier state."""
        state, iteration, hooks, p = self.state, self.learning.iteration, self.reports.hooks, self.p
        state.displays = due(p.display, state.iteration)
        snapshot_next = due(p.snapshot, state.iteration + 1)
        state.inspected = state.displays or snapshot_next or state.losses.pending + 1 == PENDING_LOSSES
        self.net.clear_loss()
        state.start.record()
        forward, backward = hooks.observers(state)
        with iteration.same_plans():
            iteration.forward_backward(state.iteration, forward=forward, backward=backward)
        if self.dev.traits.synchronous or state.displays:
            iteration.check_faults()
        if iteration.reducer:
            iteration.all_reduce()
            iteration.receive_requests()
        self._mark_update()
        iteration.record_loss()
        if hooks.after_backward(state):
            return 0
        rate = self.rate(state.iteration)
        hooks.before_update(state, rate)
        if self.learning.learns:
            iteration.update(rate)
        hooks.after_update(state)
        return 1

    def _mark_update(self) -> None:
        """Reports to the watchdog of a process group that the passes of an iteration are done."""
        if self.comm.mark:
            self.comm.mark(UPDATE, iteration=self.iteration)

    # before the loop

    def _start(self) -> None:
        self._join()
        self.claim()
        self.learning.iteration.average.start()
        self.reports.hooks.started(self.state)

    def claim(self) -> None:
        """Locks the snapshot prefix for this run, where it is to write snapshots. Errors: another run has it."""
        if self.files.snapshots.enabled and (self.p.snapshot or self.p.snapshot_after_train or self.p.best_score):
            self.files.checkpoints.claim(self.state)

    def _join(self) -> None:
        """Joins the processes that train together. Errors: they start from different numbers."""
        if self.comm.size > 1 and not self.learning.iteration.reducer:
            join(self.p, self.state, self.learning.iteration, self.learning.agreement, self.fp16_gradients)
            scaling = "strong" if self.strong_scaling else "weak"
            rate = self.p.base_lr or self.learning.schedule(self.iteration)
            log_processes(self.p, self.learning.iteration, scaling, self.batch, rate, self.epoch)

    def _log_start(self) -> None:
        """Joins the processes, and logs what will run and how."""
        for note in self.net.graph.notes:
            log.warning("%s", note)
        if not self.learning.learns:
            log.warning("nothing is learned: the net has no loss with a learned parameter below it")
        self._join()
        if not self.dev.traits.synchronous and (why := self.learning.captured.why_eager()):
            how = "in part as CUDA graphs" if self.learning.captured.in_pieces() else "eagerly, not as CUDA graphs"
            log.info("Running %s: %s", how, why)
        elif not self.dev.traits.synchronous and self.p.debug_info and self.p.display:
            log.info("Iterations that debug_info displays run eagerly, not as CUDA graphs")
        log.info("Solving %s", self.net.graph.name)
        log.info("Learning Rate Policy: %s", self.p.lr_policy)

    # on request

    def test(self) -> None:
        """Runs every test net over its test_iter batches and logs the mean of each score."""
        self.reports.testing.test(self.state)

    def snapshot(self) -> None:
        """Writes the model, then the state; of several processes the first does."""
        self.files.snapshots.write(self.state)

    def restore(self, path: Path, saved: Any = None) -> None:
        """Goes on from a checkpoint: iteration, parameters, histories, positions of sources. saved: what was read from
        it."""
        self.files.checkpoints.restore(self.state, path, saved)
        self.files.checkpoints.written.append((self.iteration, path))

    def apply_update(self) -> None:
        """Updates the parameters from their gradients as they are, at the rate of the current iteration."""
        if self.learning.learns:
            self.learning.iteration.update(self.rate(self.iteration))

    def report_losses(self) -> None:
        """Reports the losses that no hook has received."""
        self.reports.losses.report(self.state)

    def replace_source(self, node: graph.Node, source: data.Source) -> None:
        """Gives a data layer of the train net another source."""
        feeding(node.layer).source = source
        self.net.rebuild(node)
        self.learning.iteration.renew_replicas()
        entry = next(entry for entry in self.state.sources if (entry.net, entry.layer) == ("train", node.name))
        entry.source = source

    def close(self) -> None:
        """Releases the snapshot prefix and ends the threads that read data."""
        self.files.owner.release()
        for net in (self.net, *(net for net, _ in self.tests)):
            net.close()


def join(
    p: pb.SolverParameter, state: TrainingState, iteration: Iteration, agreement: Agreement, half: bool = False
) -> None:
    """From now on gradients are summed over processes. half: they are sent as 16-bit numbers. Errors: processes with
    the same part of the net start from different numbers."""
    comm, division, nets = iteration.comm, iteration.division, iteration.pipeline.nets
    starts = comm.gather((state.iteration, _digest(state, iteration)), "what to start with")
    firsts = [division.mesh.shape.replicas(rank)[0] for rank in range(comm.size)]
    if differ := [rank for rank, first in enumerate(firsts) if starts[rank] != starts[first]]:
        what = f"rank {differ[0]} starts from other parameters than rank {firsts[differ[0]]}"
        remedy = "let all read the same snapshot, weights and random_seed, on a file system that they share"
        raise CaffeliteError(what, remedy=remedy)
    net = iteration.net
    deferred = iteration.pipeline.deferred.parameters
    buckets = gradients.buckets(net, p.layer_wise_reduce, division.summed_over_stage(net), deferred)
    reducer = comm.reducer(net.dev, net.params.diff, buckets, half, division.mesh if division.divided else None)
    assert reducer, "a group of several processes sums gradients"
    iteration.join(reducer, {node: at for each in nets for node, at in gradients.steps(each).items()}, agreement)
    agreement.join()
    comm.name_layers({step.node: step.node.name for each in nets for step in each.compiled.forward})


def _digest(state: TrainingState, iteration: Iteration) -> int:
    """A checksum of what this process trains, where another one trains the same."""
    digest = 0
    if iteration.division.mesh.data.size == 1:
        return digest
    for flat in (state.parameters, *state.histories):
        digest = zlib.crc32(iteration.net.dev.download(flat).data, digest)
    return digest


def log_processes(
    p: pb.SolverParameter, iteration: Iteration, scaling: str, batch: int, rate: float, epoch: Epoch | None
) -> None:
    """Logs how the processes share the net and the samples. scaling: weak or strong. batch: samples that a pass reads.
    rate: the first one."""
    comm, division = iteration.comm, iteration.division
    each = batch * iteration.micro_batches
    length = f", {epoch.of(p.max_iter):.4g} epochs of {epoch.samples} samples" if epoch else ""
    log.info(
        "%d processes (%s, %s)%s, %s scaling: %d samples each, %d in an iteration; rate %.6g as the solver sets "
        "it; %d iterations%s",
        comm.size,
        comm.kind,
        iteration.net.dev.name.upper(),
        division.description,
        scaling,
        each,
        each * division.mesh.shape.groups,
        rate,
        p.max_iter,
        length,
    )
