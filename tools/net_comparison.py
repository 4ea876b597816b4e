"""Runs a random net in several ways and compares what comes out: losses, outputs, gradients, statistics.

The reference is float64, every blob in memory of its own, nothing fused. Differences are judged by what rounding can
do: the reference runs again with every input, parameter, blob and gradient moved by float32's rounding (Monte Carlo
arithmetic), whole numbers excepted. A difference may be SLACK times what that changes. Where a value is within rounding
of a kink (of a ReLU, a maximum, a score), single data sets differ more: a net fails if it does so with TRIES data sets.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from unittest import mock

import numpy as np
from net_drawing import Drawing, RandomNet

from caffelite import caffelite_pb2 as pb
from caffelite.devices import algorithms
from caffelite.devices.cpu import CPU, onednn
from caffelite.errors import CaffeliteError
from caffelite.fork.option import Fork
from caffelite.layers.base.state import carried
from caffelite.net import graph
from caffelite.net.graph import Graph, Node
from caffelite.net.net import Net

EPS32, EPS64 = 2.0**-24, 2.0**-53
SLACK = 60  # sums of hundreds of terms round more often than once, and the largest of few trials is a small sample
NOISES = 3  # runs with rounding
TRIES = 3
LARGEST = 1e4  # of the values of a blob; beyond, little is left of float32's precision
SMALL = 1e-12  # what a result may differ by, though rounding does not change it
SHARED = 1e-7  # of a result's largest value: float32 has no more. Of a gradient, which may cancel: of all gradients
Arrays = dict[str, np.ndarray]
Move = Callable[[np.ndarray], np.ndarray]


def same(values: np.ndarray) -> np.ndarray:
    return values


class Anything:
    """Chooses the algorithm of a convolution by its problem, not by time, so that all of them are met."""

    ranks = None

    def __init__(self, which: int):
        self.which = which

    def choose(self, problem: str, runs: dict[str, Callable[[], None]]) -> str:
        return list(runs)[self.which % len(runs)]


def without_onednn() -> CPU:
    with mock.patch.object(onednn, "load", lambda: None):
        return CPU("float32")


def by_algorithm(which: int) -> CPU:
    """A CPU that takes another algorithm than the fastest, however small the work."""
    device = CPU("float32")
    device.algorithms = Anything(which)  # type: ignore[assignment]
    return device


def in_caffes_layout() -> CPU:
    device = CPU("float32")
    device.traits = replace(device.traits, channels_last=False, prepares_convolutions=False)
    return device


@contextlib.contextmanager
def small_work() -> Iterator[None]:
    """Within, small nets reach the kernels of large ones."""
    limits = {"MEASURED_WORK": 0, "MEASURED_DEPTHWISE": 0, "FEW_ROWS_WEIGHTS": 64}
    with mock.patch.multiple(algorithms, **limits):
        yield


@dataclass(frozen=True)
class Way:
    """A way to compute a net: on a device, with options of ``Net.of``, in a phase, after ``change``."""

    device: Callable[[], CPU]
    options: Mapping[str, bool] = field(default_factory=dict)
    phase: int = pb.TRAIN
    change: Callable[[RandomNet], RandomNet] = lambda random: random

    def results(self, random: RandomNet, which: int) -> Arrays:
        return Run(self.change(random), self.device(), which, self.phase, **self.options).results()


def plain(phase: int) -> Way:
    """By plain loops in float32, nothing fused."""
    return Way(without_onednn, {"keep": True}, phase)


def ways() -> dict[str, Way]:
    """By name; a "float64" in it says how exact it is."""
    wide, narrow = partial(CPU, "float64"), partial(CPU, "float32")
    found = {
        "float64, fused": Way(wide),
        "float64, nothing in place": Way(wide, change=nothing_in_place),
        "float64, test": Way(wide, phase=pb.TEST),
        "plain": plain(pb.TRAIN),
        "plain, test": plain(pb.TEST),
        "no oneDNN": Way(without_onednn),
        "no oneDNN, test": Way(without_onednn, phase=pb.TEST),
    }
    if onednn.load():
        found |= {
            "oneDNN": Way(narrow),
            "oneDNN, unfused": Way(narrow, {"fuse": False}),
            "oneDNN, test": Way(narrow, phase=pb.TEST),
            "oneDNN, Caffe's layout": Way(in_caffes_layout),
            **{f"oneDNN, algorithm {i}": Way(partial(by_algorithm, i)) for i in (1, 2)},
        }
    return found


def nothing_in_place(random: RandomNet) -> RandomNet:
    """The net with a top of its own for each layer that overwrites its bottom; its results have the same names."""
    message = pb.NetParameter()
    message.CopyFrom(random.message)
    writers = Counter(blob for layer in message.layer for blob in layer.top)
    versions: Counter[str] = Counter()

    def name(blob: str) -> str:
        return blob if versions[blob] >= writers[blob] else f"{blob}.{versions[blob]}"

    for layer in message.layer:
        layer.bottom[:] = [name(blob) for blob in layer.bottom]
        versions.update(layer.top)
        layer.top[:] = [name(blob) for blob in layer.top]
    return replace(random, message=message)


def build(message: pb.NetParameter, phase: int = pb.TRAIN) -> Graph:
    return graph.build(message, pb.NetState(phase=phase))


class Run:
    """A net on a device, with the values of ``random`` in its parameters. Its arrays start as garbage."""

    def __init__(self, random: RandomNet, device: CPU, which: int, phase: int = pb.TRAIN, **options: bool):
        self.net = net = Net.of(build(random.message, phase), device, random_seed=3, **options)
        self.arrays = random.arrays(which)
        rng = np.random.default_rng([random.seed, which, 1])
        self.parameters = [self._values(rng, i) for i in range(len(net.params.blobs))]
        feeds = {value for node in net.graph.feeds for value in node.tops}
        shared = {id(net.compiled.data[value]) for value in feeds}
        for value, array in net.data.items():
            if id(net.compiled.data[value]) not in shared:
                array.fill(np.nan)

    def _values(self, rng: np.random.Generator, index: int) -> np.ndarray:
        """Weights that keep the size of values; statistics and scales are positive."""
        parameter = self.net.params.parameters[index]
        shape = parameter.blob.shape
        if parameter.blob.statistic:
            values = 0.5 + rng.random(shape)
        else:
            values = rng.normal(size=shape) / np.sqrt(max(1, np.prod(shape[1:])))
        return values.astype(np.float32).astype(np.float64)

    def reset(self, move: Move = same) -> None:
        """Fills inputs and parameters, and clears recurrent states. move: what is done to the values."""
        net = self.net
        for i, values in enumerate(self.parameters):
            net.dev.upload(net.params.blobs[i], move(values))
        for node in net.graph.feeds:
            for value in node.tops:
                net.dev.upload(net.data[value], move(self.arrays[value.name]))
        for node in net.graph.nodes:
            for array in carried(node.layer):
                array.fill(0)
        net.clear_loss()

    def forward(self, observe: Callable[[Node], None] | None = None) -> float:
        self.net.forward(1, observe=observe)
        return float(self.net.loss[0])

    def results(self, move: Move = same) -> Arrays:
        """What a pass forward and backward computes. move: applied to all values."""
        net = self.net
        self.reset(move)

        def forward(node: Node) -> None:
            for value in node.tops:
                net.data[value][...] = move(net.data[value])

        def backward(node: Node) -> None:
            for value in node.bottoms:
                if value in net.diff:
                    net.diff[value][...] = move(net.diff[value])

        plain = move is same
        found = {"loss": np.array(self.forward(None if plain else forward))}
        net.check_faults()
        found |= _outputs(net)
        for i, parameter in enumerate(net.params.parameters):
            if parameter.blob.statistic:
                found[f"statistics {parameter.node.name}[{parameter.index}]"] = np.array(net.params.blobs[i])
        if net.compiled.backward:
            net.backward(observe=None if plain else backward)
            found |= self.gradients()
            for value in (value for node in net.graph.feeds for value in node.tops if value in net.diff):
                found[f"gradient of {value.name}"] = np.array(net.shown(net.diff[value], value))
        return {name: values.astype(np.float64) for name, values in found.items()}

    def gradients(self) -> Arrays:
        """Those of the parameters."""
        params = self.net.params
        found = zip(params.parameters, params.diffs, strict=True)
        return {f"gradient of {p.node.name}[{p.index}]": np.array(diff) for p, diff in found if diff is not None}


def rounding(rng: np.random.Generator, eps: float = EPS32) -> Move:
    """Moves values by what rounding to float32 changes at most; whole numbers are exact."""

    def move(values: np.ndarray) -> np.ndarray:
        different, which = np.unique(values, return_inverse=True)  # equal values are rounded alike
        moved = different * (1 + rng.choice((-eps, eps), different.shape))
        return np.where(different == np.rint(different), different, moved)[which].reshape(np.shape(values))

    return move


class Judged:
    """The reference, and how much rounding changes each result. compute: the reference, with all values moved."""

    def __init__(self, compute: Callable[[Move], Arrays], seed: int):
        self.expected = compute(same)
        rng = np.random.default_rng(seed)
        self.noise = dict.fromkeys(self.expected, 0.0)
        for _ in range(NOISES):
            self.allow(compute(rounding(rng)))

    def allow(self, found: Arrays) -> None:
        """Counts what differs in ``found`` as rounding."""
        for name, values in found.items():
            self.noise[name] = max(self.noise[name], _distance(values, self.expected[name]))

    def differences(self, found: Arrays, wide: bool) -> dict[str, float]:
        """By result, the difference as a multiple of what rounding to float32 explains (wide: to float64), where that
        is more than SLACK."""
        eps = EPS64 if wide else EPS32
        if missing := found.keys() - self.expected.keys():
            return {f"no {name}": np.inf for name in missing}
        far, largest = {}, Counter[str]()
        for name, expected in self.expected.items():
            largest[_owner(name)] = max(largest[_owner(name)], np.abs(expected).max(initial=0))
        for name in found:
            expected = self.expected[name]
            explained = max(self.noise[name], SHARED * largest[_owner(name)], SMALL) * eps / EPS32
            ratio = _distance(found[name], expected) / explained
            if not ratio <= SLACK and explained < np.inf:
                far[name] = float(ratio)
        return far


def _outputs(net: Net) -> Arrays:
    """By blob and by number of its version among the outputs: the same names where ``nothing_in_place`` has others."""
    found, versions = {}, Counter[str]()
    for value in sorted(net.graph.outputs, key=lambda value: value.source.layer_index):
        blob = value.name.partition(".")[0]
        found[f"output {blob} {versions[blob]}"] = np.array(net.dev.download(net.data[value])).reshape(-1)
        versions[blob] += 1
    return found


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference; infinity between tables of different lengths, which some layers' tops are."""
    return float(np.abs(one - other).max(initial=0)) if one.shape == other.shape else np.inf


