"""The matrices of Winograd's minimal filtering, by the algorithm of Cook and Toom: products of polynomials at points.

Source: Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks".
"""

from __future__ import annotations

from fractions import Fraction

Matrix = list[list[float]]
# Small numbers with few bits: rounding errors grow with the powers of the points. The last point is infinity.
POINTS = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2")))


def _with_roots(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(root * value for value in coefficients), Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def matrices(outputs: int, size: int) -> tuple[Matrix, Matrix, Matrix]:
    """(Bᵀ, G, Aᵀ) of F(m, r) with a = m + r - 1: Bᵀ (a, a) transforms inputs, G (a, r) the kernel, and Aᵀ (m, a) the
    products. m: outputs, r: size."""
    points = list(POINTS[: outputs + size - 2])
    inputs, kernel = [], []
    for point in points:
        others = [other for other in points if other != point]
        inputs.append([*_with_roots(others), Fraction(0)])
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        kernel.append([point**i / scale for i in range(size)])
    inputs.append(_with_roots(points))
    kernel.append([Fraction(i == size - 1) for i in range(size)])
    results = [[*(point**i for point in points), Fraction(i == outputs - 1)] for i in range(outputs)]
    matrices = [[[float(value) for value in row] for row in matrix] for matrix in (inputs, kernel, results)]
    return matrices[0], matrices[1], matrices[2]
