"""Finds all errors and suspicious settings of nets and solvers in one pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from .. import caffelite_pb2 as pb
from ..layers import Shape
from ..layers.feeding import is_input
from ..net.graph import Graph
from ..training import nets
from . import lint, partial, solvers
from .feeds import Feeds, label_shapes, with_shapes
from .nets import NO_FEEDS, phases_of
from .reading import Findings, Reading, read


def check(
    path: str,
    shapes: dict[str, Shape] | None = None,
    phases: Iterable[int] = (),
    level: int | None = None,
    stages: tuple[str, ...] = (),
) -> Findings:
    """The findings about a file, in the order of its lines. phases: of a net; default: those that it has data for."""
    findings = Findings()
    reading = read(path, findings)
    if reading is None:
        return findings
    if isinstance(reading.message, pb.SolverParameter):
        solvers.check(reading, findings)
        decay, tests, train = reading.message.weight_decay, 0, None
        for one in solvers.nets_of(reading, findings):
            graph = _net(
                one.reading,
                nets.state(one.state.phase, pb.NetParameter(), one.state, level, stages),
                shapes,
                findings,
                decay,
            )
            if one.iterations:
                if graph:
                    lint.test_size(graph, one.iterations, tests, reading, findings)
                tests += 1
            elif one.state.phase == pb.TRAIN:
                train = graph
            partial.close(graph)
        if resolved := solvers.in_iterations(reading, train, findings):
            lint.solver(resolved, findings)
    else:
        for phase in phases or _phases(reading.message):
            partial.close(_net(reading, nets.state(phase, reading.message, None, level, stages), shapes, findings))
    return sort(merged(findings), path)


def _phases(net: pb.NetParameter) -> list[int]:
    """The phases that a net has data for; TEST for a net that has Input layers alone, as deploy nets have."""
    feeds = [spec for spec in net.layer if not spec.bottom and spec.type not in NO_FEEDS]
    return [pb.TEST] if feeds and all(map(is_input, feeds)) else phases_of(net)


def _net(
    reading: Reading,
    state: pb.NetState,
    shapes: dict[str, Shape] | None,
    findings: Findings,
    decay: float | None = None,
) -> Graph | None:
    if shapes:
        reading = dataclasses.replace(reading, message=with_shapes(reading.message, shapes))
    feeds = Feeds(shapes, label_shapes(reading.message))
    graph, whole, feeds = partial.build_fitting(reading, state, findings, feeds)
    for missing in feeds.missing:
        findings.add("note", missing)
    if graph:
        lint.net(graph, reading, whole, findings, decay)
    return graph


def merged(findings: Findings) -> Findings:
    """The findings, with those that are the same in TRAIN and in TEST merged."""
    twins = {(str(f.error.where), f.error.what) for f in findings}
    result = Findings()
    for one in findings:
        error, (start, _, phase) = one.error, one.error.what.rpartition(" in ")
        other = {"TRAIN": "TEST", "TEST": "TRAIN"}.get(phase)
        if other is None or (str(error.where), f"{start} in {other}") not in twins:
            result.add(one.kind, error)
        elif phase == "TRAIN":
            result.say(
                one.kind,
                f"{start} in TRAIN and TEST",
                error.where,
                expected=error.expected,
                found=error.found,
                remedy=error.remedy,
            )
    return result


def sort(findings: Findings, path: str) -> Findings:
    """Sorts findings by file, the checked one first, and by line."""

    def key_of(finding):
        where = finding.error.where
        return (where.file != path, where.file, where.line, where.column) if where else (False, path, 0, 0)

    findings.sort(key=key_of)
    return findings
