"""Gaussian filters of points with many coordinates, by a permutohedral lattice (Adams, Baek and Davis 2010)."""

from __future__ import annotations

import math

import numpy as np


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
