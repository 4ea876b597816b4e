"""False lengths and sizes in PNG and JPEG files: refused before a decoder allocates what they state."""

import struct
import zlib

import numpy as np
import pytest

from caffelite.data import image_header, images

cv2 = pytest.importorskip("cv2")
PICTURE = np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype(np.uint8)


def encoded(kind, *options):
    return cv2.imencode(kind, PICTURE, list(options))[1].tobytes()


def chunk(name, content, length=None):
    length = len(content) if length is None else length
    return struct.pack(">I", length) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width=1, height=1, *more):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\0"))
    return image_header.PNG + header + b"".join(more) + pixels + chunk(b"IEND", b"")


JPEG = encoded(".jpg")
SIZE = JPEG.index(b"\xff\xc0") + 5
PROGRESSIVE = encoded(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
SOUND = {
    "png": encoded(".png"),
    "jpeg": JPEG,
    "progressive": PROGRESSIVE,
    "bytes behind": encoded(".png") + b"more",
    "jpeg and bytes": JPEG + bytes(40),
    "fill bytes": JPEG[:2] + b"\xff\xff" + JPEG[2:],
    "bmp": encoded(".bmp"),
    "ancillary chunk": png(1, 1, chunk(b"tEXt", b"a\0b")),
}
FALSE = {
    "4 GB chunk": (png(1, 1, chunk(b"tEXt", b"a\0b", 0xFFFFFFF0)), "chunk 'tEXt' states 4294967280 bytes, and "),
    "2 GB of pixels": (png()[:33] + struct.pack(">I", 1 << 31) + png()[37:], "chunk 'IDAT' states 2147483648 bytes"),
    "cut": (SOUND["png"][:-40], "chunk 'IDAT' states"),
    "large": (png(1 << 20, 1 << 20), "the PNG is too large: 1048576×1048576 pixels"),
    "no header": (image_header.PNG + chunk(b"IDAT", b""), "does not begin with its header"),
    "signature alone": (image_header.PNG, "does not begin with its header"),
    "segment": (JPEG[:2] + b"\xff\xe1\xff\xf0" + bytes(100), "segment E1 states 65520 bytes, and 102 follow"),
    "large jpeg": (JPEG[:SIZE] + b"\xff\xff\xff\xff" + JPEG[SIZE + 4 :], "the JPEG is too large: 65535×65535 pixels"),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_files_are_decoded(name):
    assert images.decode(SOUND[name]).dtype == np.uint8


@pytest.mark.parametrize("decode", [images.decode, images.decode_labels])
@pytest.mark.parametrize("name", FALSE)
def test_false_files_are_refused(monkeypatch, name, decode):
    content, said = FALSE[name]
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="^the (PNG|JPEG) ") as caught:
        decode(content)
    assert said in str(caught.value)


def test_the_limit_of_pixels_may_be_set(monkeypatch):
    monkeypatch.setenv(image_header.LIMIT, "599")
    with pytest.raises(ValueError, match="30×20 pixels, at most 599 are decoded"):
        image_header.check(SOUND["png"])
