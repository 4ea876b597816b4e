"""Checks of the labels that losses and accuracies read."""

from __future__ import annotations

import math

from .layer import Layer, Shape, split_axis


def check_labels(layer: Layer, bottoms: list[Shape], axis: int) -> None:
    """Labels must be one for each score vector: the scores' axes before and after ``axis``."""
    n, _, p = split_axis(bottoms[0], axis)
    if math.prod(bottoms[1]) != n * p:
        expected = (
            f'{n * p} labels, one for each vector of "{layer.spec.bottom[0]}" {list(bottoms[0])} along axis {axis}'
        )
        raise layer.bottom_error(
            1, "does not fit", expected=expected, found=f"{math.prod(bottoms[1])} {list(bottoms[1])}"
        )


def label_fault(layer: Layer, op, shape: tuple[int, int, int], bottom: int = 1) -> str | None:
    """The error for the first label that is no class, where the operation saw one. bottom: of the labels."""
    place = int(layer.dev.download(op.bad)[0])
    if not place:
        return None
    sample, position = divmod(place - 1, shape[2])
    spot = f"sample {sample} of the batch" + (f", position {position}" if shape[2] > 1 else "")
    scores, labels = layer.spec.bottom[0], layer.spec.bottom[bottom]
    return (
        f'a label in bottom "{labels}" is no class ({spot}); expected integers 0 to {shape[1] - 1}, the '
        f'channels of "{scores}"'
    )
