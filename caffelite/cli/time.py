"""caffelite time"""

import logging
import statistics
from collections.abc import Callable
from contextlib import closing
from typing import Any

import click

from ..devices import PRECISIONS
from ..errors import CaffeliteError, closed_on_failure
from . import options
from .logs import start
from .options import open_named_net
from .output import say

log = logging.getLogger("caffelite")
ROUNDS = 5


@click.command(short_help="Time each layer of a net")
@options.model
@options.gpu
@options.code
@options.running_all
@options.iterations("Passes to time.", 50)
@options.shape
@options.state
@options.weights
@options.set_layers
@click.option("--threads", is_flag=True, help="Also how often the threads of a CPU start together, wait and sleep.")
def time(model, gpu, device_options, iterations, shape, phase, level, stage, weights, set_fields, threads) -> None:
    """Times a net: each layer's forward and backward, whole iterations (medians), and what of the device's ceilings
    that is. The last column has the algorithms that a CPU's convolution takes where several are measured, for forward,
    data gradient and weight gradient.

    Data that is not there is replaced by zeros, which take as long; -shape gives its shape.

    The ceilings are measured too: a product of large matrices, a large copy. A layer's bytes are the fewest that it can
    move: what it reads and writes, each once. On a GPU the layers that leave it within an iteration are listed.

    \b
    Examples:
      caffelite time -model models/lenet/train_val.prototxt -iterations 20 -set data.data_param.batch_size=128
      caffelite time -model models/lenet/train_val.prototxt -precision all
      caffelite time -model models/lenet/train_val.prototxt -threads
    """
    start()
    from ..inspection import timing
    from ..runs.open_net import load_weights

    def opened(precision: str | None):
        words = {**device_options, "precision": precision}
        net = open_named_net(
            model, gpu, phase or "TRAIN", level, stage, words, set_fields=set_fields, timing=True, shapes=shape
        )
        with closed_on_failure(net):
            if weights:
                load_weights(net, weights)
            net.forward()
            net.backward()
        return net

    if threads and (gpu is not None or device_options["precision"] == "all"):
        raise click.UsageError("-threads is about a CPU at one precision: leave out -gpu and -precision all")
    if device_options["precision"] == "all":
        _compare(opened, iterations)
        return
    with closing(opened(device_options["precision"])) as net:
        log.info("*** Benchmark begins ***")
        log.info("Testing for %d iterations.", iterations)
        passes = [timing.timed_pass(net, i) for i in range(iterations)]
        whole = timing.whole(net, iterations)
        net.check_faults()
        ceilings = timing.ceilings(net.dev)
        use = timing.thread_use(net, iterations) if threads else []
    report(net, passes)
    log.info("*** Benchmark ends ***")
    _print_table(net, passes, whole, ceilings)
    for line in use:
        say(line)


