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
from .options import POSITIVE, FiniteRange, open_net
from .output import say

GPU = {"bandwidth": 200.0, "latency": 5.0, "machine": 8}  # GB/s, µs; rough values, not measured
CPU = {"bandwidth": 4.0, "latency": 5.0}
DIVISIONS = 8  # of the batch, for the smaller of the two batches that are timed


def _open(asked: Any, batch: int | None = None) -> Any:
    """The net. asked: the command's options by name."""
    phase = asked.phase or "TRAIN"
    return open_net(asked.model, asked.gpu, phase, asked.level, asked.stage, batch=batch, timing=True)


def one_core_each(gpu: str | None) -> None:
    """Computes on one core, as processes that mpirun starts do; a Numba that runs already keeps its threads."""
    if gpu is None and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_NUM_THREADS", "1")
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def forecast_split(asked: Any) -> None:
    """Prints the forecasts of the arrangements that -split allows, the best first."""
    start()
    one_core_each(asked.gpu)
    from .. import caffelite_pb2 as pb
    from ..inspection import nets
    from ..inspection.split import comparison
    from ..net.partition.resolve import parse_split
    from ..planner import choice

    phase = asked.phase or "TRAIN"
    wanted = choice.of_split(parse_split(asked.split or ""))
    subject = nets.load_net(asked.model, None, {}, asked.level, asked.stage)
    graph, guessed = subject.graph(pb.Phase.Value(phase.upper()))
    if not any(node.backward for node in graph.nodes):
        what = f"{asked.model}: nothing is learned in phase {phase}, so there is no iteration to divide"
        raise CaffeliteError(what, remedy="name a net that trains, with its loss: train_val.prototxt")
    planner, basis = _planner(asked, graph, wanted.micro_batches)
    best = choice.choose(planner, wanted)
    forecasts = choice.plan(planner, wanted)
    alike = choice.plan(planner.with_memory(None), choice.Request(devices=1))
    forecasts += [f for f in alike if all((f.groups, f.name) != (o.groups, o.name) for o in forecasts)]
    if asked.as_json:
        _print_json(planner, forecasts)
        return
    for note in guessed:
        say(f"Data is missing: {note}")
    say(f"{graph.name or asked.model}, batches of {graph.batch_size}, {asked.ranks} devices, {basis}")
    say(options.aligned(comparison(forecasts, planner.job.memory), left=(0,)))
    _print_best(planner, best)


def _planner(asked: Any, graph: Any, micro_batches: int | None) -> tuple[Any, str]:
    from ..devices.traits import cpu_traits, cuda_traits
    from ..net.compile import compile
    from ..parallel.forecast import Link, Network
    from ..planner import costs
    from ..planner.planner import Job, Planner

    cpu = asked.gpu is None and asked.rates in (None, "cpu")
    cores = len(usable_cores())
    machine = asked.machine or (int(GPU["machine"]) if not cpu else asked.ranks if asked.rates else cores)
    near, far = asked.bandwidth or (CPU if cpu else GPU)["bandwidth"], asked.network
    latency = asked.latency * 1e-6
    network = Network(Link(near * 1e9, latency), Link(far * 1e9, latency), machine)
    compiled = compile(graph, cpu_traits() if cpu else cuda_traits())
    if asked.rates:
        modelled, basis = costs.Modelled(graph, compiled, _rates(asked.rates)), f"times modelled for {asked.rates}"
    else:
        modelled, basis = _measured(asked, graph, compiled, micro_batches), "times measured here"
    slower = max(1.0, min(asked.ranks, machine) / cores) if cpu and not asked.rates else 1.0
    limit = options.size_in_bytes(asked.memory) if asked.memory else None
    job = Job(asked.ranks, network, limit, strong=asked.scaling == "strong", overlap=not cpu, slower=slower)
    linked = f"{near:g} GB/s" + (f", {far:g} GB/s between machines of {machine}" if asked.ranks > machine else "")
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


def _measured(asked: Any, graph: Any, compiled: Any, micro_batches: int | None) -> Any:
    from ..runs.trial import measure_layers

    batch = graph.batch_size
    small = max(1, batch // (micro_batches or DIVISIONS))
    large = min(batch, 4 * small)

    return measure_layers(lambda batch: _open(asked, batch), graph, compiled, (small, large), asked.iterations)


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
    say(f"Best: {', '.join(texts)}; a device sends in an iteration")
    say(options.aligned(stages(planner.graph, best), left=range(3)))


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
@click.option(
    "--split",
    metavar="WHAT",
    help="Divide the net over devices: auto compares all arrangements, a number those with so many devices a "
    "group, stages=2,shards=2,micro_batches=8 or hybrid=2 those.",
)
@click.option("--memory", metavar="SIZE", help="With -split: the memory of a device, as in 8G. Default: no limit.")
@click.option(
    "--rates",
    metavar="RATES",
    help="With -split: model the times of layers instead of measuring them: h100, cpu, or TFLOP/s and GB/s as "
    "in 300,2000. No device and no data are needed.",
)
@options.as_json
@options.iterations("Passes to time.", 10)
@options.state
def plan(**values: Any) -> None:
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
    asked = SimpleNamespace(**values)
    if asked.split is not None:
        forecast_split(asked)
        return
    if asked.memory or asked.rates or asked.as_json:
        raise click.UsageError("-memory, -rates and -json belong to -split")
    start()
    from ..parallel.forecast import Link, forecast

    one_core_each(asked.gpu)
    from ..runs.trial import measure

    net, strong = _open(asked), asked.scaling == "strong"
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
