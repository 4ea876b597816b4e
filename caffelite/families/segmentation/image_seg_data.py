"""Data layers of images with a label for each pixel."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.draws import Key, below, key, per_sample
from ...data.images import resize
from ...data.listing import list_lines, read_entries, shortened, whole_number
from ...data.opening import batch_size_of, check_size, check_tops, root_folder_of, source_path
from ...data.order import Order
from ...data.pictures import FIELDS, Decoder, read_image
from ...data.pipeline import Batch, Source, workers
from ...data.transforms import channel_means, check_one_mean, read_mean
from ...errors import CaffeliteError, Locator, Where
from ...layers.base.layer import Shape, register
from ...layers.data import Feed

IMAGES_PER_TASK = 4
MOST_SIDE = 1 << 15  # of a window, in pixels
TRANSFORMS = (
    "scale",
    "mirror",
    "crop_size",
    "crop_h",
    "crop_w",
    "crop_height",
    "crop_width",
    "mean_file",
    "mean_value",
    *FIELDS,
)


@dataclass(frozen=True)
class Pair:
    """An image file and what labels its pixels: a file, or one label for all. window: the part that is used, its first
    and last columns and rows (x1, y1, x2, y2)."""

    image: str
    labels: str | int
    where: Where = field(repr=False)
    window: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Settings:
    """How both images of a pair change.

    size: height and width after the resize, 0 for none. crop: of the tops, 0 for none. padded: whether a crop may be
    larger than the image; pixels beyond it have the label ``ignore``. random_crop: else from the center. mirror: half
    of the pairs are flipped. factors: one of them, drawn for each pair, resizes it.
    """

    decoder: Decoder
    size: tuple[int, int] = (0, 0)
    crop: tuple[int, int] = (0, 0)
    padded: bool = False
    random_crop: bool = True
    mirror: bool = False
    factors: tuple[float, ...] = ()
    ignore: int = 255
    divisor: int = 1  # of the sides of the labels
    edges: bool = False  # labels from 0 to 255 are shares, and those above a half are 1


class SegmentationSource(Source):
    """Images (N×C×h×w), the labels of their pixels (N×1×h×w) and the sides of the images before the crop (N×1×1×2).

    Every random number depends on the seed, the layer's name and the sample's index in the run. Errors: a file that
    cannot be read or decoded, labels of another size than their image, a crop that leaves the image.
    """

    def __init__(
        self, pairs: list[Pair], settings: Settings, transform: pb.TransformationParameter, order: Order, batch: int,
        tops: int, prefetch: int, key: Key, locate: Locator,
    ):  # fmt: skip
        self._pairs, self._settings, self._order, self._key, self._locate = pairs, settings, order, key, locate
        self._scale = np.float32(transform.scale)
        self._mean: np.ndarray | None = None
        first = self._image(pairs[0])
        height, width = settings.crop if any(settings.crop) else first.shape[1:]
        self._mean = self._read_mean(transform, first.shape)
        self._size = height, width
        self._divisor = settings.divisor
        labels = (batch, 1, height // self._divisor, width // self._divisor)
        shapes: list[tuple[int, ...]] = [(batch, len(first), height, width), labels, (batch, 1, 1, 2)]
        self.listed = pairs
        super().__init__(shapes[:tops], len(pairs), prefetch, workers())

    def _read_mean(self, transform: pb.TransformationParameter, shape: tuple[int, ...]) -> np.ndarray | None:
        """C×H×W, C×1×1, or None."""
        channels, height, width = shape
        check_one_mean(transform, self._locate)
        if transform.mean_file:
            return read_mean(transform.mean_file, (channels, height, width), self._locate)
        if not transform.mean_value:
            return None
        means = channel_means(transform, self._locate, channels)
        return np.broadcast_to(means[:, None, None], (channels, 1, 1))

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        size = len(batch.arrays[0])
        indices, draws = self._order(position, size).tolist(), per_sample(self._key, position, size)
        for start in range(0, size, IMAGES_PER_TASK):
            part = slice(start, start + IMAGES_PER_TASK)
            yield partial(self._process, indices[part], draws[part], start, batch.arrays)

    def _process(self, indices: list[int], draws: np.ndarray, start: int, arrays: list[np.ndarray]) -> None:
        """Writes the pairs of these numbers into the rows of a batch from ``start`` on."""
        for i, (number, words) in enumerate(zip(indices, draws, strict=True), start):
            pair = self._pairs[number]
            image, labels = self._load(pair)
            if self._settings.factors:
                image, labels = self._resized(image, labels, words)
            sides = image.shape[1:]
            try:
                window = self._place(sides, words)
            except CaffeliteError as mistake:
                raise pair.where.error(f'image "{pair.image}": {mistake.what}') from None
            top, left, flip = window
            cut = (slice(top, top + self._size[0]), slice(left, left + self._size[1]))
            pixels = image[:, *cut].astype(np.float32)
            if self._mean is not None:
                pixels -= self._mean if self._mean.shape[1:] == (1, 1) else self._mean[:, *cut]
            pixels *= self._scale
            self._write(arrays[0][i], pixels, flip, 0)
            if len(arrays) > 1:
                self._write(
                    arrays[1][i], labels[None, *(cut if self._divisor == 1 else ())], flip, self._settings.ignore
                )
            if len(arrays) > 2:
                arrays[2][i] = np.minimum(sides, self._size)

    @staticmethod
    def _write(out: np.ndarray, part: np.ndarray, flip: int, beyond: float) -> None:
        """out (C×h×w) = the part, which may be smaller, and ``beyond`` below and right of it; mirrored where flip."""
        target = out[:, :, ::-1] if flip else out
        if part.shape != out.shape:
            target[...] = beyond
        target[:, : part.shape[1], : part.shape[2]] = part

    def _place(self, sides: tuple[int, ...], words: np.ndarray) -> tuple[int, int, int]:
        """Top and left of the crop, and 1 where it is mirrored."""
        settings = self._settings
        room = np.array(sides) - self._size
        if self._mean is not None and self._mean.shape[1:] not in ((1, 1), sides):
            raise CaffeliteError(f"{sides[0]}×{sides[1]} pixels are not the size of the mean_file's image")
        if any(settings.crop):
            if (room < 0).any() and not settings.padded:
                height, width = sides
                raise CaffeliteError(f"{height}×{width} pixels are less than the crop, {self._size[0]}×{self._size[1]}")
            room = np.maximum(room, 0)
        elif room.any():
            height, width = self._size
            what = f"it has {sides[0]}×{sides[1]} pixels, the first has {height}×{width}"
            raise CaffeliteError(f"{what}; set new_height and new_width, or a crop")
        top, left = below(words[1:3], room + 1).tolist() if settings.random_crop else (room // 2).tolist()
        return top, left, int(settings.mirror and below(words[:1], 2)[0])

    def _resized(self, image: np.ndarray, labels: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factors = self._settings.factors
        factor = factors[int(below(words[3:], len(factors))[0])]
        height, width = (max(1, int(side * factor)) for side in image.shape[1:])
        if (height, width) == image.shape[1:]:
            return image, labels
        return resize(image, height, width), resize(labels[None], height, width, "INTER_NEAREST")[0]

    def _load(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """The image C×H×W and the labels of its pixels H×W."""
        if pair.window:
            return self._windowed(pair, pair.window)
        image = self._image(pair)
        if isinstance(pair.labels, int):
            return image, np.full(image.shape[1:], pair.labels, np.float32)
        read = partial(self._settings.decoder.labels, lossy=self._settings.edges)
        labels = read_image(pair.labels, pair.where, read)
        size = self._settings.size
        if self._divisor > 1:
            height, width = (side // self._divisor for side in image.shape[1:])
            return image, resize(labels[None], height, width, "INTER_NEAREST")[0]
        if any(size) and labels.shape != size:
            labels = resize(labels[None], *size, "INTER_NEAREST")[0]
        if labels.shape != image.shape[1:]:
            what, expected = f'labels "{pair.labels}" do not fit their image', "×".join(map(str, image.shape[1:]))
            raise pair.where.error(what, expected=expected, found="×".join(map(str, labels.shape)))
        return image, edges_of(labels) if self._settings.edges else labels

    def _windowed(self, pair: Pair, window: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
        """The window of the image C×H×W and of the labels of its pixels H×W."""
        image = read_image(pair.image, pair.where, self._settings.decoder)
        if isinstance(pair.labels, int):
            labels = np.full(image.shape[1:], pair.labels, np.uint8)
        else:
            labels = read_image(pair.labels, pair.where, self._settings.decoder.labels)
        if labels.shape != image.shape[1:]:
            what, expected = f'labels "{pair.labels}" do not fit their image', "×".join(map(str, image.shape[1:]))
            raise pair.where.error(what, expected=expected, found="×".join(map(str, labels.shape)))
        image, labels = cut_out(image, window, 0), cut_out(labels[None], window, self._settings.ignore)
        if any(self._settings.size):
            image = resize(image, *self._settings.size)
            labels = resize(labels, *self._settings.size, "INTER_NEAREST")
        return image, labels[0]

    def _image(self, pair: Pair) -> np.ndarray:
        if pair.window:
            return self._windowed(pair, pair.window)[0]
        image = read_image(pair.image, pair.where, self._settings.decoder)
        size = self._settings.size
        return resize(image, *size) if any(size) and image.shape[1:] != size else image


def edges_of(labels: np.ndarray) -> np.ndarray:
    """Gray values as shares of 255, of which those above a half are 1."""
    shares = labels.astype(np.float32) / 255
    return np.where(shares > 0.5, np.float32(1), shares)


def cut_out(image: np.ndarray, window: tuple[int, int, int, int], beyond: int) -> np.ndarray:
    """The window of an image C×H×W; ``beyond`` where it is outside of the image."""
    left, top, right, bottom = window
    out = np.full((len(image), bottom - top + 1, right - left + 1), beyond, image.dtype)
    inside = image[:, max(0, top) : max(0, bottom + 1), max(0, left) : max(0, right + 1)]
    down, across = max(0, -top), max(0, -left)
    out[:, down : down + inside.shape[1], across : across + inside.shape[2]] = inside
    return out


def _window(words: list[str]) -> tuple[int, int, int, int] | None:
    """The corners at the end of a line; None where they are no window."""
    values = [whole_number(word) for word in words[-4:]]
    if len(values) < 4 or None in values:
        return None
    x1, y1, x2, y2 = (int(number or 0) for number in values)
    largest = max(map(abs, (x1, y1, x2, y2)))
    return (x1, y1, x2, y2) if x1 <= x2 and y1 <= y2 and largest < MOST_SIDE else None


def read_pairs(path: Path, root: str, kind: str, ignore: int, windows: bool = False) -> list[Pair]:
    """The lines of a list. kind: PIXEL ("IMAGE LABELS", two files), IMAGE ("IMAGE LABEL", an integer) or NONE (the
    label of all pixels is ``ignore``). windows: then four numbers, x1 y1 x2 y2. Errors: a line without its label or
    window, an empty list."""

    def pair(words: list[str], where: Where) -> Pair | None:
        window = _window(words) if windows else None
        if windows and window is None:
            expected = 'a line that ends with "x1 y1 x2 y2", where x1 <= x2 and y1 <= y2'
            raise where.error("no window", expected=expected, found=f'"{shortened(" ".join(words))}"')
        words = words[:-4] if windows else words
        if words and kind == "NONE":
            return Pair(root + words[0], ignore, where, window)
        label = whole_number(words[-1]) if kind == "IMAGE" and words else None
        if len(words) < 2 or (kind == "IMAGE" and label is None):
            return None
        return Pair(root + " ".join(words[:-1]), root + words[-1] if label is None else label, where, window)

    line = '"IMAGE LABELS", two files' if kind == "PIXEL" else '"IMAGE LABEL"'
    return read_entries(path, pair, line, "lines of an image and its labels")


def check_transform(transform: pb.TransformationParameter, locate: Locator, more: tuple[str, ...] = ()) -> None:
    """Errors: a field that does not act on images with labels for their pixels."""
    for each, _ in transform.ListFields():
        if each.name not in (*TRANSFORMS, *more):
            what = f"{each.name} does not act on images with a label for each pixel"
            raise locate.error(what, each.name, remedy="leave it out")


def crop_of(transform: pb.TransformationParameter, locate: Locator) -> tuple[int, int]:
    """Height and width of the crop, 0 and 0 for none."""
    height = transform.crop_h or transform.crop_height or transform.crop_size
    width = transform.crop_w or transform.crop_width or transform.crop_size
    if bool(height) != bool(width):
        name = "crop_h" if height else "crop_w"
        raise locate.error("a crop of one side only", name, remedy="give its height and its width")
    return height, width


def open_pairs(layer, param, at: Locator, settings: Settings, kind: str, locate: Locator, seed: int) -> Source:
    check_tops(layer, locate, 3)
    batch = batch_size_of(param, at)
    check_size(settings.size, at)
    windows = layer.type == "WindowSegData"
    pairs = read_pairs(source_path(param, at), root_folder_of(param.root_folder, at), kind, settings.ignore, windows)
    skip = per_sample(key(seed, layer.name, "skip"), 0, 1)[0]
    skipped = int(below(skip, param.rand_skip)[0]) if param.rand_skip else 0
    order = Order(len(pairs), key(seed, layer.name, "shuffle") if param.shuffle else None, skipped)
    keyed, there = key(seed, layer.name, "transform"), locate.at("transform_param")
    return SegmentationSource(
        pairs, settings, layer.transform_param, order, batch, len(layer.top), layer.data_param.prefetch, keyed, there
    )


def listed_pairs(param: Any, path: Path) -> Iterator[str]:
    """Of a list of images and their labels: the labels, and the image, which may have spaces."""
    for words in map(str.split, list_lines(path)):
        yield from _pair(param.root_folder, words)


def _pair(root: str, words: list[str]) -> Iterator[str]:
    yield from (root + name for name in {*words[:1], *words[-1:], " ".join(words[:-1])} - {""})


class LabeledImages(Feed):
    """The base class of layers that read a list of images and their labels."""

    field = "image_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = labels_pixels = divides_samples = transforms_images = True
    listed_files = staticmethod(listed_pairs)


@register
class DenseImageData(LabeledImages):
    """Images with a label for each pixel, from a list of image and label files: data (N, C, H, W), labels (N, 1, H, W);
    mirrored and cropped alike, a crop at random in both phases.

    Labels are the numbers of a picture of one channel or of a palette; resized, they take the nearest. As mean and
    scale, transform_param acts on the data; its crop and mirror act on both. Errors: labels of another size than their
    image, a crop larger than the image. Source: alexgkendall/caffe-segnet src/caffe/layers/dense_image_data_layer.cpp.
    """

    field = "dense_image_data_param"

    @staticmethod
    def pixel_labels(spec: pb.LayerParameter, size: Shape) -> Shape:
        return (1, *(side // max(1, spec.dense_image_data_param.label_divide_factor) for side in size))

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.dense_image_data_param, locate.at("dense_image_data_param")
        transform, there = layer.transform_param, locate.at("transform_param")
        check_transform(transform, there)
        crop, other = (param.crop_height, param.crop_width), crop_of(transform, there)
        if any(crop) and not all(crop):
            name = "crop_height" if crop[0] else "crop_width"
            raise at.error("a crop of one side only", name, remedy="give crop_height and crop_width")
        if any(crop) and any(other):
            raise at.error("gives two crops", "crop_height", remedy="keep one of them")
        if param.label_divide_factor != 1 and (param.label_divide_factor < 1 or any(crop) or any(other)):
            what, expected = "a bad label_divide_factor", "1 or more, and 1 with a crop"
            raise at.error(what, "label_divide_factor", expected=expected, found=param.label_divide_factor)
        settings = Settings(
            decoder=Decoder.of(transform, param.is_color, there),
            size=(param.new_height, param.new_width),
            divisor=param.label_divide_factor,
            crop=crop if any(crop) else other,
            mirror=param.mirror or transform.mirror,
        )
        return open_pairs(layer, param, at, settings, "PIXEL", locate, seed)


@register
class ImageSegData(LabeledImages):
    """Images with labels for their pixels, from a list: data (N, C, H, W), labels (N, 1, H, W), and the sides of each
    image, at most those of the crop (N, 1, 1, 2).

    label_type: PIXEL (a label file), IMAGE (one label for all pixels), NONE. A crop, at random in TRAIN and from the
    center in TEST, may be larger than the image: pixels beyond are 0 after the mean, their label is ignore_label.
    Resized labels take the nearest, the fork's were interpolated. Source: hszhao/PSPNet
    src/caffe/layers/image_seg_data_layer.cpp, src/caffe/data_transformer.cpp.
    """

    tops = (1, 3)

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.image_data_param, locate.at("image_data_param")
        transform, there = layer.transform_param, locate.at("transform_param")
        check_transform(transform, there, ("scale_factors",))
        for i, factor in enumerate(transform.scale_factors):
            if not 0 < factor < math.inf:
                found = f"{factor:g}"
                raise there.error("a bad factor", "scale_factors", i, expected="a finite number above 0", found=found)
        if transform.mean_file:
            what = f"{layer.type} takes no mean_file, as its images differ in size"
            raise there.error(what, "mean_file", remedy="give mean_value")
        settings = Settings(
            decoder=Decoder.of(transform, param.is_color, there),
            size=(param.new_height, param.new_width),
            crop=crop_of(transform, there),
            padded=True,
            random_crop=phase == pb.TRAIN,
            mirror=transform.mirror,
            factors=tuple(transform.scale_factors),
            ignore=param.ignore_label,
        )
        kind = pb.ImageDataParameter.LabelType.Name(param.label_type)
        return open_pairs(layer, param, at, settings, kind, locate, seed)


@register
class WindowSegData(ImageSegData):
    """ImageSegData of windows: a line of the list ends with x1 y1 x2 y2, the corners of a part of the image, in pixels,
    both included, which is resized to new_height and new_width: data (N, C, H, W), labels (N, 1, H, W), and the sides
    of each image, at most those of the crop (N, 1, 1, 2).

    Pixels of the window beyond the image are 0 before the mean, their label is ignore_label. Errors: a window without
    area. Source: HyeonwooNoh/caffe src/caffe/layers/window_seg_data_layer.cpp.
    """

    @staticmethod
    def listed_files(param: Any, path: Path) -> Iterator[str]:
        """As ``listed_pairs``; the last four words of a line are the window."""
        for words in map(str.split, list_lines(path)):
            yield from _pair(param.root_folder, words[:-4])


@register
class ImageLabelmapData(LabeledImages):
    """Images with edges, from a list of image and gray image files: data (N, C, H, W), edges (N, 1, H, W), gray values
    / 255, of which those above 0.5 are 1; mirrored and cropped alike, a crop at random in TRAIN and else in the middle.

    As mean and scale, transform_param acts on the data. Resized edges take the nearest pixel. Errors: edges of another
    size than their image, images of several sizes without new_height or a crop. As in s9xie/hed and yun-liu/RCF,
    src/caffe/layers/image_labelmap_data_layer.cpp.
    """

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, transform, there = layer.image_data_param, layer.transform_param, locate.at("transform_param")
        check_transform(transform, there)
        settings = Settings(
            decoder=Decoder.of(transform, param.is_color, there),
            size=(param.new_height, param.new_width),
            crop=crop_of(transform, there),
            random_crop=phase == pb.TRAIN,
            mirror=transform.mirror,
            edges=True,
        )
        return open_pairs(layer, param, locate.at("image_data_param"), settings, "PIXEL", locate, seed)
