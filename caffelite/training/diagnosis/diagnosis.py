"""A loss that is NaN or infinite: where it comes from, of which samples, why perhaps, and a bundle that `caffelite
replay` runs again."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ... import caffelite_pb2 as pb
from ... import data, prototxt
from ...errors import CaffeliteError
from ...parallel import Refused
from ..checkpoint import content as checkpoint
from ..checkpoint import snapshot
from .tracing import Seen, trace

if TYPE_CHECKING:
    from ..trainer import Solver

log = logging.getLogger("caffelite")

REPORT, BATCH, NET, SOLVER = "report.json", "batch.npz", "net.prototxt", "solver.prototxt"
LARGE_INPUT = 20  # of pixels that nobody scaled
GROWS = 3  # times the median of the losses before
DOMAINS = {
    "Log": "the logarithm of 0 or below",
    "Power": "a root of or a quotient by 0 or below",
    "Exp": "e to a large number",
    "MultinomialLogisticLoss": "probabilities that are 0 or no probabilities",
    "InfogainLoss": "probabilities of 0",
    "SigmoidCrossEntropyLoss": "targets that are no probabilities",
    "Normalize": "a length of 0",
}


@dataclass
class Report:
    """What is known of a fault. norms: (iteration, loss, gradient's L2 norm, weights' L2 norm); None where it was not
    measured."""

    iteration: int
    first: Seen | None
    samples: list[str]
    norms: list[tuple[int, float, float | None, float | None]]
    causes: list[str]
    bundle: str = ""

    def lines(self) -> Iterator[str]:
        first = self.first
        if first is None:
            yield f"Iteration {self.iteration}: the loss is not finite, though each blob of its repetition is"
        else:
            count = f"{first.nans} NaN, {first.infinities} infinite of {math.prod(first.shape)}"
            where = f'layer "{first.layer}" ({first.type}), {first.what}'
            yield f"Iteration {self.iteration}: first not finite in {first.direction}: {where}: {count}"
        if self.samples:
            more = f" and {len(self.samples) - 8} more" if len(self.samples) > 8 else ""
            yield f"  samples: {', '.join(self.samples[:8])}{more}"
        for iteration, loss, gradient, weights in self.norms:
            yield f"  iteration {iteration}: loss {loss:.6g}" + "".join(
                f", |{name}| {value:.6g}"
                for name, value in (("gradient", gradient), ("weights", weights))
                if value is not None
            )
        for number, cause in enumerate(self.causes, 1):
            yield f"  perhaps ({number}): {cause}"


class Diverged(CaffeliteError):
    """A loss that is not finite stopped the run."""

    def __init__(self, report: Report):
        first = report.first
        at = f': layer "{first.layer}" ({first.type}), {first.what}' if first else ""
        again = f"look at it layer by layer: caffelite replay {report.bundle}" if report.bundle else None
        super().__init__(f"the loss is not finite at iteration {report.iteration}{at}", remedy=again)
        self.report = report


def examine(solver: Solver, iteration: int, norms: list[tuple]) -> Report:
    """Runs the iteration that went wrong again, before its update, and writes its bundle; where weights are spoilt
    already, from the last good snapshot on. The solver stands before that iteration afterwards, where it could be
    found."""
    found = _go_back(solver, iteration, norms) if iteration < solver.iteration or not _finite(solver) else iteration
    feeds: dict[str, np.ndarray] = {}
    _seek(solver)

    def fed(part: int, node, arrays: list[np.ndarray]) -> None:
        feeds.update({f"{part}/{node.name}/{i}": array for i, array in enumerate(arrays)})

    starts = [source.position for _, source in solver.net.sources()]
    seen = list(trace(solver.net, found, solver.p.iter_size, solver.comm.rank, solver.comm.size, fed))
    first = next((one for one in seen if one.bad), None)
    _seek(solver)
    report = Report(found, first, _samples(solver, first, starts), norms, causes(solver, seen, first, norms))
    told = solver.comm.gather(first is not None)
    teller = told.index(True) if True in told else 0  # of several processes the first that found something
    carried = checkpoint.carried(solver)
    if solver.comm.rank == teller:
        report.bundle = _bundle(solver, report, feeds, carried)
    return solver.comm.gather(report)[teller]


def _finite(solver: Solver) -> bool:
    return bool(np.isfinite(solver.dev.download(solver.net.params.data)).all())


def _seek(solver: Solver) -> None:
    """Puts the train net's sources, and what its layers carry, where the current iteration began."""
    solver.before.put_back()
    for start, (_, source) in zip(solver.starts, solver.net.sources(), strict=True):
        source.seek(start)


