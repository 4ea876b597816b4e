"""caffelite plan"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from ..errors import CaffeliteError
from ..system import usable_cores
from . import options
from .logs import start
from .options import FiniteRange, open_net

GPU, CPU = (
    {"bandwidth": 200.0, "latency": 5.0, "machine": 8},
    {"bandwidth": 4.0, "latency": 5.0},
)  # GB/s, µs; rough values, not measured
DIVISIONS = 8  # of the batch, for the smaller of the two batches that are timed


@dataclass(frozen=True)
class Divide:
    """The options of ``division``."""

    split: str | None
    memory: str | None
    rates: str | None
    as_json: bool


def division(command: Callable) -> Callable:
    """-split, -memory, -rates and -json, which the command takes together as ``divide``."""

    @functools.wraps(command)
    def call(*arguments, split: str | None, memory: str | None, rates: str | None, as_json: bool, **others):
        if split is None and (memory or rates or as_json):
            raise click.UsageError("-memory, -rates and -json belong to -split")
        return command(*arguments, divide=Divide(split, memory, rates, as_json), **others)

    for option in (
        options.as_json,
        click.option(
            "--rates",
            metavar="RATES",
            help="With -split: model the times of layers instead of measuring them: h100, cpu, or TFLOP/s and GB/s as "
            "in 300,2000. No device and no data are needed.",
        ),
        click.option(
            "--memory", metavar="SIZE", help="With -split: the memory of a device, as in 8G. Default: no limit."
        ),
        click.option(
            "--split",
            metavar="WHAT",
            help="Divide the net over devices: auto compares all arrangements, a number those with so many devices a "
            "group, stages=2,shards=2,micro_batches=8 or hybrid=2 those.",
        ),
    ):
        call = option(call)
    return call


@dataclass(frozen=True)
class Subject:
    """What is timed: the net and the number of devices that divide it."""

    model: str
    devices: int
    gpu: str | None
    phase: str
    level: int | None
    stage: tuple[str, ...]
    iterations: int


@dataclass(frozen=True)
class Links:
    """The options about links: GB/s, GB/s, microseconds, processes of a machine."""

    bandwidth: float | None
    network: float
    latency: float
    machine: int | None


def one_core_each(gpu: str | None) -> None:
    """Computes on one core, as processes that mpirun starts do; a Numba that runs already keeps its threads."""
    if gpu is None and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def forecast_split(divide: Divide, timed: Subject, links: Links, strong: bool) -> None:
    """Prints the forecasts of the arrangements that -split allows, the best first."""
    start()
    one_core_each(timed.gpu)
    from .. import caffelite_pb2 as pb
    from ..inspection import nets
    from ..inspection.split import comparison
    from ..net.partition.resolve import parse_split
    from ..planner import choice

    wanted = choice.of_split(parse_split(divide.split or ""))
    subject = nets.load_net(timed.model, None, {}, timed.level, timed.stage)
    graph, guessed = subject.graph(pb.Phase.Value(timed.phase.upper()))
    if not any(node.backward for node in graph.nodes):
        what = f"{timed.model}: nothing is learned in phase {timed.phase}, so there is no iteration to divide"
        raise CaffeliteError(what, remedy="name a net that trains, with its loss: train_val.prototxt")
    planner, basis = _planner(divide, timed, links, strong, graph, wanted.micro_batches)
    best = choice.choose(planner, wanted)
    forecasts = choice.plan(planner, wanted)
    alike = choice.plan(planner.with_memory(None), choice.Request(devices=1))
    forecasts += [f for f in alike if all((f.groups, f.name) != (o.groups, o.name) for o in forecasts)]
    if divide.as_json:
        _print_json(planner, forecasts)
        return
    for note in guessed:
        options.say(f"Data is missing: {note}")
    options.say(f"{graph.name or timed.model}, batches of {graph.batch_size}, {timed.devices} devices, {basis}")
    options.say("\n".join(comparison(forecasts, planner.job.memory)))
    _print_best(planner, best)


def _planner(
    divide: Divide, subject: Subject, links: Links, strong: bool, graph: Any, micro_batches: int | None
) -> tuple[Any, str]:
    """The planner of the net, and where its times come from."""
    from ..devices.traits import cpu_traits, cuda_traits
    from ..net.compile import compile
    from ..parallel.forecast import Link, Network
    from ..planner import costs
    from ..planner.planner import Job, Planner

    cpu = subject.gpu is None and divide.rates in (None, "cpu")
    cores = len(usable_cores())
    machine = links.machine or (int(GPU["machine"]) if not cpu else subject.devices if divide.rates else cores)
    near, far = links.bandwidth or (CPU if cpu else GPU)["bandwidth"], links.network
    latency = links.latency * 1e-6
    network = Network(Link(near * 1e9, latency), Link(far * 1e9, latency), machine)
    compiled = compile(graph, cpu_traits() if cpu else cuda_traits())
    if divide.rates:
        modelled, basis = costs.Modelled(graph, compiled, _rates(divide.rates)), f"times modelled for {divide.rates}"
    else:
        modelled, basis = _measured(subject, graph, compiled, micro_batches), "times measured here"
    slower = max(1.0, min(subject.devices, machine) / cores) if cpu and not divide.rates else 1.0
    limit = options.size_in_bytes(divide.memory) if divide.memory else None
    job = Job(subject.devices, network, limit, strong=strong, overlap=not cpu, slower=slower)
    linked = f"{near:g} GB/s" + (f", {far:g} GB/s between machines of {machine}" if subject.devices > machine else "")
    return Planner(graph, compiled, modelled, job), f"{basis}; links of {linked}"


def _rates(text: str) -> Any:
    """The rates of a device by its name, or from TFLOP/s and GB/s."""
    from ..planner.costs import RATES, Rates

    if text in RATES:
        return RATES[text]
    try:
        operations, moved = (float(word) for word in text.split(","))
        if not (0 < operations < float("inf") and 0 < moved < float("inf")):
            raise ValueError
    except ValueError:
        expected = f"{', '.join(RATES)}, or TFLOP/s and GB/s as in 300,2000"
        raise CaffeliteError("-rates cannot be read", expected=expected, found=f'"{text}"') from None
    return Rates(operations * 1e12, moved * 1e9, RATES["h100"].step)


def _measured(subject: Subject, graph: Any, compiled: Any, micro_batches: int | None) -> Any:
    from ..runs.scaling import measure_layers

    batch = graph.batch_size
    small = max(1, batch // (micro_batches or DIVISIONS))
    large = min(batch, 4 * small)

    def open_at(size: int) -> Any:
        return open_net(
            subject.model, subject.gpu, subject.phase, subject.level, subject.stage, batch=size, timing=True
        )

    return measure_layers(open_at, graph, compiled, (small, large), subject.iterations)


def _print_json(planner: Any, forecasts: list) -> None:
    from ..inspection.split import record

    limit = planner.job.memory
    records = [record(planner.graph, one) | {"fits": limit is None or one.memory <= limit} for one in forecasts]
    options.print_json({"devices": planner.job.devices, "memory": limit, "arrangements": records})


def _print_best(planner: Any, best: Any) -> None:
    from ..inspection.split import stages

    placement = best.placement
    texts = [f"{best.groups} {'group' if best.groups == 1 else 'groups'} of {placement.devices}", best.name]
    texts += [f"{placement.micro_batches} micro-batches"] * (placement.micro_batches > 1)
    options.say(f"Best: {', '.join(texts)}; a device sends in an iteration")
    options.say("\n".join(stages(planner.graph, best)))


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
@options.python_if_asked
@click.option(
    "--bandwidth",
    type=FiniteRange(0, min_open=True),
    metavar="GB/S",
    help="Bandwidth of a process's link within a machine. Default: 200 on a GPU, 4 on a CPU.",
)
@click.option(
    "--network",
    type=FiniteRange(0, min_open=True),
    metavar="GB/S",
    default=12.5,
    show_default=True,
    help="A process's share of the bandwidth between machines.",
)
@click.option(
    "--latency",
    type=FiniteRange(0),
    metavar="MICROSECONDS",
    default=5,
    show_default=True,
    help="Latency of one message.",
)
@options.count_option("--machine", help="Processes on each machine. Default: 8 GPUs, or the cores of a CPU.")
@options.choice_option("--scaling", choices=["weak", "strong"], help="As for caffelite train.", default="weak")
@division
@options.iterations("Passes to time.", 10)
@options.state
def plan(
    model, ranks, gpu, bandwidth, network, latency, machine, scaling, divide, iterations, phase, level, stage
) -> None:
    """Predicts how training scales: times the layers here, in one process, and adds the time to sum gradients over
    processes.

    Data that is not there is replaced by zeros, which take as long.

    With -split it compares arrangements of the devices: data parallelism, pipelines of stages, layers that devices
    divide (shards), and their combinations. It prints time, memory of a device and the bytes that a device sends in
    an iteration, then the stages of the best arrangement.

    \b
    Examples:
      caffelite plan -model models/lenet/train_val.prototxt -gpus 8
      caffelite plan -model models/vgg16/train_val.prototxt -gpus 8 -split auto -rates h100 -bandwidth 450 -memory 8G
    """
    if divide.split is not None:
        links = Links(bandwidth, network, latency, machine)
        forecast_split(
            divide, Subject(model, ranks, gpu, phase or "TRAIN", level, stage, iterations), links, scaling == "strong"
        )
        return
    start()
    from ..errors import CaffeliteError
    from ..parallel.forecast import Link, forecast

    one_core_each(gpu)
    from ..runs.scaling import measure

    net = open_net(model, gpu, phase or "TRAIN", level, stage, timing=True)
    try:
        if net.params.diff is None:
            remedy = "name a net that trains, with its loss: train_val.prototxt"
            what = f"{model}: nothing is learned in phase {phase or 'TRAIN'}, so there are no gradients to sum"
            raise CaffeliteError(what, remedy=remedy)
        measured = measure(net, iterations)
    finally:
        net.close()
    cpu = net.dev.number is None
    cores = len(usable_cores())
    machine = machine or (cores if cpu else GPU["machine"])
    bandwidth = bandwidth or (CPU if cpu else GPU)["bandwidth"]
    near, far = (Link(speed * 1e9, latency * 1e-6) for speed in (bandwidth, network))

    def of(n: int):
        # A CPU's cores move the gradients themselves, and processes beyond their number share them.
        slower = max(1.0, min(n, machine) / cores) if cpu else 1.0
        return forecast(
            measured, n, near if n <= machine else far, overlap=not cpu, strong=scaling == "strong", slower=slower
        )

    megabytes = sum(size for _, size in measured.buckets) / 1e6
    options.say(
        f"{net.graph.name}, {measured.batch} images a process: {measured.compute * 1e3:.4g} ms of computing, "
        f"{megabytes:.4g} MB gradients"
    )
    options.say(f"{'processes':>9}{'ms':>11}{'images/s':>12}{'times one':>11}{'efficiency':>12}{'waiting':>9}")
    alone = of(1)
    for n in sorted({*(n for n in LADDER if n < ranks), ranks}):
        forecasted = of(n)
        faster = forecasted.images / alone.images
        options.say(
            f"{n:9}{forecasted.seconds * 1e3:11.4g}{forecasted.images:12.5g}{faster:11.4g}{faster / n:12.1%}"
            f"{forecasted.waiting / forecasted.seconds:9.1%}"
        )
    options.say(bottleneck(net, measured, of(ranks), bandwidth if ranks <= machine else network))


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
