"""A contact sheet: many images and their labels in one picture."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import CaffeliteError
from . import lettering
from .images import opencv
from .lettering import LINE

LEAST, MOST = 96, 256  # pixels of an image's longer side on the sheet
CAPTION, GAP, BACKGROUND = LINE, 4, 32
MOST_LINES = 5  # of a caption


def contact_sheet(
    images: Sequence[np.ndarray], captions: Sequence[str] = (), columns: int | None = None
) -> tuple[bytes, float, float]:
    """(PNG, the value shown black, the value shown white) of images C×H×W, each above its caption of up to five lines.

    Three channels are BGR; otherwise each channel is shown in gray, side by side. Bytes are not changed; other
    values are scaled equally in all images, so that the minimum is black and the maximum white; values that are not
    finite are magenta. Errors: not three axes; OpenCV is missing.
    """
    cv2 = opencv("a sheet of images")
    for image in images:
        if image.ndim != 3 or not image.size:
            raise CaffeliteError("no image to show", expected="C×H×W", found="×".join(map(str, image.shape)))
    low, high = value_range(images)
    tiles = [_tile(cv2, image, low, high) for image in images]
    height, width = (max(tile.shape[axis] for tile in tiles) for axis in (0, 1))
    texts = [lettering.wrapped(caption, width - 2, MOST_LINES) for caption in captions]
    below = CAPTION * max(1, *map(len, texts), 0) if captions else 0
    columns = min(len(tiles), columns or math.ceil(math.sqrt(len(tiles) * (height + below) / width)))
    down, across = height + GAP + below, width + GAP
    sheet = np.full((GAP + down * -(-len(tiles) // columns), GAP + across * columns, 3), BACKGROUND, np.uint8)
    for i, tile in enumerate(tiles):
        top, left = GAP + i // columns * down, GAP + i % columns * across
        sheet[top : top + len(tile), left : left + tile.shape[1]] = tile
        for line, text in enumerate(texts[i] if captions else ()):
            lettering.write(sheet, (left + 1, top + height + CAPTION * (line + 1) - 5), text, (255, 255, 255))
    return cv2.imencode(".png", sheet)[1].tobytes(), low, high


def value_range(images: Iterable[np.ndarray]) -> tuple[float, float]:
    """(black, white): 0 and 255 where all values are between them and some exceed 1, else the minimum and the
    maximum."""
    finite = [values for values in (image[np.isfinite(image)] for image in images) if values.size]
    low, high = min((float(v.min()) for v in finite), default=0.0), max((float(v.max()) for v in finite), default=0.0)
    return (0.0, 255.0) if low >= 0 and 1 < high <= 255 else (low, high)


def _tile(cv2, image: np.ndarray, low: float, high: float) -> np.ndarray:
    """H×W×3 of uint8, resized for viewing."""
    finite = np.isfinite(image)
    values = (np.where(finite, image, low) - low) * (255 / (high - low) if high > low else 0)
    pixels = values.round().astype(np.uint8)
    if len(pixels) == 3:
        tile = np.ascontiguousarray(pixels.transpose(1, 2, 0))
        tile[~finite.all(0)] = (255, 0, 255)
    else:
        tile = np.repeat(np.hstack(list(pixels))[..., None], 3, axis=2)
        tile[~np.hstack(list(finite))] = (255, 0, 255)
    longer = max(image.shape[1:])
    if longer > MOST:
        size = [max(1, round(side * MOST / longer)) for side in (tile.shape[1], tile.shape[0])]
        return cv2.resize(tile, size, interpolation=cv2.INTER_AREA)
    times = -(-LEAST // longer)
    return tile.repeat(times, 0).repeat(times, 1)
