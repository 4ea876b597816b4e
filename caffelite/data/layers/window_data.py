"""WindowData: windows of images, objects and background in a fixed proportion."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb, inputs
from ...detection.boxes import rounded
from ...errors import Locator, Where
from ...layers.base.layer import register
from ...layers.data import Feed
from ..database import EXACT_LABELS
from ..draws import below, key, per_sample
from ..images import resize
from ..opening import batch_size_of, check_tops, source_path
from ..order import Order
from ..pictures import Decoder
from ..pipeline import Batch, Source, workers
from ..transforms import channel_means, check_one_mean, read_mean
from ..window_lines import Picture, WindowLines, listed_windows

WINDOWS_PER_TASK = 4


@dataclass
class Windows:
    """A list's images, and its windows as rows of integers: image, label, x1, y1, x2, y2; objects and background
    separately."""

    pictures: list[Picture] = field(default_factory=list)
    objects: list[tuple[int, ...]] = field(default_factory=list)
    background: list[tuple[int, ...]] = field(default_factory=list)


class WindowSource(Source):
    """Windows of images, warped to a square: N×3×crop_size×crop_size, and their labels, 0 for background.

    Each batch holds background first and then fg_fraction of objects; each kind has a separate order, with every
    window once per epoch. As in Caffe, pixels outside the image are 0 after the mean, and the mean is not mirrored.
    Decoded images are kept if cache_images is set. Errors: a line that cannot be parsed; no windows of a kind;
    an image that cannot be read.
    """

    def __init__(self, layer: pb.LayerParameter, phase: int, path: Path, locate: Locator, seed: int):
        param, transform = layer.window_data_param, layer.transform_param
        at = locate.at("transform_param")
        self._size, self._pad = transform.crop_size, param.context_pad
        self._decoder = Decoder.of(transform, True, at)
        if not self._size:
            raise at.error("WindowData needs a crop_size", "crop_size", expected="at least 1", found=0)
        if 2 * self._pad >= self._size:
            where, expected = locate("window_data_param", "context_pad"), f"less than half of crop_size {self._size}"
            raise where.error("context_pad leaves nothing of the window", expected=expected, found=self._pad)
        if not 0 <= param.fg_fraction <= 1:
            where = locate("window_data_param", "fg_fraction")
            raise where.error("fg_fraction is no share", expected="0 to 1", found=f"{param.fg_fraction:g}")
        if param.crop_mode not in ("warp", "square"):
            where = locate("window_data_param", "crop_mode")
            raise where.error("unknown crop_mode", expected='"warp" or "square"', found=f'"{param.crop_mode}"')
        self._square = param.crop_mode == "square"
        self._scale = np.float32(transform.scale)
        self._mirror = transform.mirror
        self._mean = self._read_mean(transform, at)
        self._windows = read_windows(path, param)
        self.listed = [*self._windows.pictures, *self._windows.objects, *self._windows.background]
        batch = param.batch_size
        self._objects = int(np.float32(batch) * np.float32(param.fg_fraction))
        kinds = (
            ("background", batch - self._objects, f"overlap below {param.bg_threshold:g}"),
            ("objects", self._objects, f"overlap of {param.fg_threshold:g} or more"),
        )
        for kind, wanted, what in kinds:
            if wanted and not getattr(self._windows, kind):
                raise Where(str(path)).error(f"no windows for {kind}", expected=f"some with {what}")
        self._orders = [
            Order(max(1, len(windows)), key(seed, layer.name, "shuffle", kind))
            for kind, windows in (("background", self._windows.background), ("objects", self._windows.objects))
        ]
        self._flips = key(seed, layer.name, "transform")
        self._kept: dict[int, np.ndarray] | None = {} if param.cache_images else None
        shapes = [(batch, 3, self._size, self._size), (batch,)][: len(layer.top)]
        length = len(self._windows.background) + len(self._windows.objects)
        super().__init__(shapes, length, layer.data_param.prefetch, workers())

    def _read_mean(self, transform: pb.TransformationParameter, at: Locator) -> np.ndarray:
        check_one_mean(transform, at)
        if transform.mean_file:
            mean = read_mean(transform.mean_file, (3, self._size, self._size), at, larger=True)
            start = (mean.shape[2] - self._size) // 2  # as in Caffe, one for both sides
            return mean[:, start : start + self._size, start : start + self._size]
        return np.broadcast_to(channel_means(transform, at)[:, None, None], (3, self._size, self._size))

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        size = len(batch.arrays[0])
        rows = self._rows(position, size)
        flips = self._mirror * below(per_sample(self._flips, position, size)[:, 0], 2)
        for start in range(0, size, WINDOWS_PER_TASK):
            chunk = rows[start : start + WINDOWS_PER_TASK]
            contents = [self._content(row[0]) for row in chunk]
            yield partial(self._process, chunk, contents, flips[start:].tolist(), start, batch)

    def _rows(self, position: int, size: int) -> list[tuple[int, ...]]:
        """The windows of a batch: position counts samples, of which every batch has the same part of each kind."""
        turn, (background, objects) = position // size, self._orders
        first = size - self._objects
        windows = [self._windows.background[number] for number in background(turn * first, first)]
        return windows + [self._windows.objects[number] for number in objects(turn * self._objects, self._objects)]

    def _content(self, number: int) -> bytes:
        if self._kept and number in self._kept:
            return b""
        picture = self._windows.pictures[number]
        try:
            return inputs.read(picture.file, inputs.IMAGE)
        except OSError as mistake:
            raise picture.where.error(f'cannot read image "{picture.file}": {mistake.strerror}') from None

    def _process(
        self, rows: list[tuple[int, ...]], contents: list[bytes], flips: list[int], start: int, batch: Batch
    ) -> None:
        for i, (row, content, flip) in enumerate(zip(rows, contents, flips, strict=False), start):
            pixels, top, left = self._cut(self._image(row[0], content), row, flip)
            out = batch.arrays[0][i]
            out[...] = 0
            region = (slice(None), slice(top, top + pixels.shape[1]), slice(left, left + pixels.shape[2]))
            np.multiply(pixels - self._mean[region], self._scale, out=out[region])
            if len(batch.arrays) > 1:
                batch.arrays[1][i] = row[1]

    def _image(self, number: int, content: bytes) -> np.ndarray:
        if self._kept and number in self._kept:
            return self._kept[number]
        picture = self._windows.pictures[number]
        try:
            image = self._decoder(content)
        except ValueError as mistake:
            raise picture.where.error(f'image "{picture.file}": {mistake}') from None
        if self._kept is not None:
            self._kept[number] = image
        return image

    def _cut(self, image: np.ndarray, row: tuple[int, ...], flip: int) -> tuple[np.ndarray, int, int]:
        """A window's pixels C×h×w, mirrored, and where in the square they belong: top, left."""
        number, _, *corners = row
        rows, columns = image.shape[1:]
        x1, y1, x2, y2 = corners
        height = width = self._size
        top = left = 0
        if self._pad or self._square:
            x1, y1, x2, y2 = self._expanded(x1, y1, x2, y2)
            wide = np.float32(self._size) / np.float32(x2 - x1 + 1)
            high = np.float32(self._size) / np.float32(y2 - y1 + 1)
            beyond = [max(0, -x1), max(0, -y1), max(0, x2 - columns + 1), max(0, y2 - rows + 1)]
            x1, y1, x2, y2 = x1 + beyond[0], y1 + beyond[1], x2 - beyond[2], y2 - beyond[3]
            width, height = rounded((x2 - x1 + 1) * wide), rounded((y2 - y1 + 1) * high)
            left, top = rounded(beyond[2 if flip else 0] * wide), rounded(beyond[1] * high)
            width, height = min(width, self._size - left), min(height, self._size - top)
        if not (0 <= x1 <= x2 < columns and 0 <= y1 <= y2 < rows and height > 0 and width > 0):
            picture = self._windows.pictures[number]
            what = f'a window {corners[0]} {corners[1]} {corners[2]} {corners[3]} is not within image "{picture.file}"'
            raise picture.where.error(what, expected=f"within {columns} columns and {rows} rows")
        pixels = resize(image[:, y1 : y2 + 1, x1 : x2 + 1], height, width)
        return (pixels[:, :, ::-1] if flip else pixels), top, left

    def _expanded(self, x1: int, y1: int, x2: int, y2: int) -> tuple[int, int, int, int]:
        """The region that, warped, has context_pad pixels on each side of the window."""
        scale = np.float32(self._size) / np.float32(self._size - 2 * self._pad)
        half = [np.float32(x2 - x1 + 1) / np.float32(2), np.float32(y2 - y1 + 1) / np.float32(2)]
        middle = np.float32(x1) + half[0], np.float32(y1) + half[1]
        if self._square:
            half = [max(half)] * 2
        low, high = ([rounded(m + sign * h * scale) for m, h in zip(middle, half, strict=True)] for sign in (-1, 1))
        return low[0], low[1], high[0], high[1]

    def release(self) -> None:
        self._kept = None


