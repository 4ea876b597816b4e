"""What layers of few types declare: tops of other shapes, arrays that stay, and files that they write."""

from collections.abc import Callable, Sequence

import numpy as np

from ...devices.protocol import Device
from ...devices.types import Array
from .config import SavedBlobs, Shape
from .layer import Layer


class Varying:
    """A layer that may give its tops other shapes while the net runs; it calls ``resize``. Ask ``varies(layer)``.

    ``varies``: the tops' shapes depend on the data, those of ``varied_tops``, None: all. Where it is False, the layer
    calls ``resize`` in rare cases, for which the compiler prepares nothing.
    """

    varies = True
    varied_tops: frozenset[int] | None = None
    resize: Callable[[list[Shape]], list]  # set by binding: reshapes the tops and all that follows; returns the tops
    dev: Device

    def write_tops(self, y: list, arrays: Sequence[np.ndarray]) -> None:
        """Writes arrays of the host into the tops ``y``, which get their shapes."""
        shapes = [array.shape for array in arrays]
        if [tuple(top.shape) for top in y] != shapes:
            y = self.resize(shapes)
        for top, array in zip(y, arrays, strict=True):
            self.dev.upload(top, array)


def varies(layer: Layer) -> bool:
    """Whether the shapes of the layer's tops depend on the data."""
    return isinstance(layer, Varying) and layer.varies


class Carrying:
    """A layer with arrays that keep their values from one pass to the next; snapshots store them."""

    carried: Sequence[Array] = ()


def carried(layer: Layer) -> Sequence[Array]:
    return layer.carried if isinstance(layer, Carrying) else ()


class Adapting:
    """A layer whose parameters may have other shapes in a file."""

    def adapted(self, blobs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray | None]:
        """The blobs of a file in the shapes of the layer's; those that cannot be adapted as they are."""
        raise NotImplementedError


class LossScaled:
    """A layer whose backward multiplies by ``loss_scale`` what does not follow from the gradient of its tops."""

    loss_scale: Array | None = None  # a number of the device; set by ``Net.scale_losses``

    def need_loss_scale(self, dev: Device) -> None:
        """Sets ``loss_scale`` to 1 where the net has not set it. For ``build``."""
        if self.loss_scale is None:
            self.loss_scale = dev.zeros(1)
            dev.fill(self.loss_scale, 1)


class SavesByConfig:
    """A layer that saves other blobs than ``saved_shapes``, by what the compiler decided."""

    def saved_blobs(self) -> SavedBlobs:
        raise NotImplementedError


def saved_blobs(layer: Layer) -> SavedBlobs:
    """What forward keeps for backward, by name: shape, dtype (None: the net's)."""
    return layer.saved_blobs() if isinstance(layer, SavesByConfig) else layer.saved_shapes


class Writing:
    """A layer with a forward pass that may write a file, where it ``writes``."""

    writes = False


def writes(layer: Layer) -> bool:
    return isinstance(layer, Writing) and layer.writes
