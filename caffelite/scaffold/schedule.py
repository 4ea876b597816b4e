"""Chooses batch sizes, learning rate and length of a run."""

import math
import os
from dataclasses import dataclass

from .. import caffelite_pb2 as pb
from ..data.tables import NUMBERS
from ..devices.traits import DeviceTraits
from ..errors import CaffeliteError, Locator
from ..inspection import memory, summary
from ..inspection.nets import InspectedNet
from ..layers import Shape
from .presets import Preset

LEAST_ITERATIONS = 10  # of an epoch, before batches become smaller than the preset's
LEAST_BATCH = 8
MOST_TEST_BATCH = 100
MOST_EXACT = 2_000  # test images that are tested exactly even if no good batch size divides their number
FINETUNE_IMAGES, LEAST_FINETUNE = 30_000, 1_000  # images that fine-tuning sees; iterations that the new layer needs
FINETUNE_RATE = 0.001  # of learned layers; the new one learns ten times as fast
MOST_EPOCHS, LEAST_UPDATES = 300, 500  # of a run from nothing
STEPS = (0.6, 0.85)  # of the run, at which the rate falls
WARM_UP = 0.1  # of the run, in which the rate rises
# Of the run, after which it ends where no test was better, from nothing and from trained weights; measured: less loses
# accuracy of few images.
PATIENCE, FINETUNE_PATIENCE = 0.4, 0.3


@dataclass(frozen=True)
class Batch:
    """size: images per pass; passes: of an iteration, where memory does not hold a whole batch; why: the reason."""

    size: int
    passes: int
    why: str


@dataclass(frozen=True)
class Schedule:
    """rate: base_lr; epochs and iterations: length; steps: epochs at which the rate falls to a tenth; epoch: iterations
    in one; test_every: epochs between tests; warm_up: iterations; patience: tests in a row that are no better, after
    which the run ends."""

    rate: float
    epochs: int
    steps: tuple[int, ...]
    epoch: int
    test_every: int
    warm_up: int
    patience: int
    why: str

    @property
    def iterations(self) -> int:
        return self.epochs * self.epoch


def exact_batch(count: int, most: int = MOST_TEST_BATCH) -> int:
    """The largest divisor of a test set's size up to ``most``."""
    return next(size for size in range(min(count, most), 0, -1) if count % size == 0)


def exact_test_size(count: int, most: int = MOST_TEST_BATCH) -> int:
    """The number of test samples at most ``count`` and near it that whole batches of a good size cover exactly."""
    enough = min(count, most // 2)
    return next((n for n in range(count, max(0, count - most), -1) if exact_batch(n, most) >= min(n, enough)), count)


def batch(
    net: pb.NetParameter,
    solver: pb.SolverParameter,
    shapes: dict[str, Shape],
    preset: Preset,
    count: int,
    limit: int,
    traits: DeviceTraits,
) -> Batch:
    """The batch to train ``count`` images with in ``limit`` bytes of memory. Errors: not one image fits."""
    wanted = max(min(preset.batch, count // LEAST_ITERATIONS), min(LEAST_BATCH, count))
    subject = InspectedNet(net, Locator("<net>"), shapes, solver=solver, tests=1)
    threads = os.cpu_count() or 1
    if summary.memory(subject, wanted, threads, traits=traits).total <= limit:
        why = f"{preset.net} trains well with {preset.batch}"
        if wanted < preset.batch:
            why = f"of {count} images, so that an epoch has {math.ceil(count / wanted)} updates"
        return Batch(wanted, 1, why)
    largest = summary.largest_batch(subject, limit, threads, traits=traits)
    if not largest:
        expected, remedy = f"at most {memory.text(limit)}", "give a smaller -size"
        raise CaffeliteError("not even one image fits into memory", expected=expected, remedy=remedy)
    passes = math.ceil(wanted / largest[0])
    return Batch(max(1, wanted // passes), passes, f"{memory.text(limit)} of memory hold {largest[0]} images")


def schedule(preset: Preset, count: int, batch: int, task: str, finetuned: bool) -> Schedule:
    """The schedule of a run over ``count`` training images. batch: images per iteration."""
    epoch = math.ceil(count / batch)
    if finetuned:
        epochs = max(math.ceil(FINETUNE_IMAGES / count), math.ceil(LEAST_FINETUNE / epoch))
        epochs, rate = min(max(epochs, 10), 400), FINETUNE_RATE
        why = "low, because learned layers need small changes"
    else:
        most = MOST_EPOCHS if task == NUMBERS else preset.epochs
        epochs = min(max(round(preset.images / count), 30), max(most, math.ceil(LEAST_UPDATES / epoch)), MOST_EPOCHS)
        rate = preset.rate * min(1.0, max(0.25, batch / preset.batch))
        why = f"what {preset.net} trains well with from nothing, for {batch} images per iteration"
    if task == NUMBERS:
        rate, why = rate / 4, f"{why}; a quarter of it, because a squared error has larger gradients than a softmax"
    steps = tuple(max(1, round(fraction * epochs)) for fraction in STEPS)
    every = max(1, epochs // 20)
    warm_up = max(1, round(WARM_UP * epochs * epoch))
    patience = math.ceil((FINETUNE_PATIENCE if finetuned else PATIENCE) * epochs / every)
    return Schedule(float(f"{rate:.2g}"), epochs, steps, epoch, every, warm_up, patience, why)
