"""caffelite find_batch"""

import os

import click

from . import options
from .logs import start
from .output import say


@click.command("find_batch", short_help="Find the largest batch that fits")
@options.field_option("solver")
@options.gpu
@options.precision_option
@options.code_if_asked
@options.set_fields
@click.option(
    "--memory",
    "limit",
    metavar="SIZE",
    help="Fit into this memory, as in 16G, without a trial. Default: the memory of the device.",
)
@options.rules
def find_batch(
    solver: str,
    gpu: str | None,
    precision: str | None,
    set_fields: tuple[str, ...],
    limit: str | None,
    level: int | None,
    stage: tuple[str, ...],
) -> None:
    """Finds the largest batch that trains in the device's memory: computes its size, and verifies it with two
    iterations.

    \b
    Examples:
      caffelite find_batch -solver solvers/alexnet_solver.prototxt -gpu 0
      caffelite find_batch -solver solvers/alexnet_solver.prototxt -memory 16G
    """
    start()
    from .. import user_modules
    from ..errors import CaffeliteError
    from ..inspection import memory, summary, target
    from ..inspection.nets import inspected_net
    from ..layers.base.extension_files import load_permitted
    from ..prototxt.overrides import Overrides
    from ..runs.config import RunConfig
    from ..runs.open_net import gpus, read_solver
    from ..runs.trial import train_two_iterations

    if not limit:
        user_modules.permit()  # it trains
        load_permitted()
    config = RunConfig(solver, precision=precision, overrides=set_fields, level=level, stages=stage)
    net = inspected_net(None, solver, {}, level, config.stages, Overrides(set_fields))
    gpu_ids = gpus(gpu, read_solver(config).message)
    room = (
        options.size_in_bytes(limit) if limit else int(memory.SHARE * memory.available(gpu_ids[0] if gpu_ids else None))
    )
    traits = target.traits(gpu_ids[0] if gpu_ids else None, precision)
    largest = summary.largest_batch(net, room, os.cpu_count() or 1, traits=traits)
    while largest and not limit:
        try:
            train_two_iterations(config, largest[0], gpu_ids)
            break
        except MemoryError:
            smaller = int(0.95 * largest[0])
            largest = (smaller, summary.memory(net, smaller, os.cpu_count() or 1, traits=traits)) if smaller else None
    if not largest:
        expected, remedy = "enough memory for one sample", "use a smaller net"
        raise CaffeliteError("no batch fits", expected=expected, found=memory.text(room), remedy=remedy)
    say(f"{largest[0]} samples, which take {memory.text(largest[1].total)} of {memory.text(room)}")
