"""Measures an iteration on one process, from which parallel/forecast.py predicts the time on several."""

from __future__ import annotations

import statistics
import time

from .. import caffelite_pb2 as pb
from ..errors import NOWHERE
from ..inspection.timing import timed_pass
from ..net.net import Net
from ..parallel.forecast import Measured
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
    updater = Updater(pb.SolverParameter(momentum=0.9, weight_decay=5e-4), net, NOWHERE)
    updater.run(0.0, 0)
    start = time.perf_counter()
    for i in range(iterations):
        updater.run(0.0, i)
    net.dev.synchronize()
    update = (time.perf_counter() - start) / iterations
    itemsize = net.dev.dtype.itemsize
    buckets = sorted((b.step, (b.stop - b.start) * itemsize) for b in gradients.buckets(net))
    return Measured(forward, backward, update, buckets, net.graph.batch_size)
