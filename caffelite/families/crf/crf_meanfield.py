"""MultiStageMeanfield and DenseCRF: mean fields of dense conditional random fields."""

import math
from types import ModuleType
from typing import Any

import numpy as np

from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.arrays import ArrayLayer, filler
from ...layers.base.layer import Layer, Shape, register


class Lattice:
    """Sums the values of points, weighted by about e^(-d²/2) of their distance d. points (P, D), D coordinates.

    Each point lies in a simplex of a lattice of D + 1 directions: its value is spread over the corners, the corners are
    blurred along each direction, and each point collects from its corners.
    """

    def __init__(self, points: np.ndarray):
        self.count, self.axes = points.shape
        remainder, rank, fractions = self._simplices(points)
        d = self.axes
        corners = np.arange(d + 1)
        # the coordinate of corner r at an axis of rank k: r, less a turn from D + 1 - r on
        turns = np.where(corners[:, None] + corners > d, corners[:, None] - (d + 1), corners[:, None])
        keys = remainder[:, None, :d] + turns[:, rank[:, :d]].transpose(1, 0, 2)  # (P, corner, axis)
        self.weights = fractions
        keys = keys.reshape(-1, d)
        low = keys.min(0) - (d + 1)
        sides = keys.max(0) - low + d + 2
        if math.prod(sides.tolist()) >= 2**62:
            raise OverflowError("points too far apart for the lattice")
        steps = np.concatenate([np.cumprod(sides[::-1])[-2::-1], [1]]).astype(np.int64)
        codes, index = np.unique((keys - low) @ steps, return_inverse=True)
        self.corners, self.size = index.reshape(self.count, d + 1), len(codes)
        self.neighbors = []
        for axis in range(d + 1):
            step = -steps.sum() + (steps[axis] * (d + 1) if axis < d else 0)
            self.neighbors.append((self._find(codes, codes + step), self._find(codes, codes - step)))

    def _simplices(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each point the nearest corner of remainder 0, the ranks of its offsets from there, and the weights of the
        corners."""
        d = self.axes
        scale = math.sqrt(2 / 3) * (d + 1) / np.sqrt(np.arange(1, d + 1) * np.arange(2, d + 2))
        scaled = points.astype(float) * scale
        above = np.concatenate([np.cumsum(scaled[:, ::-1], 1)[:, ::-1], np.zeros((self.count, 1))], 1)
        lifted = above.copy()
        lifted[:, 1:] -= np.arange(1, d + 1) * scaled
        down = lifted / (d + 1)
        up, low = np.ceil(down), np.floor(down)
        nearest = np.where(up - down < down - low, up, low)
        excess = nearest.sum(1).astype(int)[:, None]
        nearest = nearest.astype(int) * (d + 1)
        offsets = lifted - nearest
        rank = np.argsort(np.argsort(-offsets, 1, kind="stable"), 1, kind="stable") + excess
        nearest += np.where(rank < 0, d + 1, 0) - np.where(rank > d, d + 1, 0)
        rank += np.where(rank < 0, d + 1, 0) - np.where(rank > d, d + 1, 0)
        share = np.take_along_axis((lifted - nearest) / (d + 1), np.argsort(rank, 1), 1)[:, ::-1]  # by d - rank
        weights = np.concatenate([share, np.zeros((self.count, 1))], 1)
        weights[:, 1:] -= share
        weights[:, 0] += 1 + weights[:, d + 1]
        return nearest, rank, weights[:, : d + 1]

    @staticmethod
    def _find(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """The places of codes; where there is none, one behind the last."""
        indices = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.where(codes[indices] == wanted, indices, len(codes))

    def filtered(self, values: np.ndarray, transposed: bool = False) -> np.ndarray:
        """(C, P) → (C, P). transposed: by the transposed matrix."""
        sums = np.zeros((self.size + 1, len(values)))
        for channel, row in enumerate(values):
            spread = (self.weights * row[:, None]).reshape(-1)
            sums[:-1, channel] = np.bincount(self.corners.reshape(-1), spread, self.size)
        for before, after in self.neighbors[::-1] if transposed else self.neighbors:
            sums[: self.size] += 0.5 * (sums[before] + sums[after])
        corners = zip(self.corners.T, self.weights.T, strict=True)  # one after the other: all at once take much memory
        total = sum((sums[corner] * weight[:, None] for corner, weight in corners), np.zeros((self.count, len(values))))
        return total.T / (1 + 2.0**-self.axes)


EMPTY = 1e-20  # added to the sums of weights


class Field:
    """The random field of one image: messages by place, and by place and color, each kernel's weights sum to 1."""

    def __init__(self, kernels: tuple[Lattice, Lattice]):
        self.kernels = kernels
        self.norms = [1 / (kernel.filtered(np.ones((1, kernel.count))) + EMPTY) for kernel in kernels]

    def messages(self, beliefs: np.ndarray) -> list[np.ndarray]:
        pairs = zip(self.kernels, self.norms, strict=True)
        return [kernel.filtered(beliefs) * norm for kernel, norm in pairs]

    def collected(self, slopes: list[np.ndarray]) -> np.ndarray:
        """The slopes of the beliefs from those of the messages."""
        each = zip(self.kernels, self.norms, slopes, strict=True)
        near, alike = (kernel.filtered(slope * norm, transposed=True) for kernel, norm, slope in each)
        return near + alike


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(0))
    return powers / powers.sum(0)


