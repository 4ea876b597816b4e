"""False lengths and sizes in images: refused before a decoder allocates what they state."""

import struct
import zlib

import cv2
import numpy as np
import pytest

from caffelite.data import image_headers, images, pictures

PICTURE = np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype(np.uint8)
LARGE = np.zeros((128, 128, 3), np.uint8)


def encoded(kind, *options):
    return cv2.imencode(kind, PICTURE, list(options))[1].tobytes()


def chunk(name, content, length=None):
    length = len(content) if length is None else length
    return struct.pack(">I", length) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width=1, height=1, *more, bits=8, color=0):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\0"))
    return image_headers.PNG + header + b"".join(more) + pixels + chunk(b"IEND", b"")


def gif(width, height):
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + b";"


def jpeg_2000(width, height):
    size = struct.pack(">HIIIIIIIIH", 0, width + 7, height + 7, 7, 7, width, height, 7, 7, 3) + b"\x07\1\1" * 3
    return b"\xff\x4f\xff\x51" + struct.pack(">H", len(size) + 2) + size


def tiff(width, height, order="<", bits=64, samples=4):
    entries = [(256, 4, 1, width), (257, 3, 1, height), (258, 3, samples, 62), (277, 3, 1, samples)]
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(entries))
    rows = [
        struct.pack(order + ("HHIHxx" if kind == 3 and n == 1 else "HHII"), t, kind, n, v) for t, kind, n, v in entries
    ]
    return head + b"".join(rows) + bytes(4) + struct.pack(order + "4H", *[bits] * 4)


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
    "tiff": encoded(".tiff"),
    "gif": cv2.imencode(".gif", PICTURE)[1].tobytes() if cv2.haveImageWriter("a.gif") else JPEG,
    "jpeg 2000": cv2.imencode(".jp2", LARGE)[1].tobytes(),
    "webp": encoded(".webp"),
}
FALSE = {
    "4 GB chunk": (png(1, 1, chunk(b"tEXt", b"a\0b", 0xFFFFFFF0)), "chunk 'tEXt' states 4294967280 bytes, and "),
    "2 GB of pixels": (png()[:33] + struct.pack(">I", 1 << 31) + png()[37:], "chunk 'IDAT' states 2147483648 bytes"),
    "cut": (SOUND["png"][:-40], "chunk 'IDAT' states"),
    "large": (png(1 << 20, 1 << 20), "the PNG is too large: 1048576×1048576 pixels"),
    "no header": (image_headers.PNG + chunk(b"IDAT", b""), "does not begin with its header"),
    "signature alone": (image_headers.PNG, "does not begin with its header"),
    "segment": (JPEG[:2] + b"\xff\xe1\xff\xf0" + bytes(100), "segment E1 states 65520 bytes, and 102 follow"),
    "large jpeg": (JPEG[:SIZE] + b"\xff\xff\xff\xff" + JPEG[SIZE + 4 :], "the JPEG is too large: 65535×65535 pixels"),
    "short jpeg": (
        JPEG[:SIZE] + b"\x3f\xff\x3f\xff" + JPEG[SIZE + 4 :],
        "the JPEG is cut short or damaged: it states 16383×",
    ),
    "short png": (png(1 << 14, 1 << 13), "the PNG is cut short or damaged: it states 16384×8192 pixels, and has "),
    "wide pixels": (png(1 << 14, 1 << 13, bits=16, color=6), "16384×8192 pixels, at most 100663296 are decoded"),
    "large gif": (gif(65535, 65535), "the GIF is too large: 65535×65535 pixels, at most 201326592"),
    "short gif": (gif(10000, 10000), "the GIF is cut short or damaged: it states 10000×10000 pixels, and has 14 bytes"),
    "large jpeg 2000": (jpeg_2000(12000, 12000), "the JPEG 2000 is too large: 12000×12000 pixels, at most 100663296"),
    "large jp2": (b"\0\0\0\x0cjP  \r\n\x87\n" + jpeg_2000(12000, 12000), "the JPEG 2000 is too large: 12000×12000"),
    "large tiff": (tiff(16383, 16383), "the TIFF is too large: 16383×16383 pixels, at most 25165824 are decoded"),
    "large tiff, other order": (tiff(16383, 16383, ">"), "the TIFF is too large: 16383×16383 pixels, at most 25165824"),
    "short tiff": (tiff(16000, 16000, bits=8, samples=3), "the TIFF is cut short or damaged: it states 16000×16000"),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_files_are_decoded(name):
    assert pictures.decode(SOUND[name]).dtype == np.uint8


@pytest.mark.parametrize(
    ("content", "pixels"),
    [
        *((encoded(kind), 600) for kind in (".png", ".jpg", ".tif")),
        *((PROGRESSIVE, 600), (gif(5, 7), 35), (jpeg_2000(5, 7), 35), (encoded(".webp"), 0), (b"none", 0)),
    ],
)
def test_the_pixels_that_a_header_states(content, pixels):
    assert image_headers.check(content) == pixels


def test_plain_files_have_8_bits_and_no_opacity():
    opaque = cv2.imencode(".bmp", np.dstack([PICTURE, PICTURE[..., :1]]))[1].tobytes()
    plain = {kind: image_headers.is_plain(encoded(kind)) for kind in (".png", ".jpg", ".bmp", ".tif")}
    assert plain == {".png": True, ".jpg": True, ".bmp": True, ".tif": False}
    assert not image_headers.is_plain(opaque) and not image_headers.is_plain(png(bits=16))


def test_a_plain_file_is_decoded_once(monkeypatch):
    decoded, decode = [], pictures._decode
    monkeypatch.setattr(pictures, "_decode", lambda *args: decoded.append(1) or decode(*args))
    pictures.Decoder(True, opacity=pictures.P.ON_WHITE)(encoded(".png"))
    assert decoded == [1]


@pytest.mark.parametrize("decode", [pictures.decode, pictures.AS_CAFFE.labels])
@pytest.mark.parametrize("name", FALSE)
def test_false_files_are_refused(monkeypatch, name, decode):
    content, message = FALSE[name]
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="^the (PNG|JPEG|GIF|TIFF)( 2000)? ") as caught:
        decode(content)
    assert message in str(caught.value)


def test_the_limit_of_pixels_may_be_set(monkeypatch):
    monkeypatch.setenv(images.LIMIT, "599")
    with pytest.raises(ValueError, match="30×20 pixels, at most 599 are decoded"):
        image_headers.check(SOUND["png"])


@pytest.mark.parametrize(
    "content", [b"GIF8", b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP  ", b"II*\0", b"MM\0*\xff\xff\xff\xff"]
)
def test_a_header_alone_is_no_image(content):
    with pytest.raises(ValueError, match="not an image that can be decoded"):
        pictures.decode(content)


def test_a_bomb_of_pillow_is_refused(monkeypatch):
    """Pillow decodes palettes."""
    Image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8)
    content = png(30, 20, chunk(b"PLTE", bytes(3)), color=3)
    with pytest.raises(ValueError, match="not an image that can be decoded"):
        pictures.AS_CAFFE.labels(content)
