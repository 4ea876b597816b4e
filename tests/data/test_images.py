"""Bytes to pixels; other sizes."""

import cv2
import numpy as np
import pytest

from caffelite.data.images import channels_first, channels_last, resize
from caffelite.data.pictures import decode
from caffelite.errors import CaffeliteError


@pytest.fixture
def picture():
    """H×W×C, smooth."""
    y, x = np.mgrid[:12, :16]
    return np.stack([10 * x, 15 * y, 5 * (x + y)], axis=-1).astype(np.uint8)


def encoded(image, kind=".png"):
    return cv2.imencode(kind, image)[1].tobytes()


def test_color_comes_channels_first_and_blue_first(picture):
    actual = decode(encoded(picture))
    np.testing.assert_array_equal(actual, picture.transpose(2, 0, 1))
    assert channels_last(actual).base is not None and np.shares_memory(channels_last(actual), actual), (
        "OpenCV gets its pixels back uncopied"
    )


@pytest.mark.parametrize("color, channels", [(True, 3), (False, 1), (None, 1)])
def test_gray_files(picture, color, channels):
    gray = np.ascontiguousarray(picture[..., 1])
    actual = decode(encoded(gray), color)
    np.testing.assert_array_equal(actual, np.repeat(gray[None], channels, 0))


def test_forced_channels_convert_16_bits_to_8():
    deep = (np.arange(64) * 1000).astype(np.uint16).reshape(8, 8)
    np.testing.assert_allclose(decode(encoded(deep), False)[0], deep >> 8, atol=1)
    np.testing.assert_array_equal(decode(encoded(deep)), decode(encoded(deep), False))


@pytest.mark.parametrize(
    "content, said", [(b"", "0 bytes"), (b"no image", "can be decoded"), ("cut", "the JPEG is cut short")]
)
def test_what_is_no_image(picture, content, said):
    if content == "cut":
        whole = encoded(np.repeat(np.repeat(picture, 8, 0), 8, 1), ".jpg")
        content = whole[: len(whole) // 2]
    with pytest.raises(ValueError, match=said):
        decode(content, True)


def test_resize_is_opencvs_bilinear(picture):
    for channels in (3, 1):
        image = picture[..., :channels]
        expected = cv2.resize(image, (9, 7)).reshape(7, 9, channels).transpose(2, 0, 1)
        np.testing.assert_array_equal(resize(channels_first(image), 7, 9), expected)


def test_resize_without_opencv(without_opencv):
    with pytest.raises(CaffeliteError, match="resizing images needs opencv-python-headless, which is not installed"):
        resize(np.zeros((3, 4, 4), np.uint8), 2, 2)
