"""What the header of an image file says: checked before a decoder allocates what it states, and how the image is to be
turned."""

import os
from collections.abc import Iterator
from typing import Literal

from .images import LIMIT, MOST_PIXELS

PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
CODESTREAM, TIFFS = b"\xff\x4f\xff\x51", (b"II*\0", b"MM\0*")
# Of images that need more than DECODING bytes a pixel while they are decoded, fewer pixels are taken.
DECODING = 6
MOST_PACKED = 8300  # pixels in a byte of a file: deflate packs a byte of eight black pixels 1,032 times
SMALL = 1 << 24  # pixels that are decoded without a look at the length of the file
PNG_SAMPLES = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}  # by color type, as they are decoded
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the markers of segments with the size of the image
BARE = {0x01, *range(0xD0, 0xD9)}  # markers without a length


def check(content: bytes) -> int:
    """Looks at PNG, JPEG, GIF, JPEG 2000 and TIFF; returns the pixels that the image has, 0 where it does not see them.
    Errors: ValueError where a chunk or a segment is longer than the rest of the file, the image has too many pixels, or
    a JPEG lacks its end."""
    if is_cut(content):
        raise ValueError("the JPEG is cut short")
    if content[:8] == PNG:
        return _check_png(content)
    if content[:2] == JPEG:
        return _check_jpeg(content)
    if content[:4] == b"GIF8":
        width, height = (int.from_bytes(content[i : i + 2], "little") for i in (6, 8))
        return check_size("GIF", content, width, height, 8)
    if content[:4] == CODESTREAM or content[4:8] == b"jP  ":
        return _check_jpeg_2000(content)
    return _check_tiff(content) if content[:4] in TIFFS else 0


