"""caffelite fork"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from . import options
from .logs import start
from .output import say


@click.command(short_help="Say what a fork of Caffe has, and what runs")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@options.field_option("fork_layers")
@click.option("--quick", is_flag=True, help="Read files only: nothing is compiled, and no net checked.")
@click.option("--compare", is_flag=True, help="Compare the fork's layers with caffelite's: those of a net, or -types.")
@click.option("--types", is_flag=True, help="With -compare: each layer type that both have, on random blobs.")
@options.file_option("--model", help="With -compare: the net, a prototxt, whose layers are compared on one batch.")
@options.file_option("--weights", help="With -compare: a caffemodel to copy weights from. Default: random ones.")
@options.phase
@options.as_json
def fork(folder: Path, fork_layers, quick, compare, types, model, weights, phase, as_json) -> None:
    """Says what the sources of a fork of Caffe have that BVLC's Caffe lacks: layer types and fields, which of them
    caffelite has, which of the others compile, and why not; which of BVLC's layers the fork changed; which nets below
    DIR have no mistake with -fork DIR.

    -compare runs the fork's layers beside caffelite's on the same numbers, forward and backward, and exits with status
    1 where a layer differs. Each layer is judged alone, on the bottoms and the gradients that the fork's layers have
    there. Data, and layers that draw random numbers, are caffelite's.

    \b
    Examples:
      caffelite fork old-caffe
      caffelite fork old-caffe -compare -types
    """
    start()
    from ..errors import CaffeliteError
    from ..fork import option

    if compare != (types or model is not None):
        raise click.UsageError("-compare goes with -types or -model, and they with it")
    option.use(folder, fork_layers)
    current = option.current()
    if current is None:
        raise CaffeliteError(f"{folder} is no fork")
    if compare:
        _compare(current, model, weights, phase, as_json)
    else:
        _report(current, quick, as_json)


def _report(fork, quick: bool, as_json: bool) -> None:
    import logging

    from ..inspection.fork_report import report

    made = report(fork, not quick, logging.getLogger("caffelite").info)
    if as_json:
        options.print_json(made.to_json())
        return
    for line in _lines(made, quick):
        say(line)


def _lines(made, quick: bool) -> Iterator[str]:
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


def _compare(fork, model, weights, phase: str | None, as_json: bool) -> None:
    from .. import caffelite_pb2 as pb
    from ..runs import fork_compare

    if model is None:
        rows = fork_compare.compare_types(fork)
    else:
        rows = fork_compare.compare_net(fork, str(model), weights, pb.Phase.Value((phase or "train").upper()))
    if as_json:
        options.print_json([_row(row) for row in rows])
    else:
        say(options.aligned([HEAD, *(_cells(row) for row in rows)], left=(0, 1, 2, 6)))
        first = next((row for row in rows if row.verdict == "differs"), None)
        say(f"\nthe first layer that differs: {first.name} ({first.type})" if first else "\nno layer differs")
    sys.exit(1 if any(row.verdict == "differs" for row in rows) else 0)


HEAD = ("layer", "type", "alone", "by", "in the net", "ms here / fork", "where")


def _cells(row) -> tuple[str, ...]:
    worst = max(row.alone, key=lambda each: each.most, default=None)
    net = max((each.most for each in row.in_net), default=None)
    fork, here = (1000 * each for each in row.seconds)
    return (
        row.name[:40],
        row.type,
        row.verdict[:60],
        f"{worst.most:.1e}" if worst else "",
        f"{net:.1e}" if net is not None else "",
        f"{here:.2f} / {fork:.2f}" if worst else "",
        worst.name if worst and not worst.same else "",
    )


def _row(row) -> dict:
    arrays = {
        name: [{"array": each.name, "most": each.most, "share": each.share, "verdict": each.verdict} for each in part]
        for name, part in (("alone", row.alone), ("in_net", row.in_net))
    }
    times = dict(zip(("seconds_of_fork", "seconds_here"), row.seconds, strict=True))
    return {"layer": row.name, "type": row.type, "verdict": row.verdict, **arrays, **times, "reason": row.reason}
