"""What losses and accuracies say of a label that is no class."""

from __future__ import annotations

from .layer import Layer


def label_fault(layer: Layer, op, shape: tuple[int, int, int], bottom: int = 1) -> str | None:
    """The error for the first label that is no class, where the operation saw one. bottom: of the labels."""
    position_plus_1 = int(layer.dev.download(op.bad)[0])
    if not position_plus_1:
        return None
    sample, position = divmod(position_plus_1 - 1, shape[2])
    spot = f"sample {sample} of the batch" + (f", position {position}" if shape[2] > 1 else "")
    scores, labels = layer.spec.bottom[0], layer.spec.bottom[bottom]
    return (
        f'a label in bottom "{labels}" is no class ({spot}); expected integers 0 to {shape[1] - 1}, the '
        f'channels of "{scores}"'
    )
