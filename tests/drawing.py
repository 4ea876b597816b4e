"""Draws digits by hand, as far as a script has one: pen strokes that wobble, OpenCV's stroke fonts, and the type that
matplotlib carries; thick and thin, slanted and turned, dark on paper or light on a blackboard."""

from pathlib import Path

import cv2
import numpy as np

STROKE_FONTS = (
    cv2.FONT_HERSHEY_SIMPLEX,
    cv2.FONT_HERSHEY_DUPLEX,
    cv2.FONT_HERSHEY_COMPLEX,
    cv2.FONT_HERSHEY_SCRIPT_SIMPLEX,
    cv2.FONT_HERSHEY_PLAIN,
    cv2.FONT_HERSHEY_COMPLEX_SMALL,
)
TYPE = tuple(
    (
        "DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSerif DejaVuSerif-Bold DejaVuSansMono "
        "DejaVuSansMono-Bold cmr10 cmss10 cmtt10 STIXGeneral STIXGeneralBol"
    ).split()
)

# The pen's way through a box one high and about half as wide: x, y of points that a smooth line joins, a list a stroke.
STROKES = {
    0: [[(0.30, 0.0), (0.08, 0.2), (0.04, 0.6), (0.24, 1.0), (0.48, 0.8), (0.54, 0.4), (0.44, 0.08), (0.28, 0.0)]],
    1: [[(0.08, 0.3), (0.22, 0.16), (0.34, 0.0)], [(0.34, 0.0), (0.34, 0.5), (0.33, 1.0)]],
    2: [
        [(0.06, 0.2), (0.22, 0.02), (0.46, 0.12), (0.42, 0.42), (0.2, 0.74), (0.02, 1.0)],
        [(0.02, 1.0), (0.3, 0.97), (0.58, 1.0)],
    ],
    3: [
        [(0.06, 0.06), (0.3, 0.0), (0.48, 0.16), (0.36, 0.42), (0.2, 0.48)],
        [(0.2, 0.48), (0.44, 0.58), (0.5, 0.8), (0.3, 1.0), (0.04, 0.94)],
    ],
    4: [
        [(0.28, 0.0), (0.14, 0.3), (0.02, 0.58)],
        [(0.02, 0.58), (0.3, 0.6), (0.6, 0.56)],
        [(0.42, 0.3), (0.38, 0.7), (0.34, 1.0)],
    ],
    5: [
        [(0.52, 0.02), (0.3, 0.0), (0.12, 0.04)],
        [(0.12, 0.04), (0.1, 0.25), (0.08, 0.46)],
        [(0.08, 0.46), (0.3, 0.4), (0.5, 0.6), (0.42, 0.9), (0.2, 1.0), (0.02, 0.94)],
    ],
    6: [[(0.36, 0.0), (0.16, 0.3), (0.08, 0.66), (0.2, 0.98), (0.44, 0.94), (0.5, 0.74), (0.34, 0.6), (0.12, 0.76)]],
    7: [
        [(0.04, 0.04), (0.3, 0.04), (0.54, 0.0)],
        [(0.54, 0.0), (0.38, 0.4), (0.24, 1.0)],
        [(0.16, 0.52), (0.36, 0.5), (0.54, 0.5)],
    ],
    8: [
        [
            (0.46, 0.1),
            (0.26, 0.0),
            (0.1, 0.16),
            (0.28, 0.44),
            (0.46, 0.76),
            (0.26, 1.0),
            (0.08, 0.8),
            (0.24, 0.5),
            (0.44, 0.24),
            (0.46, 0.1),
        ]
    ],
    9: [
        [(0.48, 0.14), (0.26, 0.0), (0.08, 0.2), (0.16, 0.46), (0.4, 0.4), (0.48, 0.14)],
        [(0.48, 0.14), (0.48, 0.5), (0.4, 0.86), (0.2, 1.0), (0.04, 0.9)],
    ],
}


def with_pen(digit: int, rng: np.random.Generator, wobble: float = 0.015) -> list[np.ndarray]:
    """The strokes of a digit as points N×2, a unit high, each time a little otherwise. wobble: how far a point
    strays."""
    lines = []
    for stroke in STROKES[digit]:
        points = np.array(stroke) + rng.normal(0, wobble, (len(stroke), 2))
        # Catmull-Rom through all of them.
        whole = np.vstack([2 * points[0] - points[1], points, 2 * points[-1] - points[-2]])
        t = np.linspace(0, 1, 12)[:, None]
        for a, b, c, d in zip(whole, whole[1:], whole[2:], whole[3:], strict=False):
            lines.append(
                0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
            )
    return lines


