"""Checks the structure of an image before a library decodes it: lengths and sizes that the file states, which a decoder
allocates without a look at the file."""

from __future__ import annotations

import os
from typing import Literal

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
