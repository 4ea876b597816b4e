"""Checks the structure of a PNG or a JPEG before a library decodes it: lengths and sizes that the file states, which a
decoder allocates without a look at the file."""

from __future__ import annotations

import os

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
# OpenCV takes four times as many and then needs 3 GiB; it reads this when it is imported, and a user's own setting goes
# before.
MOST_PIXELS = 1 << 28
LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the markers of segments with the size of the image
BARE = {0x01, *range(0xD0, 0xD9)}  # markers without a length


def check(content: bytes) -> None:
    """Errors: ValueError where a chunk or a segment is longer than the rest of the file, or the image has too many
    pixels. Other formats are not looked at."""
    if content[:8] == PNG:
        _check_png(content)
    elif content[:2] == JPEG:
        _check_jpeg(content)


def _check_png(content: bytes) -> None:
    if content[12:16] != b"IHDR" or int.from_bytes(content[8:12], "big") != 13:
        raise ValueError("the PNG does not begin with its header")
    _check_size("PNG", *(int.from_bytes(content[i : i + 4], "big") for i in (16, 20)))
    at, name = 8, b""
    while name != b"IEND" and at < len(content):
        length, name = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        if at + 12 + length > len(content):
            _refuse("PNG", f"chunk {name.decode('latin-1')!r}", length, len(content) - at - 8)
        at += 12 + length


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
            _check_size("JPEG", *(int.from_bytes(content[i : i + 2], "big") for i in (at + 7, at + 5)))
        if marker in (0xD9, 0xDA):  # the end, or the pixels
            return
        at += 2 + length


def _refuse(kind: str, what: str, length: int, left: int) -> None:
    raise ValueError(f"the {kind} is cut short or damaged: {what} states {length} bytes, and {max(0, left)} follow")


def _check_size(kind: str, width: int, height: int) -> None:
    most = MOST_PIXELS
    if os.environ.get(LIMIT, "").isdecimal():
        most = int(os.environ[LIMIT])
    if width * height > most:
        raise ValueError(f"the {kind} is too large: {width}×{height} pixels, at most {most} are decoded")
