"""The average of the weights: a ← a + share · (w - a) after iteration i. The share of an exponential moving average is
1 - min(decay, (1 + i) / (10 + i)), that of the mean since swa_start 1 / (i - swa_start + 1)."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...net.net import Net
from ..state import AverageState


class Average:
    """The average of all parameters of a net, batch norm's statistics too. Without ema_decay and swa_start it does
    nothing, at no cost."""

    def __init__(self, p: pb.SolverParameter, net: Net):
        self._decay, self._first, self._net = p.ema_decay, p.swa_start, net
        self.state: AverageState | None = None
        if self._decay or self._first:
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
        share = 1 - min(self._decay, (1 + iteration) / (10 + iteration))
        if self._first:
            share = 1 / max(1, iteration - self._first + 1)
        return np.array([share], self._net.dev.dtype)

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
