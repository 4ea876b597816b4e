"""Checks of batches of images."""

from __future__ import annotations

from ...layers import require
from ...layers.layer import Layer, Shape


def check_like(layer: Layer, bottoms: list[Shape], channels: int) -> None:
    """Errors: first two bottoms that are no images of one size, or a second with another number of channels."""
    require.images(layer, bottoms)
    expected = bottoms[0][0], channels, *bottoms[0][2:]
    require.shape(layer, bottoms, 1, expected)
