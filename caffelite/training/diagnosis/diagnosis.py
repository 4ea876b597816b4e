"""Finds the cause of a loss that is NaN or infinite: repeats the iteration layer by layer, and writes a bundle that
``caffelite replay`` runs again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb
from ... import data
from ...errors import CaffeliteError
from ...net.graph import Node
from ..checkpoint.checkpoints import Checkpoints
from ..iteration import Iteration, Norms
from ..state import TrainingState
from . import bundle
from .report import Report, causes
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
        self.checkpoints = checkpoints

    def examine(self, state: TrainingState, bad: int, norms: list[Norms]) -> Report:
        """Repeats the iteration before its update, and writes its bundle. Where its loss was not the first fault, or
        parameters are not finite, the run is repeated from the last good checkpoint to the first fault. Afterwards the
        state is that before the faulty iteration.

        bad: the first iteration with a loss that is not finite. norms: of the iterations before.
        """
        if bad < state.iteration or not self._finite(state):
            self._repeat_to_fault(state, bad, norms)
        state.start.restore()
        batches: dict[str, np.ndarray] = {}

        def received(part: int, node: Node, arrays: list[np.ndarray]) -> None:
            batches.update({f"{part}/{node.name}/{i}": array for i, array in enumerate(arrays)})

        traced = trace(self._iteration, state.iteration, received)
        first = next((one for one in traced if one.bad), None)
        state.start.restore()
        feeding = {node.name for node in self._net.graph.feeds}
        reasons = causes(self._p, feeding, self._rate(state.iteration), traced, first, norms)
        report = Report(state.iteration, first, self._samples(state, first), norms, reasons)
        found = self._comm.gather(first is not None)
        writer = found.index(True) if True in found else 0  # the first process that found a fault
        recurrent = self.checkpoints.content.gather_recurrent(state)
        if self._comm.rank == writer:
            report.bundle = self._write_bundle(state, report, batches, recurrent)
        reports: list[Report] = self._comm.gather(report)
        return reports[writer]

    def _finite(self, state: TrainingState) -> bool:
        return bool(np.isfinite(self._dev.download(state.parameters)).all())

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
            if not math.isfinite(loss) or not self._finite(state):
                for flat, host in zip(state.flat_arrays(), before, strict=True):
                    self._dev.upload(flat, host)
                return
            state.iteration += 1

    def _samples(self, state: TrainingState, first: TracedArray | None) -> list[str]:
        """The samples of the rows that are not finite; of all rows where the array has no row a sample."""
        found = []
        for start, (layer, source) in zip(state.start.positions, self._net.sources(), strict=True):
            batch = source.shapes[0][0]
            rows: list[int] | range = range(batch)
            if first and first.rows and first.shape[:1] == [batch] and first.direction == "forward":
                rows = first.rows
            part = (first.part if first else 0) * self._comm.size + self._comm.rank
            names = data.sample_names(source, [start + part * batch + row for row in rows])
            found += [f'"{layer}" {name}' for name in names]
        return found

    def _write_bundle(
        self,
        state: TrainingState,
        report: Report,
        batches: dict[str, np.ndarray],
        recurrent: list[pb.CarriedState],
    ) -> str:
        """Writes the bundle of the iteration; its folder. Logs a warning where it cannot be written."""
        try:
            folder: Path = bundle.make_folder(self.checkpoints.prefix, state.iteration, state.run.id)
            self.checkpoints.write_bundle(state, folder, recurrent)
            net = pb.NetParameter()
            net.CopyFrom(self._net.graph.message)
            net.state.CopyFrom(self._net_state)
            values = {
                "seed": state.seed,
                "parts": self._p.iter_size,
                "rank": self._comm.rank,
                "size": self._comm.size,
            }
            bundle.write(folder, net, self._p, report, batches, values)
            return str(folder)
        except (OSError, CaffeliteError) as error:
            log.warning("what is needed to replay it could not be written: %s", error)
            return ""
