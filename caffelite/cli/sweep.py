"""caffelite sweep"""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import quoted
from ..system import usable_cores
from . import options
from .logs import start
from .options import Duration
from .output import say

if TYPE_CHECKING:
    from ..sweep.config import SweepConfig
    from ..sweep.results import SweepResults


RUN_FIELDS = (
    "gpus python_folders precision deterministic eager weights tensorboard trackers data_threads level stages"
).split()


@click.command(short_help="Train many settings and compare them")
@options.field_option("solver", required=False, help="The solver of all trials, a prototxt.")
@click.option(
    "--set",
    "set_fields",
    multiple=True,
    metavar="FIELD=VALUES",
    help="Values of a field of the solver or of a layer, as base_lr=0.01,0.02; one value holds for all trials. With "
    "-random also ranges: base_lr=log(0.001,0.1), momentum=uniform(0.8,0.99), "
    "conv1.convolution_param.num_output=int(8,64). A list is one value: stepvalue=[100,200]. Repeatable.",
)
@options.count_option("--random", "draws", help="N settings drawn at random. Default: the grid of all values.")
@options.choice_option(
    "--sampler",
    choices=["random", "optuna"],
    help="What draws the settings of -random; optuna learns from earlier results (extra: optuna).",
    default="random",
)
@options.count_option(
    "--seeds",
    help="Trials of each setting, with different random seeds; the table then has 95 % intervals.",
    default=1,
    metavar="K",
)
@options.count_option("--seed", help="The first random seed of trials, and the seed of -random.", default=1, least=0)
@click.option(
    "--halving",
    is_flag=True,
    help="Successive halving: train all settings for a few iterations, continue the best 1/FACTOR of them for FACTOR "
    "times as many, and so on to max_iter.",
)
@options.count_option("--factor", help="The factor of -halving.", default=3, least=2, metavar="FACTOR")
@options.count_option(
    "--first",
    help="Iterations before the first comparison of -halving. Default: so many that one setting trains to max_iter.",
)
@click.option(
    "--score",
    metavar="NAME",
    default="",
    help="The test score to compare. Default: best_score of the solver, else accuracy, else the first output.",
)
@options.choice_option(
    "--take", choices=["last", "best"], help="Compare the last test of a trial or its best one.", default="last"
)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder of the sweep: trials, run folders, results. Default: <snapshot_prefix>_sweep.",
)
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Continue the sweep in DIR; its definition is there. The same command as before continues it too.",
)
@options.count_option(
    "--jobs",
    help="Trials that run at a time. On a CPU they divide the cores. Default: one on each GPU of -gpu, one on the CPU.",
)
@click.option(
    "--queue/--no_queue",
    "queued",
    default=None,
    help="Add the trials to the queue of the folder, which runs them on free devices. Default: where a scheduler works "
    "(caffelite queue run, or serve) and -jobs is not given.",
)
@options.engine
@click.option(
    "--max_time",
    metavar="TIME",
    type=Duration(),
    help="Stop all trials, each with a snapshot, after 90s, 30m, 1.5h, 2d or 1:30:00; -resume continues.",
)
@click.option("--repeat_failed", is_flag=True, help="Run trials again that failed in an earlier session.")
@options.run_options(RUN_FIELDS)
@options.file_option("--out", help="Draw the scores: .svg, .png or .pdf (extra: plot).")
@options.as_json
def sweep(
    resume: Path | None,
    jobs: int | None,
    queued: bool | None,
    engine: dict[str, Any] | None,
    max_time: float | None,
    repeat_failed: bool,
    out: Path | None,
    as_json: bool,
    run: dict[str, Any],
    **values: Any,
) -> None:
    """Trains a net with many settings and shows a table of their scores, the best first.

    Each trial is a `caffelite train` process with a run folder of its own and a fixed random seed. A sweep that was
    stopped or killed continues where it was, and gives the same table. results.csv and results.json are in its folder.

    \b
    Examples:
      caffelite sweep -solver solvers/lenet_solver.prototxt -set base_lr=0.005,0.01,0.02 -set momentum=0.8,0.9 -seeds 3
      caffelite sweep -solver solvers/lenet_solver.prototxt -set "base_lr=log(0.001,0.1)" -random 27 -halving -gpu all
      caffelite sweep -resume lenet_sweep -out lenet.png
      caffelite sweep -solver solvers/lenet_solver.prototxt -set "base_lr=log(0.001,0.1)" -random 27 -engine slurm
    """
    form = options.picture_form(out, "pdf") if out else ""
    if bool(resume) == bool(values["solver"]):
        raise click.UsageError("name a solver with -solver, or the folder of a sweep to continue with -resume")
    start()
    from ..runs.open_net import gpus, read_solver
    from ..runs.queue.slurm import SlurmOptions
    from ..sweep import config, jobs as trials
    from ..sweep.sweep import Sweep

    definition = config.read(resume) if resume else _definition(jobs, run, values)
    cluster = None if engine is None else SlurmOptions(**engine)
    gpu_ids = [] if cluster else gpus(run["gpus"] or definition.base.gpus, read_solver(definition.base).message)
    stop = trials.Stop(deadline=None if max_time is None else time.monotonic() + max_time)
    devices = [gpu_ids[i % len(gpu_ids)] if gpu_ids else None for i in range(jobs or len(gpu_ids) or 1)]
    folder = resume or values["folder"] or _default_folder(definition)
    root = _queue(folder, queued, jobs) if cluster is None else None
    if not gpu_ids and not resume and not root and cluster is None:
        definition = dataclasses.replace(definition, threads=max(1, len(usable_cores()) // len(devices)))
    with trials.stopping(stop):
        results = Sweep(definition, folder, devices, stop, repeat_failed, root, cluster).run()
    _show(results, folder, as_json)
    if out:
        from ..sweep.results import picture

        options.write_picture(out, picture(results, form, folder.name))
    if stop.number or not results.complete:
        say(f"To continue: caffelite sweep -resume {quoted(folder)}", err=True)
        sys.exit(128 + stop.number if stop.number in (signal.SIGTERM, signal.SIGHUP) else 0)
    if not results.best:
        say("No trial has a score", err=True)
        sys.exit(1)


def _queue(folder: Path, queued: bool | None, jobs: int | None) -> Path | None:
    """The root of the queue that the trials join; None: none. Errors: -queue with -jobs."""
    from ..runs.queue.edit import serving

    if queued and jobs:
        raise click.UsageError("-queue and -jobs exclude each other: the scheduler has its own number of slots")
    if queued is False or jobs:
        return None
    root = serving(folder)
    if queued and not root:
        root = Path(".")
        say("No scheduler works here; start one: caffelite queue run", err=True)
    return root


def _definition(jobs: int | None, run: dict[str, Any], values: dict[str, Any]) -> SweepConfig:
    from ..runs.config import RunConfig
    from ..sweep import space
    from ..sweep.config import SweepConfig

    fixed, _ = space.parse(values["set_fields"])
    return SweepConfig(
        RunConfig(values["solver"], overrides=tuple(fixed), **run),
        tuple(text for text in values["set_fields"] if text not in fixed),
        draws=values["draws"] or 0,
        factor=values["factor"] if values["halving"] else 0,
        first=values["first"] or 0,
        first_seed=values["seed"],
        together=(jobs or 1) if values["sampler"] == "optuna" else 1,
        **{name: values[name] for name in ("sampler", "seeds", "score", "take")},
    )


def _default_folder(definition: SweepConfig) -> Path:
    from ..runs.open_net import read_solver
    from ..training.checkpoint import snapshot

    solver = read_solver(definition.base).message
    return Path(f"{snapshot.prefix(solver, definition.base.solver)}_sweep")


def _show(results: SweepResults, folder: Path, as_json: bool) -> None:
    if as_json:
        options.print_json(results.to_json())
        return
    say(options.aligned(results.table()))
    if not results.complete:
        say(f"{len(results.rows)} of {results.total} settings have results", err=True)
    say(f"wrote {folder}/results.csv, {folder}/results.json", err=True)
