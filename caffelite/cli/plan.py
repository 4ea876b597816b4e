"""caffelite plan"""

from __future__ import annotations

import os

import click

from . import options
from .logs import start
from .net_options import open_net
from .option_types import FiniteRange
from .split_forecast import CPU, GPU, Links, Subject, division, forecast_split, one_core_each

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
    cores = len(os.sched_getaffinity(0))
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