def _owner(name: str) -> str:
    """What a result is compared with in size: all gradients together, because one alone may cancel."""
    return "gradient" if name.startswith("gradient") else name


def of_passes(random: RandomNet, which: int, phase: int = pb.TRAIN) -> Judged:
    return Judged(Run(random, CPU("float64"), which, phase, keep=True).results, random.seed)


class Unfit(Exception):
    """A layer makes values that nothing can be compared with."""

    def __init__(self, layer: str):
        super().__init__(layer)
        self.layer = layer


def random_net(seed: int, fork: Fork | None = None) -> RandomNet:
    """The net of a seed, without layers whose values are not finite, or large, or whose data are invalid. fork: whose
    types and fields alone it has."""
    for attempt in itertools.count():
        found = _tamed(Drawing(seed, attempt, fork).draw())
        if any(layer.type != "Input" for layer in found.message.layer):
            return found
    raise AssertionError


def _tamed(random: RandomNet) -> RandomNet:
    while random.message.layer:
        try:
            for phase in (pb.TEST, pb.TRAIN):
                _check(random, 0, phase)
            return random
        except Unfit as unfit:
            random = random.without(unfit.layer)
    return random


def fits(random: RandomNet, which: int) -> bool:
    """Whether another data set than the first can be compared too."""
    try:
        _check(random, which, pb.TRAIN)
    except Unfit:
        return False
    return True


def _check(random: RandomNet, which: int, phase: int) -> None:
    net = None

    def forward(node: Node) -> None:
        values = [net.data[value] for value in node.tops]
        if node.layer.faults() or not all(np.abs(v).max(initial=0) < LARGEST for v in values):
            raise Unfit(node.name)

    def backward(node: Node) -> None:
        found = [net.diff[value] for value in node.bottoms if value in net.diff]
        found += [p.diff for p in node.layer.params if p.wanted]
        if not all(np.abs(v).max(initial=0) < LARGEST for v in found):
            raise Unfit(node.name)

    with np.errstate(all="ignore"):
        try:
            run = Run(random, CPU("float64"), which, phase, keep=True)
            net = run.net
            run.reset()
            run.forward(forward)
            _outputs(net)
            if net.compiled.backward:
                net.backward(observe=backward)
        except CaffeliteError as error:
            named = [layer.name for layer in random.message.layer if f'layer "{layer.name}"' in str(error)]
            raise Unfit(named[0]) from error
