"""Rows of the table of layers: conditional random fields."""

import numpy as np
from layers.layer_row import Row, off_kinks, share

from caffelite.families.crf.crf_meanfield import Lattice

SCORES = (2, 3, 4, 5)


def colors(rng, shape):
    return 60 * rng.random(shape)


def matrix(points):
    """What the lattice multiplies values by."""
    return Lattice(points).filtered(np.eye(len(points))).T


def inferred(scores, first, image, near, alike, pairwise):
    y, x = np.mgrid[:4, :5].reshape(2, -1)
    tops = []
    for n in range(len(scores)):
        unary, q = scores[n].reshape(3, -1), first[n].reshape(3, -1)
        hues = image[n].reshape(3, -1).T
        kernels = [matrix(np.stack([x, y], 1) / 2), matrix(np.concatenate([np.stack([x, y], 1) / 4, hues / 30], 1))]
        kernels = [kernel / kernel.sum(1, keepdims=True) for kernel in kernels]
        for _ in range(3):
            q = np.exp(q) / np.exp(q).sum(0)
            q = unary - pairwise @ (near @ q @ kernels[0].T + alike @ q @ kernels[1].T)
        tops.append(q.reshape(scores.shape[1:]))
    return [np.stack(tops)]


def crf(scores, sizes, image):
    top = np.zeros(scores.shape)
    for n, (high, wide) in enumerate(np.clip(sizes, 0, scores.shape[2:]).astype(int)):
        if not high * wide:
            continue
        y, x = np.mgrid[:high, :wide].reshape(2, -1)
        places, unary = np.stack([x, y], 1), scores[n, :, :high, :wide].reshape(3, -1)
        hues = image[n, :, :high, :wide].reshape(3, -1).T
        kernels = [(0.5, matrix(places / 2)), (2, matrix(np.concatenate([places / 4, hues / 30], 1)))]
        q = np.exp(unary) / np.exp(unary).sum(0)
        for _ in range(3):
            q = np.exp(unary + sum(w * q @ (k / k.sum(1, keepdims=True)).T for w, k in kernels))
            q /= q.sum(0)
        top[n, :, :high, :wide] = q.reshape(3, high, wide)
    return [top]


def image_sizes(rng, shape):
    return np.array([[4.0, 5.0], [3.0, 4.0]])[: shape[0]]


def empty_sizes(rng, shape):
    """One larger than the image, one of no pixels."""
    return np.array([[9.0, 5.0], [-2.0, 3.0]])[: shape[0]]


def sides(rng, shape):
    """The first image is filtered in a part alone."""
    sizes = np.full(shape, 9.0)
    sizes[:, :2] = 4, 5
    sizes[0, :2] = 3, 4
    return sizes


def smoothed(rounds, spatial, range_, least):
    def oracle(x, edges, sizes):
        y = x.copy()
        for n, (image, edge) in enumerate(zip(y, edges[:, 0], strict=True)):
            tall, wide = sizes[n, :2].astype(int)
            for k in range(1, rounds + 1):
                sigma = spatial * 3**0.5 * 2 ** (rounds - k) / (4**rounds - 1) ** 0.5
                w = np.clip(np.exp(-(2**0.5) / sigma * (1 + spatial / range_ * edge)), least, 1)
                for maps, u, size in ((image, w, (tall, wide)), (image.transpose(0, 2, 1), w.T, (wide, tall))):
                    maps, u = maps[:, : size[0], : size[1]], u[: size[0], : size[1]]
                    for j in range(1, size[1]):
                        maps[:, :, j] += u[:, j] * (maps[:, :, j - 1] - maps[:, :, j])
                    for j in range(size[1] - 2, -1, -1):
                        maps[:, :, j] += u[:, j + 1] * (maps[:, :, j + 1] - maps[:, :, j])
        return [y]

    return oracle


FILTERED = [((2, 3, 4, 5), off_kinks), ((2, 1, 4, 5), share), ((2, 2), sides)]

ROWS = [
    Row(
        "DomainTransform", "num_iter: 2 spatial_sigma: 2 range_sigma: 1", smoothed(2, 2, 1, 0), FILTERED, constant=(2,)
    ),
    Row("DomainTransformForwardOnly", "", smoothed(3, 50, 5, 0), FILTERED),
    Row(
        "DenseCRF",
        "max_iter: 3 pos_w: 0.5 pos_xy_std: 2 bi_w: 2 bi_xy_std: 4 bi_rgb_std: 30",
        crf,
        [SCORES, ((2, 2), image_sizes), (SCORES, colors)],
    ),
    Row(
        "DenseCRF images without pixels",
        "max_iter: 3 pos_w: 0.5 pos_xy_std: 2 bi_w: 2 bi_xy_std: 4 bi_rgb_std: 30",
        crf,
        [SCORES, ((2, 2), empty_sizes), (SCORES, colors)],
    ),
    Row(
        "MultiStageMeanfield",
        "num_iterations: 3 theta_gamma: 2 theta_alpha: 4 theta_beta: 30",
        inferred,
        [SCORES, SCORES, (SCORES, colors)],
        constant=(2,),
    ),
]
