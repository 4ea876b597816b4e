"""The exponential moving average of the weights: a ← a + (1 - min(decay, (1 + i) / (10 + i))) · (w - a) after iteration
i."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...devices.formula import Formula
from ...net.net import Net
from ..state import AverageState


class Average:
    """The average of all parameters of a net, batch norm's statistics too. Without a decay it does nothing, at no
    cost."""

    def __init__(self, decay: float, net: Net):
        self.decay, self._net = decay, net
        self.state: AverageState | None = None
        if decay:
            dev = net.dev
            self.state = AverageState(dev.zeros(net.params.size))
            self._weights = dev.zeros(net.params.size)  # while the average takes their place
            self._share = net.input_buffer.field((1,))
            self._move = dev.map(Formula("a + share * (w - a)", ("a", "w"), ("share",)))

    def start(self) -> None:
        """Starts from the current weights, unless a checkpoint contained an average."""
        if self.state and not self.state.started:
            self._net.dev.copy(self._net.params.data, self.state.flat)
            self.state.started = True

    def send_share(self, which: int, iteration: int) -> None:
        """Sends the share of the weights in an iteration's average along with the batch in slot ``which``."""
        if self.state:
            self._share.set(which, self._shares(iteration))

    def set_share(self, iteration: int) -> None:
        """Sets the share for the batch in use."""
        if self.state:
            self._share.replace(self._shares(iteration))

    def _shares(self, iteration: int) -> np.ndarray:
        return np.array([1 - min(self.decay, (1 + iteration) / (10 + iteration))], self._net.dev.dtype)

    def queue(self) -> None:
        """Moves the average towards the weights, by the share of the batch in use."""
        if self.state:
            self._move(self.state.flat, self._net.params.data, self._share.array, self.state.flat)

    @contextmanager
    def as_weights(self) -> Iterator[None]:
        """Within it the net's weights are the average."""
        if not self.state:
            yield
            return
        dev, data = self._net.dev, self._net.params.data
        self.start()
        dev.copy(data, self._weights)
        dev.copy(self.state.flat, data)
        try:
            yield
        finally:
            dev.copy(self._weights, data)
