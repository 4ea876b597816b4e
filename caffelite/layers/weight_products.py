"""Gradients of weights that are products of rows, so that those of several passes can be computed at once."""

from __future__ import annotations

from typing import Any, Protocol

from ..devices.interfaces import Array
from .layer import Layer


class DeferredRows(Protocol):
    """Keeps the rows that the gradient of a layer's weights is a product of."""

    def keep(self, x: Array, dy: Array, add: bool) -> None:
        """x (M, K), dy (M, N): of one pass. add: after the rows of earlier passes, which are dropped otherwise."""


class WeightProduct(Layer):
    """A layer where the gradient of the weights, the first parameter, is a product of rows of the bottom and of the
    top's gradient."""

    # where the gradient of the weights is computed later, for several passes at once: receives the rows of each pass
    deferred: DeferredRows | None = None

    def gradient_rows(self) -> tuple[int, int, int]:
        """(M, K, N): the gradient is a sum over M rows, of K numbers of the bottom and N of the top's gradient."""
        raise NotImplementedError

    def gradient_product(self, rows: int) -> Any:
        """The device's inner product, which computes the gradient of the weights over ``rows`` rows."""
        raise NotImplementedError

    def fuses_update(self) -> bool:
        """Whether a device that ``fuses_updates`` can update the weights as it computes their gradient: they are
        (N, K), and factors of float32."""
        return False


def weight_product(layer: Layer) -> WeightProduct:
    assert isinstance(layer, WeightProduct), f"the gradient of {layer.spec.type}'s weights is no product of rows"
    return layer
