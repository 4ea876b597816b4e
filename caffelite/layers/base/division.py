"""Layers of which several devices compute a part each: of the outputs, or of the samples of a batch."""

from collections.abc import Callable
from typing import TypeGuard

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.protocol import Device
from ...devices.types import Array
from .layer import Layer


class SampleShares:
    """A batch of which ``count`` passes, of several processes or ``micro_batches``, compute an equal share each; the
    gradient is the mean over the passes. total: the sum of a host array over the processes; ``enabled``: whether all
    of them run now; ``batches``: how many have begun."""

    def __init__(self, count: int, total: Callable[[np.ndarray], np.ndarray], micro_batches: int = 1):
        self.count, self.micro_batches, self._total, self.enabled = count, micro_batches, total, True
        self.batches = 0

    def over_processes(self, values: np.ndarray) -> np.ndarray:
        """The sum over the processes, float64; of a process that runs alone, what the others would be like it."""
        values = np.asarray(values, float)
        return self._total(values) if self.enabled else values * (self.count // self.micro_batches)


class SharedCount:
    """What a layer counts in a batch that passes share, summed over them. Replicas of the layer have the same one."""

    def __init__(self, shares: SampleShares):
        self._shares, self.count, self.micro_batches = shares, shares.count, shares.micro_batches
        self._batch, self._sum = -1, np.zeros(())
        self._settled: np.ndarray | None = None

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over all passes, float64. Of micro-batches, which follow one another, it is provisional: what it
        would be if the others were like this one; ``settled`` is the sum, after the forward passes of all."""
        if self.micro_batches == 1:
            return self._shares.over_processes(values)
        if self._batch != self._shares.batches:
            self._batch, self._sum, self._settled = self._shares.batches, np.zeros(()), None
        self._sum = self._sum + values
        return np.asarray(values, float) * self.count

    def settled(self) -> np.ndarray:
        """The sum over the micro-batches that have run, and over the processes."""
        if self._settled is None:
            self._settled = self._shares.over_processes(self._sum)
        return self._settled

    def add_up(self, array: Array, dev: Device) -> None:
        """Makes an array of the device its ``total``."""
        dev.upload(array, self.total(dev.download(array)))


class SharesSamples:
    """A layer whose numbers depend on all samples of a batch, and that several passes can compute a share of the batch
    of each, so that the mean of their gradients is that of the batch."""

    shares: SharedCount | None = None

    def settles(self) -> bool:
        """Whether it counts in the batch, so that micro-batches go backward after the forward passes of all."""
        raise NotImplementedError

    def can_share(self) -> bool:
        """Whether it can, as its message is."""
        raise NotImplementedError

    def share(self, shares: SampleShares) -> None:
        """Called after ``shapes`` and before compilation."""
        self.shares = SharedCount(shares)

    def settle(self, loss: Array) -> None:
        """Called for each micro-batch after the forward passes of all: makes its loss () and what backward reads what
        they would have been with the sum of all counts."""
        raise NotImplementedError


class Positioned:
    """A layer whose numbers depend on which part of the whole a device has."""

    def set_part(self, axis: int, index: int, count: int) -> None:
        """Called after ``shapes`` for part ``index`` of ``count`` along ``axis``."""
        raise NotImplementedError


class OutputDivision(Layer):
    """A layer whose ``num_output`` outputs can be divided, unless a subclass does not ``divide_outputs``."""

    divide_outputs = True

    def output_part(self, count: int) -> pb.LayerParameter:
        """The message of a layer with 1 / ``count`` of the outputs. Errors: outputs that cannot be divided so."""
        message = pb.LayerParameter()
        message.CopyFrom(self.spec)
        param = getattr(message, self.field)
        if param.num_output % count:
            near = param.num_output // count * count
            expected = f"a multiple of {count}, as {near or count} or {near + count}"
            what = f"{count} devices cannot divide its outputs"
            remedy = "or leave it out of the divided layers: placement { shards: 1 }"
            raise self.error(what, "num_output", expected=expected, found=param.num_output, remedy=remedy)
        param.num_output //= count
        return message

    def input_part_axis(self, count: int) -> int | None:
        """The axis along which a device reads its part of the bottoms for 1 / ``count`` of the outputs; None: it reads
        all of them, and its gradients for them are parts of a sum."""
        return None


def divides_outputs(layer: Layer) -> TypeGuard[OutputDivision]:
    """Whether several devices can compute a part of the outputs each."""
    return isinstance(layer, OutputDivision) and layer.divide_outputs
