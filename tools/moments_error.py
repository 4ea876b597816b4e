"""Compares how exactly batch norm's variance comes out of three ways to sum a channel, by the channel's mean / std.

raw: float32 sums of x and of x², in tiles of 128 values, then of the tiles: one after the other as by atomics, or as a
tree. That is what a convolution that also writes its statistics (cuDNN's genstats) can give.
shifted: sums of x - first and of its square, float32 over 8 values and then float64, as caffelite's kernels add them.
Printed is the largest relative error of the variance over some channels, against float64; nothing else is rounded.

Usage: python tools/moments_error.py [--channels 8]
"""

import argparse
from collections.abc import Callable

import numpy as np

COUNTS = 100_352, 401_408, 1_605_632  # images · height · width of ResNet-50's batch norms, 128 images
RATIOS = 0, 1, 10, 100, 1000
TILE, ROWS = 128, 8


def sequential(parts: np.ndarray) -> np.float32:
    return np.cumsum(parts, dtype=np.float32)[-1]


def tree(parts: np.ndarray) -> np.float32:
    while len(parts) > 1:
        parts = np.append(parts, np.zeros(len(parts) % 2, np.float32))
        parts = parts[0::2] + parts[1::2]
    return parts[0]


def raw(x: np.ndarray, combine: Callable[[np.ndarray], np.float32]) -> float:
    """Variance from float32 sums of x (float32) and x²; the last step is float64."""
    tiles = x.reshape(TILE, -1)
    total, squares = (combine(np.add.reduce(values, 0)) for values in (tiles, tiles * tiles))
    mean = float(total) / x.size
    return float(squares) / x.size - mean * mean


def shifted(x: np.ndarray) -> float:
    rows = (x - x[0]).reshape(ROWS, -1)
    total, squares = (float(np.add.reduce(values, 0).astype(float).sum()) for values in (rows, rows * rows))
    return squares / x.size - (total / x.size) ** 2


def errors(count: int, ratio: float, dtype: type, channels: int, rng: np.random.Generator) -> np.ndarray:
    """The largest relative errors over channels of: raw one after the other, raw as a tree, shifted."""
    worst = np.zeros(3)
    for _ in range(channels):
        x = (ratio + rng.standard_normal(count)).astype(dtype).astype(np.float32)
        exact = x.astype(float).var()
        found = np.array([raw(x, sequential), raw(x, tree), shifted(x)])
        worst = np.maximum(worst, abs(found / exact - 1))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", type=int, default=8, help="channels of each kind (default 8)")
    channels, rng = parser.parse_args().channels, np.random.default_rng(1)
    print("| values | in | mean / std | raw, one after the other | raw, as a tree | shifted |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for count in COUNTS:
        for dtype in (np.float16, np.float32):
            for ratio in RATIOS:
                row = " | ".join(f"{e:.1e}" for e in errors(count, ratio, dtype, channels, rng))
                print(f"| {count:,} | {np.dtype(dtype).name} | {ratio:,} | {row} |")


if __name__ == "__main__":
    main()
