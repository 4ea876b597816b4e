"""What an image file means as an array: the one place that decodes images, for all that read them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, file_types, inputs
from ..errors import Locator, Where, missing_extra
from . import image_headers
from .images import channels_first, opencv

# The endings of image files by which folders, lists and archives are searched, and the message about them
ENDINGS = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".avif", ".ppm", ".pgm"),
    *(".jp2", ".heic", ".heif"),
)
DECODE, LABELS = "decode", "labels"
P = pb.TransformationParameter
FIELDS = "opacity", "orientation", "depth", "depth_low", "depth_high"  # of transform_param
USE = "an encoded image"
UNDECODABLE = "not an image that can be decoded"


@dataclass(frozen=True)
class Decoder:
    """Converts an image file to uint8 C×H×W, a view of H×W×C: blue, green and red, or gray.

    color: True gives 3 channels, False 1, None those of the file. opacity, orientation, depth, low, high: the fields of
    transform_param with these names; by default as Caffe's ImageData: opacity is dropped, the image turned as its EXIF
    says, and of 16 bits the high byte taken. With KEEP opacity is a fourth channel.
    Errors: ValueError where the bytes are no image that can be decoded.
    """

    color: bool | None = None
    opacity: int = P.DROP
    orientation: int = P.TURN
    depth: int = P.HIGH_BYTE
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, transform: pb.TransformationParameter, color: bool | None, locate: Locator | None = None) -> Decoder:
        """As transform_param has it. Errors: fields that contradict each other."""
        low, high = (getattr(transform, n) if transform.HasField(n) else None for n in ("depth_low", "depth_high"))
        if locate and (low is not None or high is not None):
            name = "depth_low" if low is not None else "depth_high"
            if transform.depth != P.STRETCH:
                raise locate.error(f"{name} without depth: STRETCH", name, remedy="set it, or leave this out")
            if low is None or high is None or not low < high:
                found = f"{low} and {high}"
                raise locate.error("depth_low and depth_high are no range", name, expected="low < high", found=found)
        if locate and transform.opacity == P.KEEP and color is False:
            remedy = "leave out is_color: false or force_gray, or set ON_WHITE"
            raise locate.error("opacity: KEEP needs color", "opacity", remedy=remedy)
        return cls(color, transform.opacity, transform.orientation, transform.depth, low, high)

    def __call__(self, content: bytes) -> np.ndarray:
        if not content:
            raise ValueError("no image: 0 bytes")
        image_headers.check(content)
        if elsewhere:
            return elsewhere(DECODE, content, self)
        cv2 = opencv(USE)
        return channels_first(self._turned(self._decoded(cv2, content), content))

    def labels(self, content: bytes, lossy: bool = False) -> np.ndarray:
        """H×W of uint8 or uint16, the labels of pixels: the numbers of a picture of one channel, or of a palette's
        colors; turned as images are.

        lossy: also of formats that change values. Errors: ValueError where the bytes are no such picture.
        """
        image_headers.check(content)
        if (kind := image_headers.is_lossy(content)) and not lossy:
            what = f"not labels: {kind} changes the values of pixels, so that wrong labels appear beside the right ones"
            raise ValueError(f"{what}; make the label images anew as PNG")
        if elsewhere:
            return elsewhere(LABELS, content, self)
        if content[:8] == image_headers.PNG and content[25:26] == b"\3":
            return self._turned(_palette_numbers(content), content)
        cv2 = opencv("label images")
        image = _decode(cv2, content, cv2.IMREAD_UNCHANGED)
        if image.ndim == 3 and image.shape[2] >= 3 and (image[..., 1:3] == image[..., :1]).all():
            image = image[..., 0]
        if image.ndim != 2 or image.dtype not in (np.uint8, np.uint16):
            raise ValueError("not labels: it has colors; expected one channel, or a palette, of 8 or 16 bits")
        return self._turned(image, content)

    def of_pixels(self, image: np.ndarray) -> np.ndarray:
        """As for a file, of the pixels C×H×W of uint8 of an image in memory, C being 1, 3 or 4; the fourth is
        opacity."""
        cv2, pixels = opencv(USE), image.transpose(1, 2, 0)
        return channels_first(self._with_channels(cv2, *self._composed(pixels[..., :3], _fourth(pixels), False)))

    def _decoded(self, cv2: ModuleType, content: bytes) -> np.ndarray:
        """H×W×C or H×W, as the file stores it."""
        judged = (self.opacity != P.DROP or self.depth != P.HIGH_BYTE) and not image_headers.is_plain(content)
        if judged or self.opacity == P.KEEP:
            raw = _decode(cv2, content, cv2.IMREAD_UNCHANGED)
            opacity, deep = _opacity(raw, content), raw.dtype != np.uint8
            if self.opacity == P.KEEP or opacity is not None and self.opacity != P.DROP or deep and self.depth:
                # Of a TIFF of 8 bits OpenCV gives colors that are multiplied by opacity already.
                multiplied = not deep and content[:4] in image_headers.TIFFS
                colors = self._bytes(raw if raw.ndim == 2 else raw[..., :3])
                return self._with_channels(cv2, *self._composed(np.atleast_3d(colors), opacity, multiplied))
        flags = {True: cv2.IMREAD_COLOR, False: cv2.IMREAD_GRAYSCALE, None: cv2.IMREAD_ANYCOLOR}
        try:
            return _decode(cv2, content, flags[self.color])
        except ValueError:
            if _decode(cv2, content, cv2.IMREAD_UNCHANGED).dtype.kind != "f":
                raise
            what = "its values are floats, which have no range of their own"
            raise ValueError(f"{what}; set depth: STRETCH in transform_param") from None

    def _bytes(self, raw: np.ndarray) -> np.ndarray:
        """Values of 16 bits or floats as bytes."""
        if raw.dtype == np.uint8:
            return raw
        if self.depth != P.STRETCH:
            if raw.dtype != np.uint16:
                raise ValueError(f"its values are of type {raw.dtype}; set depth: STRETCH in transform_param")
            return (raw >> 8).astype(np.uint8)
        values = raw.astype(np.float32)
        if not np.isfinite(values).all():
            raise ValueError("a value that is not finite")
        low = float(values.min()) if self.low is None else self.low
        high = float(values.max()) if self.high is None else self.high
        return np.rint(((values - low) * (255 / (high - low) if high > low else 0)).clip(0, 255)).astype(np.uint8)

    def _composed(self, colors: np.ndarray, opacity: np.ndarray | None, multiplied: bool) -> tuple[np.ndarray, Any]:
        """Colors over the background, and the fourth channel where it is kept."""
        if self.opacity == P.KEEP:
            return colors, np.full(colors.shape[:2], 255, np.uint8) if opacity is None else opacity
        if opacity is None or self.opacity == P.DROP:
            return colors, None
        share, ground = opacity[..., None].astype(np.float32) / 255, 255 * (self.opacity == P.ON_WHITE)
        over = (colors if multiplied else colors * share) + ground * (1 - share)
        return np.rint(over).clip(0, 255).astype(np.uint8), None

    def _with_channels(self, cv2: ModuleType, colors: np.ndarray, fourth: np.ndarray | None) -> np.ndarray:
        """As many channels as ``color`` asks for, of colors H×W×1 or H×W×3."""
        if fourth is not None:
            return np.dstack([np.broadcast_to(colors, (*colors.shape[:2], 3)), fourth])
        if self.color and colors.shape[2] == 1:
            return np.repeat(colors, 3, 2)
        if self.color is False and colors.shape[2] == 3:
            return cv2.cvtColor(np.ascontiguousarray(colors), cv2.COLOR_BGR2GRAY)
        return colors

    def _turned(self, image: np.ndarray, content: bytes) -> np.ndarray:
        """An image H×W×C or H×W as its EXIF says, or as it is stored."""
        orientation, done = image_headers.orientation(content), content[:4] in image_headers.TIFFS
        if orientation == 1 or (self.orientation == P.TURN) == done:
            return image
        turn = TURNS[BACK.get(orientation, orientation) if done else orientation]
        return np.ascontiguousarray(turn(image))


AS_CAFFE = Decoder()
# What decodes in place of this process
elsewhere: Callable[[str, bytes, Decoder], np.ndarray] | None = None


def decode(content: bytes, color: bool | None = None) -> np.ndarray:
    """As `Decoder` with its defaults."""
    return Decoder(color)(content)


def read_image(file: str, where: Where, decoder: Callable[[bytes], np.ndarray], what: str = "image") -> np.ndarray:
    """What ``decoder`` makes of a file's content. where: what names it. Errors: it cannot be read, or decoded."""
    try:
        return decoder(inputs.read(file, inputs.IMAGE))
    except OSError as mistake:
        raise where.error(f'cannot read {what} "{file}": {inputs.reason(mistake)}') from None
    except ValueError as mistake:
        raise where.error(f'{what} "{file}": {mistake}') from None


