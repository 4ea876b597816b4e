"""Finds the cause of a loss that is NaN or infinite: repeats the iteration layer by layer, and writes a bundle that
``caffelite replay`` runs again."""

import json
import logging
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, prototxt, roots
from ...addresses import hide_secrets
from ...errors import CaffeliteError, quoted
from ...layers.base.facets import Described
from ...net.graph import Node
from ...parallel import MeshPosition, Refused
from ..checkpoint import snapshot
from ..checkpoint.checkpoints import Checkpoints
from ..checkpoint.content import Gathered
from ..iteration import Iteration, Norms
from ..state import TrainingState
from .tracing import TracedArray, trace

LOSS, WEIGHTS = "loss is", "weights are"  # what is found not to be finite
LARGE_INPUT = 20  # unscaled pixels reach 255
GROWS = 3  # a loss counts as growing from this multiple of the median of those before


@dataclass
class Report:
    """The findings on a loss or on weights (``what``) that are not finite. first: the first array that is not; None: no
    array of the repeated iteration is. norms: of the iterations before. bundle: the folder that ``caffelite replay``
    runs again."""

    iteration: int
    first: TracedArray | None
    samples: list[str]
    norms: list[Norms]
    causes: list[str]
    bundle: str = ""
    what: str = LOSS

    def lines(self) -> Iterator[str]:
        first = self.first
        if first is None:
            yield f"Iteration {self.iteration}: the {self.what} not finite, though each blob of its repetition is"
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
    """A loss or weights that are not finite stopped the run."""

    def __init__(self, report: Report):
        first = report.first
        at = f': layer "{first.layer}" ({first.type}), {first.what}' if first else ""
        again = f"look at it layer by layer: caffelite replay {quoted(report.bundle)}" if report.bundle else None
        super().__init__(f"the {report.what} not finite at iteration {report.iteration}{at}", remedy=again)
        self.report = report


def refusal(report: Report, processes: int) -> CaffeliteError:
    """The error that ends the run; of several processes all raise it, and the first one prints it."""
    error = Diverged(report)
    return Refused.of(str(error)) if processes > 1 else error


def causes(
    p: pb.SolverParameter,
    feeding: set[str],
    rate: float,
    trace: list[TracedArray],
    first: TracedArray | None,
    norms: list[Norms],
    bad_samples: list[str],
) -> list[str]:
    """The possible causes, the likeliest first.

    feeding: the names of the layers that feed the net. rate: of the iteration. trace: the arrays of its repetition.
    first: the first one that is not finite. norms: of the iterations before.
    bad_samples: with NaN or infinity, that earlier iterations have read.
    """
    causes: list[tuple[int, str]] = []
    losses = [one.loss for one in norms if math.isfinite(one.loss)]
    grows = len(losses) > 1 and losses[-1] > GROWS * median(losses[:-1]) + 1e-6
    slower = f"lower base_lr (the rate is {rate:.3g})"
    if first:
        causes += _causes_of(first, feeding)
    if bad_samples and not (first and first.layer in feeding):
        causes.append((0, f"the data hold NaN or infinity: {', '.join(bad_samples)}; correct them, or leave them out"))
    if grows:
        what = f"the loss grew from {median(losses[:-1]):.4g} to {losses[-1]:.4g}"
        causes.append((3, f"the rate is too high: {what}; {slower}, or warm up"))
    large = [one for one in trace if one.layer in feeding and _reach(one) > LARGE_INPUT and len(one.shape) > 1]
    if large:
        what = f"inputs are large: {large[0].what} reaches {_reach(large[0]):.4g}"
        causes.append((4, f"{what}; scale them (transform_param {{ scale: ... }})"))
    if first and first.direction == "backward":
        what = "the gradient alone is not finite: a root, norm or quotient at 0; or too long: set clip_gradients"
        causes.append((3, what))
    if not grows:
        causes.append((5, f"the rate may be too high: {slower}"))
    if p.clip_gradients < 0:
        causes.append((6, "gradients are not clipped: clip_gradients: 10 bounds what one batch can do"))
    return [cause for _, cause in sorted(causes, key=lambda entry: entry[0])]


def _reach(one: TracedArray) -> float:
    return max(abs(one.least), abs(one.greatest))


def _causes_of(first: TracedArray, feeding: set[str]) -> Iterator[tuple[int, str]]:
    if first.layer in feeding:
        yield 0, "the data itself: these samples hold NaN or infinity"
    if "parameter" in first.what and first.direction == "forward":
        when = "an update before this iteration corrupted it; with snapshots the first such update could be found"
        yield 1, f"{first.what} of the layer was already corrupted: {when}"
    if mathematics := Described.of(first.type).not_finite:
        yield 2, f"the layer's own mathematics: {mathematics}"


log = logging.getLogger("caffelite")


