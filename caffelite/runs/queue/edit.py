"""Changes of a queue: add a job, change its place or priority, stop it, remove it; and actions on runs.

A run that is resumed is a job of the queue, so that it waits for a slot and holds it.
"""

import dataclasses
import itertools
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict, Unpack

from ... import caffelite_pb2 as pb, roots, stored
from ...errors import CaffeliteError, reporting
from ...prototxt.overrides import Overrides
from ...training.checkpoint import snapshot
from .. import control, folder as files, limits, lock, registry
from ..config import RunConfig
from ..limits import Bounds, Texts, of_solver
from ..lock import FileLock, HeldByAnother
from ..open_net import read_solver
from . import job, slurm_jobs
from .job import ALL, ANY, DEPTH, FREE, Job, jobs

FOLDER, LOCK, SCHEDULER_LOCK = "jobs", "queue.lock", "scheduler.lock"
PAUSE, KILL = "pause", "kill"
WAIT, PERIOD = 10.0, 0.05  # seconds for another change of the queue
STARTING = 2.0  # seconds until a job that starts has a process


def queue_folder(root: str | Path) -> Path:
    """The folder of a queue's locks and of its jobs that are no runs. Errors: it cannot be created."""
    folder = Path(root) / FOLDER
    with reporting(f"create {folder}"):
        with roots.folder(folder, make=True):
            return folder


@contextmanager
def _changes(root: str | Path) -> Iterator[None]:
    """Within it no other process changes the queue. Errors: another one does so for a long time."""
    path, until, held = queue_folder(root) / LOCK, time.monotonic() + WAIT, None
    while not held:
        try:
            with reporting(f"write {path}"):
                held = FileLock(path)
        except HeldByAnother:
            if time.monotonic() > until:
                raise CaffeliteError(f"another process has been changing the queue for {WAIT:g} s") from None
    with held:
        yield


def find(root: str | Path, name: str) -> Job:
    """The job with an id or the start of one, or with a folder. Errors: none, or several."""
    every, path = jobs(root), Path(name).resolve()
    exact = [each for each in every if each.id == name]
    matching = [each for each in exact if each.accepted] or exact
    if not matching:
        matching = [e for e in every if e.id.startswith(name) or e.folder.name == name or path == e.folder.resolve()]
    if len(matching) != 1:
        expected = "the id of a job, as caffelite queue list shows it"
        what = f'no job "{name}" below {root}' if not matching else f'several jobs match "{name}"'
        raise CaffeliteError(what, expected=expected, found=", ".join(each.id for each in matching) or None)
    return matching[0]


# adding


class Order(TypedDict, total=False):
    """When and where a job runs: after the jobs with these ids; working_directory: where relative paths start, by
    default here; bounds: what the job may do, by default what this process may."""

    priority: int
    after: Sequence[str]
    working_directory: str | Path
    bounds: Bounds | None


def add(root: str | Path, command: Sequence[str], *, gpus: str = "", **order: Unpack[Order]) -> Job:
    """Adds a command that is not `train` to the queue, in a new folder `jobs/ID`.

    command: the arguments of `caffelite`. gpus: see `Job`. Errors: no such job; the folder cannot be written.
    """
    if not command or command[0] == "train":
        raise CaffeliteError("a training run is added with its configuration" if command else "no command is given")

    def create(id: str) -> Path:
        folder = queue_folder(root) / id
        with roots.folder(folder.parent) as above:
            (above / folder.name).mkdir()
        return folder

    return _add(root, command[0], tuple(command), create, gpus, **order)


