"""caffelite train"""

from __future__ import annotations

import sys

import click

from . import options
from .logs import Progress, start


@click.command()
@click.option("--solver", required=True, metavar="FILE", help="The solver, a prototxt.")
@options.gpu
@click.option("--snapshot", metavar="FILE", help="Go on from this solverstate.")
@options.weights
@options.phase
@options.level
@options.stage
@options.iterations("Stop after so many iterations, with a snapshot. Default: go on to max_iter.")
@click.option(
    "--sigint_effect", type=click.Choice(["stop", "snapshot", "none"]), default="stop", show_default=True, help="What Ctrl-C does."
)
@click.option(
    "--sighup_effect", type=click.Choice(["stop", "snapshot", "none"]), default="snapshot", show_default=True, help="What SIGHUP does."
)
def train(solver, gpu, snapshot, weights, phase, level, stage, iterations, sigint_effect, sighup_effect) -> None:
    """Trains a net, or goes on from a snapshot.

    \b
    Examples:
      caffelite train -solver solvers/lenet_solver.prototxt -gpu all
      caffelite train -solver solvers/lenet_solver.prototxt -snapshot lenet_iter_5000.solverstate
    """
    if snapshot and weights:
        raise click.UsageError("-snapshot and -weights exclude each other: a snapshot brings its own weights")
    if phase and phase.upper() != "TRAIN":
        raise click.UsageError("-phase TEST does not train; use caffelite test")
    from .. import prototxt
    from ..solver import Solver
    from .signals import Signals

    start()
    document = prototxt.read_solver(solver)
    with Signals(sigint_effect, sighup_effect) as signals:
        device = options.open_device(gpu, document.message)
        stages = options.names(stage)
        run = Solver(
            document.message, document.locate, solver, device, level=level, stages=stages, requests=signals.requests, resume=snapshot
        )
        try:
            if not snapshot and (weights or document.message.weights):
                options.load_weights(run.net, weights or list(document.message.weights))
            progress = Progress(run)
            try:
                run.solve(progress, iterations)
            finally:
                progress.close()
        finally:
            run.close()
    sys.exit(signals.status)
