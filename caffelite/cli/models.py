"""caffelite models"""

import textwrap
from pathlib import Path

import click

from ..errors import quoted
from . import options
from .output import say

WIDTH = 110


@click.command(short_help="List and copy the nets that ship")
@click.argument("name", required=False)
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Replace files in DIR.")
@click.option(
    "--download",
    is_flag=True,
    help="Also download the published weights of NAME: caffenet, alexnet or googlenet. An interrupted download is "
    "continued; the SHA-1 of the model zoo is checked.",
)
@options.as_json
def models(name: str | None, folder: Path | None, force: bool, download: bool, as_json: bool) -> None:
    """Lists the nets that ship: shape of a sample, learned parameters, multiply-adds of a sample, accuracy with its
    source, paper and data. Some ship with weights, which are listed last. Or copies the net NAME and its solver to DIR;
    by default DIR is NAME. With weights: also these, a deploy net, labels, pictures and the run that made them, which
    caffelite reproduce repeats.

    To train a net on your own images, start with caffelite new.

    \b
    Examples:
      caffelite models
      caffelite models squeezenet my_net
      caffelite models lenet_mnist
      caffelite models caffenet --download
    """
    from ..zoo import catalog, trained

    if download and not name:
        raise click.UsageError("--download needs the NAME of a net")
    with_weights = {one.name: one for one in trained.trained()}
    if name:
        folder = folder or Path(name)
        if download:
            _download(name, folder, force)
            return
        if name in with_weights:
            _copy_trained(with_weights[name], folder, force)
            return
        paths = catalog.copy(catalog.find(name, with_weights), folder, force)
        say(f"wrote {', '.join(map(str, paths))}", err=True)
        say(_where_weights_are(name, with_weights.values()), err=True)
        say(f"train it with: caffelite train -solver {quoted(folder / catalog.SOLVER)}", err=True)
        return
    measured = {one.recipe: f"{one.measured} ({one.name})" for one in reversed(with_weights.values())}
    rows = [
        _row(one, catalog.cost(one), measured.get(one.name, one.accuracy)) | _weights_of(one.name, with_weights)
        for one in catalog.shipped()
    ]
    if as_json:
        options.print_json(rows, ensure_ascii=False)
        return
    say(f"{'net':24}{'input':>12}{'parameters':>14}{'multiply-adds':>15}  accuracy")
    for row in rows:
        shape = "×".join(map(str, row["input"])) if row["input"] else "any"
        work = "" if row["multiply_adds"] is None else f"{row['multiply_adds']:,.0f}"
        say(f"{row['name']:24}{shape:>12}{row['parameters']:>14,}{work:>15}  {row['accuracy']}")
        about = f"{row['paper']}. Data: {row['data'].replace('`', '')}."
        say(textwrap.fill(about, WIDTH, initial_indent="    ", subsequent_indent="    "))
    say("\nwith weights:")
    for one in with_weights.values():
        say(f"{one.name:24}{one.measured}  {one.size / 1e6:.2f} MB  {one.license}")
        about = f"Net {one.recipe}, trained on {one.data} by: {one.origin}"
        say(textwrap.fill(about, WIDTH, initial_indent="    ", subsequent_indent="    "))


def _download(name: str, folder: Path, force: bool) -> None:
    from ..progress import bar
    from ..zoo import catalog, published

    shown, before = None, 0

    def progress(done: int, total: int | None) -> None:
        nonlocal shown, before
        if shown is None:
            shown = bar(total, name=published.find(name).file, unit="B", unit_scale=True)
        shown.update(done - before)
        before = done

    paths = published.copy(name, folder, force, progress)
    say(f"wrote {', '.join(map(str, paths))}", err=True)
    say(f"try it with: caffelite classify -model {quoted(folder / catalog.DEPLOY)} IMAGE", err=True)


def _copy_trained(one, folder: Path, force: bool) -> None:
    from ..zoo import trained

    paths = trained.copy(one, folder, force)
    say(f"wrote {len(paths)} files to {folder}: {', '.join(str(p.relative_to(folder)) for p in paths)}", err=True)
    if one.pictures:
        say(f"try it with: caffelite classify -model {quoted(folder / one.deploy.name)} IMAGE", err=True)
    else:
        words = [quoted(folder / word[len(one.name) + 1 :]) if "/" in word else word for word in one.test.split()]
        say(f"try it on {one.data} with: {' '.join(words)}", err=True)


def _where_weights_are(name: str, with_weights) -> str:
    """A line on the weights of a recipe, which are not copied with it."""
    from ..zoo.published import PUBLISHED

    if names := [one.name for one in with_weights if one.recipe == name]:
        return f"weights ship as {', '.join(names)}: caffelite models {quoted(names[0])}"
    if name in PUBLISHED:
        return f"no weights ship with {name}; caffelite models {quoted(name)} --download gets the published ones"
    return f"no weights ship with {name}: train it, or convert those of other frameworks by caffelite import"


def _weights_of(name: str, with_weights) -> dict:
    """What a net's row says about the weights of its recipe."""
    rows = [
        {"name": one.name, one.score: one.value, "bytes": one.size, "license": one.license, "origin": one.origin}
        for one in with_weights.values()
        if one.recipe == name
    ]
    return {"weights": rows}


def _row(one, cost, accuracy: str) -> dict:
    return {
        "name": one.name,
        "input": list(cost.shape) if cost.shape else None,
        "parameters": one.parameters,
        "multiply_adds": None if cost.multiply_adds is None else int(cost.multiply_adds),
        "accuracy": accuracy,
        "paper": one.paper,
        "data": one.data,
        "train_val": str(one.net),
        "solver": str(one.solver),
    }
