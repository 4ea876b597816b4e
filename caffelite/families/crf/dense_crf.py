"""DenseCRF: labels of an image, inferred by a conditional random field."""

from __future__ import annotations

import math

import numpy as np

from ...layers import require
from ...layers.layer import Layer, Shape, register
from .multi_stage_meanfield import EMPTY, Lattice, softmax


@register
class DenseCRF(Layer):
    """The probabilities of labels after max_iter steps q = softmax(u + Σ w K q), from q = softmax(u): each K q is the
    mean of q over near pixels, or over near pixels of like color.

    u (N, C, H, W), sizes (N, 2, ...), height and width of each image, or larger ones (NaN and negative ones are 0),
    image (N, 3, H, W), if there are kernels of colors → (N, C, H, W), 0 outside of an image's size; output_probability
    false: their logarithms. Kernels e^(-d²/2): pos_w, d in pixels / pos_xy_std; bi_w, d in pixels / bi_xy_std and
    colors / bi_rgb_std. No gradients. Defaults: max_iter 10. The host computes it. The fork takes the colors of all
    samples from the first image. Errors: bottoms that do not fit, lists of different lengths. Source: Krähenbühl and
    Koltun 2011, as in Deeplab's Caffe, gramuah/weakly-supervised-segmentation
    caffe/src/caffe/layers/densecrf_layer.cpp.
    """

    field = "dense_crf_param"
    bottoms = (2, 3)
    constant_bottoms = frozenset(range(3))
    differentiable = couples_samples = False
    requires_host = needs_images = True

    def setup(self) -> None:
        p = self.p
        for name, others in (("pos_w", ("pos_xy_std",)), ("bi_w", ("bi_xy_std", "bi_rgb_std"))):
            for other in others:
                if len(getattr(p, other)) != len(getattr(p, name)):
                    expected, found = f"{len(getattr(p, name))} values, as {name}", len(getattr(p, other))
                    raise self.error(f"{other} does not fit {name}", other, expected=expected, found=found)
                for i, value in enumerate(getattr(p, other)):
                    if not value > 0:
                        raise self.error(f"a bad {other}", other, i, expected="more than 0", found=f"{value:g}")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.images(self, bottoms)
        n, _, *size = bottoms[0]
        if bottoms[1][:1] != (n,) or math.prod(bottoms[1][1:]) < 2:
            raise self.bottom_error(1, "does not fit", expected=f"{n}×2: heights and widths", found=list(bottoms[1]))
        require.fits(self, bottoms, 2, len(bottoms) <= 2 or bottoms[2] == (n, 3, *size), [n, 3, *size])
        return [bottoms[0]]

    def _kernels(self, positions: np.ndarray, colors: np.ndarray | None) -> list[tuple[Lattice, np.ndarray]]:
        """Each lattice, and its weight divided by the sums of weights."""
        p = self.p
        features = [(w, positions / std) for w, std in zip(p.pos_w, p.pos_xy_std, strict=True)]
        if colors is not None:
            for w, std, hue in zip(p.bi_w, p.bi_xy_std, p.bi_rgb_std, strict=True):
                features.append((w, np.concatenate([positions / std, colors / hue], 1)))
        lattices = [(w, Lattice(points)) for w, points in features]
        ones = np.ones((1, len(positions)))
        return [(lattice, w / (lattice.filtered(ones) + EMPTY)) for w, lattice in lattices]

    def forward(self, x: list, y: list) -> None:
        unary, sizes, *images = (self.dev.download(blob).astype(float) for blob in x)
        top = np.zeros(unary.shape)
        for n, scores in enumerate(unary):
            height, width = np.clip(np.nan_to_num(sizes[n].reshape(-1)[:2]), 0, scores.shape[1:]).astype(int)
            if not height * width:
                continue
            scores = scores[:, :height, :width]
            rows, columns = np.mgrid[: scores.shape[1], : scores.shape[2]].reshape(2, -1)
            colors = images[0][n][:, :height, :width].reshape(3, -1).T if images else None
            kernels = self._kernels(np.stack([columns, rows], 1), colors)
            flat = scores.reshape(len(scores), -1)
            beliefs = softmax(flat)
            for _ in range(self.p.max_iter):
                beliefs = softmax(flat + sum(lattice.filtered(beliefs) * norm for lattice, norm in kernels))
            if not self.p.output_probability:
                beliefs = np.log(np.maximum(beliefs, np.finfo(np.float32).tiny))
            top[n, :, :height, :width] = beliefs.reshape(scores.shape)
        self.dev.upload(y[0], top)
