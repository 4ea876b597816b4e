"""What the compiler decides about every layer before it is bound to a device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...devices.traits import DeviceTraits

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
    """What compilation decided about one layer of one net: for which device it is, and how its images are stored."""

    traits: DeviceTraits = DeviceTraits("cpu")
    format: Format = CAFFE_FORMAT
