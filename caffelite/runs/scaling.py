"""Measures an iteration on one process, from which parallel/forecast.py predicts the time on several."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from .. import caffelite_pb2 as pb
from ..errors import NOWHERE
from ..inspection.timing import timed_pass
from ..net.compile import CompiledNet
from ..net.deferred import DeferredGradients, deferred_nodes
from ..net.graph import Graph
from ..net.net import Net
from ..parallel.forecast import Measured
from ..planner import costs
from ..training import gradients
from ..training.optim.updates import Updater


def measure(net: Net, iterations: int) -> Measured:
    """Times forward, the backward of each layer and the update: medians over ``iterations`` passes, in seconds."""
    net.forward()
    net.backward()
    passes = [timed_pass(net, i) for i in range(iterations)]
    forward = statistics.median(p.forward_whole for p in passes) / 1e3
    steps = gradients.steps(net)
    order = sorted(steps, key=steps.__getitem__)
    backward = [statistics.median(p.backward.get(node.name, 0.0) for p in passes) / 1e3 for node in order]
    update = _update_seconds(net, iterations)
    itemsize = net.dev.dtype.itemsize
    buckets = sorted((b.step, (b.stop - b.start) * itemsize) for b in gradients.buckets(net))
    return Measured(forward, backward, update, buckets, net.graph.batch_size)


def _update_seconds(net: Net, iterations: int) -> float:
    """Of SGD with momentum, the mean."""
    updater = Updater(pb.SolverParameter(momentum=0.9, weight_decay=5e-4), net, NOWHERE)
    updater.run(0.0, 0)
    start = time.perf_counter()
    for i in range(iterations):
        updater.run(0.0, i)
    net.dev.synchronize()
    return (time.perf_counter() - start) / iterations


def layer_times(net: Net, graph: Graph, compiled: CompiledNet, iterations: int) -> costs.Times:
    """Seconds of each layer, medians over ``iterations`` passes. graph, compiled: of the net, for the batch that is
    planned."""
    deferred = DeferredGradients(deferred_nodes(net.graph, 1), net.dev, 1)
    deferred.attach(net.graph)
    net.forward()
    net.backward()
    deferred.compute()
    passes = []
    for i in range(iterations):
        deferred.begin()
        passes.append(timed_pass(net, i, deferred))

    def median(kind: str) -> dict[str, float]:
        names = dict.fromkeys(name for p in passes for name in getattr(p, kind))
        return {name: statistics.median(getattr(p, kind).get(name, 0.0) for p in passes) / 1e3 for name in names}

    return costs.Times(*(costs.by_layer(graph, compiled, median(k)) for k in ("forward", "backward", "gradients")))


def measure_layers(
    open_at: Callable[[int], Net], graph: Graph, compiled: CompiledNet, batches: tuple[int, int], iterations: int
) -> costs.Measured:
    """Times the layers with a small and a large batch. open_at: opens the net with a batch size."""
    times = []
    for batch in batches:
        net = open_at(batch)
        try:
            times.append(layer_times(net, graph, compiled, iterations))
            rate = net.params.size / _update_seconds(net, iterations)
        finally:
            net.close()
    whole = graph.batch_size
    return costs.Measured((batches[0] / whole, batches[1] / whole), times[0], times[1], rate)
