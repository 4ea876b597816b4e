"""Finds the cause of a loss that is NaN or infinite: repeats the iteration layer by layer, and writes a bundle that
``caffelite replay`` runs again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError
from ...net.graph import Node
from ...parallel import MeshPosition
from ..checkpoint.checkpoints import Checkpoints
from ..checkpoint.content import Gathered
from ..iteration import Iteration, Norms
from ..state import TrainingState
from . import bundle
from .report import LOSS, Report, causes
from .tracing import TracedArray, trace

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
        self._parts, self._mesh = iteration.parts, iteration.parts.mesh
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

        def received(part: int, node: Node, arrays: list[np.ndarray]) -> None:
            batches.update({f"{part}/{node.name}/{i}": array for i, array in enumerate(arrays)})

        traced = trace(self._iteration, state.iteration, received)
        first = next((one for one in traced if one.bad), None)
        state.start.restore()
        firsts = self._comm.gather(first)
        writer = self._earliest(firsts)
        if self._parts.divided:
            first = firsts[writer]
        feeding = {node.name for node in self._net.graph.feeds}
        bad_samples = [
            f'"{layer}" {name}' for layer, source in self._net.sources() for name in getattr(source, "bad_samples", ())
        ]
        reasons = causes(self._p, feeding, self._rate(state.iteration), traced, first, norms, bad_samples)
        report = Report(state.iteration, first, self._samples(state, first, writer), norms, reasons, what=what)
        gathered = self.checkpoints.content.gather(state)
        if self._parts.divided:
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
            return first.part, not forward, stage if forward else -stage

        return min(ranks, key=place if self._parts.divided else None, default=0)

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
        kept = state.rate_factor, state.nan_recoveries
        self.checkpoints.restore(state, checkpoint)
        state.rate_factor, state.nan_recoveries = kept
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
            part = (first.part if first else 0) * source.shard.size + source.shard.rank
            names = [source.name(start + part * batch + row) for row in rows]
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
        """Writes the bundle of the iteration; its folder. Logs a warning where it cannot be written. group: of the
        processes that read the batches; None: this process."""
        try:
            folder: Path = bundle.make_folder(self.checkpoints.prefix, state.iteration, state.run.id)
            self.checkpoints.write_bundle(state, folder, gathered)
            net = pb.NetParameter()
            net.CopyFrom(self._net.graph.message)
            net.state.CopyFrom(self._net_state)
            values = {
                "seed": state.seed,
                "parts": self._iteration.micro_batches,
                "rank": self._mesh.data.rank if group is None else group,
                "size": self._mesh.data.size,
            }
            bundle.write(folder, net, self._p, report, batches, values)
            return str(folder)
        except (OSError, CaffeliteError) as error:
            log.warning("what is needed to replay it could not be written: %s", error)
            return ""