def submit_run(
    root: str | Path, config: RunConfig, *, gpus: str | None = None, keep_folder: bool = False, **order: Unpack[Order]
) -> Job:
    """Adds a training run to the queue, with copies of its solver and its nets: later edits do not change it.

    The run folder is the one that `caffelite train` gives the run, which must be below the root; a new run gets it with
    a number where it is taken. A run that continues, by ``resume`` or ``snapshot``, keeps its folder; so does every run
    with ``keep_folder``, and the folder of the earlier run is renamed when it starts. gpus: see `Job`; None: as the
    configuration or solver_mode says. Errors: the solver cannot be read; the folder is not below the root, or has a job
    that has not ended.
    """
    directory = Path(order.get("working_directory", "."))
    solver = read_solver(dataclasses.replace(config, solver=str(directory / config.solver))).message
    if not config.keeps_records:
        remedy = "leave out -record none and -overfit"
        raise CaffeliteError("a run in a queue needs a run folder", remedy=remedy)
    folder = Path(config.record or f"{snapshot.prefix(solver, config.solver)}_run")
    path, below = Path(os.path.realpath(directory / folder)), Path(os.path.realpath(root))
    if not path.is_relative_to(below) or not 0 < len(path.relative_to(below).parts) <= DEPTH:
        expected = f"a folder at most {DEPTH} levels below {root}"
        raise CaffeliteError("the run folder is not in the queue's folder", expected=expected, found=str(folder))
    if gpus is None:
        on_gpu = solver.HasField("solver_mode") and solver.solver_mode == pb.SolverParameter.GPU
        gpus = config.gpus or (ANY if on_gpu else "")
    continues = keep_folder or config.resume or bool(config.snapshot)
    if continues:
        _check_ended(path)
    chosen = files.free(path, itertools.count(2)) if os.path.lexists(path) and not continues else path
    config = dataclasses.replace(
        config, gpus=None if gpus == ANY else config.gpus, record=str(folder.with_name(chosen.name))
    )

    def create(id: str) -> Path:
        with roots.folder(chosen.parent, make=True) as above:
            (above / chosen.name).mkdir(exist_ok=continues)
        if not (chosen / files.RUN).exists():
            files.write_json(chosen / files.CONFIG, config.to_json())
        return Path(root) / chosen.relative_to(below)

    return _add(root, "train", ("train", *config.arguments()), create, gpus, **order)


def _check_ended(path: Path) -> None:
    """Refuses to continue the run of a folder that trains, or is in the queue."""
    before = job.read(path)
    if lock.is_held(path) or (before and before.state in job.PENDING):
        remedy = "let it end, or cancel it: caffelite queue cancel ID"
        raise CaffeliteError(f"{path} has a run that is running or queued", remedy=remedy)


def _add(
    root: str | Path,
    kind: str,
    command: tuple[str, ...],
    create: Callable[[str], Path],
    gpus: str,
    priority: int = 0,
    after: Sequence[str] = (),
    working_directory: str | Path = ".",
    bounds: Bounds | None = None,
) -> Job:
    if gpus not in ("", ANY, ALL, FREE) and not all(number.strip().isdigit() for number in gpus.split(",")):
        expected = "any, all, or numbers as in 0,1"
        raise CaffeliteError("the GPUs of a job cannot be read", expected=expected, found=gpus)
    directory = os.path.realpath(working_directory)
    texts = _texts(command, Path(directory))
    with _changes(root):
        every = jobs(root)
        before = tuple(find(root, name).id for name in after)
        order = max((each.order for each in every), default=0.0) + 1
        id = next(id for id in iter(job.new_id, "") if all(each.id != id for each in every))
        with reporting("create the folder of the job"):
            folder = create(id)
        added = Job(id, folder, kind, command, directory, gpus, priority, order, before, files.now())
        job.write_accepted(id, added.identity, limits.inherited_bounds() if bounds is None else bounds, texts)
        added.write()
        return added


def _texts(command: Sequence[str], directory: Path) -> Texts | None:
    """The texts of a training run, or of a sweep; None for other commands."""
    solver = next(iter(limits.option_values(command, "solver")), "")
    if command[0] not in ("train", "sweep") or not solver:
        return None
    overrides = Overrides(limits.option_values(command, "set") if command[0] == "train" else ())
    return of_solver(directory / solver, overrides, directory)


def accept(root: str | Path, id: str) -> Job:
    """Records that this user trusts a queued job that lies in the queue's folder. Errors: no such job; it is not
    queued."""
    with _changes(root):
        queued = _queued(root, id)
        if not queued.accepted:
            texts = _texts(queued.command, Path(queued.working_directory))
            job.write_accepted(queued.id, queued.identity, limits.inherited_bounds(), texts)
        return find(root, queued.id)


# changes of queued jobs


def set_priority(root: str | Path, id: str, priority: int) -> Job:
    """Changes the priority of a queued job. Errors: it is not queued; SLURM has it, and refuses."""
    with _changes(root):
        changed = dataclasses.replace(_queued(root, id), priority=priority)
        if changed.slurm:
            slurm_jobs.set_priority(changed.slurm, priority)
        changed.write()
        return changed