@dataclass(frozen=True)
class Traits:
    """What an image file has that its array need not show. transparent: whether some pixels are. orientation: 1 to 8,
    as EXIF counts. low, high: the least and greatest value of a picture of more than 8 bits, else None."""

    transparent: bool = False
    orientation: int = 1
    low: float | None = None
    high: float | None = None


def traits(content: bytes) -> Traits:
    """The traits of an image file. Errors: ValueError where it is none."""
    image_headers.check(content)
    turned = image_headers.orientation(content)
    if image_headers.is_plain(content) or elsewhere:
        return Traits(orientation=turned)
    cv2 = opencv(USE)
    raw = _decode(cv2, content, cv2.IMREAD_UNCHANGED)
    opacity = _opacity(raw, content)
    transparent = opacity is not None and bool((opacity < 255).any())
    if raw.dtype == np.uint8:
        return Traits(transparent, turned)
    colors = raw if raw.ndim == 2 else raw[..., :3]
    return Traits(transparent, turned, float(colors.min()), float(colors.max()))


def _decode(cv2: ModuleType, content: bytes, flag: int) -> np.ndarray:
    """An image as the file stores it, but for TIFF, which OpenCV always turns, and HEIC, which its decoder does."""
    if image_headers.is_heic(content):
        return _decoded_heic(cv2, content, flag)
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), flag | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as mistake:  # of sizes beyond its limits
        raise ValueError(f"{UNDECODABLE} ({mistake.err or mistake})") from None
    if image is None:
        raise ValueError(f"{UNDECODABLE}{_hint(content)}")
    return image


