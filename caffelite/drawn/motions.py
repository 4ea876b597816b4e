"""Synthetic optical flow: two images of textured shapes that move over a ground that moves, and each pixel's motion.

A pair is a function of the seed, the split ("train", "test") and its index.
"""

import numpy as np

from ..data.images import opencv

SPLITS = ("train", "test")
SIDE = 48  # pixels
FASTEST = 5.0  # pixels along each axis
MOST = 3  # shapes of a pair
CORNERS = (3, 9)  # fewest and most of a shape


def draw(seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
    """The pair of this index, 2×SIDE×SIDE of uint8, and the motion from the first to the second, 2×SIDE×SIDE: to the
    right, and down."""
    rng = np.random.default_rng([seed, SPLITS.index(split), index])
    images, flow = np.zeros((2, SIDE, SIDE), np.float32), np.zeros((2, SIDE, SIDE), np.float32)
    for layer in range(1 + rng.integers(1, MOST + 1)):
        motion = rng.uniform(-FASTEST, FASTEST, 2)
        texture, cover = _texture(rng), _outline(rng) if layer else np.ones((2 * SIDE,) * 2, np.float32)
        for i, image in enumerate(images):
            moved, covered = (_middle(values, motion * i) for values in (texture, cover))
            image += covered * (moved - image)
            if i == 0:
                flow[:, covered >= 0.5] = motion.astype(np.float32)[:, None]
    images += rng.uniform(0, 4) * rng.standard_normal(images.shape)
    return np.rint(images.clip(0, 255)).astype(np.uint8), flow


def _texture(rng: np.random.Generator) -> np.ndarray:
    """Clouds of several sizes on twice the side, of a random brightness and contrast."""
    cv2, side = opencv("dataset motions"), 2 * SIDE
    clouds = np.zeros((side, side), np.float32)
    for cells in (8, 16, 32):
        coarse = rng.uniform(-1, 1, (cells, cells)).astype(np.float32)
        clouds += cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC) / 2
    return np.float32(rng.uniform(70, 185)) + np.float32(rng.uniform(40, 70)) * clouds


def _outline(rng: np.random.Generator) -> np.ndarray:
    """1 within a polygon that lies in the middle of twice the side, 0 outside."""
    cv2, side = opencv("dataset motions"), 2 * SIDE
    angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(*CORNERS)))
    radii = rng.uniform(0.12, 0.3) * SIDE * rng.uniform(0.8, 1.2, len(angles))
    middle = SIDE + rng.uniform(-0.35, 0.35, 2) * SIDE
    corners = middle + radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    mask = np.zeros((side, side), np.uint8)
    cv2.fillPoly(mask, [np.rint(corners * 16).astype(np.int32)], 255, lineType=cv2.LINE_AA, shift=4)
    return mask.astype(np.float32) / 255


def _middle(values: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """The middle of values that have moved."""
    cv2, move = opencv("dataset motions"), np.eye(2, 3, dtype=np.float32)
    move[:, 2] = motion - SIDE / 2
    return cv2.warpAffine(values, move, (SIDE, SIDE), flags=cv2.INTER_LINEAR)


def datasets(seed: int, split: str, count: int) -> dict[str, np.ndarray]:
    """first and second (N, 1, SIDE, SIDE), about -1 to 1, and flow (N, 2, SIDE, SIDE)."""
    drawn = [draw(seed, split, index) for index in range(count)]
    images = np.stack([images for images, _ in drawn]).astype(np.float32) / 128 - 1
    return {"first": images[:, :1], "second": images[:, 1:], "flow": np.stack([flow for _, flow in drawn])}
