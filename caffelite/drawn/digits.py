"""Printed digits, drawn without a font: skeletons of the forms that printers use, under pens of many weights, widths
and slants."""

import numpy as np

SIDE, TALL = 28, 20  # pixels: of an image, and of a digit's longer side in its middle


def _line(*points: tuple[float, float]) -> np.ndarray:
    """Straight from point to point: x to the right, y down, in a box one high and about 0.6 wide."""
    return np.array(points, np.float32)


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float, *then: tuple[float, float]) -> np.ndarray:
    """An ellipse's arc about (x, y), from and to an angle in degrees, 0 to the right, 90 down; then straight on to more
    points."""
    angles = np.radians(np.linspace(start, end, max(4, int(abs(end - start) / 20) + 1)))
    return np.vstack([np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], 1), *then]).astype(np.float32)


_STEM = [_line((0.3, 0), (0.3, 1))]
_SEVEN, _BOWL = [_line((0.02, 0), (0.58, 0), (0.2, 1))], _arc(0.29, 0.68, 0.28, 0.32, 0, 360)
_THREE = [_arc(0.27, 0.24, 0.23, 0.24, -160, 90), _arc(0.27, 0.74, 0.29, 0.26, -90, 155)]
_FIVE = [_line((0.52, 0), (0.1, 0), (0.06, 0.47)), _arc(0.27, 0.68, 0.29, 0.32, -135, 150)]
_TWO = [_arc(0.28, 0.28, 0.26, 0.28, -170, 35, (0.03, 1), (0.58, 1))]
_EIGHT = [_arc(0.29, 0.24, 0.23, 0.24, 0, 360), _arc(0.29, 0.74, 0.28, 0.26, 0, 360)]
_SIX = [_BOWL, np.vstack([_arc(0.36, 0.62, 0.35, 0.62, -70, -180), _line((0.01, 0.7))])]


def _turned(form: list[np.ndarray]) -> list[np.ndarray]:
    return [np.array([0.58, 1], np.float32) - stroke for stroke in form]


# A digit's forms; a form is its strokes. Those with a second line have serifs, tails or bars.
FORMS: tuple[list[list[np.ndarray]], ...] = (
    [
        [_arc(0.29, 0.5, 0.28, 0.5, 0, 360)],
        [_arc(0.29, 0.5, 0.22, 0.5, 0, 360)],
        [
            _line((0.05, 0.25), (0.05, 0.75)),
            _arc(0.29, 0.25, 0.24, 0.25, -180, 0, (0.53, 0.75)),
            _arc(0.29, 0.75, 0.24, 0.25, 0, 180),
        ],
    ],
    [
        _STEM,
        _STEM + [_line((0.3, 0), (0.08, 0.16))],
        _STEM + [_line((0.3, 0), (0.06, 0.24))],
        _STEM + [_line((0.3, 0), (0.1, 0.12)), _line((0.08, 1), (0.52, 1))],
        _STEM + [_line((0.3, 0.02), (0.1, 0.06)), _line((0.12, 1), (0.48, 1))],
    ],
    [
        _TWO,
        [_arc(0.28, 0.28, 0.26, 0.28, -190, 50, (0.03, 0.98), (0.57, 0.98))],
        _TWO + [_line((0.58, 1), (0.6, 0.86))],
        [_arc(0.29, 0.26, 0.26, 0.26, -165, 60), _arc(0.6, 0.98, 0.56, 0.55, -115, -175, (0.04, 1), (0.58, 1))],
    ],
    [
        _THREE,
        [
            _arc(0.27, 0.24, 0.24, 0.24, -150, 80),
            _arc(0.25, 0.73, 0.3, 0.27, -80, 140),
            _line((0.16, 0.47), (0.32, 0.47)),
        ],
        [_line((0.04, 0), (0.5, 0), (0.24, 0.4)), _arc(0.25, 0.69, 0.29, 0.31, -90, 150)],
        _THREE + [_line((0.05, 0.12), (0.06, 0.2)), _line((0.02, 0.82), (0.02, 0.9))],
    ],
    [
        [_line((0.44, 1), (0.44, 0), (0.01, 0.7), (0.6, 0.7))],
        [_line((0.42, 1), (0.42, 0), (0.02, 0.66), (0.58, 0.66))],
        [_line((0.4, 0), (0.02, 0.72), (0.6, 0.72)), _line((0.42, 0.4), (0.42, 1))],
        [_line((0.1, 0), (0.06, 0.58), (0.58, 0.58)), _line((0.46, 0), (0.46, 1))],
        [_line((0.44, 1), (0.44, 0), (0.01, 0.7), (0.6, 0.7)), _line((0.3, 1), (0.58, 1))],
    ],
    [
        _FIVE,
        [_line((0.5, 0), (0.08, 0), (0.08, 0.44)), _arc(0.25, 0.7, 0.29, 0.3, -120, 140)],
        [_line((0.54, 0), (0.12, 0), (0.03, 0.5)), _arc(0.28, 0.67, 0.28, 0.33, -150, 165)],
        _FIVE + [_line((0.52, 0), (0.54, 0.08)), _line((0.02, 0.84), (0.03, 0.92))],
    ],
    [
        _SIX,
        [_BOWL, _arc(0.55, 0.64, 0.54, 0.64, -90, -175)],
        [_BOWL, _line((0.42, 0), (0.06, 0.55))],
        [_BOWL, np.vstack([_arc(0.3, 0.34, 0.29, 0.34, -30, -180), _line((0.01, 0.7))])],
    ],
    [
        _SEVEN,
        [_line((0.02, 0), (0.56, 0)), _arc(0.76, 1, 0.54, 1.04, -112, -180)],
        _SEVEN + [_line((0.02, 0), (0.02, 0.16))],
        _SEVEN + [_line((0.16, 0.5), (0.54, 0.5))],
        [_line((0.02, 0), (0.56, 0), (0.34, 0.5), (0.26, 1))],
    ],
    [
        _EIGHT,
        [_arc(0.29, 0.25, 0.25, 0.25, 0, 360), _arc(0.29, 0.75, 0.25, 0.25, 0, 360)],
        [_arc(0.29, 0.22, 0.2, 0.22, 0, 360), _arc(0.29, 0.72, 0.29, 0.28, 0, 360)],
    ],
    [],
)
FORMS[9].extend(_turned(form) for form in FORMS[6])


