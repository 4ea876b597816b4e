"""The exponential moving average of the weights: a ← a + (1 - min(decay, (1 + i) / (10 + i))) · (w - a) after iteration
i."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ... import caffelite_pb2 as pb
from ... import weights
from ...devices.formula import Formula
from ...errors import CaffeliteError
from ...net.net import Net


class Average:
    """Of all parameters of a net, batch norm's statistics too; none, at no cost, where ``decay`` is 0."""

    def __init__(self, decay: float, net: Net):
        self.decay, self._net, self._started = decay, net, False
        if decay:
            dev = net.dev
            self._flat, self._spare, self._share = (
                dev.zeros(net.params.size),
                dev.zeros(net.params.size),
                net.input_buffer.field((1,)),
            )
            self._move = dev.map(Formula("a + share * (w - a)", ("a", "w"), ("share",)))

    def start(self) -> None:
        """Begins from the weights as they stand, unless a snapshot brought an average."""
        if self.decay and not self._started:
            self._net.dev.copy(self._net.params.data, self._flat)
            self._started = True

    def put(self, which: int, iteration: int) -> None:
        """Sends along with pass ``which`` how far its iteration moves the average."""
        if self.decay:
            self._share.put(which, self._far(iteration))

    def renew(self, iteration: int) -> None:
        """The same, for the pass in use."""
        if self.decay:
            self._share.renew(self._far(iteration))

    def _far(self, iteration: int) -> np.ndarray:
        return np.array([1 - min(self.decay, (1 + iteration) / (10 + iteration))], self._net.dev.dtype)

    def queue(self) -> None:
        """The move of the pass in use."""
        if self.decay:
            self._move(self._flat, self._net.params.data, self._share.array, self._flat)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The net has the average for its weights meanwhile."""
        if not self.decay:
            yield
            return
        dev, data = self._net.dev, self._net.params.data
        self.start()
        dev.copy(data, self._spare)
        dev.copy(self._flat, data)
        try:
            yield
        finally:
            dev.copy(self._spare, data)

    def save(self, state: pb.ResumeState) -> None:
        if self._started:
            params = self._net.params
            for i in range(len(params.parameters)):
                blob = self._net.dev.download(params.cut(self._flat, i))
                state.average.add().MergeFromString(weights.encode_blob(blob))

    def load(self, state: pb.ResumeState, path: object) -> None:
        self._started = False
        if not self.decay or not state.average:
            return
        params = self._net.params
        blobs = [weights.decode_blob(memoryview(blob.SerializeToString())) for blob in state.average]
        if [blob.size for blob in blobs] != [learned.size for learned in params.blobs]:
            raise CaffeliteError(f"{path} has the averages of another net")
        for i, blob in enumerate(blobs):
            target = params.cut(self._flat, i)
            self._net.dev.upload(target, blob.reshape(target.shape))
        self._started = True
