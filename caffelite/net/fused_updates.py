"""Weights of inner products that are updated as their gradient is computed, so that it takes no memory.

The gradient of a large inner product over a few samples is as large as the weights: writing it, and reading it for the
update, takes longer than computing it. So the backward pass keeps the rows that it is a product of, and the update
applies its rule to each block of the product while it is in the cache. The numbers are those of a stored gradient.
"""

import math

import numpy as np

from ..devices.algorithms import has_few_rows
from ..devices.traits import DeviceTraits
from ..devices.types import Array
from .deferred import KeptRows, candidates, inner_product
from .nodes import Graph


def fused_updates(graph: Graph, traits: DeviceTraits, passes: int) -> frozenset[int]:
    """The indices of a compiled graph's parameters whose gradient is computed in the update. passes: those of an
    iteration; 0 for none."""
    if not (passes and traits.fuses_updates):
        return frozenset()
    return frozenset(
        node.params[0].owner
        for node, rows, inputs, outputs in candidates(graph)
        if inner_product(node).fuses_update() and has_few_rows(rows * passes, inputs, outputs)
    )


def gradient_bytes(graph: Graph, fused: frozenset[int], passes: int, itemsize: int = 4) -> int:
    """Bytes of the gradients of a net's parameters, and of the rows that the ``fused`` ones are computed from."""
    stored = sum(math.prod(p.blob.shape) for i, p in enumerate(graph.parameters) if i not in fused)
    rows_stored = sum(
        rows * passes * (inputs + outputs)
        for node, rows, inputs, outputs in candidates(graph)
        if node.params[0].owner in fused
    )
    return itemsize * (stored + rows_stored)


class FusedGradient(KeptRows):
    """The gradient of the weights (N, K) of a layer, which the update computes."""

    def square(self) -> float:
        """The sum of the gradient's squares: |dyᵀ x|² is the sum of the elements of x xᵀ times those of dy dyᵀ."""
        x, dy = (self._dev.download(rows).astype(np.float64) for rows in self.rows())
        return abs(float(np.vdot(x @ x.T, dy @ dy.T)))  # rounded, a sum near 0 may be below it

    def computed(self) -> Array:
        """The gradient (N, K), in memory of its own."""
        gradient = self._dev.empty((self._outputs, self._inputs))
        self.multiply(gradient)
        return gradient
