"""caffelite fork"""

from pathlib import Path

import click

from . import options
from .logs import start
from .output import say


@click.command(short_help="Say what a fork of Caffe has, and what runs")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.field_option("fork_layers")
@click.option("--quick", is_flag=True, help="Read files only: nothing is compiled, and no net checked.")
@options.as_json
def fork(folder: Path, fork_layers: str | None, quick: bool, as_json: bool) -> None:
    """Says what the sources of a fork of Caffe have that BVLC's Caffe lacks: layer types and fields, which of them
    caffelite has, which of the others compile, and why not; which of BVLC's layers the fork changed; which nets below
    DIR have no mistake with -fork DIR.

    \b
    Example:
      caffelite fork old-caffe
    """
    start()
    import logging

    from ..fork import option
    from ..inspection.fork_report import report

    option.use(folder, fork_layers)
    current = option.current()
    assert current
    made = report(current, not quick, logging.getLogger("caffelite").info)
    if as_json:
        options.print_json(made.to_json())
        return
    for line in _lines(made, quick):
        say(line)


def _lines(made, quick: bool):
    """The report as text."""
    yield f"{made.path}: {made.sources} sources, {made.proto or 'no caffe.proto: the schema is that of BVLC'}"
    yield ""
    yield f"Layer types that BVLC's Caffe lacks: {len(made.types)}"
    rows = [(f"  {one.name}", _state(one, quick), one.place) for one in made.types]
    yield from [options.aligned(rows, left=(0, 1, 2))] if rows else []
    yield ""
    count = sum(map(len, made.fields.values()))
    yield f"Fields and values that BVLC's messages lack: {count} (* caffelite lacks them, too)"
    for message, words in made.fields.items():
        yield f"  {message}: {' '.join(word if here else f'*{word}' for word, here in words.items())}"
    yield ""
    yield f"Layer types of BVLC's that the fork changed: {len(made.changed)}"
    yield from (f"  {name}: {', '.join(files)}" for name, files in made.changed.items())
    if quick:
        return
    passed = [net for net in made.nets if net.mistake is None]
    yield ""
    yield f"Nets below the folder: {len(made.nets)}, without a mistake {len(passed)}"
    yield from (f"  {net.mistake}" for net in made.nets if net.mistake)


def _state(one, quick: bool) -> str:
    if one.computed_by != "the fork's":
        return "caffelite has it"
    if quick:
        return "the fork's code"
    return "compiles" if one.compiled else f"does not compile: {one.error}"