def _check_png(content: bytes) -> int:
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
    return check_size("PNG", content, width, height, 2 * PNG_SAMPLES.get(content[25], 4) * max(8, content[24]) // 8)


def _check_jpeg(content: bytes) -> int:
    at, pixels = 2, 0
    while at + 4 <= len(content):
        if content[at] != 0xFF:  # decoders look for the next marker too
            at = content.find(b"\xff", at)
            if at < 0:
                break
            continue
        marker = content[at + 1]
        if marker == 0xFF or marker in BARE or not marker:
            at += 1 if marker == 0xFF else 2
            continue
        length = int.from_bytes(content[at + 2 : at + 4], "big")
        if marker != 0xD9 and at + 2 + length > len(content):
            _refuse("JPEG", f"segment {marker:02X}", length, len(content) - at - 2)
        if marker in FRAMES:
            sides = (int.from_bytes(content[i : i + 2], "big") for i in (at + 7, at + 5))
            pixels = max(pixels, check_size("JPEG", content, *sides))
        if marker in (0xD9, 0xDA):  # the end, or the pixels
            break
        at += 2 + length
    return pixels


def _check_jpeg_2000(content: bytes) -> int:
    at = content.find(CODESTREAM) + 8
    if at < 8:
        return 0
    right, bottom, left, top = (int.from_bytes(content[at + i : at + i + 4], "big") for i in (0, 4, 8, 12))
    samples = int.from_bytes(content[at + 32 : at + 34], "big")
    return check_size("JPEG 2000", content, right - left, bottom - top, 4 * samples + 4)


def _check_tiff(content: bytes) -> int:
    """Looks at the first image, the one that is decoded."""
    order, entries = _tiff_entries(content)

    def number(at: int, length: int) -> int:
        return int.from_bytes(content[at : at + length], order)

    fields = {256: 0, 257: 0, 258: 8, 277: 1}  # width, height, bits, samples
    for tag, at in entries:
        length = 2 if number(at + 2, 2) == 3 else 4
        if tag in fields:
            apart = number(at + 4, 4) * length > 4  # the values are elsewhere
            fields[tag] = number(number(at + 8, 4) if apart else at + 8, length)
    width, height, bits, samples = fields.values()
    return check_size("TIFF", content, width, height, 2 * samples * bits // 8)


Order = Literal["little", "big"]


def _tiff_entries(content: bytes) -> tuple[Order, Iterator[tuple[int, int]]]:
    """The order of bytes, and (tag, offset) of the entries that describe the first image of a TIFF, or EXIF."""
    order: Order = "little" if content[:2] == b"II" else "big"
    first = int.from_bytes(content[4:8], order)
    end = min(first + 2 + 12 * int.from_bytes(content[first : first + 2], order), len(content))
    return order, ((int.from_bytes(content[at : at + 2], order), at) for at in range(first + 2, end, 12))


ORIENTATION = 274
MOST_EXIF = 1 << 16


def orientation(content: bytes) -> int:
    """How an image is to be turned, 1 to 8, as EXIF counts; 1, not at all, where the file does not say."""
    block = content if content[:4] in TIFFS else _exif(content)
    if block[:4] not in TIFFS:
        return 1
    order, entries = _tiff_entries(block)
    value = next((int.from_bytes(block[at + 8 : at + 10], order) for tag, at in entries if tag == ORIENTATION), 1)
    return value if 1 <= value <= 8 else 1


def _exif(content: bytes) -> bytes:
    """The EXIF of a JPEG, a PNG or a WebP; empty where there is none."""
    if content[:2] == JPEG:
        chunks = _jpeg_segments(content)
    elif content[:8] == PNG:
        chunks = _chunks(content, 8, "big", 4)
    elif content[8:12] == b"WEBP":
        chunks = _chunks(content, 12, "little", 0)
    else:
        return b""
    names = b"\xe1", b"eXIf", b"EXIF"
    starts = (start for name, start in chunks if name in names)
    blocks = (content[start : start + MOST_EXIF].removeprefix(b"Exif\0\0") for start in starts)
    return next((block for block in blocks if block[:4] in TIFFS), b"")


def _jpeg_segments(content: bytes) -> Iterator[tuple[bytes, int]]:
    """(marker, offset of the content) of the segments before the pixels."""
    at = 2
    while at + 4 <= len(content) and content[at] == 0xFF and content[at + 1] not in (0xD9, 0xDA):
        if content[at + 1] == 0xFF:  # a fill byte
            at += 1
            continue
        yield content[at + 1 : at + 2], at + 4
        at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")


def _chunks(content: bytes, at: int, order: Order, after: int) -> Iterator[tuple[bytes, int]]:
    """(name, offset of the content) of the chunks of a PNG, whose length comes first, with ``after`` bytes behind each,
    or of a WebP, padded to even lengths."""
    while at + 8 <= len(content):
        head = content[at : at + 4], content[at + 4 : at + 8]
        length, name = head if order == "big" else head[::-1]
        yield name, at + 8
        size = int.from_bytes(length, order)
        at += 8 + size + (after or size % 2)


def gray_key(content: bytes) -> int | None:
    """The gray value of 8 or 16 bits that is transparent in a gray PNG, as it is decoded; None where there is none."""
    if content[:8] != PNG or content[25:26] != b"\0":
        return None
    start = next((start for name, start in _chunks(content, 8, "big", 4) if name == b"tRNS"), None)
    if start is None:
        return None
    bits = content[24]
    return int.from_bytes(content[start : start + 2], "big") * (255 // ((1 << bits) - 1) if bits < 8 else 1)


def is_plain(content: bytes) -> bool:
    """Whether the header alone shows that an image has 8 bits and no opacity."""
    if content[:8] == PNG and content[24] <= 8 and content[25] in (0, 2, 3):
        return not any(name == b"tRNS" for name, _ in _chunks(content, 8, "big", 4))
    return content[:2] == JPEG or content[:2] == b"BM" and content[28:30] != b"\x20\0"


def is_cut(content: bytes) -> bool:
    """Whether a JPEG lacks its end, which decoders fill with gray: no end marker follows the last start of a scan."""
    return content.startswith(JPEG) and content.rfind(b"\xff\xd9") < content.rfind(b"\xff\xda")


def is_lossy(content: bytes) -> str:
    """The format of an image whose compression changes its values; empty for others."""
    if content[:2] == JPEG:
        return "JPEG"
    if content[8:16] == b"WEBPVP8 ":
        return "lossy WebP"
    return "AVIF" if content[4:12] == b"ftypavif" else ""


def is_heic(content: bytes) -> bool:
    """Whether an image is in the format of Apple's cameras."""
    return content[4:8] == b"ftyp" and content[8:12] in (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")


def _refuse(kind: str, what: str, length: int, left: int) -> None:
    raise ValueError(f"the {kind} is cut short or damaged: {what} states {length} bytes, and {max(0, left)} follow")


def check_size(kind: str, content: bytes, width: int, height: int, decoding: int = DECODING) -> int:
    """The number of pixels. decoding: bytes of a pixel while it is decoded. Errors: ValueError for too many pixels, or
    more than the content can have."""
    most = MOST_PIXELS
    if os.environ.get(LIMIT, "").isdecimal():
        most = int(os.environ[LIMIT])
    most = most * DECODING // max(decoding, DECODING)
    if width * height > most:
        needed = -(-width * height * max(decoding, DECODING) // DECODING)
        what = f"the {kind} is too large: {width}×{height} pixels, at most {most} are decoded"
        raise ValueError(f"{what}; make it smaller, or set the environment variable {LIMIT}={needed}")
    if width * height > max(SMALL, MOST_PACKED * len(content)):
        what = f"it states {width}×{height} pixels, and has {len(content)} bytes"
        raise ValueError(f"the {kind} is cut short or damaged: {what}")
    return width * height
