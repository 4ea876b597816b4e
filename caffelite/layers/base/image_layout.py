"""Layers that also work on images stored as N×H×W×C."""

from dataclasses import replace

from ...devices.formula import Formula
from ...devices.protocol import Device
from ...devices.traits import DeviceTraits
from ...devices.types import Kernel
from .config import LayerConfig
from .layer import Layer


class ImageLayout:
    """The answers of a layer whose images have Caffe's layout; types that may have others derive from it. Ask
    ``image_layout(layer)``.

    ``follows_layout``: works on channels_last images too; ``follows_precision``: then also on 16-bit ones.
    """

    follows_layout = follows_precision = False
    config: LayerConfig

    def prefers_channels_last(self, traits: DeviceTraits) -> bool:
        """Whether the layer runs faster on channels_last images on a device of these traits."""
        return False

    @property
    def channels_last(self) -> bool:
        """Whether its images are stored as N×H×W×C."""
        return self.config.format.channels_last

    def stored_split(self, split: tuple[int, int, int]) -> tuple[int, int, int]:
        """(N, C, P) of an image as it is stored: (N·P, C, 1) where it is channels_last."""
        n, c, p = split
        return (n * p, c, 1) if self.channels_last else split

    def as_stored(self, formula: Formula, *others: str) -> Formula:
        """A formula over images as they are stored: of 16-bit ones, all its arrays but ``others`` are of that dtype."""
        if self.config.format.dtype is None:
            return formula
        return replace(formula, halves=tuple(name for name in (*formula.arrays, "out") if name not in others))

    def channel_map(
        self,
        dev: Device,
        text: str,
        images: tuple[str, ...],
        each: tuple[str, ...],
        split: tuple[int, int, int],
        **constants: float,
    ) -> Kernel:
        """A formula over images as they are stored, and over what each channel has a number of."""
        formula = self.as_stored(Formula(text, (*images, *each), constants=tuple(constants)), *each)
        return dev.channel_map(formula, each, *split, **constants)


PLAIN = ImageLayout()


def image_layout(layer: Layer) -> ImageLayout:
    return layer if isinstance(layer, ImageLayout) else PLAIN
