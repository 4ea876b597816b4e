"""The snapshots of a run, found from its folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb, prototxt, roots
from ..errors import CaffeliteError
from ..training.checkpoint import snapshot
from . import folder as files, registry
from .config import RunConfig


@dataclass(frozen=True)
class Snapshot:
    """The files of an iteration; model: None where it is missing. size: bytes of both."""

    iteration: int
    state: Path
    model: Path | None
    size: int


def config(folder: Path) -> RunConfig:
    """The configuration of a run. Errors: the folder has none."""
    content = files.configuration(folder)
    if not content:
        raise CaffeliteError(f"{folder} records no configuration", expected="the folder of a run")
    return RunConfig.from_json(content)


def prefix(folder: Path) -> Path:
    """The absolute start of the names of a run's snapshots. Errors: the folder has no solver or session."""
    status = registry.read(folder)
    solver: pb.SolverParameter = prototxt.read_solver(folder / files.SOLVER).message
    directory = Path(status.working_directory or ".")
    path = str(directory / config(folder).solver)
    if solver.snapshot_prefix:
        ends = "/" * solver.snapshot_prefix.endswith("/")
        solver.snapshot_prefix = str(directory / solver.snapshot_prefix) + ends
    return Path(os.path.abspath(snapshot.prefix(solver, path)))


def find(folder: Path) -> list[Snapshot]:
    """The snapshots of a run, the latest first, also those that a later run moved into the run's folder.

    Snapshots of another run under the same prefix are left out. Errors: as for ``prefix``; Outside.
    """
    start, ids = prefix(folder), _ids(folder)
    roots.check(start)
    snapshots = []
    for start_of_names in dict.fromkeys([start, folder.resolve() / start.name]):
        for iteration, state in snapshot.states(start_of_names):
            run = snapshot.run_of(state)
            if run and ids and run not in ids:
                continue
            model = snapshot.names(str(start_of_names), iteration, state.suffix == ".h5")[0]
            size = sum(path.stat().st_size for path in (state, model) if path.exists())
            snapshots.append(Snapshot(iteration, state, model if model.exists() else None, size))
    return sorted(snapshots, key=lambda each: each.iteration, reverse=True)


def _ids(folder: Path) -> set[str]:
    return {str(session["run"]) for session in files.sessions(folder) if session.get("run")}
