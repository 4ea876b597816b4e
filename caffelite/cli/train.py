"""caffelite train"""

import sys
from typing import Any

import click

from . import options
from .logs import Progress, start


@click.command(short_help="Train a net, or resume from a snapshot")
@options.run_options()
@options.phase
def train(run: dict[str, Any], phase: str | None) -> None:
    """Trains a net, or resumes from a snapshot; on several GPUs, or in several processes that mpirun or srun started.

    \b
    Examples:
      caffelite train -solver solvers/lenet_solver.prototxt -gpu all
      caffelite train -solver solvers/lenet_solver.prototxt -snapshot lenet_iter_5000.solverstate
      caffelite train -solver solvers/lenet_solver.prototxt -resume auto
      caffelite train -solver solvers/lenet_solver.prototxt -set base_lr=0.02 -set conv1.convolution_param.num_output=32
      caffelite train -solver solvers/lenet_solver.prototxt -set train:mnist.data_param.batch_size=128
    """
    if phase and phase.upper() != "TRAIN":
        raise click.UsageError("-phase TEST does not train; use caffelite test")
    from .. import parallel
    from ..runs import launch
    from ..runs.config import RunConfig

    config = RunConfig(**run)
    start(parallel.expected_rank() == 0)
    sys.exit(launch.train(config, Progress))
