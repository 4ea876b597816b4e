"""Draws random nets from the registry of layers and computes each in many ways that have to agree.

    python tools/random_nets.py --nets 1000 [--seed 0]   nets with the numbers 0 to 999; each that fails is reported
    python tools/random_nets.py --seed 7 --show          net 7 as a prototxt, with its solver
    python tools/random_nets.py --fork DIR ...           each beside the fork's own Net, where that has its layers
    mpirun -n 2 python tools/random_nets.py ...          each is trained by two ranks and by one

Compared with a reference in float64: fused and unfused, oneDNN and BLAS and plain loops, every algorithm of a
convolution, both layouts, nets that only test, in-place undone, a batch and its micro-batches, one update from several
passes, gradients and differences of the loss. ``net_comparison`` says how differences are judged.
"""

import argparse
import functools
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT.parent), str(ROOT)]

from caffelite.parallel import ProcessGroup, SingleProcess, expected, session  # noqa: E402
from caffelite.parallel.transports.mpi import Communicator  # noqa: E402

if expected() > 1:  # ranks share the cores, and Numba reads this when it is imported
    os.environ |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), "1")

from google.protobuf import text_format  # noqa: E402
from net_comparison import (  # noqa: E402
    TRIES,
    Arrays,
    Judged,
    Move,
    Run,
    Way,
    fits,
    of_passes,
    plain,
    random_net,
    same,
    small_work,
    ways,
    without_onednn,
)
from net_contracts import inexact  # noqa: E402
from net_drawing import DRAWN, RandomNet  # noqa: E402
from net_training import beside_fork, by_halves, draws_numbers, halves, has_state, train  # noqa: E402

from caffelite import caffelite_pb2 as pb  # noqa: E402
from caffelite.devices.cpu import CPU  # noqa: E402
from caffelite.fork import option  # noqa: E402
from caffelite.fork.option import Fork  # noqa: E402
from caffelite.training.diagnosis.diagnosis import Diverged  # noqa: E402

# Types whose gradient is not the derivative, as in the programs that they come from
INEXACT = inexact()
STEPS = (1e-5, 1e-6)  # of the differences of the loss
SILENT = 300  # seconds that a rank may compute alone, and compile for it, before the others give it up
SLOPE = 1e-5  # the difference between slopes that counts, relative to the sum of all terms' sizes


def found_first(comm: SingleProcess, find: Callable[[], bool]) -> bool:
    """What rank 0 finds, or its error, on all ranks: meanwhile the others sleep, rather than compile the same kernels,
    and load them afterwards."""
    assert isinstance(comm, ProcessGroup) and isinstance(comm.control, Communicator)
    found: bool | Exception = False
    if not comm.rank:
        try:
            found = find()
        except Exception as error:
            found = error
    ready = comm.control.comm.Ibarrier()
    while not ready.Test():
        time.sleep(0.02)
    found = comm.gather(found)[0]
    if isinstance(found, Exception):
        raise found
    return found


