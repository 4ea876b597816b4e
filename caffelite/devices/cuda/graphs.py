"""CUDA graphs: captures the operations that a function queues once, and launches them as one graph afterwards."""

import gc
import logging
from collections.abc import Callable
from typing import Any

from ..context import ExecutionContext
from ..types import Gather
from .installation import first_line
from .memory import Memory

log = logging.getLogger("caffelite")
RUN, CAPTURE, LAUNCH = range(3)  # the action of a call: each requires the one before
TRIES = 2  # failed captures in a row after which nothing is captured any more


class CapturedGraph:
    """``graph(*key)`` queues what body(*key) queues.

    The first call with a key runs the body, which chooses plans and loads kernels. The second captures it, one graph
    for each bank of the input buffer; each later call is one launch.

    body must queue the same for the same key and the same ``signature()``: what varies comes through the input buffer
    of ``context``. signature: the values besides the key that the kernels' arguments depend on. gather(value): the
    values of all processes, where body queues sums over them: NCCL requires that all processes capture a sum or none
    does, so all do what the least advanced of them has to do. Inside another capture, the body becomes part of that
    one.

    Where a capture raises any error, the call runs eagerly and the next call captures again; after the second failure
    in a row nothing of this graph is captured any more, and ``eager`` says why.
    """

    def __init__(
        self,
        device: Memory,
        body: Callable[..., None],
        context: ExecutionContext,
        signature: Callable[[], tuple[Any, ...]] = tuple,
        gather: Gather | None = None,
    ):
        self._device, self._body, self._signature = device, body, signature
        self._inputs: Any = context.input_buffer
        self._gather = gather or (lambda value: [value])
        self._ran: set[tuple[Any, ...]] = set()
        self._graphs: dict[tuple[Any, ...], Any] = {}
        self._generation = 0
        self._failures = 0  # in a row
        self.eager = ""
        device.graphs.add(self)

    def __call__(self, *key: Any) -> None:
        device = self._device
        if device.eager or self.eager or device.capturing:
            return self._body(*key)
        if self._generation != device.generation:  # memory that the graphs read has moved
            self.close()
            self._generation = device.generation
        key = (*key, self._signature())
        place = self._inputs.bank, key
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
        """Destroys the graphs; the next calls run and capture again."""
        while self._graphs:
            self._graphs.popitem()[1].close()
        self._ran.clear()

    def _capture(self, place: tuple) -> bool:
        """Captures the body for a bank and a key; whether all processes could."""
        device, graph, reason = self._device, None, ""
        try:
            graph = self._captured(*place[1][:-1])
        except Exception as mistake:  # of any library: the eager run may succeed, or raises it again
            reason = first_line(mistake)
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
                "A CUDA graph cannot be captured (%s): this launch runs eagerly, the next one is captured again",
                reasons[0],
            )
        else:
            self.close()
            self.eager = f"CUDA graphs cannot be captured ({reasons[0]})"
            log.warning("Running eagerly: %s", self.eager)
        return False

    def _captured(self, *key: Any) -> Any:
        device, collecting = self._device, gc.isenabled()
        gc.disable()  # memory that Python frees during a capture would be freed by the graph
        device.capturing = True
        try:
            return device.backend.capture(lambda: self._body(*key))
        finally:
            device.capturing = False
            if collecting:
                gc.enable()
