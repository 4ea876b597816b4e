"""The schedule of a solver: learning rates, tests, snapshots and epochs, from the first iteration to the last; and a
rough forecast of its time on this machine's CPU."""

import functools
import time
from dataclasses import dataclass, field

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..charts import GRID, INK, bare, logarithmic, panels, plain_text, saved, title
from ..errors import CaffeliteError
from ..layers import Shape
from ..layers.base import unknown_types
from ..prototxt.overrides import Overrides
from ..training import epochs
from ..training.checkpoint import snapshot
from ..training.optim import rates, updates
from . import nets, summary
from .nets import NOTHING, InspectedNet, inspected_net

MOST_ROWS, POINTS = 40, 1000


@dataclass
class Moment:
    """An iteration, the rate with which it updates, and what happens there; epoch: None where the data set's size is
    not known."""

    iteration: int
    epoch: float | None
    rate: float
    what: str


@dataclass
class Run:
    """A solver's run. ``batch``: samples an iteration; ``samples``: of the training set, None: unknown; ``curve``:
    (iteration, rate); ``fields``: the epoch fields and what they mean."""

    solver: str
    rule: str
    policy: str
    iterations: int
    batch: int | None
    samples: int | None
    moments: list[Moment]
    tests: list[int]
    test_iterations: list[int]
    snapshots: list[int]
    prefix: str
    notes: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    curve: list[tuple[int, float]] = field(default_factory=list, repr=False)

    @property
    def epochs(self) -> float | None:
        return self.epoch(self.iterations)

    def epoch(self, iteration: int) -> float | None:
        return iteration * self.batch / self.samples if self.batch and self.samples else None


