"""Iterations that the host need not observe: on a GPU one launch of a CUDA graph runs one of them or several."""

import logging
from collections.abc import Callable

from .. import caffelite_pb2 as pb
from .iteration import Iteration
from .requests import Agreement
from .state import PENDING_LOSSES, TrainingState
from .trigger import next_after

log = logging.getLogger("caffelite")


class CapturedIterations:
    """Runs complete iterations as captured graphs. rate: the learning rate of an iteration."""

    def __init__(
        self,
        p: pb.SolverParameter,
        state: TrainingState,
        iteration: Iteration,
        rate: Callable[[int], float],
        agreement: Agreement,
    ):
        self._p, self._state, self._iteration, self._rate = p, state, iteration, rate
        self._agreement = agreement
        self.observed = False  # whether a program observes every iteration
        self._division = iteration.division
        self._eager_runs = 0
        # Of a net in parts, the processes' answer: why iterations cannot be captured; None: not known
        self._agreed: str | None = None
        self._net, self._dev = iteration.net, iteration.net.dev
        self._learns = self._division.learns(self._net) if self._division.divided else self._net.params.diff is not None
        self._passes = iteration.pipeline.micro_batches  # of an iteration
        if self._division.divided and self._division.captures:
            self._net.input_buffer.require_depth(self._passes)
        self._run = self._dev.capture(self.queue, self._net.context, self._net.signature, self._gather)

    def _gather(self, value: object) -> list[object]:
        """The values of all processes; an iteration queues their sums."""
        return self._iteration.comm.gather(value, "an agreement") if self._iteration.reducer else [value]

    def in_pieces(self) -> bool:
        """Whether the passes of an iteration are graphs, between layers that need the host."""
        return bool(self._net.pieces) and not (self.observed or self._iteration.reducer or self._division.divided)

    def why_eager(self) -> str:
        """Why iterations cannot be captured in graphs; empty where they can."""
        reducer = self._iteration.reducer
        if why := self._dev.eager or self._run.eager:
            return why
        if self.observed:
            return "a program observes every iteration"
        if self._division.divided and not self._division.captures:
            return "the parts of the net exchange arrays through the host"
        if self._agreed:
            return self._agreed
        if self._net.requires_host:
            return "layers that the host runs: " + ", ".join(f'"{name}"' for name in self._net.requires_host)
        return "gradients that travel by the host, or in 16 bits" if reducer and not reducer.captures else ""

    def count(self, end: int) -> int:
        """How many iterations before ``end`` one launch can run from here on: a power of two; 0 where the host observes
        the next one."""
        p, at, losses = self._p, self._state.iteration, self._state.losses
        if self._division.divided and not self._parts_capture():
            return 0
        if (
            self.why_eager()
            or (p.iter_size > 1 and not self._division.divided)
            or not self._learns
            or self._state.plateau
        ):
            return 0
        most = min(
            end - at,
            PENDING_LOSSES - 1 - losses.pending,
            next_after(p.display, at - 1) - at,  # one that is displayed runs eagerly
            next_after(p.test_interval, at) - at,
            next_after(p.snapshot, at) - 1 - at,  # the last one before a snapshot too
            1 if self._iteration.reducer else self._net.ahead,
        )
        return 1 << int(most).bit_length() - 1 if most > 0 else 0

    def _parts_capture(self) -> bool:
        """Whether iterations of a net in parts can be captured.

        The processes agree on it after 1, 2, 4 ... eager iterations, until all can: a data set becomes resident when it
        has been read once, and only then the micro-batches of an iteration can be fed at once.
        """
        if self._agreed != "" and self._division.captures:
            runs, self._eager_runs = self._eager_runs, self._eager_runs + 1
            if runs and not runs & (runs - 1):
                known, self._agreed = self._agreed, None
                own = self.why_eager()
                if not own and self._net.ahead < self._passes:
                    own = "data that are not resident are fed one micro-batch at a time"
                reasons = self._iteration.comm.gather(own, "an agreement")
                self._agreed = next((f"rank {rank}: {text}" for rank, text in enumerate(reasons) if text), "")
                if self._agreed and known is None:
                    log.info("Running eagerly, not as CUDA graphs, until this changes: %s", self._agreed)
        return self._agreed == ""

    def run(self, count: int) -> None:
        """Reads the batches of several iterations and launches them."""
        state, iteration, first = self._state, self._iteration, self._state.iteration
        reducer, passes = iteration.reducer, self._passes

        def send_rate(which: int) -> None:
            at = first + which // passes
            iteration.send_rate(which, self._rate(at), at)

        state.start.record()
        clocks = [
            (first + slot, micro_batch * iteration.processes + iteration.rank)
            for slot in range(count)
            for micro_batch in range(passes)
        ]
        nets = iteration.pipeline.nets
        fed = list(dict.fromkeys(node for net in nets for node in net.fed)) if len(nets) > 1 else None
        self._net.feed(clocks, send_rate, fed)
        self._net.clear_loss()
        self._division.finish_sends()
        if reducer:
            reducer.set_flags(self._agreement.send())
        with iteration.same_plans():
            self._run(count, reducer.slot if reducer else 0)
        state.losses.recorded += count
        iteration.updater.clipping.updates += count
        iteration.receive_requests()

    def queue(self, count: int, memory: int) -> None:
        """Queues iterations with batches in the input buffer; the loss is 0 before each. memory: the
        reducer's ``slot``."""
        iteration = self._iteration
        self._division.finish_sends()
        for slot in range(count):
            iteration.forward_backward(0, slot)
            iteration.all_reduce()
            self._dev.run_concurrently(0, iteration.queue_record_loss, iteration.queue_update)
            self._division.finish_sends()
