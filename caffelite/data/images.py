"""Decodes and resizes images by OpenCV: JPEG and PNG bytes to Caffe's layout, C×H×W, BGR."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np

from ..errors import missing_extra
from . import image_header
from .image_header import MOST_PIXELS

DECODE, LABELS = "decode", "labels"
elsewhere: Callable[[str, bytes, bool | None], np.ndarray] | None = None  # what decodes in place of this process
EIGHT_BITS = "not an image of 8 bits a channel"


@cache
def opencv(use: str) -> ModuleType:
    """OpenCV, set to one thread, because the workers already run in parallel. Errors: it is not installed."""
    _limit_pixels()
    try:
        import cv2
    except ImportError:
        raise missing_extra("opencv-python-headless", "images", use) from None
    cv2.setNumThreads(1)
    return cv2


def _limit_pixels() -> None:
    os.environ.setdefault(image_header.LIMIT, str(MOST_PIXELS))
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")  # our own error names the file


def decode(content: bytes, color: bool | None = None) -> np.ndarray:
    """uint8 C×H×W, a view of H×W×C. color: True gives 3 channels, False 1, None as many as the file has.

    As in Caffe, an image of 16 bits is converted to 8 if color is True or False. Errors: ValueError where
    the bytes are no image that can be decoded, or not of 8 bits a channel; neither OpenCV nor Pillow is installed.
    """
    if not content:
        raise ValueError("no image: 0 bytes")
    image_header.check(content)
    if elsewhere:
        return elsewhere(DECODE, content, color)
    _limit_pixels()
    try:
        import cv2
    except ImportError:
        return _with_pillow(content, color)
    flag = {True: cv2.IMREAD_COLOR, False: cv2.IMREAD_GRAYSCALE, None: cv2.IMREAD_UNCHANGED}[color]
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), flag)
    except cv2.error as mistake:  # of sizes beyond its limits
        raise ValueError(f"not an image that can be decoded ({mistake.err or mistake})") from None
    if image is None:
        raise ValueError("not an image that can be decoded")
    if image.dtype != np.uint8:
        raise ValueError(
            f"{EIGHT_BITS}: {8 * image.dtype.itemsize} bits; set force_color or force_gray to have it brought to 8"
        )
    return np.atleast_3d(image).transpose(2, 0, 1)


def decode_labels(content: bytes) -> np.ndarray:
    """H×W of uint8 or uint16, the labels of pixels: the numbers of a picture of one channel, or of a palette's colours.

    Errors: ValueError where the bytes are no such picture.
    """
    image_header.check(content)
    if elsewhere:
        return elsewhere(LABELS, content, None)
    if content[:8] == image_header.PNG and content[25:26] == b"\3":
        return _palette_numbers(content)
    cv2 = opencv("label images")
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED) if content else None
    except cv2.error as mistake:
        raise ValueError(f"not an image that can be decoded ({mistake.err or mistake})") from None
    if image is None:
        raise ValueError("not an image that can be decoded")
    if image.ndim == 3 and image.shape[2] >= 3 and (image[..., 1:3] == image[..., :1]).all():
        image = image[..., 0]
    if image.ndim != 2 or image.dtype not in (np.uint8, np.uint16):
        raise ValueError("not labels: it has colours; expected one channel, or a palette, of 8 or 16 bits")
    return image


def _palette_numbers(content: bytes) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "images", "a label image with a palette") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.array(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as mistake:
        raise ValueError(f"not an image that can be decoded ({mistake})") from None


def encode_png(pixels: np.ndarray) -> bytes:
    """The PNG of H×W×3 (red, green, blue) or H×W of uint8."""
    cv2 = opencv("writing images")
    return cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)[1].tobytes()


def resize(image: np.ndarray, height: int, width: int, algorithm: str = "INTER_LINEAR") -> np.ndarray:
    """C×height×width of an image C×H×W, by bilinear interpolation as in Caffe; algorithm: OpenCV's name of another."""
    cv2 = opencv("resizing images")
    return channels_first(cv2.resize(channels_last(image), (width, height), interpolation=getattr(cv2, algorithm)))


def with_channels(image: np.ndarray, color: bool) -> np.ndarray:
    """uint8 C×H×W, C being 3 where color, else 1, of an image of 1, 3 or 4 channels; the fourth is opacity, over
    white."""
    if len(image) == 4:
        alpha = image[3:].astype(np.float32) / 255
        image = np.rint(image[:3] * alpha + 255 * (1 - alpha)).astype(np.uint8)
    if len(image) == (3 if color else 1):
        return image
    if color:
        return np.repeat(image, 3, 0)
    cv2 = opencv("the gray of a coloured picture")
    return cv2.cvtColor(channels_last(image), cv2.COLOR_BGR2GRAY)[None]


def channels_last(image: np.ndarray) -> np.ndarray:
    """Converts C×H×W to H×W×C for OpenCV, or H×W if C is 1; a view if the memory order allows it, as for `decode`."""
    return image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))


def channels_first(image: np.ndarray) -> np.ndarray:
    """C×H×W of H×W×C or H×W, a view."""
    return np.atleast_3d(image).transpose(2, 0, 1)


def _with_pillow(content: bytes, color: bool | None) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("opencv-python-headless", "images", "an encoded image") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(EIGHT_BITS)
            native = image.mode if image.mode in ("L", "RGBA") else "RGB"
            wanted = {True: "RGB", False: "L", None: native}[color]
            image.draft(wanted, None)
            pixels = np.asarray(image.convert(wanted))
    except (OSError, SyntaxError, Image.DecompressionBombError) as mistake:
        raise ValueError(f"not an image that can be decoded ({mistake})") from None
    channels = np.atleast_3d(pixels).transpose(2, 0, 1)
    return np.ascontiguousarray(channels[[2, 1, 0, 3][: len(channels)]] if len(channels) > 1 else channels)
