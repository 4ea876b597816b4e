"""caffelite train"""

from __future__ import annotations

import sys

import click

from . import options
from .logs import Progress, start


@click.command(short_help="Train a net, or go on from a snapshot")
@click.option("--solver", required=True, metavar="FILE", type=click.Path(), help="The solver, a prototxt.")
@options.gpu
@options.python
@options.running
@click.option("--snapshot", metavar="FILE", type=click.Path(), help="Go on from this solverstate.")
@click.option(
    "--resume",
    type=click.Choice(["auto"]),
    help="auto: go on from the newest good snapshot of the last run, or start where it left none.",
)
@options.weights
@options.set_fields
@options.data_threads
@options.phase
@options.level
@options.stage
@click.option(
    "--overfit",
    type=click.IntRange(min=1),
    metavar="N",
    help="Train on N batches over and over, without tests, snapshots and records: does it learn at all?",
)
@click.option(
    "--forgive",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="After a NaN or infinity go on from the last good snapshot with half the rate, at most N times.",
)
@click.option(
    "--max_time",
    metavar="TIME",
    type=options.Duration(),
    help="Stop, with a snapshot, after 90s, 30m, 1.5h, 2d or 1:30:00.",
)
@click.option(
    "--record", metavar="DIR", help='Where the run\'s records go; "none": nowhere. Default: <snapshot_prefix>_run.'
)
@click.option(
    "--tensorboard", is_flag=True, help="Write events for TensorBoard too, into its records (extra: tensorboard)."
)
@options.iterations("Stop after so many iterations, with a snapshot. Default: go on to max_iter.")
@click.option(
    "--scaling",
    type=click.Choice(["weak", "strong"]),
    default="weak",
    show_default=True,
    help="Of several processes: weak, each takes the prototxt's batch; strong, they divide it.",
)
@click.option(
    "--compress",
    type=click.Choice(["none", "fp16"]),
    default="none",
    show_default=True,
    help="How gradients travel between processes.",
)
@click.option(
    "--hang_seconds",
    type=options.FiniteRange(min=0),
    metavar="SECONDS",
    default=20,
    show_default=True,
    help="End a job of several processes when one of them makes no progress for so long; 0: never.",
)
@click.option(
    "--sigint_effect",
    type=click.Choice(["stop", "snapshot", "none"]),
    default="stop",
    show_default=True,
    help="What Ctrl-C does.",
)
@click.option(
    "--sighup_effect",
    type=click.Choice(["stop", "snapshot", "none"]),
    default="snapshot",
    show_default=True,
    help="What SIGHUP does.",
)
@click.pass_context
def train(
    context,
    solver,
    gpu,
    how,
    snapshot,
    resume,
    weights,
    set_fields,
    phase,
    level,
    stage,
    overfit,
    forgive,
    max_time,
    record,
    tensorboard,
    iterations,
    scaling,
    compress,
    hang_seconds,
    sigint_effect,
    sighup_effect,
) -> None:
    """Trains a net, or goes on from a snapshot; on several GPUs, or under mpirun or srun in several processes, as one.

    \b
    Examples:
      caffelite train -solver solvers/lenet_solver.prototxt -gpu all
      caffelite train -solver solvers/lenet_solver.prototxt -snapshot lenet_iter_5000.solverstate
      caffelite train -solver solvers/lenet_solver.prototxt -resume auto
      caffelite train -solver solvers/lenet_solver.prototxt -set base_lr=0.02 -set conv1.convolution_param.num_output=32
    """
    if snapshot and weights:
        raise click.UsageError("-snapshot and -weights exclude each other: a snapshot brings its own weights")
    if snapshot and resume:
        raise click.UsageError("-snapshot and -resume exclude each other: name a snapshot, or let the newest be found")
    if phase and phase.upper() != "TRAIN":
        raise click.UsageError("-phase TEST does not train; use caffelite test")
    if tensorboard and record == "none":
        raise click.UsageError("-tensorboard writes into the records: it needs them")
    from .. import parallel
    from ..runs import launch
    from ..runs.config import RunConfig

    start(parallel.expected_rank() == 0)
    config = RunConfig(
        solver=solver,
        gpus=gpu,
        python_folders=tuple(map(str, context.meta["python_folders"])),
        **how,
        snapshot=snapshot,
        resume=bool(resume),
        weights=options.names(weights or ""),
        overrides=set_fields,
        data_threads=context.meta["data_threads"],
        level=level,
        stages=options.names(stage),
        overfit=overfit,
        nan_recoveries=forgive,
        max_seconds=max_time,
        record=record,
        tensorboard=tensorboard,
        iterations=iterations,
        scaling=scaling,
        compress=compress,
        hang_seconds=hang_seconds,
        sigint_effect=sigint_effect,
        sighup_effect=sighup_effect,
    )
    sys.exit(launch.train(config, Progress))
