"""Pictures with the answer on them, and a sheet of them all."""

from __future__ import annotations

import math

import numpy as np

from ..data.images import channels_last, opencv

LEAST, MOST = 240, 640  # pixels of the longer side
INK, FAINT, PAPER, BAR = (41, 31, 31), (130, 120, 115), (250, 250, 250), (176, 108, 43)  # blue, green, red
ROW, PAD = 26, 10
SHEET_COLUMNS, SHEET_MOST = 5, 100


def annotate(image: np.ndarray, answers: list[tuple[str, float]]) -> np.ndarray:
    """H×W×3: the picture C×H×W, enlarged where it is small, above its answers (label, score) with a bar each; the best is the largest."""
    cv2 = opencv("classify -annotate")
    pixels = channels_last(image)
    pixels = cv2.cvtColor(pixels, cv2.COLOR_GRAY2BGR) if pixels.ndim == 2 else pixels[..., :3]
    longer = max(pixels.shape[:2])
    if not LEAST <= longer <= MOST:
        scale = (LEAST if longer < LEAST else MOST) / longer
        size = [max(1, round(side * scale)) for side in (pixels.shape[1], pixels.shape[0])]
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_NEAREST if scale > 1 else cv2.INTER_AREA)
    height, width = pixels.shape[0], max(pixels.shape[1], LEAST)
    page = np.full((height + PAD + ROW * (len(answers) + 1), width, 3), PAPER, np.uint8)
    left = (width - pixels.shape[1]) // 2
    page[:height, left : left + pixels.shape[1]] = pixels
    y = height + PAD
    for i, (label, score) in enumerate(answers):
        tall, size, thick, ink = (2 * ROW - 8, 1.0, 2, INK) if i == 0 else (ROW, 0.5, 1, FAINT)
        percent = f"{100 * score:.1f} %"
        wide = cv2.getTextSize(percent, cv2.FONT_HERSHEY_SIMPLEX, 0.5, 1)[0][0]
        line = y + tall - 12
        cv2.rectangle(page, (PAD, y + tall - 6), (PAD + round((width - 2 * PAD) * min(max(score, 0), 1)), y + tall - 4), BAR, -1)
        cv2.putText(page, percent, (width - PAD - wide, line), cv2.FONT_HERSHEY_SIMPLEX, 0.5, ink, 1, cv2.LINE_AA)
        text = _fitting(cv2, label, size, thick, width - 3 * PAD - wide)
        cv2.putText(page, text, (PAD, line), cv2.FONT_HERSHEY_SIMPLEX, size, ink, thick, cv2.LINE_AA)
        y += tall
    return page


def sheet(pages: list[np.ndarray]) -> np.ndarray:
    """The first annotated pictures side by side."""
    pages = pages[:SHEET_MOST]
    columns = min(SHEET_COLUMNS, len(pages))
    height, width = (max(page.shape[axis] for page in pages) for axis in (0, 1))
    whole = np.full((PAD + (height + PAD) * math.ceil(len(pages) / columns), PAD + (width + PAD) * columns, 3), 225, np.uint8)
    for i, page in enumerate(pages):
        top, left = PAD + i // columns * (height + PAD), PAD + i % columns * (width + PAD)
        whole[top : top + page.shape[0], left : left + page.shape[1]] = page
    return whole


def png(page: np.ndarray) -> bytes:
    return opencv("classify -annotate").imencode(".png", page)[1].tobytes()


def _fitting(cv2, text: str, size: float, thick: int, width: int) -> str:
    """The text, cut where it would be wider. The font has ASCII alone."""
    text = text.encode("ascii", "replace").decode()
    while text and cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, thick)[0][0] > width:
        text = text[:-1]
    return text
