"""caffelite fork"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
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
@options.file_option("--solver", help="With -compare -model: a solver, by which both train the net.")
@options.iterations("How long both train.", default=20)
@options.phase
@options.as_json
def fork(folder: Path, fork_layers, quick, compare, types, model, weights, solver, iterations, phase, as_json) -> None:
    """Says what the sources of a fork of Caffe have that BVLC's Caffe lacks: layer types and fields, which of them
    caffelite has, which of the others compile, and why not; which of BVLC's layers the fork changed; which nets below
    DIR have no mistake with -fork DIR.

    -compare -model runs a net through the fork's own Net and through caffelite on one batch, forward and backward;
    with -solver, it also trains it by the fork's Solver and by caffelite, from the same weights on the same batches.
    Each layer is judged alone too, on the bottoms and the gradients that the fork's Net has there, and each update on
    the fork's gradients: the exit status is 1 where one of these differs. Data, and the masks of dropout, are
    caffelite's.

    \b
    Examples:
      caffelite fork old-caffe
      caffelite fork old-caffe -compare -types
      caffelite fork old-caffe -compare -model net.prototxt -solver solver.prototxt -iterations 20
    """
    start()
    from ..errors import CaffeliteError
    from ..fork import option

    if compare != (types or model is not None):
        raise click.UsageError("-compare goes with -types or -model, and they with it")
    if solver and not model:
        raise click.UsageError("-solver goes with -compare -model")
    option.use(folder, fork_layers)
    current = option.current()
    if current is None:
        raise CaffeliteError(f"{folder} is no fork")
    if compare and model is None:
        _compare_types(current, as_json)
    elif compare:
        _compare_net(current, str(model), weights, solver, iterations, phase, as_json)
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


def _compare_types(fork, as_json: bool) -> None:
    from ..runs import fork_compare

    rows = fork_compare.compare_types(fork)
    if as_json:
        options.print_json([_row(row) for row in rows])
    else:
        _say_rows(rows)
    sys.exit(any(row.verdict == DIFFERS for row in rows))


def _compare_net(fork, model: str, weights, solver, iterations: int, phase: str | None, as_json: bool) -> None:
    from .. import caffelite_pb2 as pb
    from ..runs import fork_compare

    net = fork_compare.compare_net(fork, model, weights, pb.Phase.Value((phase or "train").upper()))
    trained = fork_compare.compare_training(fork, model, weights, str(solver), iterations) if solver else None
    if as_json:
        options.print_json(
            {
                "layers": [_row(row) for row in net.layers],
                **_times(net.seconds),
                "training": None if trained is None else asdict(trained),
            }
        )
    else:
        _say_rows(net.layers)
        say("both passes: {1:.1f} ms here, {0:.1f} ms by the fork's Net".format(*(1000 * each for each in net.seconds)))
        if trained:
            _say_training(trained)
    verdicts = [row.verdict for row in net.layers] + [one.alone.verdict for one in (trained.params if trained else ())]
    sys.exit(DIFFERS in verdicts)


def _say_rows(rows) -> None:
    say(options.aligned([HEAD, *(_cells(row) for row in rows)], left=(0, 1, 2, 6)))
    first = next((row for row in rows if row.verdict == DIFFERS), None)
    say(f"\nthe first layer that differs: {first.name} ({first.type})" if first else "\nno layer differs")
    far, name = max(((each.most, row.name) for row in rows for each in row.in_net if not each.same), default=(0, ""))
    if far and not first:
        say(f"in the net up to {far:.1e}, at {name}: maxima and ReLUs that rounding turns, no fault of a layer")


def _say_training(trained) -> None:
    say(f"\n{trained.iterations} iterations of the fork's Solver and of caffelite")
    head = ("layer", "parameter", "of the weights", "of the change", "update alone", "by")
    cells = [
        (one.layer[:40], str(one.number), f"{one.of_weights:.1e}", f"{one.of_change:.1e}", one.alone.verdict)
        + (f"{one.alone.most:.1e}",)
        for one in trained.params
    ]
    say(options.aligned([head, *cells], left=(0, 4)))
    theirs, ours = trained.losses[-1]
    say(f"loss of the last iteration: {ours:.6g} here, {theirs:.6g} by the fork; relative difference by iteration:")
    say(" ".join(f"{abs(one - other) / (abs(one) or 1):.0e}" for one, other in trained.losses[:SHOWN_LOSSES]))
    say("an iteration: {1:.1f} ms here, {0:.1f} ms by the fork".format(*(1000 * each for each in trained.seconds)))


DIFFERS = "differs"
SHOWN_LOSSES = 50
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
    facts = {"layer": row.name, "type": row.type, "verdict": row.verdict, **arrays, "reason": row.reason}
    return {**facts, **_times(row.seconds)}


def _times(seconds: tuple[float, float]) -> dict:
    return dict(zip(("seconds_of_fork", "seconds_here"), seconds, strict=True))
