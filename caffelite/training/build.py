"""Makes a trainer: its nets, what computes, the state, and the hooks."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, data
from ..devices.protocol import Device
from ..errors import CaffeliteError, Locator
from ..layers.base import unread_fields
from ..layers.base.state import carried
from ..net.net import Net
from ..parallel import SingleProcess
from ..prototxt.overrides import Overrides
from . import checks, epochs, nets
from .captured import CapturedIterations
from .checkpoint import snapshot
from .checkpoint.checkpoints import Checkpoints
from .checkpoint.content import Content
from .checkpoint.ownership import Ownership
from .diagnosis.diagnosis import Diagnosis
from .hooks.best import BestWeights
from .hooks.display import ClippingReports, Display, PlateauReports
from .hooks.hints import Hints
from .hooks.hook import Hook, Hooks, LossReports
from .hooks.nan_recovery import NanRecovery
from .hooks.snapshots import Snapshots
from .hooks.testing import Testing
from .hooks.time_left import TimeLeft
from .iteration import Iteration
from .nets import NetSpec
from .opening import open_graph
from .optim import rates
from .optim.average import Average
from .optim.updates import Updater, fused_passes
from .requests import Agreement, Requests
from .state import IterationStart, LossWindow, RecurrentState, SourceState, TrainingState
from .trainer import Files, Learning, Reports, Trainer
from .whole_net import WholeNet

log = logging.getLogger("caffelite")
OpenNet = Callable[[NetSpec, Net | None], Net]


@dataclass(frozen=True, kw_only=True)
class Options:
    """comm: the processes that train together. split: how they divide the net, as `caffelite train -split` takes it.
    strong_scaling: they divide the prototxt's batches among them, instead of each reading such a batch. fp16_gradients:
    gradients travel in 16 bits. level, stages: of the train net. requests: where signals request a stop or a snapshot.
    resume: a solverstate to continue from, exactly where this program wrote it. overrides: fields of layers that the
    command line sets. keep: every blob of the nets keeps its values after a pass, and nothing is fused. net_options:
    more options of ``Net.of``. nan_recoveries: how often the run may continue from a snapshot after a NaN. snapshots:
    False: it writes none. strict: a resume that is no exact continuation is an error. open_net: opens nets in place of
    ``graph.build`` and ``Net.of``: one that has parameters of its own, or shares those of another net."""

    comm: SingleProcess | None = None
    strong_scaling: bool = False
    fp16_gradients: bool = False
    level: int | None = None
    stages: tuple[str, ...] = ()
    requests: Requests | None = None
    resume: str | None = None
    overrides: Overrides | None = None
    keep: bool = False
    net_options: Mapping[str, bool] | None = None
    nan_recoveries: int = 0
    snapshots: bool = True
    split: str = ""
    strict: bool = False
    open_net: OpenNet | None = None


PICTURES = 20  # image files of each source that are looked at before training


def _warn_of_pictures(sources: Iterable[data.Source]) -> None:
    """Names settings that the pictures of a train net lack, as ``check`` does. Bad files are errors when they are
    due."""
    for source in sources:
        with suppress(CaffeliteError):
            for one in source.proposals(PICTURES):
                log.warning("%s; set %s in transform_param", one.what, one.text)


def build_trainer(message: pb.SolverParameter, locate: Locator, path: str, dev: Device, **options: Any) -> Trainer:
    """The trainer of a solver.prototxt on a device.

    message, locate: the SolverParameter and its places. path: its file, for the snapshot prefix. options: `Options`.
    """
    plan = _Plan(message, locate, path, dev, Options(**options))
    with ExitStack() as opened:
        opened.callback(plan.owner.release)
        plan.open(opened)
        iteration = plan.iteration()
        trainer = plan.trainer(iteration)
        if plan.resumed and plan.saved:
            trainer.restore(plan.resumed, plan.saved)
            epochs.check_resumed(plan.display_epoch, trainer.state)
        opened.pop_all()
    return trainer


class _Plan:
    """What the message and the options decide about a run, and its nets once they are open."""

    tests: list[tuple[Net, int]]
    net: Net

    def __init__(self, message: pb.SolverParameter, locate: Locator, path: str, dev: Device, asked: Options):
        self.p, self.locate, self.dev, self.asked = message, locate, dev, asked
        self.comm, self.requests = asked.comm or SingleProcess(), asked.requests or Requests()
        self.agreement = Agreement(self.requests, self.comm)
        checked = epochs.provisional(message, locate)
        self.schedule = rates.policy(*checked)
        checks.check_counts(*checked)
        checks.check_hooks(*checked)
        self.resumed = Path(asked.resume) if asked.resume else None
        self.saved = saved = snapshot.read_state(self.resumed) if self.resumed else None
        # Every random number follows from the seed, so that a run without one in its solver keeps the seed it drew.
        drawn = saved.resume.random_seed if saved and saved.resume else self.comm.seed
        self.seed = message.random_seed if message.random_seed >= 0 else drawn
        before = (self.resumed, saved) if self.resumed and saved else None
        self.owner = Ownership(snapshot.prefix(message, path), before)
        self.specs = nets.train_net(message, locate, asked.level, asked.stages), nets.test_nets(*checked)
        (asked.overrides or Overrides()).nets([self.specs[0], *self.specs[1]])
        self.division = arrange(asked.split, self.specs[0], self.comm, dev, asked.strong_scaling)
        self.epoch: epochs.Epoch | None = None  # of the data of the train net
        self.display_epoch: epochs.Epoch | None = None
        self.epoch_fields = epochs.values(message)

    def open(self, opened: ExitStack) -> None:
        """Opens the nets."""
        open_net = self.asked.open_net or self._open_net
        self.net, self.tests = open_net(self.specs[0], None), []
        opened.callback(self.net.close)
        self._resolve_epochs()
        for spec in self.specs[1]:
            self.tests.append((open_net(spec, self.net), spec.iterations))
            opened.callback(self.tests[-1][0].close)
        if rates.lacks_rate(self.p) and self.division.learns(self.net):
            what, remedy = "no base_lr: nothing would be learned", "set base_lr, the learning rate to start from"
            raise self.locate.error(what, remedy=remedy)
        if not self.comm.rank:
            for net in (self.net, *(test for test, _ in self.tests)):
                unread_fields.warn(node.layer for node in self.division.complete(net).nodes)

    def _open_net(self, spec: NetSpec, share: Net | None) -> Net:
        samples = self.division.mesh.data
        shard = data.Shard(samples.rank, samples.size)
        wiring = open_graph(spec, self.seed, shard, self.division.complete(share) if share else None)
        if share is None:
            sources = [source for _, source in wiring.sources]
            self.epoch = epochs.epoch_of(sources, self.p.iter_size, self.division.shares)
            if self.comm.rank == 0:
                _warn_of_pictures(sources)
        options = {"keep": self.asked.keep, **(self.asked.net_options or {}), "seed": self.seed}
        if share is None and not self.division.divided:
            options["fused_passes"] = fused_passes(self.p, self.comm.size)
        return self.division.open(wiring, self.dev, share=share, random_seed=self.seed, **options)

    def _resolve_epochs(self) -> None:
        """Replaces the epoch fields of the solver by iterations."""
        message = self.p
        self.p, self.locate = epochs.resolve(message, self.locate, self.epoch)
        if self.epoch and epochs.given(message):
            self.display_epoch = self.epoch
            self.schedule = rates.policy(self.p, self.locate)
            log.info("%s", epochs.described(self.epoch, message, self.p))

    def iteration(self) -> Iteration:
        """What computes: update rule, average, iteration; and the state that they work on."""
        p, net, division = self.p, self.net, self.division
        updater, average = Updater(p, net, self.locate, division), Average(p, net)
        pipeline = division.pipeline(net, p.iter_size * division.divisions)
        return Iteration(self._state(updater, average), pipeline, updater, average, division)

    def _state(self, updater: Updater, average: Average) -> TrainingState:
        labeled = [("train", self.net)] + [(f"test {i}", net) for i, (net, _) in enumerate(self.tests)]
        sources = [SourceState(label, *source) for label, net in labeled for source in net.sources()]
        recurrent = [
            RecurrentState(label, node.name, arrays)
            for label, net in labeled
            for node in net.graph.nodes
            if (arrays := carried(node.layer))
        ]
        return TrainingState(
            run=self.owner.run,
            seed=self.seed,
            parameters=self.net.params.data,
            histories=updater.history,
            losses=LossWindow(self.dev, self.p.average_loss),
            sources=sources,
            recurrent=recurrent,
            start=IterationStart(
                self.dev,
                [entry for entry in sources if entry.net == "train"],
                [entry for entry in recurrent if entry.net == "train"],
            ),
            average=average.state,
            plateau=self.schedule.plateau,
            loss_scale=updater.clipping.loss_scale,
        )

    def trainer(self, iteration: Iteration) -> Trainer:
        """The hooks, in the order in which they act on an iteration, and the trainer that calls them."""
        p, net, division, state, agreement = self.p, self.net, self.division, iteration.state, self.agreement
        rate, hooks, learns = _rate(self.schedule, state), Hooks(), division.learns(net)
        checkpoints = self._checkpoints(iteration)
        losses = LossReports(hooks)
        diagnosis = Diagnosis(p, self.specs[0].state, iteration, rate, checkpoints)
        nan_recovery = NanRecovery(iteration, diagnosis, losses, hooks, self.asked.nan_recoveries)
        fail = nan_recovery.recover_bad_weights
        snapshots = Snapshots(p, net, division.mesh.data, checkpoints, agreement, losses, fail, self.asked.snapshots)
        best = BestWeights(p, self.locate, [division.complete(test) for test, _ in self.tests], snapshots.write_best)
        if p.snapshot or p.snapshot_after_train:
            checkpoints.check_disk(state)
        testing = Testing(p, net, self.tests, iteration.average, division, agreement, best.over, fail, hooks)
        debug_info = _debug_info(iteration) if p.debug_info else []
        order: list[Hook] = [*debug_info[:-1]]
        display = Display(p, iteration, hooks, self.display_epoch)
        order += [testing, best, nan_recovery, losses, display]
        if self.schedule.plateau:
            order.append(PlateauReports(self.schedule))
        if learns and iteration.updater.clipping.clips:
            order.append(ClippingReports(iteration.updater.clipping, p.clip_gradients, self.dev.traits.synchronous))
        order += debug_info[-1:]
        if not self.comm.rank:
            order += [Hints(p, net, self.tests, iteration.updater, division), TimeLeft()]
        hooks.extend(*order, snapshots)
        return Trainer(
            p=p,
            locate=self.locate,
            specs=self.specs,
            seed=self.seed,
            epoch=self.epoch,
            epoch_fields=self.epoch_fields,
            strong_scaling=self.asked.strong_scaling,
            fp16_gradients=self.asked.fp16_gradients,
            learning=Learning(
                net=net,
                tests=self.tests,
                division=division,
                learns=learns,
                state=state,
                schedule=self.schedule,
                iteration=iteration,
                captured=CapturedIterations(p, state, iteration, rate, agreement),
                requests=self.requests,
                agreement=agreement,
            ),
            reports=Reports(hooks=hooks, losses=losses, testing=testing, best=best, nan_recovery=nan_recovery),
            files=Files(snapshots=snapshots, checkpoints=checkpoints, owner=self.owner),
        )

    def _checkpoints(self, iteration: Iteration) -> Checkpoints:
        p, updater = self.p, iteration.updater
        step = self.schedule.current_step
        content = Content(p, self.net, iteration.average, updater.name, step, self.division, self.asked.strict)
        return Checkpoints(content, self.owner, p.snapshot_keep, self.locate, writes=not self.comm.rank)


def _rate(schedule: rates.Schedule, state: TrainingState) -> Callable[[int], float]:
    """The learning rate by iteration."""
    return lambda iteration: schedule(iteration) * state.rate_factor


def _debug_info(iteration: Iteration) -> list[Hook]:
    """The hooks of debug_info: the last one logs."""
    from .hooks.debug_info import DebugInfo, DividedDebugInfo, DividedPasses

    if not iteration.division.divided:
        return [DebugInfo(iteration)]
    debug_info = DividedDebugInfo(iteration)
    return [DividedPasses(debug_info), debug_info]


def arrange(split: str, train: nets.NetSpec, comm: SingleProcess, dev: Device, strong_scaling: bool) -> WholeNet:
    """The parts of the nets that the processes hold. The batches of ``train`` become those of one pass.

    split: how the net is divided, as `caffelite train -split` takes it; empty: as the placements of its layers say.
    strong_scaling: the processes divide the prototxt's batches among them. Errors: a net that cannot be divided so;
    another number of processes than it takes.
    """
    if not split and not any(layer.HasField("placement") for layer in train.message.layer):
        if strong_scaling:
            nets.divide(train, comm.size)
        return WholeNet(comm.mesh(None, dev), divides_batch=strong_scaling)
    from .partitioned_net import divide

    return divide(split, train, comm, dev, strong_scaling)