@register
class MultiStageMeanfield(ArrayLayer):
    """y = u - M (A K q + B L q), repeated: q is softmax over the labels of y before, of ``first`` at the beginning; K q
    and L q are means of q over near pixels, and over near pixels of like color.

    u (N, C, H, W) unary scores, first like u, image (N, 3, H, W) → (N, C, H, W); u and first get gradients. K: weights
    e^(-d²/2), d in pixels / theta_gamma; L: in pixels / theta_alpha and colors / theta_beta, both by a permutohedral
    lattice. A, B, M are learned, (C, C): at first spatial_filter_weight and bilateral_filter_weight on the
    diagonals, for which the fork reads the files spatial.par and bilateral.par, and M minus the unit matrix. Defaults:
    num_iterations 10, theta_alpha 160, theta_beta 3, theta_gamma 3, weights 3 and 5. The host computes it. Errors:
    bottoms of other shapes, fewer than 2 iterations. Source: Zheng et al. 2015, as in torrvision/caffe, branch crfrnn,
    src/caffe/layers/multi_stage_meanfield.cpp.
    """

    field = "multi_stage_meanfield_param"
    bottoms = (3, 3)
    constant_bottoms = frozenset({2})
    couples_samples = False
    needs_images = True

    def setup(self) -> None:
        p = self.p
        if p.num_iterations < 2:
            raise self.error("too few iterations", "num_iterations", expected="2 or more", found=p.num_iterations)
        for name in ("theta_alpha", "theta_beta", "theta_gamma"):
            require.value(self, name, getattr(p, name) > 0, "more than 0")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        n, labels, *size = require.images(self, bottoms)
        for i, wanted in ((1, bottoms[0]), (2, (n, 3, *size))):
            require.shape(self, bottoms, i, wanted)
        for value in (self.p.spatial_filter_weight, self.p.bilateral_filter_weight, -1.0):
            self.add_param((labels, labels), filler("diagonal", diag_val=[value] * labels))
        self.size = size
        return [bottoms[0]]

    def build(self, dev: Device) -> None:
        super().build(dev)
        y, x = np.mgrid[: self.size[0], : self.size[1]].reshape(2, -1)
        self.positions = np.stack([x, y], 1)
        self.near = Lattice(self.positions / self.p.theta_gamma)

    def _field(self, image: np.ndarray) -> Field:
        colors = image.reshape(3, -1).T / self.p.theta_beta
        alike = Lattice(np.concatenate([self.positions / self.p.theta_alpha, colors], 1))
        return Field((self.near, alike))

    def _read(self, x: tuple) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Bottoms (N, C, pixels), and the matrices."""
        arrays = [self.dev.download(array).astype(float) for array in x]
        return [a.reshape(*a.shape[:2], -1) for a in arrays[:3]], arrays[3:]

    def _steps(self, field: Field, unary: np.ndarray, scores: np.ndarray, matrices: list) -> tuple[np.ndarray, list]:
        """The scores after all iterations, and of each its beliefs, messages and their sum."""
        near, alike, pairwise = matrices
        steps = []
        for _ in range(self.p.num_iterations):
            beliefs = softmax(scores)
            messages = field.messages(beliefs)
            total = near @ messages[0] + alike @ messages[1]
            steps.append((beliefs, messages, total))
            scores = unary - pairwise @ total
        return scores, steps

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        (unary, first, images), matrices = self._read(x)
        rows = zip(unary, first, images, strict=True)
        tops = [self._steps(self._field(image), u, scores, matrices)[0] for u, scores, image in rows]
        return xp.asarray(np.stack(tops).reshape(x[0].shape))

    def gradient(self, xp: ModuleType, x: tuple, y: tuple, dy: tuple) -> Any:
        (unary, first, images), matrices = self._read(x)
        above = self.dev.download(dy[0]).astype(float).reshape(unary.shape)
        dunary, dfirst, slopes = np.zeros_like(unary), np.zeros_like(first), [np.zeros_like(m) for m in matrices]
        near, alike, pairwise = matrices
        for i in range(len(unary)):
            field, ds = self._field(images[i]), above[i]
            for beliefs, messages, total in reversed(self._steps(field, unary[i], first[i], matrices)[1]):
                dunary[i] += ds
                dtotal = -pairwise.T @ ds
                slopes[2] -= ds @ total.T
                slopes[0] += dtotal @ messages[0].T
                slopes[1] += dtotal @ messages[1].T
                dq = field.collected([near.T @ dtotal, alike.T @ dtotal])
                ds = beliefs * (dq - (beliefs * dq).sum(0))
            dfirst[i] = ds
        grown = [dunary.reshape(x[0].shape), dfirst.reshape(x[1].shape)]
        params = [slope.reshape(param.shape) for slope, param in zip(slopes, x[3:], strict=True)]
        return (*map(xp.asarray, grown), None, *map(xp.asarray, params))


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
        n, _, *size = require.images(self, bottoms)
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