class Compared:
    """A net, its references (each computed once), and all that is compared with them."""

    def __init__(self, random: RandomNet):
        self.random = random
        self.passes = functools.cache(lambda which, phase: of_passes(random, which, phase))
        self.rounded = functools.cache(self._rounded)
        self.training = functools.cache(self._training)

    def _rounded(self, which: int, phase: int) -> Judged:
        """As ``passes``; plain float32, a way that is compared itself, also rounds within layers."""
        judged = of_passes(self.random, which, phase)
        judged.allow(plain(phase).results(self.random, which))
        return judged

    def _training(self, which: int) -> Judged:
        """Rules that divide by the gradient's size follow its sign where it cancels, so that plain float32 says what
        rounding does; ``way`` compares its gradients."""
        judged = Judged(functools.partial(self.trained, which), self.random.seed)
        judged.allow(train(self.random, which, without_onednn(), keep=True))
        return judged

    def trained(self, which: int, move: Move = same) -> Arrays:
        return train(self.random, which, CPU("float64"), move=move, keep=True)

    @functools.cached_property
    def diverges(self) -> bool:
        """Whether the reference's own loss becomes NaN or infinite, as an angle's of vectors that an update made longer
        than 1: then there is nothing to compare with."""
        try:
            self.trained(0)
        except Diverged:
            return True
        return False

    def way(self, way: Way, wide: bool) -> dict[str, float]:
        judged = self.passes if wide or way == plain(way.phase) else self.rounded
        return self._persistent(
            lambda which: judged(which, way.phase).differences(way.results(self.random, which), wide)
        )

    def gradients(self) -> dict[str, float]:
        return self._persistent(functools.partial(slope_error, self.random))

    def micro_batches(self) -> dict[str, float]:
        half = halves(self.random)
        if half is None or draws_numbers(self.random):
            return {}
        found = functools.partial(by_halves, self.random, half)
        return self._persistent(lambda which: self.passes(which, pb.TRAIN).differences(found(which), True))

    def several_passes(self) -> dict[str, float]:
        """An update from several passes over the same data."""
        if draws_numbers(self.random) or has_state(self.random) or self.diverges:
            return {}
        found = functools.partial(train, self.random, device=CPU("float64"), passes=3)
        return self._persistent(lambda which: self.training(which).differences(found(which), False))

    def fused_updates(self) -> dict[str, float]:
        if self.diverges:
            return {}
        found = functools.partial(train, self.random, device=CPU("float32"))
        return self._persistent(lambda which: self.training(which).differences(found(which), False))

    def ranks(self, comm: SingleProcess) -> dict[str, float]:
        """All ranks with the same data, and one alone. Random numbers are those of a rank's samples, so they differ."""
        if found_first(comm, lambda: draws_numbers(self.random) or self.diverges):
            return {}
        found = train(self.random, 0, CPU("float64"), comm=comm)
        return {} if comm.rank else self.training(0).differences(found, False)

    def fork(self, fork: Fork, compared: Counter[str]) -> dict[str, float]:
        """The layers that differ alone from the fork's. compared: counts nets, layers
        that the fork refuses, and others by the verdict."""
        layers, reasons = beside_fork(self.random, fork)
        compared.update(["nets"] * bool(layers) + ["refused"] * len(reasons))
        compared.update(layer.verdict[:40] for layer in layers)
        differ = (layer for layer in layers if layer.verdict == "differs")
        return {f"{layer.type} {layer.name}": max(each.most for each in layer.alone) for layer in differ}

    def _persistent(self, far: Callable[[int], dict[str, float]]) -> dict[str, float]:
        """What differs with the first data set, if others differ too."""
        found = far(0)
        for which in range(1, TRIES):
            if found and fits(self.random, which):
                found = far(which)
        return found


def inexact(layer: pb.LayerParameter) -> bool:
    """Whether a layer's gradient is no derivative, or adds one of its own to it."""
    limited = layer.lstm_param.clipping_threshold > 0
    meet = layer.type in ("Unpooling", "Upsample") and len(layer.bottom) > 1  # of several values in a place one stays
    return layer.type in INEXACT or layer.inner_product_param.normalize or limited or meet


def slope_error(random: RandomNet, which: int) -> dict[str, float]:
    """What is wrong with the gradients, by differences of the loss along a random direction; nothing where gradients
    are no derivatives."""
    run = Run(random, CPU("float64"), which)
    net = run.net
    if not net.compiled.backward or any(inexact(layer) or layer.propagate_down for layer in random.message.layer):
        return {}
    run.results()
    owners = {ref.owner for node in net.graph.nodes for ref in node.params if ref.wanted}
    wanted = [i for i in owners if net.params.diffs[i] is not None]
    values = [value for node in net.graph.feeds for value in node.tops if value in net.diff]
    spots = [net.params.blobs[i] for i in wanted] + [net.data[value] for value in values]
    slopes = [net.params.diffs[i].copy() for i in wanted] + [net.diff[value].copy() for value in values]
    rng = np.random.default_rng([random.seed, which, 3])
    steps = [rng.normal(size=spot.shape) for spot in spots]
    terms = [slope * step for slope, step in zip(slopes, steps, strict=True)]
    slope = sum(float(t.sum()) for t in terms)
    scale = max([1e-3, *(float(np.abs(t).max(initial=0)) for t in terms)])
    measured = [_measured(run, spots, steps, size) for size in STEPS]
    error = min(abs(m - slope) for m in measured) / scale
    return {} if error <= SLOPE else {f"slope {slope:g}, measured {measured[0]:g} and {measured[1]:g}": error}


