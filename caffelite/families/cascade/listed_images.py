"""Images of a list with their objects: read, mirrored, resized, scaled and cut.

Sources: zhaoweicai/cascade-rcnn src/caffe/layers/detection_data_layer.cpp; zhaoweicai/mscnn
src/caffe/layers/image_gt_data_layer.cpp.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import caffelite_pb2 as pb, inputs
from ...data.database import EXACT_LABELS
from ...data.draws import below, uniform
from ...data.images import opencv
from ...data.opening import root_folder_of, source_path
from ...data.pictures import Decoder
from ...data.pipeline import Source
from ...data.window_lines import Picture, WindowLines, listed_windows
from ...detection.boxes import rounded
from ...errors import Locator
from ...layers.base import require
from ...layers.base.state import Varying
from ...layers.data import Feed
from .field_maps import Objects

CORNERS = "x1 y1 x2 y2"


class Format(NamedTuple):
    """The names of what a list has: the label of an object; the flags after it, ignored and optionally difficult; and
    the regions of an image."""

    label: str
    flags: tuple[str, ...]
    regions: str


DETECTION = Format("class", ("ignored", "difficult"), "regions")  # of DetectionData and EvalData
IMAGE_GT = Format("label", ("ignored",), "ignored regions")  # of ImageGtData


@dataclass
class ListedImage:
    """An image of the list with its objects."""

    picture: Picture
    objects: Objects


def read_objects(path: Path, root: str, form: Format) -> list[ListedImage]:
    """The images of a list: after "# index", the path, channels, height and width of an image, the number of its
    objects, for each a line of label, flags and "x1 y1 x2 y2", the number of regions, for each "x1 y1 x2 y2". root:
    written before each path.

    Errors: the first line that is not understood; a label below 1; another number of channels than 3; no images.
    """
    objects, lines = [], WindowLines(path)
    for picture in lines.pictures(root):
        if picture.shape[0] != 3 or min(picture.shape) < 1:
            expected = "3 channels, height and width of 1 or more"
            raise picture.where.error("bad sides of an image", expected=expected, found=picture.shape)
        rows = _numbers(lines, "objects", (form.label, *form.flags))
        regions = _numbers(lines, form.regions, ())
        difficult = rows[:, 2] != 0 if "difficult" in form.flags else np.zeros(len(rows), bool)
        objects.append(ListedImage(picture, Objects(rows[:, -4:], rows[:, 0], rows[:, 1] != 0, difficult, regions)))
    if not objects:
        raise lines.end.error("no images in the list")
    return objects


def _numbers(lines: WindowLines, what: str, names: tuple[str, ...]) -> np.ndarray:
    """The rows of numbers that follow a line with their count. names: of the numbers before the corners; the first is
    a label."""
    (length,), where = lines.row(1, f"the number of {what}")
    if length < 0:
        raise where.error(f"a bad number of {what}", expected="0 or more", found=length)
    rows, count = [], len(names) + 4
    for _ in range(length):
        values, where = lines.row(count, ", ".join((*names, CORNERS)), float)
        if not all(abs(value) <= EXACT_LABELS for value in values):  # which NaN and infinity are not
            raise where.error("a line is not understood", expected=f"numbers up to {EXACT_LABELS}")
        if names and (values[0] < 1 or values[0] != int(values[0])):
            raise where.error(f"a bad {names[0]}", expected="an integer of 1 or more", found=f"{values[0]:g}")
        rows.append(values)
    return np.array(rows, float).reshape(length, count)


class ImageFiles:
    """The files of the images of a list, by their number in it. cache: files stay in memory."""

    def __init__(self, images: list[ListedImage], cache: bool, decoder: Decoder):
        self._images, self._decoder = images, decoder
        self._kept: dict[int, bytes] | None = {} if cache else None

    def read(self, number: int) -> bytes:
        """The bytes of a file. Errors: one that cannot be read, with the place that names it."""
        if self._kept and number in self._kept:
            return self._kept[number]
        picture = self._images[number].picture
        try:
            content = inputs.read(picture.file, inputs.IMAGE)
        except OSError as mistake:
            raise picture.where.error(f'cannot read image "{picture.file}": {mistake.strerror}') from None
        if self._kept is not None:
            self._kept[number] = content
        return content

    def decode(self, number: int, content: bytes) -> np.ndarray:
        """The pixels H×W×3 of a file. Errors: one that cannot be decoded, with the place that names it."""
        picture = self._images[number].picture
        try:
            return self._decoder(content).transpose(1, 2, 0)
        except ValueError as mistake:
            raise picture.where.error(f'image "{picture.file}": {mistake}') from None

    def release(self) -> None:
        """Drops the files that are in memory; further ones do not stay there."""
        self._kept = None


def located(layer: pb.LayerParameter, field: str, locate: Locator) -> tuple[pb.LayerParameter, Path]:
    """A copy of a layer whose root_folder can be put before names, and the path of its list. field: its message."""
    spec, at = pb.LayerParameter(), locate.at(field)
    spec.CopyFrom(layer)
    param = getattr(spec, field)
    path = source_path(param, at)
    param.root_folder = root_folder_of(param.root_folder, at)
    return spec, path


class ObjectsFeed(Varying, Feed):
    """The base class of layers that read a list of images with objects, by a source of class ``reader``."""

    files = ("source", "root_folder")
    transforms_images = True
    reader: Callable[..., Source]
    listed_files = staticmethod(listed_windows)

    @classmethod
    def open_source(cls, layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        spec, path = located(layer, cls.field, locate)
        return cls.reader(spec, phase, path, locate, seed)

    def check_maps(self, strides: str, objects: str, behind: bool = False) -> None:
        """Errors: other numbers of fields than of strides, a field or stride of 0, other tops. objects: the name of
        the last top; behind: the place of a missing top is not that of the last one that is there."""
        p, maps = self.p, len(getattr(self.p, strides))
        for name in ("field_w", "field_h"):
            if len(getattr(p, name)) != maps:
                what, found = f"{name} has no value for each {strides}", len(getattr(p, name))
                raise self.error(what, name, expected=maps, found=found)
        for name in (strides, "field_w", "field_h"):
            if not all(getattr(p, name)):
                raise self.error(f"a bad {name}", name, list(getattr(p, name)).index(0), expected="1 or more", found=0)
        count, expected = len(self.spec.top), 1 + maps + p.output_gt_boxes
        if count != expected:
            kinds = "data, a label map each" + (f", {objects}" if p.output_gt_boxes else "")
            what, expected_tops = f"has {count} tops for {maps} maps", f"{expected}: {kinds}"
            raise self.error(what, "top", min(count - (not behind), expected), expected=expected_tops, outer=True)
        require.value(self, "coord_num", p.coord_num == 4, 4)

    def check_pairs(self, *pairs: tuple[str, str]) -> None:
        """Errors: a field without the other of its pair."""
        for pair in pairs:
            for name, other in (pair, pair[::-1]):
                if self.p.HasField(name) and not self.p.HasField(other):
                    raise self.error(f"{name} without {other}", name, remedy=f"set {other} too, or neither")


NOISE = 20  # pixels: the range of random offsets of a part
LARGE_FACTOR = 1.5  # an image that is enlarged by more is cut first
CUT_MARGIN = 1.2


class Draws(NamedTuple):
    """The index of the random word of a sample for each decision that all layers make."""

    mirror: int
    object: int
    column: int
    row: int
    noise_x: int
    noise_y: int


class RegionSample:
    """An image H×W×3 with its objects. boxes, regions: corners of objects and regions, which follow the image. words:
    its random numbers; draws: what each is for."""

    def __init__(self, pixels: np.ndarray, objects: Objects, words: np.ndarray, draws: Draws):
        self.pixels, self.objects, self._words, self._draws = pixels, objects, words, draws
        self.boxes, self.regions = objects.boxes.copy(), objects.regions.copy()
        self.chosen = -1  # the index of the object around which the part is cut
        self.center = np.zeros(2)  # of the part, x and y

    @property
    def sides(self) -> np.ndarray:
        """Width and height."""
        return np.array(self.pixels.shape[1::-1])

    def below(self, word: int, limit: int) -> int:
        """A random integer from 0 to limit - 1."""
        return int(below(self._words[word], limit))

    def uniform(self, word: int) -> float:
        """A random number of [0, 1)."""
        return float(uniform(self._words[word]))

    def _move(self, factors: np.ndarray | float, shift: np.ndarray | float) -> None:
        """Multiplies the corners of boxes and regions, then adds."""
        for table in (self.boxes, self.regions):
            table[:] = table * np.resize(factors, 4) + np.resize(shift, 4)

    def _resize_pixels(self, height: int, width: int) -> None:
        if (height, width) != self.pixels.shape[:2]:
            pixels = np.ascontiguousarray(self.pixels)
            self.pixels = opencv("resizing images").resize(pixels, (width, height))

    def mirror(self) -> None:
        """With a probability of one half."""
        if self.below(self._draws.mirror, 2):
            self.pixels = self.pixels[:, ::-1]
            for table in (self.boxes, self.regions):
                table[:, [0, 2]] = self.pixels.shape[1] - table[:, [2, 0]]

    def resize(self, height: int, width: int) -> None:
        """Resizes image and boxes."""
        old = self.sides
        self._resize_pixels(height, width)
        self._move(np.array([width, height]) / old, 0.0)

    def choose_center(self, size: tuple[int, int]) -> None:
        """The center of a random object; without objects, of a random part of this height and width."""
        if len(self.boxes):
            self.chosen = self.below(self._draws.object, len(self.boxes))
            box = self.boxes[self.chosen]
            self.center = (box[:2] + box[2:]) / 2
            return
        for axis, word in enumerate((self._draws.column, self._draws.row)):
            side, wanted = int(self.sides[axis]), size[1 - axis]
            self.center[axis] = self.below(word, side - wanted + 1) + wanted / 2 if side >= wanted else side / 2

    def rescale(self, factors: np.ndarray) -> None:
        """Multiplies width and height of image and boxes by factors (2)."""
        if (factors == 1).all():
            return
        if (factors > LARGE_FACTOR).any():
            self._cut_before_enlarging(factors)
        width, height = (max(1, rounded(side)) for side in self.sides * factors)
        self._resize_pixels(height, width)
        self._move(factors, 0.0)
        self.center = self.center * factors

    def _cut_before_enlarging(self, factors: np.ndarray) -> None:
        sides = self.sides
        wanted = [max(1, min(rounded(CUT_MARGIN * s / f), s)) for s, f in zip(sides, factors, strict=True)]
        low = [min(max(rounded(c - w * 0.5), 0), s - w) for c, w, s in zip(self.center, wanted, sides, strict=True)]
        self.pixels = self.pixels[low[1] : low[1] + wanted[1], low[0] : low[0] + wanted[0]]
        self.center = self.center - low
        self._move(1.0, -np.array(low, float))

    def cut(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Keeps the part of this height and width around the center, or less where the image is smaller; returns where
        the part is in the net's image: top, left, height, width. Boxes move along."""
        spans: list[tuple[int, int, int]] = []  # start in the net's image, start in the image, length
        for axis, word in enumerate((self._draws.noise_y, self._draws.noise_x)):
            have, wanted = self.pixels.shape[axis], size[axis]
            noise = self.below(word, NOISE) - NOISE // 2
            margin = min(max(0, rounded((wanted - have) / 2) + noise), max(0, wanted - have))
            first = rounded(self.center[1 - axis]) + noise - rounded(wanted / 2)
            spans.append((margin, min(max(0, first), max(0, have - wanted)), min(have, wanted)))
        (top, row, height), (left, column, width) = spans
        self.pixels = self.pixels[row : row + height, column : column + width]
        self._move(1.0, np.array([left - column, top - row], float))
        return top, left, height, width

    def write(self, mean: np.ndarray, scale: np.floating, out: np.ndarray, top: int = 0, left: int = 0) -> None:
        """Writes the pixels less their mean, times scale, into ``out`` (3, H, W) from row ``top`` and column ``left``
        on; 0 elsewhere."""
        height, width = self.pixels.shape[:2]
        out[:] = 0
        out[:, top : top + height, left : left + width] = ((self.pixels - mean) * scale).transpose(2, 0, 1)

    def located(self, size: tuple[int, int], least: tuple[float, float]) -> Objects:
        """The objects where they are in the net's image of this height and width. Ignored are those of the list, those
        whose center is outside, and those narrower or lower than ``least``."""
        middle, sides = (self.boxes[:, :2] + self.boxes[:, 2:]) / 2, self.boxes[:, 2:] - self.boxes[:, :2] + 1
        outside = ((middle < 0) | (middle >= (size[1], size[0]))).any(1)
        ignored = self.objects.ignored | outside | (sides < least).any(1)
        return self.objects._replace(boxes=self.boxes, ignored=ignored, regions=self.regions)
