"""caffelite plan"""

import os
import sys
from types import SimpleNamespace
from typing import Any

import click

from ..errors import CaffeliteError
from ..system import usable_cores
from . import options
from .logs import start
from .options import POSITIVE, FiniteRange, open_named_net
from .output import say

GPU = {"bandwidth": 200.0, "latency": 5.0, "machine": 8}  # GB/s, µs; rough values, not measured
CPU = {"bandwidth": 4.0, "latency": 5.0}


def one_core_each(gpu: str | None) -> None:
    """Computes on one core, as processes that mpirun starts do; a Numba that runs already keeps its threads."""
    if gpu is None and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")


LADDER = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@click.command(short_help="Predict how training scales on many devices")
@options.model
@click.option(
    "--gpus",
    "ranks",
    type=click.IntRange(1, 1024),
    metavar="N",
    required=True,
    help="Number of processes, one for each GPU or CPU core.",
)
@options.gpu
@options.code_if_asked
@click.option(
    "--bandwidth",
    type=POSITIVE,
    metavar="GB/S",
    help="Bandwidth of a process's link within a machine. Default: 200 on a GPU, 4 on a CPU.",
)
@options.number_option(
    "--network",
    help="A process's share of the bandwidth between machines.",
    kind=POSITIVE,
    default=12.5,
    metavar="GB/S",
)
@options.number_option(
    "--latency", help="Latency of one message.", kind=FiniteRange(0), default=5, metavar="MICROSECONDS"
)
@options.count_option("--machine", help="Processes on each machine. Default: 8 GPUs, or the cores of a CPU.")
@options.choice_option("--scaling", choices=["weak", "strong"], help="As for caffelite train.", default="weak")
@options.iterations("Passes to time.", 10)
@options.state
def plan(**values: Any) -> None:
    """Predicts how training scales: times the layers here, in one process, and adds the time to sum gradients over
    processes.

    Data that is not there is replaced by zeros, which take as long.

    The memory of each device of a net that -split divides: caffelite summary -split.

    \b
    Example:
      caffelite plan -model models/lenet/train_val.prototxt -gpus 8
    """
    asked = SimpleNamespace(**values)
    start()
    from ..parallel.forecast import Link, forecast

    one_core_each(asked.gpu)
    from ..runs.trial import measure

    net = open_named_net(asked.model, asked.gpu, asked.phase or "TRAIN", asked.level, asked.stage, timing=True)
    strong = asked.scaling == "strong"
    try:
        if net.params.diff is None:
            phase, remedy = asked.phase or "TRAIN", "name a net that trains, with its loss: train_val.prototxt"
            what = f"{asked.model}: nothing is learned in phase {phase}, so there are no gradients to sum"
            raise CaffeliteError(what, remedy=remedy)
        measured = measure(net, asked.iterations)
    finally:
        net.close()
    cpu = net.dev.number is None
    cores = len(usable_cores())
    machine = asked.machine or (cores if cpu else GPU["machine"])
    bandwidth = asked.bandwidth or (CPU if cpu else GPU)["bandwidth"]
    near, far = (Link(speed * 1e9, asked.latency * 1e-6) for speed in (bandwidth, asked.network))

    def of(n: int):
        # A CPU's cores move the gradients themselves, and processes beyond their number share them.
        slower = max(1.0, min(n, machine) / cores) if cpu else 1.0
        return forecast(measured, n, near if n <= machine else far, overlap=not cpu, strong=strong, slower=slower)

    megabytes = sum(size for _, size in measured.buckets) / 1e6
    say(
        f"{net.graph.name}, {measured.batch} images a process: {measured.compute * 1e3:.4g} ms of computing, "
        f"{megabytes:.4g} MB gradients"
    )
    say(_memory(net))
    say(f"{'processes':>9}{'ms':>11}{'images/s':>12}{'times one':>11}{'efficiency':>12}{'waiting':>9}")
    alone = of(1)
    for n in sorted({*(n for n in LADDER if n < asked.ranks), asked.ranks}):
        forecasted = of(n)
        faster = forecasted.images / alone.images
        say(
            f"{n:9}{forecasted.seconds * 1e3:11.4g}{forecasted.images:12.5g}{faster:11.4g}{faster / n:12.1%}"
            f"{forecasted.waiting / forecasted.seconds:9.1%}"
        )
    say(bottleneck(net, measured, of(asked.ranks), bandwidth if asked.ranks <= machine else asked.network))


def _memory(net: Any) -> str:
    """What a process holds, without the history of the solver's rule."""
    from ..inspection.memory import text

    sizes = net.params.data.nbytes, net.params.diff.nbytes, net.compiled.arena + net.compiled.constant_bytes
    parameters, gradients, blobs = map(text, sizes)
    return f"Memory of a process: {text(sum(sizes))}: parameters {parameters}, gradients {gradients}, blobs {blobs}"


def bottleneck(net, measured, forecasted, bandwidth: float) -> str:
    """What limits ``forecasted``, in a sentence."""
    if forecasted.waiting > 0.1 * forecasted.seconds:
        sizes = {parameter.node.name: 0 for parameter in net.params.parameters}
        for parameter, blob in zip(net.params.parameters, net.params.blobs, strict=True):
            sizes[parameter.node.name] += blob.size
        name = max(sizes, key=sizes.__getitem__)
        fraction = sizes[name] / max(1, sum(sizes.values()))
        return (
            f"The bottleneck is the all-reduce: {forecasted.travel * 1e3:.4g} ms at {bandwidth:g} GB/s, "
            f"{forecasted.waiting * 1e3:.4g} ms of it not "
            f'hidden; layer "{name}" has {fraction:.0%} of the gradients. A larger batch, -compress fp16 or a faster '
            "link help."
        )
    seconds = {"forward": measured.forward, "backward": sum(measured.backward), "the update": measured.update}
    name = max(seconds, key=seconds.__getitem__)
    waiting = forecasted.waiting / forecasted.seconds
    return (
        f"The bottleneck is computing, of which {name} is {seconds[name] / measured.compute:.0%}; gradients cost "
        f"{waiting:.1%}."
    )