def draw(
    digit: int,
    font: int | str | np.random.Generator,
    thickness: float = 0.11,
    slant: float = 0.0,
    turn: float = 0.0,
    size: int = 120,
    place: tuple[float, float] = (0.5, 0.5),
    ink: int = 20,
    paper: int = 240,
    noise: float = 0.0,
    seed: int = 0,
) -> np.ndarray:
    """size×size of uint8.

    font: OpenCV's number of one, the name of type, or the generator of a pen's wobble. thickness: of the stroke, as a
    share of the digit's height, where there is one; slant: to the right; turn: degrees; place: of its middle, as shares
    of the picture; noise: standard deviation of the paper's grain.
    """
    tall = size * 0.55
    stroke = max(1, round(thickness * tall))
    canvas = np.zeros((2 * size, 2 * size), np.uint8)
    if isinstance(font, int):
        _print(canvas, digit, font, tall, stroke)
    elif isinstance(font, str):
        _set(canvas, digit, font, tall)
    else:
        for line in with_pen(digit, font):
            points = np.rint(16 * (line * tall + size - np.array([0.28, 0.5]) * tall)).astype(np.int32)
            cv2.polylines(canvas, [points], False, 255, stroke, cv2.LINE_AA, shift=4)
    turned = cv2.getRotationMatrix2D((size, size), turn, 1.0)
    slanted = np.array([[1, -slant, slant * size], [0, 1, 0], [0, 0, 1]])
    moved = np.vstack([turned, [0, 0, 1]]) @ slanted
    moved[:2, 2] += np.array(place) * size - size
    mask = cv2.warpAffine(canvas, moved[:2], (size, size), flags=cv2.INTER_LINEAR) / 255
    grain = np.random.default_rng(seed).normal(0, noise, mask.shape) if noise else 0
    return np.clip(np.rint(paper + (ink - paper) * mask + grain), 0, 255).astype(np.uint8)


def _print(canvas: np.ndarray, digit: int, font: int, tall: float, stroke: int) -> None:
    middle = len(canvas) // 2
    scale = tall / cv2.getTextSize("8", font, 1.0, 1)[0][1]
    (width, height), _ = cv2.getTextSize(str(digit), font, scale, stroke)
    cv2.putText(canvas, str(digit), (middle - width // 2, middle + height // 2), font, scale, 255, stroke, cv2.LINE_AA)


def _set(canvas: np.ndarray, digit: int, name: str, tall: float) -> None:
    import matplotlib
    from matplotlib.ft2font import FT2Font

    font = FT2Font(f"{matplotlib.get_data_path()}/fonts/ttf/{name}.ttf")
    font.set_size(tall, 96)  # points of 4/3 pixels; digits are about 3/4 of that tall
    font.set_text(str(digit))
    font.draw_glyphs_to_bitmap()
    sign = np.array(font.get_image())
    top, left = (len(canvas) - side >> 1 for side in sign.shape)
    canvas[top : top + sign.shape[0], left : left + sign.shape[1]] = sign


def hand(seed: int = 1, tool: str = "pen") -> list[tuple[int, np.ndarray]]:
    """Ten digits, no two drawn alike: stroke or font, slant, turn, place, ink and paper change from one to the next.

    tool: "pen", "strokes" (OpenCV's fonts) or "type".
    """
    rng = np.random.default_rng(seed)
    fonts = {"pen": [rng], "strokes": STROKE_FONTS, "type": TYPE}[tool]
    drawn = []
    for digit in range(10):
        light = digit % 3 == 2  # chalk on a blackboard
        ink, paper = (235, 25) if light else (int(rng.integers(0, 70)), int(rng.integers(200, 256)))
        font = fonts[int(rng.integers(len(fonts)))]
        thickness, slant, turn = rng.uniform(0.06, 0.18), rng.uniform(-0.05, 0.25), rng.uniform(-6, 6)
        size, place, noise = int(rng.integers(60, 240)), tuple(rng.uniform(0.42, 0.58, 2)), rng.uniform(0, 6)
        drawn.append((digit, draw(digit, font, thickness, slant, turn, size, place, ink, paper, noise, digit)))
    return drawn


def write(folder: Path, seed: int = 1, tool: str = "pen") -> list[Path]:
    """0.png … 9.png."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for digit, image in hand(seed, tool):
        files.append(folder / f"{digit}.png")
        cv2.imwrite(str(files[-1]), image)
    return files
