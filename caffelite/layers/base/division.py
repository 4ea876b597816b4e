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
    of them run now."""

    def __init__(self, count: int, total: Callable[[np.ndarray], np.ndarray], micro_batches: int = 1):
        self.count, self.micro_batches, self._total, self.enabled = count, micro_batches, total, True

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over the processes, float64; of a process that runs alone, what the others would be like it."""
        values = np.asarray(values, float)
        return self._total(values) if self.enabled else values * self.count

    def add_up(self, array: Array, dev: Device) -> None:
        """Makes an array of the device the sum over the processes."""
        dev.upload(array, self.total(dev.download(array)))


class SharesSamples:
    """A layer whose numbers depend on all samples of a batch, and that several passes can compute a share of the batch
    of each, so that the mean of their gradients is that of the batch."""

    shares: SampleShares | None = None

    def can_share(self, micro_batches: bool) -> bool:
        """Whether it can, as its message is. micro_batches: where the shares follow one another in a process."""
        raise NotImplementedError

    def share(self, shares: SampleShares) -> None:
        """Called after ``shapes`` and before compilation."""
        self.shares = shares


def fits_micro_batches(layer: Layer) -> bool:
    """Whether micro-batches, one after the other, give the gradients of the batch. A divisor that is counted in the
    batch does not: the first micro-batch goes backward before the labels of the last are read."""
    return not layer.couples_samples or isinstance(layer, SharesSamples) and layer.can_share(micro_batches=True)


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
