"""caffelite device_query"""

from __future__ import annotations

import click

from . import options


@click.command()
@options.gpu
def device_query(gpu) -> None:
    """Tells what the GPUs are. The exit status is 1 where none can be used.

    \b
    Example:
      caffelite device_query -gpu all
    """
    from ..devices import gpu as gpus

    if gpu is None or gpu == "all":
        numbers = list(range(gpus.count()))
        if not numbers:
            why = gpus.why_none() if gpus.present() else "this machine has no NVIDIA GPU"
            click.echo(f"caffelite: {why}", err=True)
            raise SystemExit(1)
    else:
        numbers = options.gpu_numbers(gpu)
    for number in numbers:
        for name, value in gpus.describe(number).items():
            click.echo(f"{name + ':':32}{value}")
