"""caffelite train"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..errors import quoted
from . import options
from .logs import Progress, start

if TYPE_CHECKING:
    from ..runs.config import RunConfig


class Auto(click.Choice[str]):
    """The word auto. Another value is taken for a snapshot, and the error names the option for it."""

    def __init__(self) -> None:
        super().__init__(["auto"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != "auto":
            self.fail(
                f"expected auto, found {value!r}; to resume from a snapshot: -snapshot {quoted(value)}", param, ctx
            )
        return super().convert(value, param, ctx)


@click.command(short_help="Train a net, or resume from a snapshot")
@click.option("--solver", required=True, metavar="FILE", type=click.Path(), help="The solver, a prototxt.")
@options.gpu
@options.python
@options.running
@click.option("--snapshot", metavar="FILE", type=click.Path(), help="Resume from this solverstate.")
@click.option(
    "--resume",
    type=Auto(),
    help="auto: resume from the newest valid snapshot of the last run, or start from iteration 0 if there is none.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Resume only where the run continues exactly: another net, solver, precision or other data are an error.",
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
    help="Repeat the same N batches, without tests, snapshots and records: does the net learn at all?",
)
@click.option(
    "--forgive",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    show_default=True,
    help="After a NaN or infinity continue from the last good snapshot with half the learning rate, at most N times.",
)
@click.option(
    "--max_time",
    metavar="TIME",
    type=options.Duration(),
    help="Stop, with a snapshot, after 90s, 30m, 1.5h, 2d or 1:30:00.",
)
@click.option(
    "--record",
    metavar="DIR",
    help='The run folder, for records and log; "none": no folder. Default: <snapshot_prefix>_run.',
)
@options.tensorboard
@options.trackers
@options.iterations("Stop after N iterations, with a snapshot. Default: train to max_iter.")
@click.option(
    "--scaling",
    type=click.Choice(["weak", "strong"]),
    default="weak",
    show_default=True,
    help="With several processes: weak, each uses the batch size of the prototxt; strong, they divide it.",
)
@click.option(
    "--compress",
    type=click.Choice(["none", "fp16"]),
    default="none",
    show_default=True,
    help="How gradients are compressed when processes exchange them; GPUs exchange float32.",
)
@click.option(
    "--split",
    metavar="WHAT",
    default="",
    help="Divide the net over several devices, one process each: auto, their number, "
    "stages=2,shards=2,micro_batches=8, or hybrid=2.",
)
@click.option(
    "--hang_seconds",
    type=options.FiniteRange(min=0),
    metavar="SECONDS",
    default=20,
    show_default=True,
    help="End a job of several processes when one of them makes no progress for this time; 0: never.",
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
def train(context: click.Context, phase: str | None, **given: Any) -> None:
    """Trains a net, or resumes from a snapshot; on several GPUs, or in several processes that mpirun or srun started.

    \b
    Examples:
      caffelite train -solver solvers/lenet_solver.prototxt -gpu all
      caffelite train -solver solvers/lenet_solver.prototxt -snapshot lenet_iter_5000.solverstate
      caffelite train -solver solvers/lenet_solver.prototxt -resume auto
      caffelite train -solver solvers/lenet_solver.prototxt -set base_lr=0.02 -set conv1.convolution_param.num_output=32
    """
    if given["snapshot"] and given["weights"]:
        raise click.UsageError("-snapshot and -weights exclude each other: a snapshot brings its own weights")
    if given["snapshot"] and given["resume"]:
        raise click.UsageError("-snapshot and -resume exclude each other: name a snapshot, or let the newest be found")
    if phase and phase.upper() != "TRAIN":
        raise click.UsageError("-phase TEST does not train; use caffelite test")
    for option in ("tensorboard", "trackers"):
        if given[option] and given["record"] == "none":
            raise click.UsageError(f"-{option.removesuffix('ers')} writes into the records: it needs them")
    from .. import parallel
    from ..runs import launch

    start(parallel.expected_rank() == 0)
    sys.exit(launch.train(_config(context, **given), Progress))


def _config(
    context: click.Context,
    how: dict[str, Any],
    gpu: str | None,
    resume: str | None,
    weights: str | None,
    set_fields: tuple[str, ...],
    stage: str,
    forgive: int,
    max_time: float | None,
    **same: Any,
) -> RunConfig:
    """The configuration that the options make. same: those that are called as its fields are."""
    from ..runs.config import RunConfig

    return RunConfig(
        gpus=gpu,
        python_folders=tuple(map(str, context.meta["python_folders"])),
        resume=bool(resume),
        weights=options.names(weights or ""),
        overrides=set_fields,
        data_threads=context.meta["data_threads"],
        stages=options.names(stage),
        nan_recoveries=forgive,
        max_seconds=max_time,
        **how,
        **same,
    )
