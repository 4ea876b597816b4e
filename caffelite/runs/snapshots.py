"""The snapshots of a run, found from its folder."""

import os
from collections.abc import Iterator
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
            if not _belongs(state, ids):
                continue
            model = snapshot.names(str(start_of_names), iteration, state.suffix == ".h5")[0]
            size = sum(path.stat().st_size for path in (state, model) if path.exists())
            snapshots.append(Snapshot(iteration, state, model if model.exists() else None, size))
    return sorted(snapshots, key=lambda each: each.iteration, reverse=True)


def models(folder: Path) -> Iterator[tuple[int, Path]]:
    """(iteration, path) of the models of a run, the latest first: those with a state or without one, that a later run
    moved into the run's folder, or that lie beside it, where folder and snapshots were moved together.

    Models of another run under the same prefix are left out. Errors: as for ``prefix``.
    """
    ids = _ids(folder)
    every = {path: iteration for start in _starts(folder) for iteration, path in snapshot.models(start)}
    for path, iteration in sorted(every.items(), key=lambda item: item[1], reverse=True):
        if not path.is_symlink() and _belongs(path, ids):
            yield iteration, path


def best_model(folder: Path) -> Path | None:
    """The weights of a run's best test; of its latest snapshot where no test has been judged; None where it has none.
    Errors: as for ``prefix``."""
    ids = _ids(folder)
    for start in _starts(folder):
        for hdf5 in (False, True):
            best = snapshot.best_name(str(start), hdf5)
            if best.is_file() and not best.is_symlink() and _belongs(best, ids):
                return best
    return next((path for _, path in models(folder)), None)


def _starts(folder: Path) -> list[Path]:
    """The starts of names of a run's models, also where folder and snapshots were moved together."""
    start, whole = prefix(folder), folder.resolve()
    starts = list(dict.fromkeys([start, whole / start.name, whole.parent / start.name]))
    for each in starts:
        roots.check(each)
    return starts


def _belongs(path: Path, ids: set[str]) -> bool:
    """Whether a run with these ids wrote a file, as far as both say it."""
    run = snapshot.run_of(path)
    return not run or not ids or run in ids


def _ids(folder: Path) -> set[str]:
    return {str(session["run"]) for session in files.sessions(folder) if session.get("run")}
