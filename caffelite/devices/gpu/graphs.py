"""What a device runs over and over, as CUDA graphs: queued once, launched from then on as one."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable

log = logging.getLogger("caffelite")


class Program:
    """``program(*key)`` queues what body(*key) queues. The first call with a key runs it, which builds plans and loads kernels; the
    second captures it, one graph for each half of the inlet; from then on a call is one launch.

    body must queue the same for the same key and for the same ``signature()``: what varies comes through the inlet. signature: what else
    the kernels' arguments depend on. Within another program's capture it is part of that one.
    """

    def __init__(self, device, body: Callable, signature: Callable = tuple):
        self._device, self._body, self._signature = device, body, signature
        self._ran: set[tuple] = set()
        self._graphs: dict[tuple, object] = {}
        self._generation = 0

    def __call__(self, *key) -> None:
        device = self._device
        if device.eager or device.capturing:
            return self._body(*key)
        if self._generation != device.generation:  # memory that graphs knew is no more
            self._graphs.clear()
            self._ran.clear()
            self._generation = device.generation
        key = (*key, self._signature())
        if key not in self._ran:
            self._body(*key[:-1])
            self._ran.add(key)
            return None
        place = device.inlet.half, key
        if place not in self._graphs:
            graph = self._captured(*key[:-1])
            if graph is None:
                return self._body(*key[:-1])
            self._graphs[place] = graph
        self._graphs[place].launch()
        return None

    def _captured(self, *key):
        """The graph of a body; None where CUDA refuses, and then nothing is captured any more."""
        device, collecting = self._device, gc.isenabled()
        gc.disable()  # what Python frees in a capture would be freed in the graph
        device.capturing = True
        try:
            return device.backend.capture(lambda: self._body(*key))
        except device.backend.refusals as mistake:
            device.eager = f"CUDA refuses to capture it ({str(mistake).strip().splitlines()[0]})"
            log.warning("Running eagerly: %s", device.eager)
            return None
        finally:
            device.capturing = False
            if collecting:
                gc.enable()
