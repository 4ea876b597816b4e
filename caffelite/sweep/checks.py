"""Checks a sweep before its first trial: every value of every field, and the score that it compares."""

from __future__ import annotations

from ..errors import CaffeliteError, Collector, did_you_mean
from ..inspection import nets as inspected
from ..inspection.schedule import schedule
from ..layers import unknown_types
from ..prototxt.overrides import Overrides
from ..runs.config import RunConfig
from ..runs.open_net import read_solver
from ..runs.tracking import open_trackers
from ..training import epochs, nets
from ..training.nets import NetSpec
from .config import SweepConfig
from .trials import Score


def check_values(config: SweepConfig) -> None:
    """Raises what the values of the axes would raise in their trials. Errors: all of them in one; the package of a
    tracker is not installed."""
    open_trackers(config.base)
    document = read_solver(config.base)
    mistakes = Collector()
    for axis in config.axes:
        for value in axis.examples():
            overrides = Overrides([*config.base.overrides, f"{axis.field}={value}"])
            try:
                changed = overrides.solver(document)
                overrides.nets(_specs(config.base, changed))
            except CaffeliteError as error:
                mistakes.add(error)
    mistakes.raise_any()


def _specs(base: RunConfig, document) -> list[NetSpec]:
    p, locate = epochs.provisional(document.message, document.locate)
    train = nets.train_net(p, locate, base.level, base.stages, unknown_types.tolerate)
    return [train, *nets.test_nets(p, locate, unknown_types.tolerate)]


def length(config: SweepConfig) -> tuple[int, int]:
    """(iterations, iterations between tests) of a run with the fields that hold for all trials; lengths in epochs are
    resolved by the size of the data. Errors: no end is set; the data is missing where epochs count."""
    document = read_solver(config.base)
    p = document.message
    if epochs.given(p):
        overrides = Overrides(config.base.overrides)
        run = schedule(config.base.solver, {}, None, overrides)
        return run.iterations, run.tests[1] - run.tests[0] if len(run.tests) > 1 else 1
    if not p.max_iter:
        where, remedy = document.locate(), "set it: -set max_iter=N"
        raise CaffeliteError("-halving needs max_iter in the solver", where=where, remedy=remedy)
    return p.max_iter, p.test_interval or 1


def score(config: SweepConfig) -> Score:
    """The score to compare. Errors: the solver has no test net; no test net has an output of this name."""
    document = read_solver(config.base)
    p, locate = document.message, document.locate
    _, *tests = _specs(config.base, document)
    if not tests:
        remedy = "give the solver test_iter and test_interval, and the net a TEST phase"
        raise CaffeliteError(
            "a sweep compares scores of a test net, and this solver has none", where=locate(), remedy=remedy
        )
    Overrides(config.base.overrides).nets([nets.train_net(p, locate, config.base.level, config.base.stages), *tests])
    known: dict[str, tuple[int, bool]] = {}
    for i, spec in enumerate(tests):
        subject = inspected.InspectedNet(spec.message, spec.locate, {}, states=(spec.state,))
        graph, _ = subject.graph(spec.state.phase)
        for value in graph.outputs:
            known.setdefault(value.name, (i, bool(value.node and value.node.layer.loss)))
    if not known:
        raise CaffeliteError("the test net has no outputs", where=locate())
    name = config.score or p.best_score or ("accuracy" if "accuracy" in known else next(iter(known)))
    if name not in known:
        what = f'no test net has an output "{name}"'
        raise CaffeliteError(what, expected=f"one of {', '.join(known)}", remedy=did_you_mean(name, known))
    net, loss = known[name]
    lowest = p.best_lowest if p.HasField("best_lowest") and name == p.best_score else loss
    return Score(name, net, lowest, config.take)