def _go_back(solver: Solver, iteration: int, norms: list[tuple]) -> int:
    """Repeats the run from its last good snapshot to the iteration that first spoils a loss or a weight, and stands
    before it then."""
    state = solver.comm.gather(good_state(solver, iteration))[0]  # rank 0 alone wrote snapshots
    if state is None:
        return solver.iteration
    log.info("Weights are spoilt already: repeating from %s to find where it began", state)
    kept = solver.rate_factor, solver.forgiven
    checkpoint.restore(solver, snapshot.read_state(state), state)
    solver.rate_factor, solver.forgiven = kept
    norms.clear()
    dev, net = solver.dev, solver.net
    while solver.iteration <= iteration:
        solver.starts = [source.position for _, source in net.sources()]
        solver.before.keep()
        held = [dev.download(flat) for flat in (net.params.data, *solver.updater.history)]
        loss, share, clipping = solver.repeat(), solver.p.iter_size * solver.comm.size, solver.updater.clipping
        norms.append((solver.iteration, loss, clipping.gradient_norm() / share, clipping.norm(net.params.data)))
        del norms[:-10]
        if math.isfinite(loss):
            solver.updater.run(solver.rate(solver.iteration) * solver.rate_factor, solver.iteration)
        if not math.isfinite(loss) or not _finite(solver):
            for flat, before in zip((net.params.data, *solver.updater.history), held, strict=True):
                dev.upload(flat, before)
            return solver.iteration
        solver.iteration += 1
    return solver.iteration


def good_state(solver: Solver, iteration: int) -> Path | None:
    """The newest sound snapshot of this run at or before an iteration."""
    return next((path for at, path in reversed(solver.written) if at <= iteration and snapshot.sound(path)), None)


def _samples(solver: Solver, first: Seen | None, starts: list[int]) -> list[str]:
    """The samples of the rows that are not finite; of all rows where it cannot be told which."""
    found = []
    for start, (layer, source) in zip(starts, solver.net.sources(), strict=True):
        batch = source.shapes[0][0]
        rows = (
            first.rows
            if first and first.rows and first.shape[:1] == [batch] and first.direction == "forward"
            else range(batch)
        )
        part = (first.part if first else 0) * solver.comm.size + solver.comm.rank
        names = data.sample_names(source, [start + part * batch + row for row in rows])
        found += [f'"{layer}" {name}' for name in names]
    return found


def causes(solver: Solver, seen: list[Seen], first: Seen | None, norms: list[tuple]) -> list[str]:
    """What may be behind it, the likeliest first."""
    found: list[tuple[int, str]] = []
    feeding = {node.name for node in solver.net.graph.feeds}
    losses = [loss for _, loss, *_ in norms if math.isfinite(loss)]
    grows = len(losses) > 1 and losses[-1] > GROWS * median(losses[:-1]) + 1e-6
    rate = solver.rate(solver.iteration) * solver.rate_factor
    slower = f"lower base_lr (the rate is {rate:.3g})"
    if first and first.layer in feeding:
        found.append((0, "the data itself: these samples hold NaN or infinity"))
    if first and "parameter" in first.what and first.direction == "forward":
        when = "an update before this iteration spoilt it; snapshots would let the first one be found"
        found.append((1, f"{first.what} of the layer was spoilt already: {when}"))
    if first and first.type in DOMAINS:
        found.append((2, f"the layer's own mathematics: {DOMAINS[first.type]}"))
    if grows:
        found.append(
            (
                3,
                f"the rate is too high: the loss grew from {median(losses[:-1]):.4g} to {losses[-1]:.4g}; {slower}, "
                "or warm up",
            )
        )
    large = [
        one
        for one in seen
        if one.layer in feeding and max(abs(one.least), abs(one.greatest)) > LARGE_INPUT and len(one.shape) > 1
    ]
    if large:
        most = max(abs(large[0].least), abs(large[0].greatest))
        found.append(
            (4, f"inputs are large: {large[0].what} reaches {most:.4g}; scale them (transform_param {{ scale: ... }})")
        )
    if first and first.direction == "backward":
        found.append(
            (3, "the gradient alone is not finite: a root, norm or quotient at 0; or too long: set clip_gradients")
        )
    if not grows:
        found.append((5, f"the rate may be too high: {slower}"))
    if solver.p.clip_gradients < 0:
        found.append((6, "gradients are not clipped: clip_gradients: 10 bounds what one batch can do"))
    return [cause for _, cause in sorted(found, key=lambda entry: entry[0])]


