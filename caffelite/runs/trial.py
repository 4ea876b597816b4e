"""Short runs that keep nothing: whether a batch fits, which learning rate falls fastest, how long passes take."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from .. import caffelite_pb2 as pb
from ..errors import NOWHERE
from ..inspection.feeds import rebatched
from ..inspection.timing import timed_pass
from ..net.net import Net
from ..parallel.forecast import Measured
from ..prototxt import Document
from ..prototxt.overrides import Overrides
from ..training import epochs, gradients
from ..training.hooks.hook import Hook
from ..training.nets import NetSpec
from ..training.optim.rates import Schedule
from ..training.optim.updates import Updater
from ..training.state import TrainingState
from ..training.trainer import Trainer
from .config import RunConfig
from .open_net import load_initial_weights, open_assigned_device, open_device, open_trainer, read_solver, without_extras


class _BatchOverrides:
    """Overrides that set the batch size too."""

    def __init__(self, overrides: Overrides, batch: int):
        self._overrides, self._batch = overrides, batch

    def nets(self, specs: Sequence[NetSpec]) -> None:
        self._overrides.nets(specs)
        for spec in specs:
            spec.message = rebatched(spec.message, self._batch)


def train_two_iterations(config: RunConfig, batch: int, gpu_ids: list[int]) -> None:
    """Trains two iterations with another batch size. gpu_ids: of the GPUs. Errors: MemoryError where it does not
    fit."""
    plain = _plain(read_solver(config))
    overrides = _BatchOverrides(Overrides(config.overrides), batch)
    dev = open_assigned_device(gpu_ids, options=config.device_options())
    with closing(open_trainer(config, plain, dev, overrides=overrides)) as trainer:
        trainer.step(2)


TIMED = 3.0  # seconds in which iterations are timed, after the first one, which compiles


@dataclass(frozen=True)
class Speed:
    """seconds: the median time of an iteration. iterations: of the whole run."""

    seconds: float
    iterations: int


def time_iterations(config: RunConfig) -> Speed:
    """Trains a few iterations of a solver and times them, without tests and snapshots. Errors: what training raises."""
    document = read_solver(config)
    dev = open_device(config.gpus, document.message)
    with closing(open_trainer(config, _plain(document), dev)) as trainer:
        load_initial_weights(trainer, config)
        trainer.step(1)
        times: list[float] = []
        while not times or sum(times) < TIMED:
            started = time.perf_counter()
            trainer.step(1)
            times.append(time.perf_counter() - started)
        whole, _ = epochs.resolve(document.message, document.locate, trainer.epoch)
        return Speed(statistics.median(times), whole.max_iter)


def find_rate(config: RunConfig, low: float, high: float, iterations: int) -> RangeTest:
    """Trains at rates that rise from ``low`` to ``high``, and returns rates and losses."""
    document = read_solver(config)
    dev = open_device(config.gpus, document.message)
    with closing(open_trainer(config, _plain(document), dev)) as trainer:
        load_initial_weights(trainer, config)
        return range_test(trainer, low, high, iterations)


def _plain(document: Document) -> Document:
    """The solver without tests and snapshots. A trial is shorter than an epoch, so lengths in epochs have no effect."""
    return Document(*epochs.provisional(without_extras(document.message), document.locate))


SMOOTH = 0.9  # decay of the mean loss
BLOWN = 4  # the test ends at this multiple of the least loss


class Rising(Schedule):
    """A schedule that rises from ``low`` to ``high``."""

    def __init__(self, low: float, high: float, count: int):
        self.plateau = None
        self._low, self._factor = low, (high / low) ** (1 / max(1, count - 1))

    def __call__(self, iteration: int) -> float:
        rate: float = self._low * self._factor**iteration
        return rate

    def current_step(self, iteration: int) -> int:
        return 0


@dataclass
class RangeTest(Hook):
    """Rates and the losses at them. ``best``: the rate at the steepest fall of the smoothed loss; None where it never
    fell."""

    rate: Rising
    rates: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    smooth: list[float] = field(default_factory=list)
    _mean: float = 0.0  # decaying, not corrected for its start

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self.rates.append(self.rate(i))
            self.measured.append(value)
            self._mean = SMOOTH * self._mean + (1 - SMOOTH) * value
            self.smooth.append(self._mean / (1 - SMOOTH ** (i + 1)))

    @property
    def blown(self) -> bool:
        return bool(self.smooth) and not self.smooth[-1] <= BLOWN * max(min(self.smooth), 1e-6)

    @property
    def best(self) -> float | None:
        least = min(
            range(len(self.smooth)), key=lambda i: self.smooth[i] if math.isfinite(self.smooth[i]) else math.inf
        )
        span = max(1, len(self.smooth) // 20)
        falls = {i: self.smooth[i - span] - self.smooth[i + span] for i in range(span, least - span + 1)}
        if not falls or max(falls.values()) < 0.01 * abs(self.smooth[0]):
            return None
        return self.rates[max(falls, key=falls.__getitem__)]


def range_test(trainer: Trainer, low: float, high: float, count: int) -> RangeTest:
    """Trains at rising rates, ``count`` iterations or until the loss blows up; the trainer is of no use afterwards."""
    test = RangeTest(Rising(low, high, count))
    trainer.learning.schedule, trainer.state.plateau = test.rate, None
    trainer.reports.nan_recovery.enabled = False
    trainer.reports.hooks.add(test)
    for _ in range(count):
        trainer.step(1)
        trainer.report_losses()
        if test.blown:
            break
    return test


def measure(net: Net, iterations: int) -> Measured:
    """Times forward, the backward of each layer and the update: medians over ``iterations`` passes, in seconds."""
    net.forward()
    net.backward()
    passes = [timed_pass(net, i) for i in range(iterations)]
    forward = statistics.median(p.forward_whole for p in passes) / 1e3
    steps = gradients.steps(net)
    order = sorted(steps, key=steps.__getitem__)
    backward = [statistics.median(p.backward.get(node.name, 0.0) for p in passes) / 1e3 for node in order]
    update = _update_seconds(net, iterations)
    itemsize = net.dev.dtype.itemsize
    buckets = sorted((b.step, (b.stop - b.start) * itemsize) for b in gradients.buckets(net))
    return Measured(forward, backward, update, buckets, net.graph.batch_size)


def _update_seconds(net: Net, iterations: int) -> float:
    """Of SGD with momentum, the mean."""
    updater = Updater(pb.SolverParameter(momentum=0.9, weight_decay=5e-4), net, NOWHERE)
    updater.run(0.0, 0)
    start = time.perf_counter()
    for i in range(iterations):
        updater.run(0.0, i)
    net.dev.synchronize()
    return (time.perf_counter() - start) / iterations
