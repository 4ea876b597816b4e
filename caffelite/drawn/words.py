"""Synthetic lines of text: words of random letters in OpenCV's fonts, slanted, of many weights, on noisy ground.

A line is a function of the seed, the split ("train", "test") and its index.
"""

from string import ascii_lowercase

import numpy as np

from ..data.images import opencv

SPLITS = ("train", "test")
LETTERS = ascii_lowercase  # the label of a letter is 1 + its index; 0 fills up
LEAST, MOST = 3, 6  # letters of a word
HEIGHT, WIDTH = 24, 96  # pixels
FONTS = (0, 2, 3, 4, 6)  # sans and serif, of OpenCV's
FINE = 4  # times as large are letters drawn


def draw(seed: int, split: str, index: int) -> tuple[np.ndarray, str]:
    """The line of this index, HEIGHT×WIDTH of uint8, and its word."""
    cv2 = opencv("dataset words")
    rng = np.random.default_rng([seed, SPLITS.index(split), index])
    word = "".join(rng.choice(list(LETTERS), rng.integers(LEAST, MOST + 1)))
    font, weight = int(rng.choice(FONTS)), int(rng.integers(2, 9))
    (width, height), below = cv2.getTextSize(word, font, 2.0, weight)
    paper = np.zeros((height + below + 16, width + 16), np.uint8)
    cv2.putText(paper, word, (8, height + 8), font, 2.0, 255, weight, cv2.LINE_AA)
    scale = min((HEIGHT - 2) * rng.uniform(0.75, 1) / paper.shape[0], (WIDTH - 4) / paper.shape[1])
    stretch = min(rng.uniform(0.85, 1.2), (WIDTH - 4) / (scale * paper.shape[1]))
    slant = rng.uniform(-0.25, 0.25)
    free = WIDTH - scale * stretch * paper.shape[1], HEIGHT - scale * paper.shape[0]
    x, y = rng.uniform(0, free[0]) - slant * HEIGHT / 2, rng.uniform(0, max(0, free[1]))
    move = np.array([[scale * stretch, slant * scale, x], [0, scale, y]])
    ink = cv2.warpAffine(paper, FINE * move, (FINE * WIDTH, FINE * HEIGHT), flags=cv2.INTER_LINEAR)
    ink = cv2.resize(ink, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA) / 255.0
    ground, contrast = rng.uniform(90, 230), rng.uniform(60, 90)
    slope = np.linspace(-1, 1, WIDTH) * rng.uniform(-20, 20)
    pixels = ground + slope - contrast * ink + rng.uniform(1, 10) * rng.standard_normal(ink.shape)
    return np.rint(pixels.clip(0, 255)).astype(np.uint8), word


def datasets(seed: int, split: str, count: int) -> dict[str, np.ndarray]:
    """data (N, 1, HEIGHT, WIDTH), about -1 to 1, and label (N, MOST)."""
    drawn = [draw(seed, split, index) for index in range(count)]
    data = np.stack([pixels for pixels, _ in drawn])[:, None].astype(np.float32) / 128 - 1
    label = np.zeros((count, MOST), np.float32)
    for row, (_, word) in zip(label, drawn, strict=True):
        row[: len(word)] = [1 + LETTERS.index(letter) for letter in word]
    return {"data": data, "label": label}
