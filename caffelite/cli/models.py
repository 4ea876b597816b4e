"""caffelite models"""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from ..errors import quoted
from . import options

WIDTH = 110


@click.command(short_help="List and copy the nets that ship")
@click.argument("name", required=False)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace files in DIR.")
@options.as_json
def models(name: str | None, folder: Path | None, force: bool, as_json: bool) -> None:
    """Lists the nets that ship: shape of a sample, learned parameters, multiply-adds of a sample, accuracy with its
    source, paper and data. Or copies the net NAME and its solver to DIR; by default DIR is NAME.

    To train a net on your own images, start with caffelite new.

    \b
    Examples:
      caffelite models
      caffelite models squeezenet my_net
    """
    from ..zoo import catalog

    if name:
        folder = folder or Path(name)
        paths = catalog.copy(catalog.find(name), folder, force)
        click.echo(f"wrote {', '.join(map(str, paths))}", err=True)
        click.echo(f"train it with: caffelite train -solver {quoted(folder / catalog.SOLVER)}", err=True)
        return
    rows = [_row(one, catalog.cost(one)) for one in catalog.shipped()]
    if as_json:
        options.print_json(rows, ensure_ascii=False)
        return
    click.echo(f"{'net':24}{'input':>12}{'parameters':>14}{'multiply-adds':>15}  accuracy")
    for row in rows:
        shape = "×".join(map(str, row["input"])) if row["input"] else "any"
        work = "" if row["multiply_adds"] is None else f"{row['multiply_adds']:,.0f}"
        click.echo(f"{row['name']:24}{shape:>12}{row['parameters']:>14,}{work:>15}  {row['accuracy']}")
        about = f"{row['paper']}. Data: {row['data'].replace('`', '')}."
        click.echo(textwrap.fill(about, WIDTH, initial_indent="    ", subsequent_indent="    "))


def _row(one, cost) -> dict:
    return {
        "name": one.name,
        "input": list(cost.shape) if cost.shape else None,
        "parameters": one.parameters,
        "multiply_adds": None if cost.multiply_adds is None else int(cost.multiply_adds),
        "accuracy": one.accuracy,
        "paper": one.paper,
        "data": one.data,
        "train_val": str(one.net),
        "solver": str(one.solver),
    }
