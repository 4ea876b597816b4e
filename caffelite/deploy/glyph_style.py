"""Pictures of single glyphs (digits, letters): measures the background, size and center of a data set's glyphs, and
normalizes a picture to match."""

from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.images import opencv

Deploy = pb.DeployParameter
INK = 0.25  # of the full range: pixels that differ more from the background are ink
EVEN = 0.98  # share of similar border pixels from which the background counts as even
MOST_SIDE = 64  # pixels; larger images are photographs
SPECK = 0.02  # of the largest connected area of ink: smaller ones are dirt


@dataclass(frozen=True)
class GlyphStyle:
    """How glyphs appear in a data set: the fields of deploy_param with the same names."""

    ground: Deploy.Ground = Deploy.ANY
    sign_size: int = 0
    sign_centre: Deploy.SignCentre = Deploy.BOX


def measure(images: list[np.ndarray]) -> GlyphStyle:
    """The glyph style of a data set's images 1×H×W; GlyphStyle() where they are colored, large, or not on an even
    background."""
    if not images or not all(map(may_be_glyph, images)):
        return GlyphStyle()
    borders = np.concatenate([border(image[0]) for image in images])
    ground = next(
        (g for g, level in ((Deploy.DARK, 0), (Deploy.LIGHT, 255)) if np.mean(_far(borders, level) < INK) >= EVEN),
        Deploy.ANY,
    )
    if ground == Deploy.ANY or any(on_ground(image[0], ground)[1] for image in images):
        return GlyphStyle()
    inks = [_far(image[0], 255 * (ground == Deploy.LIGHT)) for image in images]
    inks = [far for far in inks if (far > INK).any()]
    if not inks:
        return GlyphStyle(ground)
    boxes = np.array([_box(far > INK) for far in inks])  # top, bottom, left, right
    sides = np.maximum(boxes[:, 1] - boxes[:, 0], boxes[:, 3] - boxes[:, 2])
    masses = np.array([_mass(far) for far in inks])
    middles = (boxes[:, ::2] + boxes[:, 1::2]) / 2
    spread = [np.ptp(np.percentile(centers, (10, 90), axis=0), axis=0).sum() for centers in (middles, masses)]
    return GlyphStyle(ground, int(np.median(sides)), Deploy.MASS if spread[1] < spread[0] else Deploy.BOX)


def may_be_glyph(image: np.ndarray) -> bool:
    """Whether an image C×H×W is gray and small."""
    return image.shape[0] == 1 and max(image.shape) <= MOST_SIDE and image.dtype == np.uint8


def border(image: np.ndarray) -> np.ndarray:
    return np.concatenate([image[0], image[-1], image[1:-1, 0], image[1:-1, -1]])


def on_ground(image: np.ndarray, ground: int) -> tuple[np.ndarray, bool]:
    """A gray image H×W on the background of the net's training data, and whether it was inverted for that."""
    around = _median(border(image))
    low, high = float(image.min()), float(image.max())
    light = around > ((low + high) / 2 if high - low > 0.1 * 255 else 127)
    inverted = light != (ground == Deploy.LIGHT)
    return (255 - image if inverted else image), inverted


def center_glyph(image: np.ndarray, shape: tuple[int, int], signs: Deploy) -> np.ndarray:
    """Crops, resizes and centers the glyph of a gray image to H×W = shape, on the net's background, as in the training
    data.

    An image without a glyph becomes an even background.
    """
    cv2 = opencv("signs")
    light = signs.ground == Deploy.LIGHT
    values = image.astype(np.float32)
    level = _median(border(image))
    far = np.maximum(level - values if light else values - level, 0)
    most = float(cv2.blur(far, (3, 3)).max())  # one pixel of grain is no ink
    canvas = np.zeros(shape, np.float32)
    if most > 0.1 * 255:
        far = np.minimum(far / most, 1)
        ink = _without_specks(cv2, far > max(INK, 0.5 * _otsu(cv2, far)))
        ink = ink.view(np.uint8)
        left, top, wide, high = cv2.boundingRect(ink)
        box = slice(top, top + high), slice(left, left + wide)
        glyph = far[box] * cv2.dilate(ink, np.ones((3, 3), np.uint8))[box]
        scale = min(signs.sign_size, *shape) / max(glyph.shape)
        size = [max(1, round(side * scale)) for side in glyph.shape]
        glyph = cv2.resize(glyph, size[::-1], interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        middle = _mass(glyph).tolist() if signs.sign_centre == Deploy.MASS else [side / 2 for side in size]
        top, left = (
            min(max(0, round(side / 2 - at)), side - own) for side, own, at in zip(shape, size, middle, strict=True)
        )
        canvas[top : top + size[0], left : left + size[1]] = glyph
    pixels = np.rint(255 * canvas / max(float(canvas.max()), 1e-6)).astype(np.uint8)
    return 255 - pixels if light else pixels


def _median(values: np.ndarray) -> float:
    """As np.median, which takes several times as long for few values."""
    ordered = np.sort(values)
    return (float(ordered[(ordered.size - 1) // 2]) + float(ordered[ordered.size // 2])) / 2


def _far(image: np.ndarray, ground: int) -> np.ndarray:
    """How far pixels are from the ground, 0 to 1."""
    return np.abs(image.astype(np.float32) - ground) / 255


def _box(ink: np.ndarray) -> tuple[int, int, int, int]:
    """The bounding box of true values: top, bottom, left and right; bottom and right are exclusive."""
    rows, columns = (np.flatnonzero(ink.any(axis)) for axis in (1, 0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _mass(far: np.ndarray) -> np.ndarray:
    """The center of mass: row and column."""
    total = far.sum()
    return np.array([(far.sum(1 - axis) * (np.arange(far.shape[axis]) + 0.5)).sum() / total for axis in (0, 1)])


def _otsu(cv2, far: np.ndarray) -> float:
    return cv2.threshold(np.rint(255 * far).astype(np.uint8), 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)[0] / 255


def _without_specks(cv2, ink: np.ndarray) -> np.ndarray:
    count, components = cv2.connectedComponents(ink.view(np.uint8), connectivity=8)
    if count == 2:  # the ground is one
        return ink
    areas = np.bincount(components.ravel())
    areas[0] = 0
    return (areas >= SPECK * areas.max())[components]