def schedule(
    path: str,
    shapes: dict[str, Shape] | None = None,
    samples: int | None = None,
    overrides: Overrides = NOTHING,
    processes: int = 1,
) -> Run:
    """The schedule of a solver's file with ``overrides``. samples: the size of the training set, if the data is not
    there. processes: how many train together, each with the batch of the prototxt."""
    document = overrides.solver(prototxt.read_solver(path, unknown_types.tolerate))
    message, (p, locate) = document.message, epochs.provisional(document.message, document.locate)
    rate, rule = rates.policy(p, locate), updates.check(p, locate)
    if p.max_iter < 1:
        raise locate.error("a run of no iterations", "max_iter", expected="max_iter of 1 or more", found=p.max_iter)
    notes, batch = [], None
    try:
        batch, length = _data(inspected_net(None, path, shapes or {}, overrides=overrides))
        batch *= processes
        samples = samples or length
        if samples is None:
            notes.append("epochs are not known without the data; give the size of the training set with -samples N")
    except CaffeliteError as error:
        if epochs.given(message):
            raise
        notes.append(f"epochs are not known: {error}")
    if epochs.given(message):
        epoch, remedy = batch and samples and epochs.Epoch(samples, batch), "give its size with -samples N"
        p, locate = epochs.resolve(message, document.locate, epoch or None, remedy)
        rate = rates.policy(p, locate)
    if rate.plateau:
        notes.append('the rate of "plateau" falls when the loss stops falling, which is not known in advance')
    every, last = p.test_interval, p.max_iter
    tests = [i for i in range(0, last + 1, every) if i or p.test_initialization] if every and p.test_iter else []
    saved = list(range(p.snapshot, last + 1, p.snapshot)) if p.snapshot else []
    if p.snapshot_after_train and last not in saved:
        saved.append(last)
    prefix, meanings, each = snapshot.prefix(p, path), epochs.meanings(message, p), list(p.test_iter)
    run = Run(path, rule, p.lr_policy, last, batch, samples, [], tests, each, saved, prefix, notes, meanings)
    turns = _turns(p, rate)
    run.moments = [Moment(i, run.epoch(i), rate(i), what) for i, what in sorted(turns.items())]
    step = max(1, last // POINTS)
    run.curve = [
        (i, rate(i))
        for i in sorted({*range(0, last, step), *turns, *(i - 1 for i in turns if i), last - 1})
        if i < last
    ]
    return run


def _data(inspected: InspectedNet) -> tuple[int, int | None]:
    """(samples an iteration, samples in the training set)."""
    graph, _ = inspected.graph(pb.TRAIN)
    lengths = [getattr(source, "length", None) for _, source in graph.sources]
    iter_size = inspected.solver.iter_size if inspected.solver else 1
    return graph.batch_size * iter_size, next((length for length in lengths if length), None)


def _turns(p: pb.SolverParameter, rate: rates.Schedule) -> dict[int, str]:
    """The iterations that get a row: first and last, the end of the warm-up, steps, and tenths of the run if the rate
    changes in every iteration."""
    last, warm = p.max_iter, p.warmup_iter or p.rampup_interval
    turns = {last - 1: "the last update"}
    if (steps := rates.POLICIES[p.lr_policy].turns) is not None:
        changes = [i for i in steps(p) if 0 < i < last]
        skip = -(-len(changes) // MOST_ROWS)
        turns |= dict.fromkeys(
            changes[::skip] if skip else [],
            "the rate changes" if skip < 2 else f"one of {len(changes)} changes of the rate",
        )
    else:
        turns |= {round(last * tenth / 10): "" for tenth in range(1, 10)} | turns
    if warm and warm < last:
        turns[warm] = "the warm-up ends"
    if p.min_lr and rate(last - 1) <= p.min_lr < rate(warm if warm < last else 0):
        low, high = 0, last - 1
        while low < high:  # rates fall after the warm-up
            middle = (low + high) // 2
            low, high = (low, middle) if middle >= warm and rate(middle) <= p.min_lr else (middle + 1, high)
        turns.setdefault(low, "min_lr is reached")
    turns[0] = "the warm-up begins" if warm else "the first update"
    return turns


RATE, TEST, SAVE = "#2b6cb0", "#38a169", "#c05621"


@plain_text
def chart(run: Run, form: str) -> bytes:
    """The rate over the iterations, tests and snapshots below it, epochs above; form: svg or png."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, (axes, marks) = panels((9, 4.6), 2, (6, 1), dpi=160)
    x, y = zip(*run.curve, strict=True)
    stepped = run.policy in ("fixed", "step", "multistep", "multifixed", "plateau")
    axes.plot(
        x, y, color=RATE, linewidth=2, drawstyle="steps-post" if stepped and len(x) < run.iterations else "default"
    )
    positive = [value for value in y if value > 0]
    if positive and max(y) / min(positive) > 30:
        axes.set_yscale("log")
        logarithmic(axes.yaxis)
    else:
        axes.set_ylim(0, max(y) * 1.08 or 1)
    axes.set_xlim(0, run.iterations)
    axes.set_ylabel("learning rate", color=INK)
    title(axes, f"{run.rule}, {run.policy}: {run.solver}")
    axes.grid(color=GRID)
    for row, (name, iterations, color) in enumerate((("tests", run.tests, TEST), ("snapshots", run.snapshots, SAVE))):
        marks.plot(iterations, [row] * len(iterations), "|", color=color, markersize=11, markeredgewidth=1.4)
        look = {"transform": marks.transAxes, "color": color, "va": "center", "fontsize": 9}
        marks.text(1.005, 1 - (row + 0.5) / 2, f"{len(iterations)} {name}", **look)
    marks.set_ylim(1.5, -0.5)
    marks.set_yticks([])
    marks.set_xlabel("iteration", color=INK)
    marks.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    marks.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if run.epochs:
        per = run.epochs / run.iterations
        above = axes.secondary_xaxis("top", functions=(lambda i: i * per, lambda e: e / per))
        above.set_xlabel("epoch", color=INK)
        bare(above)
    return saved(figure, form)


BACKWARD = 2.0  # times the work of the forward pass
SHARE = 0.35  # of the speed of a large matrix product, which training reaches; small nets reach less
SIDE = 768


@functools.cache
def products_per_second() -> float:
    """Multiply-adds per second of a large float32 matrix product, measured once."""
    a = np.ones((SIDE, SIDE), np.float32)
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return SIDE**3 / best


def forecast(multiply_adds: float, batch: int, iterations: int) -> float:
    """Seconds of training. multiply_adds: of one sample forward. An error of a factor of two is usual."""
    return iterations * batch * multiply_adds * (1 + BACKWARD) / (products_per_second() * SHARE)


def seconds_of(path: str, run: Run, shapes: dict[str, Shape], overrides: Overrides) -> float:
    """The seconds of a solver's run. Errors: its train net cannot be built."""
    subject = nets.inspected_net(None, path, shapes, overrides=overrides)
    graph, guessed = subject.graph(pb.TRAIN)
    table = summary.table(graph, guessed)
    return forecast(table.multiply_adds, run.batch or table.batch, run.iterations)
