"""Draws text into images by Pillow: OpenCV's letters are ASCII only."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np

from ..errors import missing_extra

SIZE, LINE = 12, 18  # pixels: of the letters, and from one line to the next


def _pillow():
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise missing_extra("Pillow", "images", "text in a picture") from None
    return Image, ImageDraw, ImageFont


@functools.cache
def font(size: int = SIZE):
    """DejaVu Sans, of the system or of matplotlib where that is installed; else the Latin letters that Pillow
    brings."""
    _, _, fonts = _pillow()
    found = importlib.util.find_spec("matplotlib")
    folders = found.submodule_search_locations if found and found.submodule_search_locations else []
    for name in (*(Path(folder, "mpl-data/fonts/ttf/DejaVuSans.ttf") for folder in folders), "DejaVuSans.ttf"):
        try:
            return fonts.truetype(str(name), size)
        except OSError:
            continue
    return fonts.load_default(size)


def width(text: str, size: int = SIZE) -> float:
    return font(size).getlength(text)


def wrapped(text: str, room: int, most: int, size: int = SIZE) -> list[str]:
    """The text in lines no wider than ``room`` pixels, broken at spaces where it can be; what is beyond ``most`` lines
    becomes "…"."""
    rest, lines = " ".join("".join(c if c.isprintable() else " " for c in text).split()), []
    while rest and len(lines) < most:
        end = len(rest)
        while end > 1 and width(rest[:end], size) > room:
            end -= 1
        if end < len(rest) and rest[end] != " " and " " in rest[:end].strip():
            end = rest[:end].rindex(" ")
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    if rest and lines:
        last = lines[-1]
        while last and width(f"{last}…", size) > room:
            last = last[:-1]
        lines[-1] = f"{last}…"
    return lines


def write(
    pixels: np.ndarray, place: tuple[int, int], text: str, colour: tuple[int, int, int], size: int = SIZE
) -> None:
    """Draws a line of text into H×W×3 of uint8, from (left, base line)."""
    image, draw, _ = _pillow()
    left, base = place
    up, down = 2 * size, size
    top, wide = max(base - up, 0), min(int(width(text, size)) + 4, pixels.shape[1] - left)
    part = pixels[top : base + down, left : left + wide]
    if not part.size:
        return
    canvas = image.fromarray(np.ascontiguousarray(part))
    draw.Draw(canvas).text((0, base - top), text, fill=colour, font=font(size), anchor="ls")
    part[:] = np.asarray(canvas)
