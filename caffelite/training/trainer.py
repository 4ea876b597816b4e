"""The training loop: iterations, and hooks around them."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from .. import caffelite_pb2 as pb
from .. import data
from ..devices.protocol import Device
from ..errors import Locator
from ..net import graph
from ..net.net import Net
from ..parallel import UPDATE, SingleProcess
from ..prototxt.overrides import Overrides
from . import checks, class_weights, epochs, joining, nets
from .arrangement import arrange
from .captured import CapturedIterations
from .checkpoint import snapshot
from .checkpoint.checkpoints import Checkpoints
from .checkpoint.content import Content
from .checkpoint.ownership import Ownership
from .diagnosis.diagnosis import Diagnosis
from .hooks.best import BestWeights
from .hooks.debug_info import DebugInfo, DividedDebugInfo, DividedPasses
from .hooks.display import ClippingReports, Display, PlateauReports
from .hooks.hints import Hints
from .hooks.hook import Hooks
from .hooks.losses import LossReports
from .hooks.nan_recovery import NanRecovery
from .hooks.snapshots import Snapshots
from .hooks.testing import Testing
from .iteration import Iteration
from .optim import rates
from .optim.average import Average
from .optim.updates import Updater, fused_passes
from .requests import Agreement, Requests
from .state import PENDING_LOSSES, IterationStart, LossWindow, RecurrentState, SourceState, TrainingState

log = logging.getLogger("caffelite")


class Trainer:
    """Trains the net of a solver.prototxt on one device.

    message, locate: the SolverParameter and its places. path: its file, for the snapshot prefix. comm: the processes
    that train together. split: how they divide the net, as `caffelite train -split` takes it. strong_scaling: they
    divide the prototxt's batches among them, instead of each reading such a batch. fp16_gradients: gradients travel in
    16 bits. level, stages: of the train net. requests: where signals request a stop or a snapshot. resume: a
    solverstate to continue from, exactly where this program wrote it. overrides: fields of layers that the command
    line sets. keep: every blob of the nets keeps its values after a pass, and nothing is fused. net_options: more
    options of ``Net.of``. nan_recoveries: how often the run may continue from a snapshot after a NaN. snapshots: False:
    it writes none. strict: a resume that is no exact continuation is an error.
    """

    def __init__(
        self,
        message: pb.SolverParameter,
        locate: Locator,
        path: str,
        dev: Device,
        *,
        comm: SingleProcess | None = None,
        strong_scaling: bool = False,
        fp16_gradients: bool = False,
        level: int | None = None,
        stages: tuple[str, ...] = (),
        requests: Requests | None = None,
        resume: str | None = None,
        overrides: Overrides | None = None,
        keep: bool = False,
        net_options: Mapping[str, bool] | None = None,
        nan_recoveries: int = 0,
        snapshots: bool = True,
        split: str = "",
        strict: bool = False,
    ):
        self.p, self.dev, self.comm, self.locate = message, dev, comm or SingleProcess(), locate
        self._net_options = {"keep": keep, **(net_options or {})}
        self._fp16_gradients, self._strong_scaling, self._strict = fp16_gradients, strong_scaling, strict
        self.requests = requests or Requests()
        self.agreement = Agreement(self.requests, self.comm)
        checked = epochs.provisional(message, locate)
        self.schedule = rates.policy(*checked)
        checks.check_counts(*checked)
        checks.check_hooks(*checked)
        resumed = Path(resume) if resume else None
        saved = snapshot.read_state(resumed) if resumed else None
        # Every random number follows from the seed, so that a run without one in its solver keeps the seed it drew.
        drawn = saved.resume.random_seed if saved and saved.resume else self.comm.seed
        self.seed = message.random_seed if message.random_seed >= 0 else drawn
        self.prefix = snapshot.prefix(message, path)
        self.owner = Ownership(self.prefix, (resumed, saved) if resumed and saved else None)
        train, tests = nets.train_net(message, locate, level, stages), nets.test_nets(*checked)
        (overrides or Overrides()).nets([train, *tests])
        self.specs = train, tests
        self.parts = arrange(split, train, self.comm, dev, strong_scaling)
        self.epoch: epochs.Epoch | None = None  # of the data of the train net, which ``_net`` opens
        self.net: Net = self._net(train)
        self.learns = self.parts.learns(self.net)
        self.tests: list[tuple[Net, int]] = []
        try:
            self._resolve_epochs()
            for spec in tests:
                self.tests.append((self._net(spec, self.net), spec.iterations))
            self._make_parts()
            self._make_hooks(nan_recoveries, snapshots)
            if resumed and saved:
                self.checkpoints.restore(self.state, resumed, saved)
                self.checkpoints.written.append((self.iteration, resumed))
                epochs.check_resumed(self.display_epoch, self.state)
        except BaseException:
            self.close()
            raise

    def _net(self, spec: nets.NetSpec, share: Net | None = None) -> Net:
        samples = self.parts.mesh.data
        shard = data.Shard(samples.rank, samples.size)
        open_source = functools.partial(data.open_source, seed=self.seed, shard=shard)
        wiring = graph.build(spec.message, spec.state, spec.locate, open_source)
        if share is None:
            sources = (getattr(node.layer, "source", None) for node in wiring.nodes)
            self.epoch = epochs.epoch_of(filter(None, sources), self.p.iter_size, self.parts.shares)
            self._class_weights = class_weights.measure(wiring)
        class_weights.set_weights(wiring, self._class_weights, spec)
        options = {**self._net_options, "seed": self.seed, "random_seed": self.seed}
        if share is None and not self.parts.divided:
            options["fused_passes"] = fused_passes(self.p, self.comm.size)
        return self.parts.open(wiring, self.dev, share=share, **options)

    def _resolve_epochs(self) -> None:
        """Replaces the epoch fields of the solver by iterations."""
        given = self.p
        self.p, self.locate = epochs.resolve(given, self.locate, self.epoch)
        self.display_epoch = self.epoch if epochs.given(given) else None
        self.epoch_fields = epochs.values(given)
        if self.display_epoch:
            self.schedule = rates.policy(self.p, self.locate)
            log.info("%s", epochs.described(self.display_epoch, given, self.p))

    def _make_parts(self) -> None:
        """What computes: update rule, average, iteration; and the state that they work on."""
        p, net = self.p, self.net
        self.updater, self.average = Updater(p, net, self.locate, self.parts), Average(p.ema_decay, net)
        self.state = self._initial_state()
        pipeline = self.parts.pipeline(net, p.iter_size * self.parts.divisions)
        self.iteration_parts = Iteration(self.state, pipeline, self.updater, self.average, self.parts)
        self.captured = CapturedIterations(p, self.state, self.iteration_parts, self.rate, self.agreement)

    def _initial_state(self) -> TrainingState:
        labelled = [("train", self.net)] + [(f"test {i}", net) for i, (net, _) in enumerate(self.tests)]
        sources = [SourceState(label, *source) for label, net in labelled for source in net.sources()]
        recurrent = [
            RecurrentState(label, node.name, node.layer.carried)
            for label, net in labelled
            for node in net.graph.nodes
            if node.layer.carried
        ]
        return TrainingState(
            run=self.owner.run,
            seed=self.seed,
            parameters=self.net.params.data,
            histories=self.updater.history,
            losses=LossWindow(self.dev, self.p.average_loss),
            sources=sources,
            recurrent=recurrent,
            start=IterationStart(
                self.dev,
                [entry for entry in sources if entry.net == "train"],
                [entry for entry in recurrent if entry.net == "train"],
            ),
            average=self.average.state,
            plateau=self.schedule.plateau,
            loss_scale=self.updater.clipping.loss_scale,
        )

    def _make_hooks(self, nan_recoveries: int, snapshots: bool) -> None:
        """The hooks in the order in which they act on an iteration."""
        p, net, comm, iteration, hooks = self.p, self.net, self.comm, self.iteration_parts, Hooks()
        graphs = [self.parts.complete(test) for test, _ in self.tests]
        content = Content(p, net, self.average, self.updater.name, self._current_step, self.parts, self._strict)
        self.checkpoints = Checkpoints(content, self.owner, p.snapshot_keep, self.locate, writes=not comm.rank)
        self.best = BestWeights(p, self.locate, graphs, self._write_best)
        if p.snapshot or p.snapshot_after_train:
            self.checkpoints.check_disk(self.state)
        self.losses = LossReports(hooks)
        diagnosis = Diagnosis(p, self.specs[0].state, iteration, self.rate, self.checkpoints)
        self.nan_recovery = NanRecovery(iteration, diagnosis, self.losses, hooks, nan_recoveries)
        fail = self.nan_recovery.weights_fail
        self.testing = Testing(
            p, net, self.tests, self.average, self.parts, self.agreement, self.best.over, fail, hooks
        )
        self.snapshots = Snapshots(
            p, net, self.parts.mesh.data, self.checkpoints, self.agreement, self.losses, fail, snapshots
        )
        debug_info = (DividedDebugInfo if self.parts.divided else DebugInfo)(iteration)
        if p.debug_info and isinstance(debug_info, DividedDebugInfo):
            hooks.extend(DividedPasses(debug_info))
        display = Display(p, iteration, hooks, self.display_epoch)
        hooks.extend(self.testing, self.best, self.nan_recovery, self.losses, display)
        if self.schedule.plateau:
            hooks.extend(PlateauReports(self.schedule))
        if self.learns and self.updater.clipping.clips:
            hooks.extend(ClippingReports(self.updater.clipping, p.clip_gradients, self.dev.traits.synchronous))
        if p.debug_info:
            hooks.extend(debug_info)
        if not comm.rank:
            hooks.extend(Hints(p, net, self.tests, self.updater, self.parts))
        hooks.extend(self.snapshots)
        self.hooks = hooks

    # what others read

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self.state.iteration

    @property
    def batch(self) -> int:
        """Samples that a pass reads."""
        return self.parts.complete(self.net).batch_size

    @property
    def stopped_early(self) -> bool:
        """Whether tests have not improved for early_stop of them."""
        return self.best.over(self.state)

    def rate(self, iteration: int) -> float:
        """The learning rate of an iteration."""
        return self.schedule(iteration) * self.state.rate_factor

    def _current_step(self, iteration: int) -> int:
        return self.schedule.current_step(iteration)

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
        self._log_start()
        restored = True
        while restored:
            self.step(end - self.iteration, progress)
            if self.agreement.stop or self.stopped_early:
                log.info("Optimization stopped early.")
                return
            restored = self.nan_recovery.weights_fail(self.state)
        self.report_losses()
        self.hooks.finished(self.state)
        self.iteration_parts.check_faults()
        log.info("Optimization Done.")

    def step(self, count: int, progress: Callable[[Trainer, float], None] | None = None) -> None:
        """Runs ``count`` iterations. progress(trainer, rate): called after each, or after several of one launch."""
        state, hooks = self.state, self.hooks
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
            if self.agreement.stop:
                return

    def _run_captured(self, end: int) -> int:
        """Runs iterations before ``end`` as one launch, where the host need not observe them; how many."""
        count = self.captured.count(end)
        if count:
            self.captured.run(count)
            self._mark_update()
        return count

    def _run_eagerly(self) -> int:
        """Runs one iteration; 0 where it restored an earlier state."""
        state, iteration, hooks, p = self.state, self.iteration_parts, self.hooks, self.p
        state.displays = bool(p.display) and state.iteration % p.display == 0
        snapshot_next = bool(p.snapshot) and (state.iteration + 1) % p.snapshot == 0
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
        if self.learns:
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
        self.average.start()
        self.hooks.started(self.state)

    def claim(self) -> None:
        """Locks the snapshot prefix for this run, where it is to write snapshots. Errors: another run has it."""
        if self.snapshots.enabled and (self.p.snapshot or self.p.snapshot_after_train or self.p.best_score):
            self.checkpoints.claim(self.state)

    def _join(self) -> None:
        """Joins the processes that train together. Errors: they start from different numbers."""
        if self.comm.size > 1 and not self.iteration_parts.reducer:
            joining.join(self.p, self.state, self.iteration_parts, self.agreement, self._fp16_gradients)
            scaling = "strong" if self._strong_scaling else "weak"
            rate = self.p.base_lr or self.schedule(self.iteration)
            joining.log_processes(self.p, self.iteration_parts, scaling, self.batch, rate, self.epoch)

    def _log_start(self) -> None:
        """Joins the processes, and logs what will run and how."""
        for note in self.net.graph.notes:
            log.warning("%s", note)
        if not self.learns:
            log.warning("nothing is learned: the net has no loss with a learned parameter below it")
        self._join()
        if not self.dev.traits.synchronous and (why := self.captured.why_eager()):
            log.info("Running eagerly, not as CUDA graphs: %s", why)
        elif not self.dev.traits.synchronous and self.p.debug_info and self.p.display:
            log.info("Iterations that debug_info displays run eagerly, not as CUDA graphs")
        log.info("Solving %s", self.net.graph.name)
        log.info("Learning Rate Policy: %s", self.p.lr_policy)

    # on request

    def test(self) -> None:
        """Runs every test net over its test_iter batches and logs the mean of each score."""
        self.testing.test(self.state)

    def snapshot(self) -> None:
        """Writes the model, then the state; of several processes the first does."""
        self.snapshots.write(self.state)

    def restore(self, path: Path) -> None:
        """Goes on from a checkpoint: iteration, parameters, histories, positions of sources."""
        self.checkpoints.restore(self.state, path)
        self.checkpoints.written.append((self.iteration, path))

    def apply_update(self) -> None:
        """Updates the parameters from their gradients as they are, at the rate of the current iteration."""
        if self.learns:
            self.iteration_parts.update(self.rate(self.iteration))

    def _write_best(self, state: TrainingState) -> None:
        if self.snapshots.enabled:
            self.checkpoints.write_best(state)

    def report_losses(self) -> None:
        """Reports the losses that no hook has received."""
        self.losses.report(self.state)

    def replace_source(self, node: graph.Node, source: data.Source) -> None:
        """Gives a data layer of the train net another source."""
        node.layer.source = source
        self.net.rebuild(node)
        self.iteration_parts.renew_replicas()
        entry = next(entry for entry in self.state.sources if (entry.net, entry.layer) == ("train", node.name))
        entry.source = source

    def close(self) -> None:
        """Releases the snapshot prefix and ends the threads that read data."""
        self.owner.release()
        for net in (self.net, *(net for net, _ in self.tests)):
            net.close()