def _compare(opened: Callable, iterations: int) -> None:
    """Prints complete passes at each precision of the device. They take turns, so that none has the quiet minutes of a
    machine for itself."""
    from ..inspection import timing

    nets: dict[str, Any] = {}
    try:
        for precision in PRECISIONS:
            try:
                net = opened(precision)
            except CaffeliteError as error:
                if not nets:
                    raise
                log.info("%s: %s", precision, error.what)
                continue
            if net.dev.precision in nets:
                net.close()
            else:
                nets[net.dev.precision] = net
        laps: dict[str, list[float]] = {name: [] for name in nets}
        for _ in range(ROUNDS):
            for name, net in nets.items():
                laps[name].append(timing.whole(net, -(-iterations // ROUNDS)))
        batch = next(net.graph.batch_size for net in nets.values())
    finally:
        for net in nets.values():
            net.close()
    times = {name: statistics.median(each) for name, each in laps.items()}
    rows = [("precision", "forward and backward ms", "images/s", "beside fp32")]
    for name, ms in times.items():
        rows.append((name, f"{ms:.4g}", f"{1e3 * batch / ms:,.0f}", f"{times['fp32'] / ms:.2f}"))
    say(options.aligned(rows, left=(0,)))


def report(net, passes: list) -> None:
    """Caffe's lines."""
    log.info("Average time per layer: ")
    for node in net.graph.nodes:
        for kind in ("forward", "backward"):
            laps = [laps[node.name] for p in passes if node.name in (laps := getattr(p, kind))]
            if laps:
                log.info("%10s\t%s: %.6g ms.", node.name, kind, statistics.median(laps))
    forward, backward = (
        statistics.median(getattr(p, name) for p in passes) for name in ("forward_whole", "backward_whole")
    )
    log.info("Average Forward pass: %.6g ms.", forward)
    log.info("Average Backward pass: %.6g ms.", backward)
    log.info("Average Forward-Backward: %.6g ms.", forward + backward)
    log.info("Total Time: %.6g ms.", sum(p.forward_whole + p.backward_whole for p in passes))


def _print_table(net, passes: list, whole: float, ceilings: tuple[float, float]) -> None:
    """Prints a table of layers with their share of the device's ceilings, complete passes, and memory."""
    from ..inspection import counts, memory

    rows: list[tuple[str, ...]] = [
        ("layer", "forward ms", "backward ms", "GFLOP/s", "GB/s", "of a ceiling", "algorithms")
    ]
    rows += [_row(step, passes, ceilings) for step in net.compiled.forward]
    say(options.aligned(rows, left=(0,)))
    dev, (most_operations, most_bytes) = net.dev, ceilings
    graphs = " by CUDA graphs" if not net.requires_host else " in part by CUDA graphs"
    graphs = "" if dev.traits.synchronous else " run eagerly" if dev.why_eager() else graphs
    say(f"Forward and backward{graphs}: {whole:.4g} ms, {1e3 * net.graph.batch_size / whole:,.0f} images/s")
    if not dev.traits.synchronous:
        hosted = [f'"{node.name}" ({node.layer.spec.type})' for node in net.graph.nodes if node.layer.requires_host]
        say(f"Layers that the host computes, for which the GPU waits: {', '.join(hosted) or 'none'}")
    reached = 2e3 * sum(counts.work(step.node) for step in net.compiled.forward) / whole
    say(
        f"Arithmetic: {reached / 1e9:,.4g} GFLOP/s, {reached / most_operations:.0%} of the "
        f"{most_operations / 1e9:,.0f} of a large "
        f"product; a large copy moves {most_bytes / 1e9:,.4g} GB/s"
    )
    peak, when, largest = memory.peak(net.compiled)
    held = ", ".join(f'"{node.name}" {memory.text(size)}' for node, size in largest[: memory.PARTS])
    say(
        f"Blobs and gradients: {memory.text(net.compiled.arena)} of memory, at most {memory.text(peak)} at once, in "
        f"{when}: {held}"
    )


def _row(step, passes: list, ceilings: tuple[float, float]) -> tuple[str, ...]:
    from ..inspection import counts

    name = " + ".join([step.node.name, *(fused.layer.spec.type for fused in step.fused)])
    forward, backward = (
        statistics.median(getattr(p, kind).get(step.node.name, 0.0) for p in passes) for kind in ("forward", "backward")
    )
    operations, moved, seconds = 2 * counts.work(step.node), counts.traffic(step), (forward + backward) / 1e3
    cells = [name, f"{forward:.3g}", f"{backward:.3g}" if backward else ""]
    if not moved or not seconds:
        return (*cells, "", "", "", "")
    efficiency = max(done / most for done, most in zip((operations, moved), ceilings, strict=True)) / seconds
    return (
        *cells,
        f"{operations / seconds / 1e9:,.4g}" if operations else "",
        f"{moved / seconds / 1e9:,.3g}",
        f"{efficiency:.0%}",
        _algorithms(getattr(step.node.layer, "op", None)),
    )


def _algorithms(operation) -> str:
    """The algorithms of a convolution's passes where they are measured: forward, data gradient, weight gradient."""
    from ..inspection import timing

    taken = timing.algorithms(operation)
    return taken[0] if len(set(taken)) == 1 else ", ".join(taken)
