"""Draws answers on images: labels, or the classes of pixels; and a contact sheet of all images."""

import math

import numpy as np

from ..data import lettering
from ..data.images import channels_last, opencv, resize

LEAST, MOST = 240, 640  # pixels of the longer side
INK, FAINT, PAPER, BAR = (41, 31, 31), (130, 120, 115), (250, 250, 250), (176, 108, 43)  # blue, green, red
ROW, PAD = 26, 10
LARGE, SMALL = 26, 13  # pixels of the letters of the best answer and of the others
SHEET_COLUMNS, SHEET_MOST = 5, 100


def annotate(image: np.ndarray, predictions: list[tuple[str, float]]) -> np.ndarray:
    """H×W×3: the picture C×H×W, enlarged where it is small, above its answers (label, score) with a bar each; the best
    is the largest."""
    cv2 = opencv("classify -annotate")
    pixels = channels_last(image)
    pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR) if pixels.ndim == 2 else pixels[..., :3]
    longer = max(pixels.shape[:2])
    if not LEAST <= longer <= MOST:
        scale = (LEAST if longer < LEAST else MOST) / longer
        enlarged = [max(1, round(side * scale)) for side in (pixels.shape[1], pixels.shape[0])]
        pixels = cv2.resize(pixels, enlarged, interpolation=cv2.INTER_NEAREST if scale > 1 else cv2.INTER_AREA)
    height, width = pixels.shape[0], max(pixels.shape[1], LEAST)
    page = np.full((height + PAD + ROW * (len(predictions) + 1), width, 3), PAPER, np.uint8)
    left = (width - pixels.shape[1]) // 2
    page[:height, left : left + pixels.shape[1]] = pixels
    y = height + PAD
    for i, (label, score) in enumerate(predictions):
        tall, size, ink = (2 * ROW - 8, LARGE, INK) if i == 0 else (ROW, SMALL, FAINT)
        percent = f"{100 * score:.1f} %"
        wide = round(lettering.width(percent, SMALL))
        line = y + tall - 12
        cv2.rectangle(
            page, (PAD, y + tall - 6), (PAD + round((width - 2 * PAD) * min(max(score, 0), 1)), y + tall - 4), BAR, -1
        )
        lettering.write(page, (width - PAD - wide, line), percent, ink, SMALL)
        for text in lettering.wrapped(label, width - 3 * PAD - wide, 1, size):
            lettering.write(page, (PAD, line), text, ink, size)
        y += tall
    return page


def sheet(pages: list[np.ndarray]) -> np.ndarray:
    """The first annotated pictures side by side."""
    pages = pages[:SHEET_MOST]
    columns = min(SHEET_COLUMNS, len(pages))
    height, width = (max(page.shape[axis] for page in pages) for axis in (0, 1))
    canvas = np.full(
        (PAD + (height + PAD) * math.ceil(len(pages) / columns), PAD + (width + PAD) * columns, 3), 225, np.uint8
    )
    for i, page in enumerate(pages):
        top, left = PAD + i // columns * (height + PAD), PAD + i % columns * (width + PAD)
        canvas[top : top + page.shape[0], left : left + page.shape[1]] = page
    return canvas


def png(page: np.ndarray) -> bytes:
    return opencv("classify -annotate").imencode(".png", page)[1].tobytes()


BITS = 8  # of a color


def palette(count: int) -> np.ndarray:
    """count×3 of uint8, blue, green, red: the colors of PASCAL VOC, where class 0 is black. Class i has bit 3·j + k of
    i as bit 7 - j of color k (red, green, blue)."""
    indices = np.arange(count)[:, None]
    colors = np.zeros((count, 3), np.uint8)
    for j in range(BITS):
        colors |= ((indices >> (3 * j + np.arange(3)) & 1) << (BITS - 1 - j)).astype(np.uint8)
    return colors[:, ::-1]


def pixel_classes(scores: np.ndarray, shape: tuple[int, ...], size: tuple[int, int]) -> np.ndarray:
    """H×W of uint16: the class with the greatest score at each place, for an image of this size (H, W). scores: of a
    net's output of ``shape``, C×h×w."""
    classes = scores.reshape(shape).argmax(0).astype(np.uint16)
    return classes if classes.shape == size else resize(classes[None], *size, "INTER_NEAREST")[0]


def ranked_shares(classes: np.ndarray, count: int) -> list[tuple[int, float]]:
    """(class, its share of the pixels) of the classes that an image has, the largest share first. classes: H×W, below
    ``count``."""
    shares = np.bincount(classes.ravel(), minlength=count) / classes.size
    return [(i, float(shares[i])) for i in (-shares).argsort(kind="stable").tolist() if shares[i] > 0]


def colored(image: np.ndarray, classes: np.ndarray, count: int) -> np.ndarray:
    """The image C×H×W, half covered by the colors of its pixels' classes (H×W); class 0 has none. 3×H×W of uint8."""
    pixels = np.broadcast_to(image[:3] if len(image) > 2 else image[:1], (3, *image.shape[1:])).astype(np.float32)
    colors = palette(count)[classes].transpose(2, 0, 1)
    return np.rint(np.where(classes > 0, (pixels + colors) / 2, pixels)).astype(np.uint8)
