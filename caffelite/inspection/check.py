"""Finds all errors and suspicious settings of nets and solvers in one pass."""

import dataclasses
import os
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs, prototxt
from ..errors import Locator, UnknownType, quoted
from ..layers import Shape
from ..layers.base.feeding import is_input
from ..net.graph import Graph, net_state
from ..training import epochs, nets
from ..training.checkpoint import snapshot
from ..training.checks import check_counts
from ..training.nets import NetSpec
from ..training.optim import rates, updates
from . import lint, partial
from .feeds import Absent, Feeds, label_shapes, with_inputs
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
        check_solver(reading, findings)
        decay, tests, train = reading.message.weight_decay, 0, None
        for one in nets_of(reading, findings):
            state = net_state(one.state.phase, pb.NetParameter(), one.state, level, stages)
            graph = _net(one.reading, state, shapes, findings, decay)
            if one.iterations:
                if graph:
                    lint.test_size(graph, one.iterations, tests, reading, findings)
                tests += 1
            elif one.state.phase == pb.TRAIN:
                train = graph
            partial.close(graph)
        if resolved := in_iterations(reading, train, findings):
            lint.solver(resolved, findings)
    else:
        for phase in phases or _phases(reading.message):
            partial.close(_net(reading, net_state(phase, reading.message, None, level, stages), shapes, findings))
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
        reading = dataclasses.replace(reading, message=with_inputs(reading.message, shapes))
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
            result.add(one.kind, error.replaced(what=f"{start} in TRAIN and TEST"))
    return result


def sort(findings: Findings, path: str) -> Findings:
    """Sorts findings by file, the checked one first, and by line; layers of unknown types come first."""

    def key_of(finding):
        where, known = finding.error.where, not isinstance(finding.error, UnknownType)
        return (
            (where.file != path, where.file, known, where.line, where.column) if where else (False, path, known, 0, 0)
        )

    findings.sort(key=key_of)
    return findings


@dataclass
class NetOf:
    """A net of a solver: its reading, its state, the batches of a test (0: the train net)."""

    reading: Reading
    state: pb.NetState
    iterations: int = 0


class _Routed(Locator):
    """A locator for nets that replace their file names: their places are in their own files."""

    def __init__(self, base: Locator, routes: dict[tuple, Locator]):
        super().__init__(base.file, base.positions)
        self.routes = routes

    def at(self, *path: str | int) -> Locator:
        return self.routes.get(path) or super().at(*path)


def nets_of(solver: Reading, findings: Findings) -> list[NetOf]:
    """The nets that a solver trains and tests, as far as they can be read. The train net is first."""
    message = pb.SolverParameter()
    files: dict[str, Reading | None] = {}  # by name; None: cannot be read
    message.CopyFrom(solver.message)
    routes: dict[tuple, Locator] = {}
    moves: dict[tuple, tuple] = {}

    def read_into(path: str, old: tuple, new: tuple, target: pb.NetParameter) -> None:
        """Reads a net that the solver names into the solver's field for inline nets."""
        target.SetInParent()
        file = str(prototxt.resolve(path, solver.locate)) if path else ""
        if not path:
            findings.say("mistake", "an empty path of a net", solver.locate(*old), remedy="name a prototxt")
        if file not in files:
            files[file] = read(file, findings, [pb.NetParameter], solver.locate(*old)) if path else None
        if reading := files[file]:
            target.CopyFrom(reading.message)
        routes[new] = reading.locate if reading else Locator(file)
        moves[old] = new

    for name in ("net", "train_net"):
        if message.HasField(name) and not message.HasField(f"{name}_param"):
            read_into(getattr(message, name), (name,), (f"{name}_param",), getattr(message, f"{name}_param"))
            message.ClearField(name)
    for i, path in enumerate(message.test_net):
        at = len(message.test_net_param)
        read_into(path, ("test_net", i), ("test_net_param", at), message.test_net_param.add())
    del message.test_net[:]
    locate = _Routed(solver.locate.moved(moves), routes)
    specs: list[NetSpec] = []
    if not solver.suspects & {"net", "train_net", "net_param", "train_net_param"}:
        train = findings.run(nets.train_net, message, locate)
        specs += [train] if train else []
    specs += findings.run(nets.test_nets, message, locate) or []
    readable = [(spec, reading) for spec in specs if (reading := files.get(spec.locate.file, solver))]
    return [NetOf(Reading(s.message, s.locate, file.broken), s.state, s.iterations) for s, file in readable]


def check_solver(solver: Reading, findings: Findings) -> None:
    """Adds the mistakes in a solver's own fields."""
    merged = Findings()
    p, locate = _provisional(solver, merged)
    if not _rate(p, locate, merged) and p.lr_policy != "fixed":  # what is wrong besides the policy itself
        plain = deepcopy(p)
        plain.lr_policy = "fixed"
        _rate(plain, locate, merged)
    merged.run(updates.check, p, locate)
    merged.run(check_counts, p, locate)
    folder = Path(snapshot.prefix(p, locate.file)).parent
    if (p.snapshot_after_train or 0 < p.snapshot <= p.max_iter) and not os.path.isdir(folder):
        what, remedy = f"the folder of snapshot_prefix, {folder}, does not exist", f"make it: mkdir -p {quoted(folder)}"
        merged.say("mistake", what, locate("snapshot_prefix"), remedy=remedy)
    if slashes := inputs.windows_path(p.snapshot_prefix):
        merged.say("lint", "backslashes are part of the files' names", locate("snapshot_prefix"), remedy=slashes)
    unset = solver.suspects - {field.name for field, _ in p.ListFields()}
    for one in merged:
        if not unset & set(re.findall(r"\w+", f"{one.error.what} {one.error.remedy}")):
            findings.add(one.kind, one.error)


def _provisional(solver: Reading, findings: Findings) -> tuple[pb.SolverParameter, Locator]:
    """The solver with assumed iterations in place of its epoch fields; those with a mistake, which is added, are
    dropped."""
    if parameter := findings.run(epochs.provisional, solver.message, solver.locate):
        return parameter
    sound = deepcopy(solver.message)
    for name in epochs.given(sound):
        alone = deepcopy(sound)
        for other in set(epochs.given(sound)) - {name}:
            alone.ClearField(other)
        if Findings().run(epochs.provisional, alone, solver.locate) is None:
            sound.ClearField(name)
    return epochs.provisional(sound, solver.locate)


def in_iterations(solver: Reading, train: Graph | None, findings: Findings) -> Reading | None:
    """The solver with iterations in place of its epoch fields, as far as the data of its train net is there; with
    assumed ones where it is not. None where the fields are wrong; the mistake is added."""
    sources = [source for _, source in train.sources] if train else []
    if train is None or any(isinstance(source, Absent) for source in sources):
        # `check_solver` reports its mistakes.
        resolved = Findings().run(epochs.provisional, solver.message, solver.locate)
    else:
        epoch = epochs.epoch_of(sources, solver.message.iter_size, 1)
        resolved = findings.run(epochs.resolve, solver.message, solver.locate, epoch)
    if not resolved:
        return None
    message, locate = resolved
    return Reading(message, locate, solver.broken, solver.suspects)


def _rate(p: pb.SolverParameter, locate: Locator, findings: Findings) -> bool:
    """Whether a learning rate is defined at the start, in the middle and at the end."""

    def has_rates() -> bool:
        rate = rates.policy(p, locate)
        return all(rate(i) is not None for i in (0, max(0, p.max_iter) // 2, max(0, p.max_iter - 1)))

    return bool(findings.run(has_rates))
