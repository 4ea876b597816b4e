"""MalisLoss: affinities of neighbors by which the segments of a volume grow together."""

import math
from collections import Counter

import numpy as np

from ...layers.base import require
from ...layers.base.layer import Shape, register
from ...layers.loss import Loss


class Segments:
    """Sets of voxels that grow together, each with the number of its voxels of each label but 0."""

    def __init__(self, labels: np.ndarray):
        self.parent = list(range(len(labels)))
        self.sizes = [Counter({label: 1} if label else {}) for label in labels.tolist()]

    def root(self, voxel: int) -> int:
        parent = self.parent
        while parent[voxel] != voxel:
            parent[voxel] = parent[parent[voxel]]
            voxel = parent[voxel]
        return voxel

    def join(self, a: int, b: int) -> tuple[int, int] | None:
        """Joins the sets of two voxels: how many pairs of voxels of one label, and of two labels, that connects; None
        if they are in one set already."""
        a, b = self.root(a), self.root(b)
        if a == b:
            return None
        few, many = sorted((self.sizes[a], self.sizes[b]), key=len)
        alike = sum(count * many[label] for label, count in few.items() if label in many)
        pairs = few.total() * many.total()
        self.parent[b] = a
        many.update(few)
        self.sizes[a], self.sizes[b] = many, Counter()
        return alike, pairs - alike


@register
class MalisLoss(Loss):
    """loss = (A + B) / 2N: A sums (1 - p)² n over the edges of the spanning tree of largest affinities p that connect n
    pairs of voxels of one component, divided by the number of all such pairs, where p is at most the true affinity; B
    sums p² n over pairs of two components, where p is at least the true one.

    p (N, E, D, H, W), fewer axes are allowed; true affinities of the same shape; components (N, 1, D, H, W), or two
    channels, for B and for A; 0 is no component; offsets (E, 3) of the neighbors of a voxel, or none: the next along
    the last E axes. The gradient is the fork's: half the derivative by p, of edges that the true affinities decide too,
    and not divided by N. The host computes it, slowly. Errors: bottoms that do not fit. Source: Turaga et al. 2009, as
    in naibaf7/caffe, src/caffe/layers/malis_loss_layer.cpp.
    """

    bottoms = (3, 4)
    constant_bottoms = frozenset((1, 2, 3))
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = bottoms[0]
        require.fits(self, bottoms, 0, 3 <= len(shape) <= 5, "3 to 5 axes N×E×D×H×W", "has no affinities")
        require.same_count(self, bottoms, 0, 1)
        self.split = shape[0], shape[1], *(1,) * (5 - len(shape)), *shape[2:]
        voxels = math.prod(shape[2:])
        self.channels = math.prod(bottoms[2]) // (shape[0] * voxels)
        if math.prod(bottoms[2]) != shape[0] * voxels * self.channels or self.channels not in (1, 2):
            expected = f"{shape[0] * voxels} values, or twice as many"
            raise self.bottom_error(2, "does not fit", expected=expected, found=list(bottoms[2]))
        require.fits(self, bottoms, 3, len(bottoms) <= 3 or math.prod(bottoms[3]) == 3 * shape[1], f"{shape[1]}×3")
        if len(bottoms) < 4 and shape[1] > 3:
            expected = "3 channels at most"
            raise self.bottom_error(0, "needs a fourth bottom of offsets", expected=expected, found=shape[1])
        self.couples_samples = True
        return [()]

    def _edges(self, x: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the edges within the volume, and of the voxels that they connect."""
        count, size = self.split[1], self.split[2:]
        axes = np.eye(3, dtype=int)[3 - count :] if len(x) < 4 else None
        offsets = self.dev.download(x[3]).astype(int).reshape(count, 3) if axes is None else axes
        voxels = np.arange(math.prod(size)).reshape(size)
        edges = []
        for channel, offset in enumerate(offsets):
            here = tuple(slice(max(0, -o), max(0, n - max(0, o))) for o, n in zip(offset, size, strict=True))
            there = tuple(slice(max(0, o), max(0, n + min(0, o))) for o, n in zip(offset, size, strict=True))
            first = voxels[here].reshape(-1)
            edges.append((channel * voxels.size + first, first, voxels[there].reshape(-1)))
        return tuple(np.concatenate(part) for part in zip(*edges, strict=True))  # type: ignore[return-value]

    @staticmethod
    def _grown(weights: np.ndarray, edges: tuple, labels: np.ndarray, alike: bool) -> tuple[float, np.ndarray]:
        """A or B of a sample, and the fork's slopes by the weights."""
        slopes, segments, total = np.zeros(weights.size), Segments(labels), 0.0
        sizes = Counter(labels[labels != 0].tolist())
        same = sum(count * (count - 1) // 2 for count in sizes.values())
        pairs = same if alike else sizes.total() * (sizes.total() - 1) // 2 - same
        order = np.argsort(-weights[edges[0]], kind="stable")
        for edge, a, b in zip(*(part[order].tolist() for part in edges), strict=True):
            joined = segments.join(a, b)
            if joined and (n := joined[0 if alike else 1]):
                gap = (1.0 if alike else 0.0) - weights[edge]
                total += gap * gap * n / pairs
                slopes[edge] = gap * n / pairs
        return total, slopes

    def _terms(self, x: list) -> tuple[float, np.ndarray]:
        count = self.split[0]
        p, true = (self.dev.download(blob).astype(float).reshape(count, -1) for blob in x[:2])
        parts = self.dev.download(x[2]).astype(int).reshape(count, self.channels, -1)
        edges, total, slopes = self._edges(x), 0.0, np.zeros_like(p)
        for sample in range(count):
            apart = self._grown(np.maximum(p[sample], true[sample]), edges, parts[sample, 0], False)
            within = self._grown(np.minimum(p[sample], true[sample]), edges, parts[sample, -1], True)
            total += (apart[0] + within[0]) / 2
            slopes[sample] = -(apart[1] + within[1]) / 2
        return total / count, slopes

    def forward(self, x: list, y: list) -> None:
        self.dev.upload(y[0], np.asarray(self._terms(x)[0]))

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        slopes = self._terms(x)[1] * float(self.dev.download(dy[0]).reshape(-1)[0])
        self.dev.upload(dx[0], slopes.reshape(dx[0].shape))
