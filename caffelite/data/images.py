"""Operations of OpenCV on images in Caffe's layout, C×H×W, BGR."""

import os
from functools import cache
from types import ModuleType

import numpy as np

from ..errors import missing_extra

# OpenCV takes four times as many and then needs 3 GiB; it reads this when it is imported, and a user's own setting goes
# before.
MOST_PIXELS = 1 << 28
LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"


@cache
def opencv(use: str) -> ModuleType:
    """OpenCV, set to one thread, because the workers already run in parallel. Errors: it is not installed."""
    os.environ.setdefault(LIMIT, str(MOST_PIXELS))
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")  # our own error names the file
    try:
        import cv2
    except ImportError:
        raise missing_extra("opencv-python-headless", "images", use) from None
    cv2.setNumThreads(1)
    return cv2


def encode_png(pixels: np.ndarray) -> bytes:
    """The PNG of H×W×3 (red, green, blue) or H×W of uint8."""
    cv2 = opencv("writing images")
    return cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)[1].tobytes()


def resize(image: np.ndarray, height: int, width: int, algorithm: str = "INTER_LINEAR") -> np.ndarray:
    """C×height×width of an image C×H×W, by bilinear interpolation as in Caffe; algorithm: OpenCV's name of another."""
    cv2 = opencv("resizing images")
    return channels_first(cv2.resize(channels_last(image), (width, height), interpolation=getattr(cv2, algorithm)))


def channels_last(image: np.ndarray) -> np.ndarray:
    """Converts C×H×W to H×W×C for OpenCV, or H×W if C is 1; a view if the memory order allows it, as for `decode`."""
    return image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))


def channels_first(image: np.ndarray) -> np.ndarray:
    """C×H×W of H×W×C or H×W, a view."""
    return np.atleast_3d(image).transpose(2, 0, 1)