class Diagnosis:
    """p, net_state: of the solver and its train net. rate: the learning rate of an iteration."""

    def __init__(
        self,
        p: pb.SolverParameter,
        net_state: pb.NetState,
        iteration: Iteration,
        rate: Callable[[int], float],
        checkpoints: Checkpoints,
    ):
        self._p, self._net_state, self._iteration, self._rate = p, net_state, iteration, rate
        self._net, self._dev, self._comm = iteration.net, iteration.net.dev, iteration.comm
        self._division, self._mesh = iteration.division, iteration.division.mesh
        self.checkpoints = checkpoints

    def examine(self, state: TrainingState, bad: int, norms: list[Norms], what: str = LOSS) -> Report:
        """Repeats the iteration before its update, and writes its bundle. Where its loss was not the first fault, or
        parameters are not finite, the run is repeated from the last good checkpoint to the first fault. Afterwards the
        state is that before the faulty iteration.

        bad: the first iteration with a loss that is not finite, or that starts from such weights. norms: of the
        iterations before. what: LOSS or WEIGHTS.
        """
        if bad < state.iteration or not self.finite(state):
            self._repeat_to_fault(state, bad, norms)
        state.start.restore()
        batches: dict[str, np.ndarray] = {}

        def received(micro_batch: int, node: Node, arrays: list[np.ndarray]) -> None:
            batches.update({f"{micro_batch}/{node.name}/{i}": array for i, array in enumerate(arrays)})

        traced = trace(self._iteration, state.iteration, received)
        first = next((one for one in traced if one.bad), None)
        state.start.restore()
        firsts = self._comm.gather(first)
        writer = self._earliest(firsts)
        if self._division.divided:
            first = firsts[writer]
        feeding = {node.name for node in self._net.graph.feeds}
        bad_samples = [
            f'"{layer}" {name}' for layer, source in self._net.sources() for name in getattr(source, "bad_samples", ())
        ]
        reasons = causes(self._p, feeding, self._rate(state.iteration), traced, first, norms, bad_samples)
        report = Report(state.iteration, first, self._samples(state, first, writer), norms, reasons, what=what)
        gathered = self.checkpoints.content.gather(state)
        if self._division.divided:
            return self._report_together(state, report, writer, batches, gathered)
        if self._comm.rank == writer:
            report.bundle = self._write_bundle(state, report, batches, gathered)
        first_report: Report = self._comm.gather(report)[writer]
        return first_report

    def _earliest(self, firsts: list[TracedArray | None]) -> int:
        """The first process that found a fault; of those with parts of a net, the first one in the order of its layers.
        0 where none found one."""
        ranks = [rank for rank, first in enumerate(firsts) if first]

        def place(rank: int) -> tuple[int, bool, int]:
            first, stage = firsts[rank], self._mesh.shape.position(rank).stage
            assert first
            forward = first.direction == "forward"
            return first.micro_batch, not forward, stage if forward else -stage

        return min(ranks, key=place if self._division.divided else None, default=0)

    def _report_together(
        self, state: TrainingState, report: Report, writer: int, batches: dict[str, np.ndarray], gathered: Gathered
    ) -> Report:
        """The report of ``writer``, with the samples of its group. Rank 0 writes the bundle: the weights of all groups
        are equal."""
        shape, comm = self._mesh.shape, self._comm
        group = shape.position(writer).group
        divided = {node.name for node in self._net.graph.feeds if self._shares(getattr(node.layer, "source", None)) > 1}
        every = comm.gather((report, batches, divided))
        mine = [every[rank] for rank in shape.model(shape.rank(MeshPosition(group)))]
        report = every[writer][0]
        report.samples = list(dict.fromkeys(name for one, _, _ in mine for name in one.samples))
        if not comm.rank:
            together = {}
            for i in range(0, len(mine), shape.shards):
                shards = [batch for _, batch, _ in mine[i : i + shape.shards]]
                for key, array in shards[0].items():
                    joins = key.split("/", 1)[1].rsplit("/", 1)[0] in mine[i][2]
                    together[key] = np.concatenate([shard[key] for shard in shards]) if joins else array
            report.bundle = self._write_bundle(state, report, together, gathered, group)
        else:
            self.checkpoints.help_bundle(state, gathered)
        report.bundle = comm.gather(report.bundle)[0]
        return report

    def finite(self, state: TrainingState, norm: float | None = None) -> bool:
        """Whether the weights of all processes, which call it together, are finite. norm: theirs, where it is known."""
        if norm is None:
            norm = self._iteration.updater.clipping.total_norm(state.parameters)
        # The squares of large numbers are infinite too.
        finite = math.isfinite(norm) or bool(np.isfinite(self._dev.download(state.parameters)).all())
        return all(self._comm.gather(finite, "an agreement"))

    def _repeat_to_fault(self, state: TrainingState, bad: int, norms: list[Norms]) -> None:
        """Repeats the run from its last good checkpoint to the first iteration that makes a loss or a parameter not
        finite; the state is then that before it."""
        checkpoint = self._comm.gather(self.checkpoints.last_good(bad))[0]  # rank 0 alone wrote checkpoints
        if checkpoint is None:
            return
        log.info("The weights are already corrupted: repeating from %s to find the first fault", checkpoint)
        restored = state.rate_factor, state.nan_recoveries
        self.checkpoints.restore(state, checkpoint)
        state.rate_factor, state.nan_recoveries = restored
        norms.clear()
        while state.iteration <= bad:
            state.start.record()
            before = [self._dev.download(flat) for flat in state.flat_arrays()]
            loss = self._iteration.repeat()
            norms.append(self._iteration.norms(loss))
            del norms[:-10]
            if math.isfinite(loss):
                self._iteration.update(self._rate(state.iteration))
            if not math.isfinite(loss) or not self.finite(state):
                for flat, host in zip(state.flat_arrays(), before, strict=True):
                    self._dev.upload(flat, host)
                return
            state.iteration += 1

    def _shares(self, source: Any) -> int:
        """How many devices of this stage read a part of each batch of a source."""
        return source.shard.size // self._mesh.data.size if hasattr(source, "shard") else 1

    def _samples(self, state: TrainingState, first: TracedArray | None, writer: int) -> list[str]:
        """The samples of the rows that are not finite; of all rows where the array has no row a sample. writer: the
        rank that found ``first``."""
        faulty = []
        for start, (layer, source) in zip(state.start.positions, self._net.sources(), strict=True):
            batch, shares = source.shapes[0][0], self._shares(source)
            rows: list[int] | range = range(batch)
            if first and first.rows and first.direction == "forward":
                begin = source.shard.rank % shares * batch
                if first.shape[:1] == [batch * shares]:
                    rows = [row - begin for row in first.rows if begin <= row < begin + batch]
                elif first.shape[:1] == [batch]:  # of the samples of one device
                    same = self._mesh.shape.position(writer).shard == self._mesh.position.shard
                    rows = first.rows if same else []
            micro_batch = (first.micro_batch if first else 0) * source.shard.size + source.shard.rank
            names = [source.name(start + micro_batch * batch + row) for row in rows]
            faulty += [f'"{layer}" {name}' for name in names]
        return faulty

    def _write_bundle(
        self,
        state: TrainingState,
        report: Report,
        batches: dict[str, np.ndarray],
        gathered: Gathered,
        group: int | None = None,
    ) -> str:
        """Writes the bundle of the iteration; its folder. Logs a warning where it cannot be written. batches: what
        feeding layers read, by "part/layer/top". group: of the processes that read them; None: this process."""
        try:
            folder: Path = make_folder(self.checkpoints.prefix, state.iteration, state.run.id)
            self.checkpoints.write_bundle(state, folder, gathered)
            net = pb.NetParameter()
            net.CopyFrom(self._net.graph.message)
            net.state.CopyFrom(self._net_state)
            hide_secrets(net)
            for name, message in ((NET, net), (SOLVER, self._p)):
                roots.write(folder / name, prototxt.write(message))
            with open(folder / BATCH, "wb", opener=roots.open) as file:
                np.savez(file, **batches)  # type: ignore[arg-type]  # for mypy a key may be savez's allow_pickle
            entries = {
                "iteration": report.iteration,
                "seed": state.seed,
                "parts": self._iteration.micro_batches,
                "rank": self._mesh.data.rank if group is None else group,
                "size": self._mesh.data.size,
                "first": report.first and report.first.record(),
                "samples": report.samples,
                "norms": report.norms,
                "causes": report.causes,
            }
            roots.write(folder / REPORT, json.dumps(entries, indent=2) + "\n")
            return str(folder)
        except (OSError, CaffeliteError) as error:
            log.warning("what is needed to replay it could not be written: %s", error)
            return ""


REPORT, BATCH, NET, SOLVER = "report.json", "batch.npz", "net.prototxt", "solver.prototxt"


def make_folder(prefix: str, iteration: int, run: str) -> Path:
    """The new folder of a bundle. One of the same name that another run left is renamed."""
    folder = Path(f"{prefix}_fault_iter_{iteration}")
    if os.path.lexists(folder) and not any(snapshot.run_of(path) == run for path in folder.glob("fault_iter_*")):
        number = next(n for n in range(1, 10**6) if not os.path.lexists(f"{folder}_{n}"))
        os.rename(folder, f"{folder}_{number}")
    with roots.folder(folder.parent) as above:
        (above / folder.name).mkdir(exist_ok=True)
    return folder