def _bundle(solver: Solver, report: Report, feeds: dict[str, np.ndarray], carried: list[pb.CarriedState]) -> str:
    """Writes what the iteration needs to run again; the folder's name. Where it cannot be written, that is told."""
    folder = Path(f"{solver.prefix}_fault_iter_{report.iteration}")
    kept = solver.prefix, solver.iteration
    try:
        _make_way(folder, solver.owner.run.id)
        folder.mkdir(exist_ok=True)
        solver.prefix, solver.iteration = str(folder / "fault"), report.iteration
        snapshot.write(checkpoint.files(solver, carried))
        net = pb.NetParameter()
        net.CopyFrom(solver.net.graph.message)
        net.state.CopyFrom(solver.specs[0].state)
        (folder / NET).write_text(prototxt.write(net), encoding="utf-8")
        (folder / SOLVER).write_text(prototxt.write(solver.p), encoding="utf-8")
        np.savez(folder / BATCH, **feeds)
        told = {
            "iteration": report.iteration,
            "seed": solver.seed,
            "parts": solver.p.iter_size,
            "rank": solver.comm.rank,
            "size": solver.comm.size,
            "first": report.first and report.first.record(),
            "samples": report.samples,
            "norms": report.norms,
            "causes": report.causes,
        }
        (folder / REPORT).write_text(json.dumps(told, indent=2) + "\n")
        return str(folder)
    except (OSError, CaffeliteError) as error:
        log.warning("what is needed to replay it could not be written: %s", error)
        return ""
    finally:
        solver.prefix, solver.iteration = kept


def _make_way(folder: Path, run: str) -> None:
    """Renames a bundle of the same name that another run left."""
    if os.path.lexists(folder) and not any(snapshot.run_of(path) == run for path in folder.glob("fault_iter_*")):
        number = next(n for n in range(1, 10**6) if not os.path.lexists(f"{folder}_{n}"))
        os.rename(folder, f"{folder}_{number}")


def norms(solver: Solver, measured: list[tuple]) -> list[tuple]:
    """The last losses, and the norms that displays measured."""
    losses = solver.loss_window(10)
    first = solver.iteration + 1 - len(losses)
    found = {i: (i, loss, None, None) for i, loss in enumerate(losses, first)} | {
        entry[0]: entry for entry in measured[-5:]
    }
    return [found[i] for i in sorted(found)]


def measured(solver: Solver) -> tuple[int, float, float, float]:
    """(iteration, loss, gradient's norm, weights' norm) of the iteration as it stands before its update."""
    share = solver.p.iter_size * solver.comm.size
    loss = solver.loss_window(1)[0]
    return (
        solver.iteration,
        loss,
        solver.updater.clipping.gradient_norm() / share,
        solver.updater.clipping.norm(solver.net.params.data),
    )


def refusal(report: Report, size: int) -> CaffeliteError:
    """What ends the run; of several processes all raise it, and the first one tells it."""
    error = Diverged(report)
    return Refused.of(str(error)) if size > 1 else error
