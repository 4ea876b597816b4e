"""caffelite summary"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from . import options
from .output import say

if TYPE_CHECKING:
    from ..inspection.nets import InspectedNet
    from ..inspection.split import DeviceMemory
    from ..inspection.summary import Table
    from ..net.graph import Graph


@click.command(short_help="Show a net's layers, totals and memory")
@options.net_or_solver
@options.inspected
@options.count_option("--batch", help="Batch size instead of the net's own.")
@click.option("--memory", "limit", metavar="SIZE", help="Find the largest batch that fits into this memory, as in 16G.")
@options.count_option("--threads", help="CPU threads; each needs scratch memory. Default: all cores.")
@options.split
@options.as_json
@options.rare_collection()
def summary(model, solver, shape, set_fields, phase, level, stage, batch, limit, threads, split, as_json) -> None:
    """Prints the layers of a net with totals, for TRAIN and TEST, and the memory that a run takes. Nothing is run, no
    data is needed.

    Multiply-adds are products with learned weights, for each sample; activations are the memory that a layer's tops
    add; the field is the number of input pixels along an axis on which a value depends. With -solver, memory
    includes the solver's history and its test nets. It is the memory of a CPU with oneDNN. Layers that cannot be
    built, such as those of unknown types, are left out and reported; the memory is then unknown and the exit status
    is 1. Unknown fields are ignored and reported, also with exit status 1. With -split the memory of each device of a
    group follows.

    \b
    Examples:
      caffelite summary -model models/alexnet/deploy.prototxt
      caffelite summary -solver solvers/resnet50_solver.prototxt -memory 16G
    """
    from .. import caffelite_pb2 as pb
    from ..inspection import nets, summary as summaries, target
    from ..inspection.feeds import parse_shapes, rebatched
    from ..prototxt.overrides import Overrides

    chosen, changes = options.one_of(model, solver), Overrides(set_fields)
    subject = nets.inspected_net(model, chosen, parse_shapes(shape), level, stage, changes, lenient=True, either=True)
    if batch:
        subject.message = rebatched(subject.message, batch)
    phases = nets.phases(phase, subject.message)
    built_phases = [subject.buildable(p) for p in phases]
    tables = [summaries.table(graph, guessed) for graph, guessed, _ in built_phases]
    wrong = [error for *_, errors in built_phases for error in errors]
    threads, train = threads or os.cpu_count() or 1, pb.TRAIN in phases
    if wrong:
        if as_json:
            options.print_json({"phases": [asdict(t) for t in tables]})
        else:
            say("\n".join(map(_table, tables)))
        options.left_out(wrong, subject.ignored)
    traits = target.traits(None)
    built = {phase: graph for phase, (graph, _, _) in zip(phases, built_phases, strict=True)}
    memory = summaries.memory(subject, None, threads, train, traits, built)
    fits = summaries.largest_batch(subject, options.size_in_bytes(limit), threads, train, traits) if limit else None
    devices = _memory_by_device(subject, built_phases[0][0], split, threads) if split else []
    if as_json:
        record: dict[str, Any] = {
            "phases": [asdict(t) for t in tables],
            "memory": asdict(memory) | {"total": memory.total},
        }
        record |= {"largest_batch": fits and fits[0]} if limit else {}
        record |= {"devices": [asdict(d) | {"total": d.memory.total} for d in devices]} if split else {}
        options.print_json(record)
    else:
        texts = [*map(_table, tables), _memory(memory, pb.Phase.Name(pb.TRAIN if train else pb.TEST), tables[0].batch)]
        if limit:
            largest = f"{fits[0]:,}, which takes {_size(fits[1].total)}" if fits else "none fits"
            texts.append(f"Largest batch within {limit}: {largest}")
        if split:
            texts.append(_devices(devices))
        say("\n".join(texts))
    options.left_out([], subject.ignored)


def _memory_by_device(subject: InspectedNet, graph: Graph, split: str, threads: int) -> list[DeviceMemory]:
    from ..inspection.split import memory, placement_of

    return memory(subject, graph.phase, graph.batch_size, placement_of(graph, split), threads)


def _devices(devices: list[DeviceMemory]) -> str:
    rows: list[tuple[str, ...]] = [
        ("stage", "shard", "layers", "weights", "gradients", "history", "activations", "in flight", "total")
    ]
    for one in devices:
        memory, names = one.memory, one.layers
        sizes = [_size(value) for value in (memory.weights, memory.gradients, memory.history, memory.arena)]
        layers = f"{names[0]} to {names[-1]}" if len(names) > 1 else " ".join(names)
        rows.append((f"{one.stage}", f"{one.shard}", layers, *sizes, f"{one.flights}", _size(memory.total)))
    return f"Memory of each device\n{options.aligned(rows, left=range(3))}"


def _size(count: float) -> str:
    unit = "B"
    for larger in ("KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.3g} {unit}"


def _count(value: float) -> str:
    """A count in three digits and a letter, as in 724M."""
    if value < 1000:
        return f"{value:.0f}" if value else ""
    value, letter = value / 1000, "K"
    for larger in ("M", "G", "T"):
        if value < 999.5:
            break
        value, letter = value / 1000, larger
    return f"{value:.3g}{letter}"


def _mults(values: list[float]) -> str:
    return " ".join(f"{v:g}" for v in values)


def _table(table: Table) -> str:
    from ..inspection.nets import times

    head = ("layer", "type", "tops", "parameters", "mult-adds", "activations", "field", "lr", "decay")
    rows = [head]
    for row in table.rows:
        tops = " ".join(times(t) for t in row.tops)
        if len(row.tops) > 1 and len({*row.tops}) == 1:
            tops = f"{len(row.tops)} of {times(row.tops[0])}"
        parameters = f"{row.parameters:,}" if row.parameters else ""
        activations = _size(row.activations) if row.activations else "in place" * bool(row.tops)
        costs = parameters, _count(row.multiply_adds), activations
        rows.append((row.name, row.type, tops, *costs, row.field, _mults(row.lr_mult), _mults(row.decay_mult)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = options.aligned(rows, left=(0, 1, 2, 7, 8)).split("\n")
    rule = "  ".join("─" * w for w in widths)
    statistics = f" and {table.statistics:,} statistics" if table.statistics else ""
    total = (
        f"{len(table.rows)} layers: {table.parameters:,} parameters{statistics}, {table.multiply_adds:,.0f} "
        f"multiply-adds a sample, {_size(table.activations)} of activations a batch"
    )
    notes = [f"Data is missing: {note}" for note in table.guessed]
    title = f"{table.phase}, batches of {table.batch}"
    return "\n".join([title, lines[0], rule, *lines[1:], rule, total, *notes, ""])


def _memory(memory, phase: str, batch: int) -> str:
    named = {
        "weights": memory.weights,
        "gradients of weights": memory.gradients,
        "the solver's history": memory.history,
        "activations and their gradients": memory.arena,
        "constants": memory.constants,
        "workspace": memory.workspace,
        "prefetched batches": memory.prefetch,
        "libraries and kernels": memory.kernels,
        "total": memory.total,
    }
    notes = {"activations and their gradients": f"  ({_size(memory.alone)} if they did not share memory)"}
    lines = [f"  {name:32}{_size(value):>10}{notes.get(name, '')}" for name, value in named.items() if value]
    return "\n".join([f"Memory of {phase}, batches of {batch}, on a CPU", *lines])