def move(root: str | Path, id: str, *, before: str | None = None, position: int | None = None) -> Job:
    """Moves a queued job before another one, or to a position among the queued jobs, from 1. Neither: to the end.

    Where the neighbors have another priority, the job takes the nearest priority with which it is in its new place.
    Errors: one of the jobs is not queued.
    """
    with _changes(root):
        moved = _queued(root, id)
        if moved.slurm:
            remedy = "give it a priority: caffelite queue priority ID N"
            raise CaffeliteError(f"SLURM decides when job {moved.id} starts", remedy=remedy)
        others = [each for each in jobs(root) if each.state == job.QUEUED and each.id != moved.id]
        at = len(others) if position is None else min(max(position, 1), len(others) + 1) - 1
        if before is not None:
            target = _queued(root, before).id
            if target == moved.id:
                return moved
            at = [each.id for each in others].index(target)
        upper = others[at - 1].priority if at else None
        lower = others[at].priority if at < len(others) else None
        priority = moved.priority if upper is None else min(moved.priority, upper)
        priority = priority if lower is None else max(priority, lower)
        moved = dataclasses.replace(moved, priority=priority)
        line = [*others[:at], moved, *others[at:]]
        orders = sorted(each.order for each in line)
        if len(set(orders)) < len(orders):
            orders = [orders[-1] + i for i in range(len(line))]
        for each, order in zip(line, orders, strict=True):
            if each.order != order or each is moved:
                dataclasses.replace(each, order=order).write()
        return find(root, moved.id)


def _queued(root: str | Path, name: str) -> Job:
    queued = find(root, name)
    if queued.state != job.QUEUED:
        raise CaffeliteError(f"job {queued.id} is not queued", found=queued.state)
    return queued


# ending


def cancel(root: str | Path, id: str, manner: str = PAUSE, children: Collection[int] = ()) -> Job:
    """Ends a job. A queued one does not start; a running one receives SIGTERM, upon which a training run writes a
    snapshot, or is killed with all its processes (``manner`` = "kill"). children: processes of jobs that this one
    started, which it knows on every system.

    Errors: it has ended; it runs on another host; SLURM has it, and refuses.
    """
    target = find(root, id)
    if target.slurm and target.state in job.PENDING:
        return _cancel_in_slurm(target, manner)
    if target.state == job.QUEUED:
        with suppress(HeldByAnother):
            return _cancel_queued(target)
        target = find(root, id)  # it has just started
    until = time.monotonic() + STARTING
    while target.state == job.RUNNING and target.process is None and time.monotonic() < until:
        time.sleep(PERIOD)
        target = find(root, id)
    if target.state != job.RUNNING or target.process is None:
        raise CaffeliteError(f"job {target.id} has ended", found=target.state)
    if target.host != socket.gethostname():
        raise CaffeliteError(f"job {target.id} runs on another host", found=target.host)
    known = target.process in children or lock.holds(target.process, target.folder / files.JOB_LOCK)
    if not known:  # a folder may name any process
        raise CaffeliteError(f"the process of job {target.id} is not known", expected="a process of this user")
    if manner == PAUSE:
        _announce_pause(target)
    with suppress(ProcessLookupError):
        if manner == KILL:
            os.killpg(target.process, signal.SIGKILL)
        else:
            os.kill(target.process, signal.SIGTERM)
    if manner == KILL:
        _record_kill(target)
    return find(root, target.id)


def _announce_pause(target: Job) -> None:
    if target.is_run:
        with suppress(CaffeliteError):
            status = registry.read(target.folder)
            registry.announce_pause(target.folder, status.process, status.started)


def _cancel_in_slurm(target: Job, manner: str) -> Job:
    queued = target.state == job.QUEUED
    if manner == PAUSE and not queued:
        _announce_pause(target)
    slurm_jobs.cancel(target.slurm, kill=manner == KILL and not queued)
    if queued:
        with suppress(HeldByAnother):  # it has just started
            _cancel_queued(target)
    elif manner == KILL:
        _record_kill(target)
    return find_folder(target)


def find_folder(known: Job) -> Job:
    """The job in the folder of a known one, as it is now."""
    return job.read(known.folder) or known


def _cancel_queued(queued: Job) -> Job:
    with FileLock(queued.folder / files.JOB_LOCK), reporting(f"write to {queued.folder}"):
        slurm_jobs.forget(queued.folder)
        job.record_end(queued.folder, queued.id, job.STOPPED, "cancelled before it started")
        if queued.is_run and not (queued.folder / files.RUN).exists():
            registry.record_before_start(queued.folder, registry.Outcome(registry.CANCELLED, "before it started"))
    return find_folder(queued)