def draw(digit: int, rng: np.random.Generator) -> np.ndarray:
    """A digit, 28×28 of uint8, light on dark, 20 pixels tall and in the middle: a form, a pen, a width and a slant by
    chance."""
    forms = FORMS[digit]
    strokes = forms[rng.integers(len(forms))]
    # Half its width and height: most pens are broader than tall.
    pen = np.array([1, rng.uniform(0.4, 1.1)]) * rng.uniform(0.02, 0.13)
    wide, slant, turn = rng.uniform(0.7, 1.3), rng.choice([0, rng.uniform(-0.1, 0.35)]), np.radians(rng.uniform(-7, 7))
    shape = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) @ np.array([[wide, -slant], [0, 1]])
    strayed = [stroke + _stray(stroke, rng.uniform(0, 0.03), rng.uniform(0, 2 * np.pi, 2)) for stroke in strokes]
    strayed = [stroke @ shape.T for stroke in strayed]
    points = np.concatenate(strayed)
    low, high = points.min(0) - pen, points.max(0) + pen
    scale = TALL / (high - low).max()
    starts = np.concatenate([stroke[:-1] for stroke in strayed])
    ends = np.concatenate([stroke[1:] for stroke in strayed])
    middle = (low + high) / 2
    return _ink((starts - middle) * scale, (ends - middle) * scale, pen * scale, rng.uniform(1, 2))


def _stray(points: np.ndarray, far: float, phase: np.ndarray) -> np.ndarray:
    """A low-frequency distortion of the box, so that no two digits of a form are equal."""
    return far * np.sin(5 * points[:, ::-1] + phase)


def _ink(starts: np.ndarray, ends: np.ndarray, pen: np.ndarray, soft: float) -> np.ndarray:
    """Segments about the image's middle, in pixels, under an elliptic pen. soft: pixels of its edge, from full ink to
    none."""
    centers = np.arange(SIDE, dtype=np.float32) + 0.5 - SIDE / 2
    x, y = (starts / pen).T.astype(np.float32)  # the pen is round in these units
    ax, ay = ((ends - starts) / pen).T.astype(np.float32)
    dx = centers[None, :, None] / np.float32(pen[0]) - x  # pixel less start
    dy = centers[:, None, None] / np.float32(pen[1]) - y
    # The relative position of the nearest point on a segment.
    share = ((dx * ax + dy * ay) / np.maximum(ax * ax + ay * ay, 1e-9)).clip(0, 1)
    far = np.sqrt(((dx - share * ax) ** 2 + (dy - share * ay) ** 2).min(-1))
    ink = (0.5 + (1 - far) * pen.min() / soft).clip(0, 1)
    return np.rint(255 * ink / ink.max()).astype(np.uint8)


def digits(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """count drawn digits N×28×28 and their labels, each class as often as any other."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(count) % 10)
    return np.stack([draw(int(label), rng) for label in labels]), labels
