"""Layers that run others, which alone read their top, as part of their own step."""

from collections.abc import Sequence
from typing import Any

from ...devices.protocol import Device
from ...devices.types import Kernel
from .layer import Layer, ParameterView


class Fusing(Layer):
    """A layer that net/fusion.py may replace by one that does the work of those behind it, forward and perhaps
    backward. ``slope``: of the ReLU that is one of these; ``pools``: whether one is a pooling of maxima, whose
    backward step stays its own; ``fused_layers``: all of them, set by binding."""

    slope: float | None = None
    pools = False
    fused_layers: Sequence[Any] = ()

    @property
    def fused_params(self) -> list[ParameterView]:
        return [param for layer in self.fused_layers for param in layer.params]

    def can_fuse_relu(self) -> bool:
        """Whether forward can apply a leaky ReLU to the top."""
        return True

    def can_fuse_pooling(self) -> bool:
        """Whether forward can compute the maxima of windows of the top."""
        return False

    def fuses_backward(self) -> bool:
        """Whether backward includes that of the layers which run as part of this one."""
        return False


class FusingProduct(Fusing):
    """A convolution or product with a bias. Devices that ``fuses_relu_backward`` multiply the top's gradient by the
    slope of a fused ReLU, in place, as they sum the bias's gradient."""

    def fuses_backward(self) -> bool:
        return self.slope is not None and self.config.traits.fuses_relu_backward

    @property
    def backward_reads_tops(self) -> bool:
        return self.fuses_backward()

    def build_relu_backward(self, dev: Device, n: int, c: int, p: int) -> Kernel | None:
        """The backward pass of the ReLU where it is fused, for tops (N, C, P)."""
        return dev.relu_backward(n, c, p, self.slope) if self.slope is not None and self.fuses_backward() else None