def read_windows(path: Path, param: pb.WindowDataParameter) -> Windows:
    """The windows of a list file. Errors: its first line that is not understood, with its number."""
    windows, lines = Windows(), WindowLines(path)
    for picture in lines.pictures(param.root_folder):
        windows.pictures.append(picture)
        for _ in range(lines.row(1, "the number of windows")[0][0]):
            values, where = lines.row(6, "class, overlap, x1 y1 x2 y2", float)
            label, overlap, *corners = values
            # NaN and infinity are not.
            if not all(abs(v) <= EXACT_LABELS and v == int(v) for v in (label, *corners)):
                raise where.error("class and corners must be integers", expected=f"at most {EXACT_LABELS}")
            window = len(windows.pictures) - 1, int(label), *map(int, corners)
            if np.float32(overlap) >= np.float32(param.fg_threshold):
                if label <= 0:
                    raise where.error("an object has no class", expected="1 or more", found=int(label))
                windows.objects.append(window)
            elif np.float32(overlap) < np.float32(param.bg_threshold):
                windows.background.append((window[0], 0, *window[2:]))
    if not windows.objects and not windows.background:
        raise lines.end.error("no windows in the list")
    return windows


@register
class WindowData(Feed):
    """Windows cut from images, objects and background: data (N, 3, S, S), S = crop_size, and labels (N), 0 for
    background."""

    field = "window_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = transforms_images = True

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param = layer.window_data_param
        check_tops(layer, locate, 2)
        batch_size_of(param, locate.at("window_data_param"))
        return WindowSource(layer, phase, source_path(param, locate.at("window_data_param")), locate, seed)

    @staticmethod
    def listed_files(param: Any, path: Path) -> Iterator[str]:
        return listed_windows(param, path)
