"""What gradients are multiplied by before an update: averaged over micro-batches and processes, clipped, freed of the
loss's scale."""

from __future__ import annotations

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...net.net import Net

NORMS = 256  # iterations whose clipping waits to be told, at most


class Clipping:
    """``scale`` (1), a number of the device that ``queue`` sets for the gradients as they are; not finite where an
    update is skipped.

    p: its clip_gradients and iter_size. processes: over how many of them gradients are added up. In fp16 the loss is
    multiplied by a factor that follows the gradients (see devices/cuda/scaling.py) and starts from NVCaffe's
    global_grad_scale.
    """

    def __init__(self, p: pb.SolverParameter, net: Net, processes: int = 1):
        dev, message = net.dev, net.graph.message
        self._dev, self._params, self._processes = dev, net.params, processes
        self._norm, self._square = dev.sum(Formula("g * g", ("g",))), dev.zeros(1)
        self.clips, self.updates, self._told = p.clip_gradients >= 0, 0, 0
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
        """Looks at the gradients, where that is asked for."""
        if not self.clips and not self.loss_scale:
            return
        self._norm(self._params.diff, self._square)
        if self.loss_scale:
            self.loss_scale.configure_for(self._square)
            self._unscale(self._square, self.loss_scale.share, self._square)
        if self.clips:
            self._clip(self._square, self._share)
            self._length(self._square, self._square)
            self._norms.append(self._square, self._processes)
        if self.loss_scale:
            self._skip(self._share, self.loss_scale.share, self.loss_scale.skip, self.scale)

    def new_norms(self) -> list[float]:
        """The gradient's norms of the ``updates`` since the last call, of the processes' mean; none where nothing is
        clipped."""
        if not self.clips:
            return []
        new, self._told = self.updates - self._told, self.updates
        return self._norms.last(min(new, NORMS), self.updates)[:, 0].tolist()

    def factor(self) -> float:
        """What the gradients are multiplied by as they come from backward."""
        return self.loss_scale.held()[0] if self.loss_scale else 1.0

    def gradient_norm(self) -> float:
        """The L2 norm of all parameters' gradients, before the update."""
        return self.norm(self._params.diff) / self.factor()

    def norm(self, flat) -> float:
        """The L2 norm of an array."""
        self._norm(flat, self._square)
        return float(self._dev.download(self._square)[0]) ** 0.5

    def save(self, resume: pb.ResumeState) -> None:
        if self.loss_scale:
            resume.loss_scale, resume.loss_scale_good = self.loss_scale.held()

    def load(self, resume: pb.ResumeState) -> None:
        if self.loss_scale and resume.HasField("loss_scale"):
            self.loss_scale.load(resume.loss_scale, resume.loss_scale_good)
