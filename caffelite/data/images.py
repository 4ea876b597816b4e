"""Decodes and resizes images by OpenCV: JPEG and PNG bytes to Caffe's layout, C×H×W, BGR.

Before a library decodes an image, the lengths and sizes that the file states are checked, which a decoder allocates
without a look at the file.
"""

import io
import os
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Literal

import numpy as np

from .. import inputs
from ..errors import Where, missing_extra

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
CODESTREAM, TIFFS = b"\xff\x4f\xff\x51", (b"II*\0", b"MM\0*")
# OpenCV takes four times as many and then needs 3 GiB; it reads this when it is imported, and a user's own setting goes
# before. Of images that need more than DECODING bytes a pixel while they are decoded, fewer pixels are taken.
MOST_PIXELS = 1 << 28
DECODING = 6
LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"
MOST_PACKED = 8300  # pixels in a byte of a file: deflate packs a byte of eight black pixels 1,032 times
SMALL = 1 << 24  # pixels that are decoded without a look at the length of the file
PNG_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}  # by color type, as they are decoded
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the markers of segments with the size of the image
BARE = {0x01, *range(0xD0, 0xD9)}  # markers without a length


def check(content: bytes) -> None:
    """Looks at PNG, JPEG, GIF, JPEG 2000 and TIFF. Errors: ValueError where a chunk or a segment is longer than the
    rest of the file, or the image has too many pixels."""
    if content[:8] == PNG:
        _check_png(content)
    elif content[:2] == JPEG:
        _check_jpeg(content)
    elif content[:4] == b"GIF8":
        width, height = (int.from_bytes(content[i : i + 2], "little") for i in (6, 8))
        _check_size("GIF", content, width, height, 8)
    elif content[:4] == CODESTREAM or content[4:8] == b"jP  ":
        _check_jpeg_2000(content)
    elif content[:4] in TIFFS:
        _check_tiff(content)


