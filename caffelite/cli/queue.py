"""`caffelite queue`: jobs on the free devices of this machine."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import CaffeliteError, did_you_mean
from ..system import handling
from . import Commands, caffelite, normalize, options
from .logs import start
from .options import FIELDS
from .output import say

if TYPE_CHECKING:
    from ..runs.queue.job import Job

NO_JOBS = ("queue", "serve")  # commands that are no jobs

_root = click.option(
    "--root",
    metavar="DIR",
    default=".",
    show_default=True,
    type=click.Path(exists=True, file_okay=False),
    help="The folder of the queue: jobs are below it.",
)
_job = click.argument("job")


@click.group(cls=Commands, short_help="Queue jobs, and run them on free devices")
def queue() -> None:
    """Keeps a queue of caffelite commands, and runs them: one job on each GPU, and some on the CPU.

    Jobs are folders below the root of the queue; the folder of a training job is its run folder. A scheduler starts
    them (caffelite queue run). Running jobs survive its end, and the next one continues the queue.

    \b
    Examples:
      caffelite queue add -- train -solver solvers/lenet_solver.prototxt
      caffelite queue run
    """


@queue.command(
    short_help="Add a job",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_root
@options.number_option("--priority", help="Jobs of a higher priority start first.", kind=options.Whole(), default=0)
@click.option(
    "--after",
    multiple=True,
    metavar="ID",
    help="Start when this job has finished; where it fails, this one fails too. Repeatable.",
)
@click.option(
    "--gpu",
    "gpus",
    metavar="GPUS",
    help="any: one free GPU, which the command gets as -gpu; all, or numbers as in 0,1: these, when all are free. "
    "Default: the GPUs that the command names with -gpu, for train also by solver_mode; else a slot on the CPU.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def add(root: str, priority: int, after: tuple[str, ...], gpus: str | None, command: tuple[str, ...]) -> None:
    """Adds a caffelite command to the queue, and prints the id of the job.

    The command runs in the current folder. Its options are checked now. The folder of a training is its run folder,
    with a number where another run has it; other jobs get the folder jobs/ID in the root.

    \b
    Examples:
      caffelite queue add -- train -solver solvers/lenet_solver.prototxt
      caffelite queue add -priority 5 -gpu any -- train -solver solvers/lenet_solver.prototxt -max_time 1h
      caffelite queue add -- convert_imageset flowers/ flowers_lmdb -encoded
    """
    job = submit(root, command, gpus=gpus, priority=priority, after=after)
    say(f"{job.id}")
    say(f"added {job.shell_command}; folder {job.folder}", err=True)


@queue.command("list", short_help="List jobs")
@_root
@click.option("--all", "everything", is_flag=True, help="Jobs that have ended too.")
@options.as_json
def list_jobs(root: str, everything: bool, as_json: bool) -> None:
    """Lists the jobs of the queue in the order in which they start: running ones first, then queued ones.

    \b
    Example:
      caffelite queue list -all
    """
    from ..runs import registry
    from ..runs.queue import edit, job

    listed = [each for each in job.jobs(root) if everything or each.state in job.PENDING]
    listed.sort(key=lambda each: (each.state in job.PENDING, each.state == job.QUEUED))
    holder = edit.scheduler(root)
    if as_json:
        options.print_json({"scheduler": holder or None, "jobs": [each.to_json() for each in listed]})
        return
    rows = [["id", "state", "slot", "priority", "done", "command"]]
    rows += [
        [e.id, registry.label(e.state, e.reason), e.slot, str(e.priority), _done(e), e.shell_command] for e in listed
    ]
    say(options.aligned(rows, left=(0, 1, 2, 5)))
    for each in listed:
        if each.reason:
            say(f"{each.id}: {each.reason}")
    if not holder and any(each.state == job.QUEUED for each in listed):
        say("No scheduler works here; start one: caffelite queue run", err=True)


def _done(job: Job) -> str:
    progress = job.progress() if job.state != "queued" else None
    if not progress:
        return ""
    return f"{progress.done}/{progress.total}" if progress.total else str(progress.done)


@queue.command(short_help="Run the jobs of the queue")
@_root
@options.job_gpus
@options.cpu_slots
@options.engine
@click.option("--until_idle", is_flag=True, help="Stop when no job is queued or running.")
def run(root: str, gpus: str, cpu_slots: int, engine: dict[str, Any] | None, until_idle: bool) -> None:
    """Runs the scheduler of the queue in the foreground, until Ctrl-C. Running jobs then continue.

    Only one scheduler works in a root. A new job starts within a second. With -engine slurm each job becomes a job of
    the cluster, which continues without this process.

    \b
    Examples:
      caffelite queue run
      caffelite queue run -gpu 0,1 -cpu_slots 2 -until_idle
      caffelite queue run -engine slurm -partition gpu -time 12h -gpus 1 -slurm account=vision
    """
    start()
    from ..runs.queue.local import Local, Slots
    from ..runs.queue.scheduler import Engine, Scheduler
    from ..runs.queue.slurm import Slurm, SlurmOptions

    chosen: Engine = Local(Slots.of(gpus, cpu_slots)) if engine is None else Slurm(SlurmOptions(**engine))
    scheduler = Scheduler(root, chosen)
    stopped: list[int] = []
    with handling((signal.SIGINT, signal.SIGTERM), lambda number, _: stopped.append(number)), closing(scheduler):
        scheduler.run(lambda: bool(stopped) or (until_idle and scheduler.idle()))


@queue.command(short_help="Let a job start that this user did not add")
@_root
@_job
def accept(root: str, job: str) -> None:
    """Lets a job start that lies in the queue's folder, but that you did not add: one of another user or machine, of an
    earlier version, or in a folder that was moved. It prints the command of the job: read it first with queue list.

    \b
    Example:
      caffelite queue accept 1122-134512-3f9a
    """
    from ..runs.queue import edit

    accepted = edit.accept(root, job)
    say(f"accepted {accepted.shell_command}; in {accepted.working_directory}", err=True)


@queue.command(short_help="Change the order of jobs")
@_root
@_job
@click.option("--before", metavar="ID", help="Move it before this job.")
@options.count_option("--position", help="Move it to this place among the queued jobs, from 1.")
def move(root: str, job: str, before: str | None, position: int | None) -> None:
    """Moves a queued job before another one, to a position, or to the end. It takes a priority that fits its new place.

    \b
    Example:
      caffelite queue move 1122-134512-3f9a -position 1
    """
    from ..runs.queue import edit

    if before and position:
        raise click.UsageError("-before and -position exclude each other")
    _show(edit.move(root, job, before=before, position=position))


@queue.command(short_help="Change the priority of a job", context_settings={"ignore_unknown_options": True})
@_root
@_job
@click.argument("value", type=options.Whole(), metavar="N")
def priority(root: str, job: str, value: int) -> None:
    """Changes the priority of a queued job; jobs of a higher priority start first, the default is 0.

    \b
    Example:
      caffelite queue priority 1122-134512-3f9a 10
    """
    from ..runs.queue import edit

    _show(edit.set_priority(root, job, value))


@queue.command(short_help="End a job")
@_root
@_job
@click.option("--kill", is_flag=True, help="Kill a running job and all its processes at once, without a snapshot.")
def cancel(root: str, job: str, kill: bool) -> None:
    """Ends a job: a queued one does not start, a running one receives SIGTERM. A training run then ends after its
    iteration with a snapshot, and -resume auto continues it.

    \b
    Example:
      caffelite queue cancel 1122-134512-3f9a
    """
    from ..runs.queue import edit

    _show(edit.cancel(root, job, edit.KILL if kill else edit.PAUSE))


@queue.command(short_help="Remove a job that has ended from the list")
@_root
@_job
def remove(root: str, job: str) -> None:
    """Removes a job that has ended from the list. A training run keeps its records; the folder of another job, with its
    log, is deleted.

    \b
    Example:
      caffelite queue remove 1122-134512-3f9a
    """
    from ..runs.queue import edit

    edit.remove(root, job)


def _show(job: Job) -> None:
    reason = f": {job.reason}" if job.reason else ""
    say(f"{job.id}  {job.state}{reason}  {job.folder}")


def submit(
    root: str | Path,
    words: Sequence[str],
    *,
    gpus: str | None = None,
    priority: int = 0,
    after: Sequence[str] = (),
    working_directory: str | Path = ".",
) -> Job:
    """Adds a command to the queue of a folder.

    words: of the command, after `caffelite`. gpus: see `runs.queue.job.Job`; None: as -gpu of the command, for a
    training also solver_mode, says. Errors: CaffeliteError for words that the command would refuse.
    """
    from ..runs.config import RunConfig
    from ..runs.queue import edit, job

    words = [normalize(word) for word in words]
    values = _parsed(words)
    order: dict[str, Any] = {"priority": priority, "after": after, "working_directory": working_directory}
    if words[0] != "train":
        if gpus is None:
            own_trials = values.get("queued") is False or values.get("jobs")
            gpus = job.FREE if words[0] == "sweep" and not own_trials else str(values.get("gpu") or "")
        return edit.add(root, words, gpus=gpus, **order)
    config = RunConfig(**{name: value for name, value in values.items() if name in FIELDS and value not in (None, ())})
    return edit.submit_run(root, config, gpus=gpus, **order)


def _parsed(words: list[str]) -> dict[str, Any]:
    """The values of a command's options, without any effect of them. Errors: unknown commands and options; values
    of a wrong type."""
    if not words:
        raise CaffeliteError("no command is given", expected="a caffelite command, as in train -solver FILE")
    command: click.Command = caffelite
    context = click.Context(command, info_name="caffelite")
    rest = words
    try:
        while isinstance(command, click.Group):
            name = rest[0] if rest else ""
            known = [each for each in command.list_commands(context) if each not in NO_JOBS]
            subcommand = command.get_command(context, name) if name in known else None
            if subcommand is None:
                expected = f"one of {', '.join(known)}"
                remedy = did_you_mean(name, known)
                raise CaffeliteError(f'no job command "{name}"', expected=expected, remedy=remedy)
            command, rest = subcommand, rest[1:]
            context = click.Context(command, info_name=name, parent=context)
        values, arguments, _ = command.make_parser(context).parse_args(list(rest))
        if arguments:
            raise CaffeliteError(f"caffelite {words[0]} takes no argument {arguments[0]}")
        for parameter in command.params:
            name = parameter.name or ""
            value = values.get(name)
            if value is None and parameter.required:
                raise click.MissingParameter(ctx=context, param=parameter)
            values[name] = parameter.type_cast_value(context, value)
    except click.ClickException as error:
        raise CaffeliteError(error.format_message().rstrip(".")) from None
    except click.exceptions.Exit:
        raise CaffeliteError("-help is no job") from None
    return values
