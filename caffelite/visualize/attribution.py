"""Which pixels a net's answer depends on: saliency maps and Grad-CAM."""

from __future__ import annotations

import numpy as np

from ..net.graph import Value
from .explained import ExplainedNet

NOISE = 0.1  # standard deviation of SmoothGrad's noise, as a share of the input's range


def saliency(net: ExplainedNet, values: np.ndarray, number: int, samples: int = 1, seed: int = 0) -> np.ndarray:
    """H×W: the gradient of a class's score by each pixel, the greatest magnitude over channels.

    samples: more than 1 averages the magnitudes over inputs with noise (SmoothGrad), of which ``seed`` is the seed.
    """
    rng = np.random.default_rng(seed)
    spread = NOISE * float(values.max() - values.min())
    total = np.zeros(values.shape[1:], np.float64)
    for _ in range(samples):
        noisy = values if samples == 1 else values + rng.normal(0, spread, values.shape).astype(np.float32)
        net.scores(noisy)
        total += np.abs(net.gradients(number, net.input))
    return total.max(0) / samples


def grad_cam(net: ExplainedNet, number: int, value: Value) -> np.ndarray:
    """h×w, after ``scores``: the channels of a blob, weighted with the mean gradient of a class's score by each, summed
    and cut at 0: L = ReLU(Σ_k mean(∂y/∂A_k) A_k)."""
    gradient = net.gradients(number, value)
    maps = net.values(value).astype(np.float64)
    return np.maximum((gradient.mean((1, 2))[:, None, None] * maps).sum(0), 0)
