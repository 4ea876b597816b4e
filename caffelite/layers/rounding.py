"""Layers with products of 16-bit numbers, which round their bottoms first."""

from __future__ import annotations

from .config import SavedBlobs, Shape
from .layer import Layer


class RoundedProducts(Layer):
    """A layer that may multiply 16-bit copies of its bottoms."""

    def rounds_bottoms(self) -> bool:
        """Whether forward saves copies of its bottoms of 16-bit numbers, which its products multiply."""
        return False

    def rounded_blobs(self, shapes: list[Shape]) -> SavedBlobs:
        """The saved blobs for 16-bit copies of bottoms of these shapes."""
        dtype = self.config.traits.product_dtype
        return {f"half {i}": (shape, dtype) for i, shape in enumerate(shapes)}
