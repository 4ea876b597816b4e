"""The factor that gradients are multiplied by before an update: the mean over micro-batches and processes, gradient
clipping, the loss scale."""

import math

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.types import Array
from ...net.net import Net
from ..whole_net import WholeNet

NORMS = 256  # maximum number of gradient norms that stay on the device until they are read


class Clipping:
    """``scale`` (1) is the factor, a number of the device, which ``queue`` computes from the gradients; it is not
    finite where the update is to be skipped.

    p: its clip_gradients and iter_size. division: of the net; the gradient is the sum of its ``shares`` means. In fp16
    the loss is multiplied by a factor that follows the gradients (see devices/cuda/scaling.py) and starts from
    NVCaffe's global_grad_scale.
    """

    def __init__(self, p: pb.SolverParameter, net: Net, division: WholeNet | None = None):
        dev, message = net.dev, net.graph.message
        self._dev, self._params, self._division = dev, net.params, division
        self._shares = processes = division.shares if division else 1
        # What another shard has too is counted there.
        self._divided = [i for i, divided in enumerate(division.divided_parameters(net)) if divided] if division else []
        self._norm, self._square = dev.sum(Formula("g * g", ("g",))), dev.zeros(1)
        self.clips, self.updates, self._read = p.clip_gradients >= 0, 0, 0
        share = p.iter_size * processes
        self.scale = self._share = dev.zeros(1)
        dev.fill(self._share, 1 / share)
        self.loss_scale = dev.loss_scale(message.global_grad_scale if message.HasField("global_grad_scale") else None)
        if self.loss_scale:
            net.scale_losses(self.loss_scale.factor)
            self.scale = dev.zeros(1)
            self._unscale = dev.map(Formula("square * back * back", (), ("square", "back")))
            self._skip = dev.map(Formula("share * back / (1 - skip)", (), ("share", "back", "skip")))
        if self.clips:
            self._norms = dev.ring(NORMS)  # of the gradients of the last iterations, before they are clipped
            text = "where(sqrt(square) / n > limit, limit / (sqrt(square) / n), 1) / share"
            values = {"n": processes, "limit": p.clip_gradients, "share": share}
            self._clip = dev.map(Formula(text, (), ("square",), tuple(values)), **values)
            self._length = dev.map(Formula("sqrt(square)", (), ("square",)))

    def queue(self) -> None:
        """Computes ``scale`` from the gradients, where it depends on them."""
        if not self.clips and not self.loss_scale:
            return
        self._sum_gradient_squares()
        if self.loss_scale:
            self.loss_scale.check_square(self._square)
            self._unscale(self._square, self.loss_scale.inverse, self._square)
        if self.clips:
            self._clip(self._square, self._share)
            self._length(self._square, self._square)
            self._norms.append(self._square, self._shares)
        if self.loss_scale:
            self._skip(self._share, self.loss_scale.inverse, self.loss_scale.skip, self.scale)

    def new_norms(self) -> list[float]:
        """The norms of the mean gradients of the ``updates`` since the last call; none without clip_gradients."""
        if not self.clips:
            return []
        new, self._read = self.updates - self._read, self.updates
        norms: list[float] = self._norms.last(min(new, NORMS), self.updates)[:, 0].tolist()
        return norms

    def factor(self) -> float:
        """The loss scale: the factor of the gradients that backward computes."""
        return self.loss_scale.state()[0] if self.loss_scale else 1.0

    def gradient_norm(self) -> float:
        """The L2 norm of all parameters' gradients, before the update."""
        self._sum_gradient_squares()
        return self._root() / self.factor()

    def total_norm(self, flat: Array | None) -> float:
        """The L2 norm of a flat array and those of the net's other parts."""
        self._sum_squares(flat)
        return self._root()

    def norm(self, array: Array) -> float:
        """The L2 norm of an array of this process."""
        self._norm(array, self._square)
        return self._root()

    def norm_of_gradient(self, index: int) -> float:
        """The L2 norm of the gradient of one of this process's parameters."""
        fused = self._params.fused_gradients.get(index)
        return math.sqrt(fused.square()) if fused else self.norm(self._params.diffs[index])

    def _root(self) -> float:
        return math.sqrt(self._dev.download(self._square)[0])

    def _sum_gradient_squares(self) -> None:
        """Sums the squares of all gradients."""
        self._sum_squares(self._params.diff)
        if fused := self._params.fused_gradients.values():
            stored = float(self._dev.download(self._square)[0])
            self._dev.fill(self._square, stored + math.fsum(gradient.square() for gradient in fused))

    def _sum_squares(self, flat: Array | None) -> None:
        """Sums the squares of a flat array and of those of the net's other parts."""
        if flat is None:  # a part that learns nothing
            self._dev.fill(self._square, 0)
        elif self._division and not self._division.counts:
            self._dev.fill(self._square, 0)
            for i in self._divided:
                self._norm(self._params.cut(flat, i), self._square, add=True)
        else:
            self._norm(flat, self._square)
        if self._division:
            self._division.add_up(self._square, self._dev)
