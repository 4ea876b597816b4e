"""Decodes JPEG and PNG bytes to Caffe's layout, C×H×W in the order blue, green, red."""

from __future__ import annotations

import io

import numpy as np

from caffelite.errors import missing_extra


def decode(content: bytes, color: bool | None = None) -> np.ndarray:
    """uint8 C×H×W. color: True gives 3 channels, False 1, None as many as the file has.

    Errors: ValueError where the bytes are no image of 8 bits a channel; neither OpenCV nor Pillow is installed.
    """
    try:
        import cv2
    except ImportError:
        return _with_pillow(content, color)
    flag = {True: cv2.IMREAD_COLOR, False: cv2.IMREAD_GRAYSCALE, None: cv2.IMREAD_UNCHANGED}[color]
    image = cv2.imdecode(np.frombuffer(content, np.uint8), flag)
    if image is None or image.dtype != np.uint8:
        raise ValueError("not an image of 8 bits a channel that can be decoded")
    return np.ascontiguousarray(np.atleast_3d(image).transpose(2, 0, 1))


def _with_pillow(content: bytes, color: bool | None) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("opencv-python-headless", "images", "an encoded image") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError("not an image of 8 bits a channel")
            native = image.mode if image.mode in ("L", "RGBA") else "RGB"
            wanted = {True: "RGB", False: "L", None: native}[color]
            image.draft(wanted, None)
            pixels = np.asarray(image.convert(wanted))
    except (OSError, SyntaxError) as mistake:
        raise ValueError(f"not an image that can be decoded ({mistake})") from None
    channels = np.atleast_3d(pixels).transpose(2, 0, 1)
    return np.ascontiguousarray(channels[[2, 1, 0, 3][: len(channels)]] if len(channels) > 1 else channels)