def _record_kill(killed: Job) -> None:
    """Records the end of a job whose processes were killed, when they have ended."""
    until = time.monotonic() + 2
    while lock.is_held(killed.folder, files.JOB_LOCK) and time.monotonic() < until:
        time.sleep(PERIOD)
    with suppress(OSError):
        job.record_end(killed.folder, killed.id, job.KILLED, registry.ON_REQUEST)
    if killed.is_run and not lock.is_held(killed.folder):
        registry.record_kill(killed.folder)


def settle(ended: Job) -> None:
    """Records the end of a job whose process did not, and for the run registry that the process of a run ended before
    its first session."""
    if not ended.started:
        with suppress(OSError):
            job.record_end(ended.folder, ended.id, ended.state, ended.reason)
    job.forget_accepted(ended.id)
    if ended.is_run:
        with suppress(CaffeliteError, OSError):
            if registry.read(ended.folder).state == registry.QUEUED:
                kinds = {job.STOPPED: registry.CANCELLED, job.KILLED: registry.KILLED}
                kind = kinds.get(ended.state, registry.FAILED)
                registry.record_before_start(ended.folder, registry.Outcome(kind, ended.reason))


def remove(root: str | Path, id: str) -> None:
    """Removes a job that has ended from the queue: a run keeps its records, the folder of another job is deleted.
    Errors: the job has not ended."""
    with _changes(root):
        ended = find(root, id)
        if ended.state in job.PENDING:
            what = f"job {ended.id} has not ended"
            raise CaffeliteError(what, remedy=f"cancel it: caffelite queue cancel {ended.id}")
        with reporting(f"delete files of {ended.folder}"):
            if ended.is_run:
                with roots.folder(ended.folder) as folder:
                    for name in files.JOB_FILES:
                        (folder / name).unlink(missing_ok=True)
            else:
                with roots.folder(ended.folder.parent) as above:
                    shutil.rmtree(above / ended.folder.name)


# schedulers, and runs that continue


def serving(folder: str | Path) -> Path | None:
    """The root of the queue that serves a folder: the nearest folder above with a scheduler at work; None: none."""
    path = Path(os.path.realpath(folder))
    for root in (path, *path.parents):
        with suppress(roots.Outside):  # a server does not look above its roots
            if (root / FOLDER / SCHEDULER_LOCK).exists() and lock.is_held(root / FOLDER, SCHEDULER_LOCK):
                return root
    return None


def scheduler(root: str | Path) -> dict[str, object]:
    """Which process schedules the jobs of a folder: {"process", "host"}; empty where none does."""
    folder = Path(root) / FOLDER
    held = lock.is_held(folder, SCHEDULER_LOCK)
    return stored.read(folder / SCHEDULER_LOCK, {"process": int, "host": str}) if held else {}


def act(
    folder: Path,
    action: str,
    root: Path | None = None,
    bounds: Bounds | None = None,
    python: Sequence[str] = (),
    fork: str | None = None,
) -> str:
    """Does one of ``control.ACTIONS`` and returns what was done, as one sentence. The others: see ``resume``.
    Errors: as for the action; an unknown one."""
    known = {"pause": control.pause, "snapshot": control.request_snapshot, "kill": control.kill}
    if action == "resume":
        return resume(folder, root, bounds, python, fork)
    if action not in known:
        expected = f"one of {', '.join(control.ACTIONS)}"
        raise CaffeliteError("unknown action", expected=expected, found=action)
    return known[action](folder)


def resume(
    folder: Path,
    root: Path | None = None,
    bounds: Bounds | None = None,
    python: Sequence[str] = (),
    fork: str | None = None,
) -> str:
    """Adds a run that has stopped to the queue of a root, from its newest sound snapshot, and returns what was done, as
    one sentence. root: default, that of the scheduler that serves the folder; without one the run continues at once, in
    a process of its own. bounds: as for ``add``. python, fork: as for ``control.continuation``.

    A run that was a job of the queue asks for the same GPUs again. Errors: as for ``control.continuation``; it waits in
    the queue already.
    """
    root = root or serving(folder)
    if root is None:
        return control.resume(folder, python, fork)
    config, directory = control.continuation(folder, python, fork)
    before = job.read(folder)
    config = dataclasses.replace(config, record=str(folder.resolve()))
    gpus = before.gpus if before else None
    submit_run(root, config, gpus=gpus, working_directory=directory, bounds=bounds)
    return f"{folder} is queued: it continues from {Path(config.snapshot or '').name} when a slot is free"
