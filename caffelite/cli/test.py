"""caffelite test"""

from __future__ import annotations

import functools
import logging
import sys

import click

from . import options
from .logs import start

log = logging.getLogger("caffelite")


@click.command()
@options.model
@options.weights
@options.gpu
@options.precision
@options.iterations("Batches to test.", 50)
@options.data_threads
@options.level
@options.stage
@options.phase
def test(model, weights, gpu, precision, iterations, level, stage, phase) -> None:
    """Scores a net's weights on its test data: each batch, and the means over all.

    \b
    Example:
      caffelite test -model models/lenet/train_val.prototxt -weights lenet_iter_10000.caffemodel -iterations 100
    """
    if not weights:
        raise click.UsageError("-weights is missing: name a caffemodel to score")
    start()
    from tqdm import tqdm

    from ..solver import mean_scores

    net = open_net(model, gpu, phase or "TEST", level, stage, precision)
    try:
        options.load_weights(net, weights)
        log.info("Running for %d iterations.", iterations)
        with tqdm(total=iterations, unit="batch", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:
            scores = mean_scores(net, iterations, each=functools.partial(show_batch, bar))
    finally:
        net.close()
    log.info("Loss: %.6g", scores.loss)
    for name, weight, values in scores.outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("%s = %.6g%s", name, value, note)


def show_batch(bar, index: int, outputs) -> None:
    for value, _, values in outputs:
        for number in values[:100]:
            log.info("Batch %d, %s = %.6g", index, value.name, number)
    bar.update()


def open_net(model: str, gpu: str | None, phase: str, level: int | None, stage: str, precision: str = "fp32"):
    """A net from its prototxt alone, on the device that -gpu names."""
    from .. import caffelite_pb2 as pb
    from .. import data, graph, prototxt
    from ..net import Net
    from ..solver import nets

    document = prototxt.read_net(model)
    device = options.open_device(gpu, precision=precision)
    state = nets.state(pb.Phase.Value(phase.upper()), document.message, None, level, options.names(stage))
    return Net(graph.build(document.message, state, document.locate, functools.partial(data.open_source, seed=0)), device)
