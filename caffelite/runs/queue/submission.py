"""Adds training runs to a queue by their configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ... import caffelite_pb2 as pb
from ...training.checkpoint import snapshot
from ..config import RunConfig
from ..open_net import read_solver
from .edit import add_run
from .job import ANY, Job


def submit_run(
    root: str | Path, config: RunConfig, *, gpus: str | None = None, working_directory: str | Path = ".", **more: Any
) -> Job:
    """Adds a training run to the queue of a folder, with the run folder that `caffelite train` gives it.

    gpus: see `Job`; None: as the configuration or solver_mode says. working_directory: where relative paths of the
    configuration start. more: keep_folder, priority and after of ``add_run``. Errors: the solver cannot be read; those
    of ``add_run``.
    """
    here = dataclasses.replace(config, solver=str(Path(working_directory) / config.solver))
    solver = read_solver(here).message
    folder = Path(config.record or f"{snapshot.prefix(solver, config.solver)}_run")
    if gpus is None:
        on_gpu = solver.HasField("solver_mode") and solver.solver_mode == pb.SolverParameter.GPU
        gpus = config.gpus or (ANY if on_gpu else "")
    return add_run(root, config, folder, gpus=gpus, working_directory=working_directory, **more)