def _check_png(content: bytes) -> None:
    if content[12:16] != b"IHDR" or int.from_bytes(content[8:12], "big") != 13:
        raise ValueError("the PNG does not begin with its header")
    at, name = 8, b""
    while name != b"IEND" and at < len(content):
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        if at + 12 + length > len(content):
            _refuse("PNG", f"chunk {name.decode('latin-1')!r}", length, len(content) - at - 8)
        at += 12 + length
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    # Both the decoded rows and the picture are in memory.
    _check_size("PNG", content, width, height, 2 * PNG_SAMPLES.get(content[25], 4) * max(8, content[24]) // 8)


def _check_jpeg(content: bytes) -> None:
    at = 2
    while at + 4 <= len(content):
        if content[at] != 0xFF:  # decoders look for the next marker too
            at = content.find(b"\xff", at)
            if at < 0:
                return
            continue
        marker = content[at + 1]
        if marker == 0xFF or marker in BARE or not marker:
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(content[at + 2 : at + 4], "big")
        if marker != 0xD9 and at + 2 + length > len(content):
            _refuse("JPEG", f"segment {marker:02X}", length, len(content) - at - 2)
        if marker in FRAMES:
            _check_size("JPEG", content, *(int.from_bytes(content[i : i + 2], "big") for i in (at + 7, at + 5)))
        if marker in (0xD9, 0xDA):  # the end, or the pixels
            return
        at += 2 + length


def _check_jpeg_2000(content: bytes) -> None:
    at = content.find(CODESTREAM) + 8
    if at < 8:
        return
    right, bottom, left, top = (int.from_bytes(content[at + i : at + i + 4], "big") for i in (0, 4, 8, 12))
    samples = int.from_bytes(content[at + 32 : at + 34], "big")
    _check_size("JPEG 2000", content, right - left, bottom - top, 4 * samples + 4)


def _check_tiff(content: bytes) -> None:
    """Looks at the first image, the one that is decoded."""
    order: Literal["little", "big"] = "little" if content[:2] == b"II" else "big"

    def number(at: int, length: int) -> int:
        return int.from_bytes(content[at : at + length], order)

    first = number(4, 4)
    fields = {256: 0, 257: 0, 258: 8, 277: 1}  # width, height, bits, samples
    for at in range(first + 2, min(first + 2 + 12 * number(first, 2), len(content)), 12):
        tag, length = number(at, 2), 2 if number(at + 2, 2) == 3 else 4
        if tag in fields:
            apart = number(at + 4, 4) * length > 4  # the values are elsewhere
            fields[tag] = number(number(at + 8, 4) if apart else at + 8, length)
    width, height, bits, samples = fields.values()
    _check_size("TIFF", content, width, height, 2 * samples * bits // 8)


def _refuse(kind: str, what: str, length: int, left: int) -> None:
    raise ValueError(f"the {kind} is cut short or damaged: {what} states {length} bytes, and {max(0, left)} follow")


def _check_size(kind: str, content: bytes, width: int, height: int, decoding: int = DECODING) -> None:
    """decoding: bytes of a pixel while it is decoded."""
    most = MOST_PIXELS
    if os.environ.get(LIMIT, "").isdecimal():
        most = int(os.environ[LIMIT])
    most = most * DECODING // max(decoding, DECODING)
    if width * height > most:
        raise ValueError(f"the {kind} is too large: {width}×{height} pixels, at most {most} are decoded")
    if width * height > max(SMALL, MOST_PACKED * len(content)):
        what = f"it states {width}×{height} pixels, and has {len(content)} bytes"
        raise ValueError(f"the {kind} is cut short or damaged: {what}")


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
    os.environ.setdefault(LIMIT, str(MOST_PIXELS))
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")  # our own error names the file


def read_image(file: str, where: Where, decoder: Callable[[bytes], np.ndarray], what: str = "image") -> np.ndarray:
    """What ``decoder`` makes of a file's content. where: what names it. Errors: it cannot be read, or decoded."""
    try:
        return decoder(inputs.read(file, inputs.IMAGE))
    except OSError as mistake:
        raise where.error(f'cannot read {what} "{file}": {inputs.reason(mistake)}') from None
    except ValueError as mistake:
        raise where.error(f'{what} "{file}": {mistake}') from None


def decode(content: bytes, color: bool | None = None) -> np.ndarray:
    """uint8 C×H×W, a view of H×W×C. color: True gives 3 channels, False 1, None as many as the file has.

    As in Caffe, an image of 16 bits is converted to 8 if color is True or False. Errors: ValueError where
    the bytes are no image that can be decoded, or not of 8 bits a channel; neither OpenCV nor Pillow is installed.
    """
    if not content:
        raise ValueError("no image: 0 bytes")
    check(content)
    if elsewhere:
        return elsewhere(DECODE, content, color)
    _limit_pixels()
    try:
        import cv2
    except ImportError:
        return _with_pillow(content, color)
    flag = {True: cv2.IMREAD_COLOR, False: cv2.IMREAD_GRAYSCALE, None: cv2.IMREAD_UNCHANGED}[color]
    image = _with_opencv(cv2, content, flag)
    if image.dtype != np.uint8:
        what = f"{EIGHT_BITS}: {8 * image.dtype.itemsize} bits; set force_color or force_gray to have it brought to 8"
        raise ValueError(what)
    return np.atleast_3d(image).transpose(2, 0, 1)


def decode_labels(content: bytes) -> np.ndarray:
    """H×W of uint8 or uint16, the labels of pixels: the numbers of a picture of one channel, or of a palette's colors.

    Errors: ValueError where the bytes are no such picture.
    """
    check(content)
    if elsewhere:
        return elsewhere(LABELS, content, None)
    if content[:8] == PNG and content[25:26] == b"\3":
        return _palette_numbers(content)
    cv2 = opencv("label images")
    image = _with_opencv(cv2, content, cv2.IMREAD_UNCHANGED)
    if image.ndim == 3 and image.shape[2] >= 3 and (image[..., 1:3] == image[..., :1]).all():
        image = image[..., 0]
    if image.ndim != 2 or image.dtype not in (np.uint8, np.uint16):
        raise ValueError("not labels: it has colors; expected one channel, or a palette, of 8 or 16 bits")
    return image


def _with_opencv(cv2: ModuleType, content: bytes, flag: int) -> np.ndarray:
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), flag) if content else None
    except cv2.error as mistake:  # of sizes beyond its limits
        raise ValueError(f"not an image that can be decoded ({mistake.err or mistake})") from None
    if image is None:
        raise ValueError("not an image that can be decoded")
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
    cv2 = opencv("the gray of a colored picture")
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
