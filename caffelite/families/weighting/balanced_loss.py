"""SigmoidCrossEntropyBalanceLoss: edges and the rest of each image weigh the same."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...layers import require
from ...layers.array_loss import ArrayLoss, softplus
from ...layers.layer import Shape, register


@register
class SigmoidCrossEntropyBalanceLoss(ArrayLoss):
    """loss = Σ_n (Σ of ones w⁻ ln(1 + e^-x) + Σ of zeros w⁺ ln(1 + e^x)) / N: scores x and targets t (N, ...) of one
    size; t gets no gradient. w⁺ and w⁻ are the shares of the ones and the zeros among both in the sample.

    Targets other than 0 and 1 count nowhere; in the fork they have a gradient, and no loss. Source: Xie and Tu 2015, as
    in kmaninis/OSVOS-caffe, src/caffe/layers/sigmoid_cross_entropy_balance_loss_layer.cpp.
    """

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.same_count(self, bottoms, 0, 1)
        if not bottoms[0] or bottoms[1][:1] != bottoms[0][:1]:
            expected = f"the samples of {list(bottoms[0])}"
            raise self.bottom_error(1, "does not fit", expected=expected, found=list(bottoms[1]))
        return [()]

    def _weights(self, xp: ModuleType, t: Any) -> tuple[Any, Any]:
        """The weights of ones and of zeros, 0 elsewhere: (N, values) each."""
        ones, zeros = (t == 1).astype(t.dtype), (t == 0).astype(t.dtype)
        many, few = (which.sum(1, keepdims=True) for which in (ones, zeros))
        total = xp.maximum(many + few, 1)
        return ones * few / total, zeros * many / total

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        scores, t = (blob.reshape(len(blob), -1) for blob in x)
        ones, zeros = self._weights(xp, t)
        return (ones * softplus(xp, -scores) + zeros * softplus(xp, scores)).sum() / len(scores)

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        scores, t = (blob.reshape(len(blob), -1) for blob in x)
        ones, zeros = self._weights(xp, t)
        share = 0.5 * (1 + xp.tanh(scores / 2))
        slopes = (ones * (share - 1) + zeros * share) / len(scores)
        return (dy[0] * slopes).reshape(x[0].shape), None
