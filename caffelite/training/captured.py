"""Iterations that nobody looks at: on a GPU each is one launch of a CUDA graph, or several are."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import Solver

TRAIL = 256  # losses that wait on the device before they are told, at the latest


class Launches:
    """What of a solver's iteration only queues, as programs of its device."""

    def __init__(self, solver: Solver):
        self._solver = solver
        self._whole = solver.dev.program(self._queue, solver.net.signature, self._gather)
        self._update = solver.dev.program(self._queue_update)

    def _gather(self, value: object) -> list:
        """Of all processes whose sums an iteration queues."""
        return self._solver.comm.gather(value, "an agreement") if self._solver.reducer else [value]

    def alike(self) -> AbstractContextManager:
        """Around passes of the train net: all processes run them alike."""
        solver = self._solver
        return solver.dev.agreeing(solver.comm.rank, self._gather) if solver.reducer else nullcontext()

    def why_eager(self) -> str:
        """What keeps iterations from being captured in graphs; nothing where nothing does."""
        dev, net, reducer = self._solver.dev, self._solver.net, self._solver.reducer
        if why := dev.eager or getattr(self._whole, "eager", ""):
            return why
        if net.requires_host:
            return "layers that the host runs: " + ", ".join(f'"{name}"' for name in net.requires_host)
        return "gradients that travel by the host, or in 16 bits" if reducer and not reducer.captures else ""

    def unseen(self, end: int) -> int:
        """How many iterations can run as one launch from here on: none where the next one is looked at; a power of
        two."""
        solver, p, at = self._solver, self._solver.p, self._solver.iteration
        if self.why_eager() or p.iter_size > 1 or not solver.learns or solver.rate.plateau:
            return 0
        left = [end - at, TRAIL - 1 - (solver.losses - solver.told)]
        left += [p.display - at % p.display if at % p.display else 0] if p.display else []
        left += [p.test_interval - at % p.test_interval] if p.test_interval else []
        left += [p.snapshot - 1 - at % p.snapshot] if p.snapshot else []
        most = min(*left, 1 if solver.reducer else solver.net.ahead)
        return 1 << most.bit_length() - 1 if most > 0 else 0

    def run(self, count: int) -> bool:
        """Feeds so many iterations, and launches them. Whether a snapshot was asked for, where several processes
        train."""
        solver = self._solver
        reducer, begin = solver.reducer, solver.iteration

        def put(which: int) -> None:
            solver.updater.put(which, solver.rate(begin + which) * solver.rate_factor, begin + which)
            solver.average.put(which, begin + which)

        solver.starts = [source.position for _, source in solver.net.sources()]
        solver.before.keep()
        solver.net.feed([(begin + which, solver.comm.rank) for which in range(count)], put)
        solver.net.clear_loss()
        if reducer:
            reducer.put(solver.asked())
        with self.alike():
            self._whole(count, reducer.turn if reducer else 0)
        solver.losses += count
        solver.updater.clipping.updates += count
        return solver.noted() if reducer else False

    def update(self, rate: float) -> None:
        """The update of an iteration that was looked at."""
        solver = self._solver
        solver.updater.renew(rate, solver.iteration)
        solver.average.renew(solver.iteration)
        self._update()
        solver.updater.clipping.updates += 1

    def _queue(self, count: int, turn: int) -> None:
        """Queues iterations that were fed; the loss is 0 before each. turn: of the exchange, whose memory they use."""
        solver, net, reducer = self._solver, self._solver.net, self._solver.reducer
        for which in range(count):
            net.input_buffer.use(which)
            net.run_forward()
            if reducer:
                reducer.begin(net.loss)
                net.run_backward(watch=lambda node: reducer.after(solver.steps[node]))
                reducer.finish()
            else:
                net.run_backward()
            append = functools.partial(solver.window.append, net.loss, solver.comm.size, clear=True)
            solver.dev.run_concurrently(0, append, self._queue_update)

    def _queue_update(self) -> None:
        self._solver.updater.queue()
        self._solver.average.queue()
