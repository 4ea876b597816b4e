"""caffelite find_batch"""

from __future__ import annotations

import click

from . import options
from .logs import start


@click.command("find_batch", short_help="Find the largest batch that fits")
@click.option("--solver", required=True, metavar="FILE", type=click.Path(), help="The solver, a prototxt.")
@options.gpu
@options.python_if_asked
@options.set_fields
@click.option(
    "--memory",
    "limit",
    metavar="SIZE",
    help="Fit into so much, as in 16G, and try nothing. Default: what the device has.",
)
@options.level
@options.stage
def find_batch(solver, gpu, set_fields, limit, level, stage) -> None:
    """Finds the largest batch that trains in the device's memory: the plan says how large it may be, and two iterations
    prove it.

    \b
    Examples:
      caffelite find_batch -solver solvers/alexnet_solver.prototxt -gpu 0
      caffelite find_batch -solver solvers/alexnet_solver.prototxt -memory 16G
    """
    start()
    import os

    from .. import prototxt, user_modules
    from ..errors import CaffeliteError
    from ..inspection import summary
    from ..prototxt.overrides import Overrides
    from . import memory
    from .summary import size_in_bytes

    if not limit:
        user_modules.permit()  # it trains
    overrides = Overrides(set_fields)
    of = memory.subject(solver, overrides, level, options.names(stage))
    numbers = options.gpus(gpu, overrides.solver(prototxt.read_solver(solver)).message)
    room = size_in_bytes(limit) if limit else int(memory.SHARE * memory.available(numbers[0] if numbers else None))
    traits = memory.traits(numbers[0] if numbers else None)
    found = summary.largest_batch(of, room, os.cpu_count() or 1, traits=traits)
    while found and not limit:
        try:
            train_with(found[0], solver, overrides, numbers, level, options.names(stage))
            break
        except MemoryError:
            smaller = int(0.95 * found[0])
            found = (smaller, summary.memory(of, smaller, os.cpu_count() or 1, traits=traits)) if smaller else None
    if not found:
        raise CaffeliteError(
            "no batch fits", expected="room for one sample", found=memory.text(room), remedy="use a smaller net"
        )
    click.echo(f"{found[0]} samples, which take {memory.text(found[1].total)} of {memory.text(room)}")


def train_with(
    batch: int, solver: str, overrides, numbers: list[int], level: int | None, stages: tuple[str, ...]
) -> None:
    """Two iterations of the solver with another batch. Errors: MemoryError where that is too large."""
    from .. import prototxt
    from ..training import Solver

    document = overrides.solver(prototxt.read_solver(solver))
    changed = Rebatched(overrides, batch)
    run = Solver(
        bare(document.message),
        document.locate,
        solver,
        options.open_gpu(numbers),
        level=level,
        stages=stages,
        overrides=changed,
    )
    try:
        run.step(2)
    finally:
        run.close()


def bare(solver, display: int = 0):
    """A solver without tests, displays and snapshots."""
    p = type(solver)()
    p.CopyFrom(solver)
    p.snapshot, p.snapshot_after_train, p.test_interval, p.display = 0, False, 0, display
    for name in ("test_iter", "test_net", "test_net_param", "test_state", "best_score", "early_stop"):
        p.ClearField(name)
    return p


class Rebatched:
    """Overrides that set the batch too."""

    def __init__(self, overrides, batch: int):
        self.overrides, self.batch = overrides, batch

    def nets(self, specs) -> None:
        from ..inspection.feeds import rebatched

        self.overrides.nets(specs)
        for spec in specs:
            spec.message = rebatched(spec.message, self.batch)