def _decoded_heic(cv2: ModuleType, content: bytes, flag: int) -> np.ndarray:
    try:
        import pillow_heif
    except ImportError:
        what = "it is HEIC, the format of Apple's cameras"
        raise ValueError(f'{what}; pip install "caffelite[heic]" reads it, or convert it to JPEG') from None
    try:
        heif = pillow_heif.open_heif(io.BytesIO(content), bgr_mode=True)
        image_headers.check_size("HEIC", content, *heif.size)
        image = np.asarray(heif)
    except (OSError, EOFError, RuntimeError, SyntaxError, ValueError) as mistake:
        raise ValueError(f"{UNDECODABLE} (HEIC: {mistake})") from None
    if flag == cv2.IMREAD_GRAYSCALE and image.ndim == 3:
        return cv2.cvtColor(image[..., :3], cv2.COLOR_BGR2GRAY)
    if flag == cv2.IMREAD_COLOR and image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return image if flag == cv2.IMREAD_UNCHANGED or image.ndim == 2 else np.ascontiguousarray(image[..., :3])


def _hint(content: bytes) -> str:
    if content[4:12] == b"ftypavif":
        return ": AVIF needs a newer opencv-python-headless"
    kind = file_types.file_type(content)
    return f": it is {kind.what}" if kind and kind.what != file_types.PICTURE else ""


def _fourth(raw: np.ndarray) -> np.ndarray | None:
    return raw[..., 3] if raw.ndim == 3 and raw.shape[2] == 4 else None


def _opacity(raw: np.ndarray, content: bytes) -> np.ndarray | None:
    """The opacity H×W of uint8 of an image as it is stored; None where it has none."""
    fourth = _fourth(raw)
    if fourth is not None:
        return fourth if fourth.dtype == np.uint8 else (fourth >> 8).astype(np.uint8)
    key = image_headers.gray_key(content)
    return None if key is None or raw.ndim == 3 else np.where(raw == key, 0, 255).astype(np.uint8)


# Orientations of EXIF: what brings the stored rows and columns of an image upright, and what undoes it
TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.swapaxes(0, 1),
    6: lambda image: np.rot90(image, -1),
    7: lambda image: image.swapaxes(0, 1)[::-1, ::-1],
    8: lambda image: np.rot90(image),
}
BACK = {6: 8, 8: 6}


def _palette_numbers(content: bytes) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise missing_extra("pillow", "images", "a label image with a palette") from None
    try:
        with Image.open(io.BytesIO(content)) as image:
            return np.array(image)
    except (OSError, SyntaxError, Image.DecompressionBombError) as mistake:
        raise ValueError(f"{UNDECODABLE} ({mistake})") from None
