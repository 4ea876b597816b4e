"""caffelite train"""

from __future__ import annotations

import functools
import logging
import sys
import time
from pathlib import Path

import click

from . import options
from .logs import Progress, start

log = logging.getLogger("caffelite")


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
    from .. import parallel, prototxt
    from ..parallel import star
    from ..prototxt.overrides import Overrides
    from ..training import Solver, nets, newest
    from . import memory
    from .find_batch import bare
    from .signals import Signals

    begun = time.monotonic()
    rank = parallel.expected_rank()
    start(rank == 0)
    overrides = Overrides(set_fields)
    several = parallel.expected() > 1
    if not several:
        numbers = options.gpus(gpu, overrides.solver(prototxt.read_solver(solver)).message)
        if len(numbers) > 1:
            sys.exit(star.launch(["train", *options.words(context)], len(numbers)))
    with (
        Signals(sigint_effect, sighup_effect, told=rank == 0, apart=1 if several else 0) as signals,
        parallel.session(hang_seconds) as comm,
    ):
        of = functools.partial(memory.subject, solver, overrides, level, options.names(stage))

        def explained(device):
            return memory.explained(of, None if device.name == "cpu" else device.number)

        def make() -> Solver:
            document = overrides.solver(prototxt.read_solver(solver))
            p = bare(document.message, display=document.message.display) if overfit else document.message
            mine = options.gpus(gpu, p) if several else numbers
            device = options.open_gpu(mine, comm.local_rank, how, lambda: nets.train_net(p, document.locate).message)
            state = snapshot
            if resume:
                state = newest(p, solver)
                log.info(
                    "Resuming from the newest good snapshot" if state else "There is no snapshot yet to resume from"
                )
            with explained(device):
                run = Solver(
                    p,
                    document.locate,
                    solver,
                    device,
                    comm=comm,
                    strong=scaling == "strong",
                    half=compress == "fp16",
                    level=level,
                    stages=options.names(stage),
                    requests=signals.requests,
                    resume=state,
                    overrides=overrides,
                )
            memory.check(run, of)
            if not state and (weights or p.weights):
                options.load_weights(run.net, weights or list(p.weights))
            return run

        run = parallel.agreed(comm, make)
        run.forgives, run.writes = forgive, not overfit
        parallel.agreed(comm, run.claim)  # when all have read what they begin with
        if overfit:
            kept = [learn_by_heart(run, overfit)]
        else:
            tell_run(run)
            kept = keep(run, record, tensorboard, weights) if not rank else []
        try:
            progress = Progress(run)
            try:
                with explained(run.dev):
                    run.solve(
                        stop_in_time(progress, begun + max_time, signals.requests) if max_time else progress, iterations
                    )
            finally:
                progress.close()
        finally:
            run.close()
            for observer in kept:
                observer.close()
        if run.iteration < run.p.max_iter and not run.best.over and run.written and run.written[-1][0] == run.iteration:
            where = ", under mpirun or srun as before" if comm.kind == "MPI" else ""
            log.info("To go on%s: %s", where, going_on(context, run.written[-1][1]))
        status = max(comm.gather(signals.status))
    sys.exit(status)


def tell_run(run) -> None:
    """Says which run the snapshots to come belong to, and where they go."""
    from ..training.checkpoint.ownership import described

    if run.owner.resumed:
        log.info(
            "%s goes on from %s; snapshots: %s_iter_*",
            described(run.owner.run).capitalize(),
            run.owner.resumed,
            run.prefix,
        )
    else:
        log.info("%s begins; snapshots: %s_iter_*", described(run.owner.run).capitalize(), run.prefix)
    prefix = run.p.snapshot_prefix
    if prefix and not prefix.endswith("/") and not run.prefix == prefix:
        text = (
            "snapshot_prefix %s is a folder: snapshots and records go into it, beside what is there; choose "
            "another name, or end it with /"
        )
        log.warning(text, prefix)


def going_on(context, state: Path) -> str:
    """The command that goes on from a snapshot, to be copied to a shell: with the options of this one."""
    import shlex

    automatic = bool(context.params["resume"])
    words = ["caffelite", "train"]
    for word in options.words(context):
        name, equals, value = word.partition("=")
        if name in ("--snapshot", "--weights"):
            continue
        words += [name[1:]] if not equals else [name[1:], value] if not value.startswith("-") else [word[1:]]
    return shlex.join(words if automatic else [*words, "-snapshot", str(state)])


def learn_by_heart(run, batches: int):
    """Gives the train net the same batches over and over; an observer that tells at the end what came of it."""
    from ..data.repeated import Repeated
    from ..training.hooks.hook import Observer

    for node in run.net.graph.feeds:
        if getattr(node.layer, "source", None) is not None:
            node.layer.source = Repeated(node.layer.source, batches)
            run.net.rebuild(node)

    class Verdict(Observer):
        start = last = float("nan")

        def losses(self, solver, first: int, values) -> None:
            self.start = values[0] if first == 0 else self.start
            self.last = min(values[-batches:], key=lambda loss: (loss == loss, loss))  # NaN before any number

        def close(self) -> None:
            far = self.last < 0.1 * self.start
            verdict = (
                "it learns"
                if far
                else "it does not learn them by heart; train longer, or look at rate, fillers and labels"
            )
            log.info(
                "Loss of the same %d batches: %.6g at first, %.6g at last: %s", batches, self.start, self.last, verdict
            )

    verdict = Verdict()
    run.observers.append(verdict)
    return verdict


def stop_in_time(progress, end: float, requests):
    """A progress that asks to stop when the clock has come to ``end``."""

    def look(solver, rate: float) -> None:
        progress(solver, rate)
        if not requests.stop and time.monotonic() >= end:
            log.info("The time that -max_time gives is up.")
            requests.stop = True

    return look


def keep(run, record: str | None, tensorboard: bool, weights: str | None) -> list:
    """The observers that keep the records of a run."""
    from ..runs.events import Events
    from ..runs.recorder import Recorder, command

    if record == "none":
        if tensorboard:
            raise click.UsageError("-tensorboard writes into the records: it needs them")
        return []
    folder = Path(record or f"{run.prefix}_run")
    resumed = run.owner.resumed
    start = {"snapshot": str(resumed)} if resumed else {"weights": options.names(weights)} if weights else {}
    kept = [Recorder(folder, command(), start), *([Events(folder / "events")] if tensorboard else [])]
    run.observers += kept
    return kept
