"""What a device runs over and over, as CUDA graphs: queued once, launched from then on as one."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable

log = logging.getLogger("caffelite")
RUN, CAPTURE, LAUNCH = range(3)  # what a call does: each needs more than the one before
TRIES = 2  # captures in a row that may fail: after the last nothing is captured any more


class CapturedGraph:
    """``program(*key)`` queues what body(*key) queues. The first call with a key runs it, which builds plans and loads
    kernels; the second captures it, one graph for each half of the input buffer; from then on a call is one launch.

    body must queue the same for the same key and for the same ``signature()``: what varies comes through the input
    buffer. signature: what else the kernels' arguments depend on. gather(value): the values of all processes, where
    body queues sums over them: NCCL asks that a sum is captured by all processes or by none, so all do what the least
    advanced of them has to do. Within another program's capture it is part of that one.

    Where a capture raises, whatever it is, the call runs eagerly and the next call captures anew; after the second
    failure in a row nothing of this program is captured any more: ``eager`` says why. Other programs are, as other
    processes know nothing of this one's.
    """

    def __init__(self, device, body: Callable, signature: Callable = tuple, gather: Callable | None = None):
        self._device, self._body, self._signature = device, body, signature
        self._gather = gather or (lambda value: [value])
        self._ran: set[tuple] = set()
        self._graphs: dict[tuple, object] = {}
        self._generation = 0
        self._failures = 0  # in a row
        self.eager = ""

    def __call__(self, *key) -> None:
        device = self._device
        if device.eager or self.eager or device.capturing:
            return self._body(*key)
        if self._generation != device.generation:  # memory that graphs knew is no more
            self.close()
            self._generation = device.generation
        key = (*key, self._signature())
        place = device.input_buffer.half, key
        action = min(self._gather(RUN if key not in self._ran else CAPTURE if place not in self._graphs else LAUNCH))
        if action == RUN:
            self._body(*key[:-1])
            self._ran.add(key)
        elif action == LAUNCH or self._capture(place):
            self._graphs[place].launch()
        else:
            self._body(*key[:-1])
        return None

    def close(self) -> None:
        """Destroys the graphs; a later call runs and captures anew."""
        while self._graphs:
            self._graphs.popitem()[1].close()
        self._ran.clear()

    def _capture(self, place: tuple) -> bool:
        """Captures the body for a place among the graphs; whether all processes could."""
        device, graph, reason = self._device, None, ""
        try:
            graph = self._captured(*place[1][:-1])
        except (
            Exception
        ) as mistake:  # CUDA's, cuDNN's, cuBLAS's or NCCL's: eagerly it may well run, else it raises again and is told
            reason = (str(mistake).strip() or type(mistake).__name__).splitlines()[0]
        if graph is not None and self._generation != device.generation:
            reason = "memory that it uses has grown meanwhile"
        if old := self._graphs.pop(place, None):
            old.close()
        reasons = [text for text in self._gather(reason) if text]
        if not reasons:
            self._graphs[place], self._failures = graph, 0
            return True
        if graph is not None:
            graph.close()
        self._failures += 1
        if self._failures < TRIES:
            log.warning(
                "A CUDA graph cannot be captured (%s): this launch runs eagerly, the next one is captured anew",
                reasons[0],
            )
        else:
            self.close()
            self.eager = f"CUDA graphs cannot be captured ({reasons[0]})"
            log.warning("Running eagerly: %s", self.eager)
        return False

    def _captured(self, *key):
        device, collecting = self._device, gc.isenabled()
        gc.disable()  # what Python frees in a capture would be freed in the graph
        device.capturing = True
        try:
            return device.backend.capture(lambda: self._body(*key))
        finally:
            device.capturing = False
            if collecting:
                gc.enable()
