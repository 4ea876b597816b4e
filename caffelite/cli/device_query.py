"""caffelite device_query"""

from __future__ import annotations

import click

from . import options


@click.command()
@options.gpu
def device_query(gpu) -> None:
    """Tells what the GPUs are.

    \b
    Example:
      caffelite device_query -gpu all
    """
    from ..devices import gpu as gpus

    if gpu is None or gpu == "all":
        numbers = list(range(gpus.count()))
        if not numbers:
            click.echo(gpus.why_none())
    else:
        numbers = options.gpu_numbers(gpu)
    for number in numbers:
        for name, value in gpus.describe(number).items():
            click.echo(f"{name + ':':32}{value}")
