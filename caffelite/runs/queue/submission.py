"""Adds training runs to a queue by their configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ... import caffelite_pb2 as pb
from ...training.checkpoint import snapshot
from ..config import RunConfig
from ..open_net import read_solver
from .edit import add_run
from .job import ANY, Job


def submit_run(
    root: str | Path,
    config: RunConfig,
    *,
    gpus: str | None = None,
    keep_folder: bool = False,
    priority: int = 0,
    after: Sequence[str] = (),
    working_directory: str | Path = ".",
) -> Job:
    """Adds a training run to the queue of a folder, with the run folder that `caffelite train` gives it.

    gpus: see `Job`; None: as the configuration or solver_mode says. keep_folder: see ``add_run``. working_directory: where relative paths of the
    configuration start. Errors: the solver cannot be read; those of ``add_run``.
    """
    here = dataclasses.replace(config, solver=str(Path(working_directory) / config.solver))
    solver = read_solver(here).message
    folder = Path(config.record or f"{snapshot.prefix(solver, config.solver)}_run")
    if gpus is None:
        on_gpu = solver.HasField("solver_mode") and solver.solver_mode == pb.SolverParameter.GPU
        gpus = config.gpus or (ANY if on_gpu else "")
    return add_run(root, config, folder, gpus=gpus, priority=priority, after=after, working_directory=working_directory)
