"""caffelite time"""

from __future__ import annotations

import logging
import statistics
from time import perf_counter

import click

from . import options
from .logs import start
from .test import open_net

log = logging.getLogger("caffelite")


@click.command()
@options.model
@options.gpu
@options.running
@options.iterations("Passes to time.", 50)
@options.phase
@options.level
@options.stage
@options.weights
@options.set_layers
def time(model, gpu, how, iterations, phase, level, stage, weights, set_fields) -> None:
    """Times a net, layer by layer: forward, backward, and whole passes (medians).

    \b
    Example:
      caffelite time -model models/lenet/train_val.prototxt -iterations 20 -set data.data_param.batch_size=128
    """
    start()
    net = open_net(model, gpu, phase or "TRAIN", level, stage, how, set_fields=set_fields)
    try:
        if weights:
            options.load_weights(net, weights)
        net.forward()
        net.backward()
        log.info("*** Benchmark begins ***")
        log.info("Testing for %d iterations.", iterations)
        passes = [timed_pass(net, i) for i in range(iterations)]
    finally:
        net.close()
    report(net, passes)


def timed_pass(net, iteration: int) -> tuple[dict, dict, float, float]:
    """({layer: forward ms}, {layer: backward ms}, forward ms, backward ms) of one pass."""
    laps: dict = {}
    last = perf_counter()

    def watch(node) -> None:
        nonlocal last
        net.dev.synchronize()
        now = perf_counter()
        laps[node.name] = laps.get(node.name, 0.0) + (now - last) * 1e3
        last = now

    begin = perf_counter()
    net.clear_loss()
    net.forward(iteration, watch=watch)
    forward, laps, middle = laps, {}, perf_counter()
    last = middle
    net.backward(watch=watch)
    return forward, laps, (middle - begin) * 1e3, (perf_counter() - middle) * 1e3


def report(net, passes: list[tuple[dict, dict, float, float]]) -> None:
    log.info("Average time per layer: ")
    for node in net.graph.nodes:
        for kind, side in (("forward", 0), ("backward", 1)):
            laps = [p[side][node.name] for p in passes if node.name in p[side]]
            if laps:
                log.info("%10s\t%s: %.6g ms.", node.name, kind, statistics.median(laps))
    forward, backward = (statistics.median(p[i] for p in passes) for i in (2, 3))
    log.info("Average Forward pass: %.6g ms.", forward)
    log.info("Average Backward pass: %.6g ms.", backward)
    log.info("Average Forward-Backward: %.6g ms.", forward + backward)
    log.info("Total Time: %.6g ms.", sum(p[2] + p[3] for p in passes))
    log.info("*** Benchmark ends ***")
