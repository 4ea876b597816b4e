"""Rows of the table of layers: conditional random fields."""

from __future__ import annotations

import numpy as np
from layer_row import Row, off_kinks

from caffelite.families.crf.lattice import Lattice

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
    for n, (high, wide) in enumerate(sizes.astype(int)):
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


ROWS = [
    Row(
        "DenseCRF",
        "dense_crf_param { max_iter: 3 pos_w: 0.5 pos_xy_std: 2 bi_w: 2 bi_xy_std: 4 bi_rgb_std: 30 }",
        [(SCORES, off_kinks), ((2, 2), image_sizes), (SCORES, colors)],
        crf,
    ),
    Row(
        "MultiStageMeanfield",
        "multi_stage_meanfield_param { num_iterations: 3 theta_gamma: 2 theta_alpha: 4 theta_beta: 30 }",
        [(SCORES, off_kinks), (SCORES, off_kinks), (SCORES, colors)],
        inferred,
        constant=(2,),
    ),
]