def _measured(run: Run, spots: list[np.ndarray], steps: list[np.ndarray], size: float) -> float:
    losses = []
    for sign in (size, -size):
        run.reset()
        for spot, step in zip(spots, steps, strict=True):
            spot += sign * step
        losses.append(run.forward())
    return (losses[0] - losses[1]) / (2 * size)


class Campaign:
    """Compares nets. failures: (seed, way, what); types: how many nets have a layer of a type. only: a word in the
    names of the ways; share: how many ways a net is compared in, other ones for the next net; None: all. caffe: a
    binary; comm: the ranks, which all compare the same nets."""

    def __init__(
        self, only: str = "", share: int | None = None, fork: Fork | None = None, comm: SingleProcess | None = None
    ):
        self.only, self.share, self.fork, self.comm = only, share, fork, comm
        self.beside: Counter[str] = Counter()
        self.ways = ways()
        self.failures: list[tuple[int, str, str]] = []
        self.types: Counter[str] = Counter()

    def checks(self, random: RandomNet) -> dict[str, Callable[[], object]]:
        compared = Compared(random)
        if self.comm and self.comm.size > 1:
            return {"ranks": functools.partial(compared.ranks, self.comm)}
        if self.fork:
            return {"fork": functools.partial(compared.fork, self.fork, self.beside)}
        found: dict[str, Callable[[], object]] = {
            name: functools.partial(compared.way, way, "float64" in name) for name, way in self.ways.items()
        }
        found["gradients"] = compared.gradients
        found["micro-batches"] = compared.micro_batches
        found["several passes"], found["fused updates"] = compared.several_passes, compared.fused_updates
        names = [name for name in found if self.only in name]
        if self.share:
            start = random.seed * self.share % len(names)
            names = [*names[start:], *names[:start]][: self.share]
        return {name: found[name] for name in names}

    def run(self, seed: int) -> None:
        said: set[str] = set()

        def tried(name: str, check: Callable[[], object]) -> object:
            """What the check returns; an error is a failure."""
            try:
                with small_work(), np.errstate(all="ignore"):
                    return check()
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)[-3:]
                at = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
                fail(name, f"{type(error).__name__}: {error} ({at})")
                return None

        def fail(name: str, found: str) -> None:
            if found not in said:
                said.add(found)
                self.failures.append((seed, name, found))

        random = tried("drawing", lambda: random_net(seed, self.fork))
        if isinstance(random, RandomNet):
            self.types.update({layer.type for layer in random.message.layer})
            for name, check in self.checks(random).items():
                if found := tried(name, check):
                    fail(name, str(found))


def shown(random: RandomNet) -> str:
    return text_format.MessageToString(random.message) + text_format.MessageToString(random.solver)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=int, default=1)
    text = "of the first net; the others count up; several: so many nets from each"
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help=text)
    parser.add_argument("--way", default="", help="only ways whose name has this in it")
    parser.add_argument("--fork", default="", metavar="DIR", help="the sources of a Caffe to compare with")
    parser.add_argument("--show", action="store_true", help="print the prototxts of nets, and compare nothing")
    options = parser.parse_args()
    seeds = [first + i for first in options.seed for i in range(options.nets)]
    if options.show:
        for seed in seeds:
            print(shown(random_net(seed)))
        return
    option.use(options.fork)
    with session(SILENT) as comm:
        campaign = Campaign(options.way, fork=option.current(), comm=comm)
        for seed in seeds:
            before = len(campaign.failures)
            campaign.run(seed)
            for failure in campaign.failures[before:]:
                print("--- net {}, {}: {}".format(*failure), flush=True)
    never = ", ".join(sorted(DRAWN.keys() - campaign.types.keys()))
    counts = f"{len(seeds)} nets, {len(campaign.failures)} differences, {len(campaign.types)} types of layers"
    if campaign.fork:
        print(", ".join(f"{count} {what}" for what, count in campaign.beside.most_common()))
    if comm.rank == 0:
        print(f"{counts}; never drawn: {never}")
    sys.exit(bool(campaign.failures))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
