"""The matrices of Winograd's minimal filtering, by the algorithm of Cook and Toom: products of polynomials at points.

Source: Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks".
"""

import numpy as np

Matrix = list[list[float]]
# Small numbers with few bits: rounding errors grow with the powers of the points, and products of points are exact. The
# last point is infinity.
POINTS = np.array([0, 1, -1, 2, -2, 1 / 2, -1 / 2])


def matrices(outputs: int, size: int) -> tuple[Matrix, Matrix, Matrix]:
    """(Bᵀ, G, Aᵀ) of F(m, r) with a = m + r - 1: Bᵀ (a, a) transforms inputs, G (a, r) the kernel, and Aᵀ (m, a) the
    products. m: outputs, r: size."""
    count = outputs + size - 2
    points = POINTS[:count]
    inputs, kernel = np.zeros((count + 1, count + 1)), np.zeros((count + 1, size))
    for i, point in enumerate(points):
        others = np.delete(points, i)
        inputs[i, :count] = np.poly(others)[::-1]  # the polynomial with these roots, the constant first
        kernel[i] = point ** np.arange(size) / np.prod(point - others)
    inputs[count], kernel[count, -1] = np.poly(points)[::-1], 1
    results = np.zeros((outputs, count + 1))
    results[:, :count], results[-1, count] = points ** np.arange(outputs)[:, None], 1
    return (inputs + 0.0).tolist(), (kernel + 0.0).tolist(), results.tolist()  # + 0.0: no negative zeros
