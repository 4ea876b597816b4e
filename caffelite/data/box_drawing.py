"""Draws boxes with their names on images."""

from collections.abc import Sequence

import numpy as np

from . import lettering
from .images import channels_last, opencv

LINE, PAD = 16, 3  # height of a name, and space around it
COLORS = (
    (75, 25, 230),
    (75, 180, 60),
    (216, 99, 67),
    (49, 130, 245),
    (180, 30, 145),
    (160, 150, 0),
    (230, 50, 240),
    (0, 128, 128),
)  # blue, green, red

Drawn = tuple[int, str, tuple[float, float, float, float]]  # class, text, corners in pixels


def with_boxes(image: np.ndarray, boxes: Sequence[Drawn]) -> np.ndarray:
    """H×W×3 of uint8, blue, green, red: an image C×H×W of uint8 with boxes, a color for each class; the text, if any,
    stands within the upper left corner."""
    cv2 = opencv("drawing boxes")
    pixels = channels_last(image)
    pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR) if pixels.ndim == 2 else np.ascontiguousarray(pixels[..., :3])
    pixels = pixels.copy()
    thick = max(1, round(max(pixels.shape[:2]) / 300))
    for label, text, corners in boxes:
        if not np.isfinite(corners).all():
            continue
        color = COLORS[label % len(COLORS)]
        left, top, right, bottom = (round(v) for v in corners)
        cv2.rectangle(pixels, (left, top), (right - 1, bottom - 1), color, thick)
        if text:
            wide = round(lettering.width(text, LINE - PAD)) + 2 * PAD
            left, top = max(0, min(left, pixels.shape[1] - wide)), max(0, min(top, pixels.shape[0] - LINE))
            cv2.rectangle(pixels, (left, top), (left + wide, top + LINE), color, -1)
            lettering.write(pixels, (left + PAD, top + LINE - PAD - 1), text, (255, 255, 255), LINE - PAD)
    return pixels


def outlined(image: np.ndarray, classes: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """A copy of an image C×H×W of any numbers with the outlines of boxes (G, 4), shares of its sides: a color for each
    of the classes (G), as bright as the image's greatest value."""
    changed, (channels, height, width) = image.copy(), image.shape
    finite = image[np.isfinite(image)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    for label, box in zip(classes.tolist(), boxes, strict=True):
        if not np.isfinite(box).all():
            continue
        color = np.array(COLORS[label % len(COLORS)] if channels == 3 else (255,) * channels) / 255
        color = (low + (high - low) * color).astype(image.dtype)[:, None]
        left, right = (min(width - 1, max(0, round(v * width) - k)) for k, v in enumerate((box[0], box[2])))
        top, bottom = (min(height - 1, max(0, round(v * height) - k)) for k, v in enumerate((box[1], box[3])))
        for row in (top, bottom):
            changed[:, row, left : right + 1] = color
        for column in (left, right):
            changed[:, top : bottom + 1, column] = color
    return changed
