"""Finds near duplicates: images that differ in size, compression or brightness only.

Each image has a perceptual hash: the signs of the 64 lowest coefficients of the cosine transform of its 32×32 gray
thumbnail, less their median. Images whose hashes differ in at most 7 bits are compared by their thumbnails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SIDE, KEPT, THUMBNAIL = 32, 8, 16  # pixels of the gray image, coefficients a side, pixels of the compared thumbnail
BITS = 7  # that the hashes of near duplicates may differ in
CORRELATION = 0.98  # of the thumbnails, at least
BANDS = 8  # of 8 bits: two hashes that differ in at most 7 bits have one of them in common
CHUNK = 1024


@dataclass(frozen=True)
class Print:
    """The perceptual hash of an image, and its thumbnail (256 of uint8)."""

    bits: int
    thumbnail: np.ndarray


def fingerprint(image: np.ndarray) -> Print | None:
    """The hash of an image C×H×W; None of an image of one value throughout, or with values that are not finite."""
    from scipy.fft import dctn

    gray = image.astype(np.float32).mean(0)
    low, high = float(gray.min()), float(gray.max())
    if not np.isfinite((low, high)).all() or high <= low:
        return None
    gray = (gray - low) * (255 / (high - low))
    small = _resized(gray, SIDE)
    lowest = dctn(small, norm="ortho")[:KEPT, :KEPT].ravel()
    signs = lowest > np.median(lowest[1:])
    bits = int.from_bytes(np.packbits(signs).tobytes(), "big")
    return Print(bits, np.rint(_resized(small, THUMBNAIL)).clip(0, 255).astype(np.uint8).ravel())


def _resized(gray: np.ndarray, side: int) -> np.ndarray:
    """side×side of H×W: each value is the mean over its area, which may begin and end within a pixel."""
    for axis in (0, 1):
        gray = np.moveaxis(gray, axis, 0)
        length = gray.shape[0]
        sums = np.concatenate([np.zeros((1, gray.shape[1])), np.cumsum(gray, 0, np.float64)])
        edges = np.arange(side + 1) * (length / side)
        whole = np.minimum(edges.astype(int), length - 1)
        at_edges = sums[whole] + (edges - whole)[:, None] * gray[whole]
        gray = np.moveaxis(np.diff(at_edges, axis=0) * (side / length), 0, axis)
    return gray


def pairs(prints: list[Print]) -> Iterator[tuple[int, int]]:
    """(i, j), i < j, of the near duplicates among images."""
    if len(prints) < 2:
        return
    bits = np.array([one.bits for one in prints], np.uint64)
    thumbnails = np.stack([one.thumbnail for one in prints]).astype(np.float32)
    thumbnails -= thumbnails.mean(1, keepdims=True)
    thumbnails /= np.linalg.norm(thumbnails, axis=1, keepdims=True)
    pairs: set[tuple[int, int]] = set()
    for band in range(BANDS):
        byte = (bits >> np.uint64(8 * band)) & np.uint64(0xFF)
        order = np.argsort(byte, kind="stable")
        starts = np.flatnonzero(np.diff(byte[order], prepend=np.uint64(1 << 8)))
        for group in np.split(order, starts[1:]):
            for i, j in _in_group(group, bits, thumbnails):
                if (i, j) not in pairs:
                    pairs.add((i, j))
                    yield i, j


def _in_group(group: np.ndarray, bits: np.ndarray, thumbnails: np.ndarray) -> Iterator[tuple[int, int]]:
    """The near duplicates among images that share 8 bits of their hashes."""
    for row in range(0, len(group), CHUNK):
        for other in range(row, len(group), CHUNK):
            rows, columns = group[row : row + CHUNK], group[other : other + CHUNK]
            close = np.bitwise_count(bits[rows][:, None] ^ bits[columns]) <= BITS
            first, second = np.nonzero(close)
            i, j = rows[first], columns[second]
            i, j = i[i < j], j[i < j]  # each group is in ascending order
            for start in range(0, len(i), CHUNK):
                a, b = i[start : start + CHUNK], j[start : start + CHUNK]
                alike = np.einsum("nk,nk->n", thumbnails[a], thumbnails[b]) >= CORRELATION
                yield from zip(a[alike].tolist(), b[alike].tolist(), strict=True)
