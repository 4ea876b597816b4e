"""Draws text into images by Pillow: OpenCV's letters are ASCII only."""

from __future__ import annotations

import functools
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..errors import missing_extra

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font: TypeAlias = FreeTypeFont | ImageFont

SIZE, LINE = 12, 18  # pixels: height of the letters, and distance between lines
NO_GLYPH = "□"  # replaces a character that no font has
UNASSIGNED = "\uffff"  # a character that no font has


def _pillow() -> tuple[ModuleType, ModuleType, ModuleType]:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise missing_extra("Pillow", "images", "text in a picture") from None
    return Image, ImageDraw, ImageFont


@functools.cache
def font(size: int = SIZE) -> Font:
    """DejaVu Sans, of the system or of matplotlib where that is installed; else the Latin font within Pillow."""
    _, _, fonts = _pillow()
    spec = importlib.util.find_spec("matplotlib")
    folders = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    for name in (*(Path(folder, "mpl-data/fonts/ttf/DejaVuSans.ttf") for folder in folders), "DejaVuSans.ttf"):
        try:
            return fonts.truetype(str(name), size)
        except OSError:
            continue
    return fonts.load_default(size)


@functools.cache
def system_fonts() -> tuple[str, ...]:
    """The paths of the font files of the system and the user, sorted."""
    home, shared = Path(os.path.expanduser("~")), os.environ.get("XDG_DATA_DIRS", "/usr/local/share:/usr/share")
    folders = [
        *(Path(folder, "fonts") for folder in shared.split(":")),
        *(home / name for name in (".local/share/fonts", ".fonts", "Library/Fonts")),
        *(Path("/Library/Fonts"), Path("/System/Library/Fonts"), Path(os.environ.get("WINDIR", "/nowhere"), "Fonts")),
    ]
    return tuple(sorted(str(p) for folder in folders for p in folder.rglob("*.[to]t[fc]")))


@functools.cache
def _has(path: str | None, char: str) -> bool:
    """Whether a font has a glyph for a character. path: of a font file; None: the first font."""
    if char.isspace():
        return True
    _, _, fonts = _pillow()
    try:
        chosen = fonts.truetype(path, SIZE) if path else font()
        return _glyph(chosen, char) != _glyph(chosen, UNASSIGNED)
    except OSError:  # a file that FreeType cannot read, or one with bitmaps of other sizes only
        return False


def _glyph(chosen: Font, char: str) -> tuple[tuple[int, int], bytes]:
    mask = chosen.getmask(char)
    return mask.size, bytes(mask)


@functools.cache
def _fallback(char: str) -> str | None:
    return next((path for path in system_fonts() if _has(path, char)), None)


def runs(text: str, size: int = SIZE) -> list[tuple[Font, str]]:
    """(font, part) for the parts of a text: the first font, for what it lacks the first system font that has it, and a
    box for what no font has."""
    runs: list[tuple[str | None, str]] = []
    for char in text:
        path = None if _has(None, char) else _fallback(char)
        if path is None and not _has(None, char):
            char = NO_GLYPH
        if runs and runs[-1][0] == path:
            char = runs.pop()[1] + char
        runs.append((path, char))
    _, _, fonts = _pillow()
    return [(fonts.truetype(path, size) if path else font(size), piece) for path, piece in runs]


def width(text: str, size: int = SIZE) -> float:
    return sum(chosen.getlength(piece) for chosen, piece in runs(text, size))


def wrapped(text: str, limit: int, most: int, size: int = SIZE) -> list[str]:
    """The text in lines no wider than ``limit`` pixels, broken at spaces where it can be; what is beyond ``most`` lines
    becomes "…"."""
    rest = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    lines: list[str] = []
    while rest and len(lines) < most:
        end = len(rest)
        while end > 1 and width(rest[:end], size) > limit:
            end -= 1
        if end < len(rest) and rest[end] != " " and " " in rest[:end].strip():
            end = rest[:end].rindex(" ")
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    if rest and lines:
        last = lines[-1]
        while last and width(f"{last}…", size) > limit:
            last = last[:-1]
        lines[-1] = f"{last}…"
    return lines


def write(
    pixels: np.ndarray, origin: tuple[int, int], text: str, color: tuple[int, int, int], size: int = SIZE
) -> None:
    """Draws a line of text into H×W×3 of uint8, from (left, base line)."""
    image, draw, _ = _pillow()
    left, base = origin
    up, down = 2 * size, size
    top, wide = max(base - up, 0), min(int(width(text, size)) + 4, pixels.shape[1] - left)
    area = pixels[top : base + down, left : left + wide]
    if not area.size:
        return
    canvas = image.fromarray(np.ascontiguousarray(area))
    x = 0.0
    for chosen, part_of_text in runs(text, size):
        draw.Draw(canvas).text((x, base - top), part_of_text, fill=color, font=chosen, anchor="ls")
        x += chosen.getlength(part_of_text)
    area[:] = np.asarray(canvas)
