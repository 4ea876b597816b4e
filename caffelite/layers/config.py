"""What the compiler decides about a layer: the one record that a layer receives before it is bound to a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ..devices.traits import DeviceTraits

Shape = tuple[int, ...]
SavedBlobs = Mapping[str, tuple[Shape, str | None]]  # by name: shape and dtype, None for the net's
GRADIENT = "gradient"  # the saved blob that stores a gradient which forward computes already
SENT = "sent"  # the saved blob that stays from one pass to the next


class Format(NamedTuple):
    """How a blob's numbers are stored. channels_last: an image as N×H×W×C; dtype: a 16-bit one, None for the net's."""

    channels_last: bool = False
    dtype: str | None = None

    def memory_shape(self, shape: Shape) -> Shape:
        """The shape of the array that stores a blob of ``shape``."""
        if not self.channels_last:
            return shape
        n, c, *spatial = shape
        return (n, *spatial, c)


CAFFE_FORMAT = Format()  # N×C×H×W, of the net's dtype


@dataclass(frozen=True)
class LayerConfig:
    """What compilation decided about one layer of one net.

    ``saved``: the blobs that forward keeps for backward, by name. ``bottoms_in_top``: bottoms that are stored in the
    layer's top, where it need not copy them; ``gradients_in_top``: bottoms whose gradients are stored in the top's.
    ``gradient_in_forward``: forward computes the first bottom's gradient into ``saved``, and backward does nothing.
    """

    traits: DeviceTraits = DeviceTraits("cpu")
    format: Format = CAFFE_FORMAT
    saved: SavedBlobs = field(default_factory=lambda: MappingProxyType({}))
    bottoms_in_top: frozenset[int] = frozenset()
    gradients_in_top: frozenset[int] = frozenset()
    gradient_in_forward: bool = False
