"""Samples: images with labels, by index; and the source that returns batches of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from ..errors import CaffeliteError
from .augmentation import Draws
from .fingerprint import Facts, digest, histogram, sampled
from .order import Order
from .pipeline import Batch, Source, rows_not_finite, workers
from .proposals import Proposal, proposals
from .transforms import Choice, Transform

RESIDENT_BYTES = 512 << 20
IMAGES_PER_TASK = 8
Check = Callable[[tuple[int, ...]], None]


Content = TypeVar("Content")
Label = int | float | np.ndarray  # one, or a vector


class Samples(Generic[Content]):
    """Images C×H×W, uint8 or float32, and labels, by number from 0 to length - 1.

    first: the image of number 0. encoded: images must be decoded. label_shape: () for an integer, (L,) for L numbers.
    """

    length: int
    nearby: int | None = None  # how many of the first samples can be read without a long wait; None: all
    label_shape: tuple[int, ...] = ()
    first: np.ndarray
    encoded = False

    def load_all(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        """All images (N×C×H×W) and labels, where they need no decoding, have one shape and take at most ``most``
        bytes; else None."""
        return None

    def read(self, indices: np.ndarray) -> Sequence[Content]:
        """The contents that `image` decodes; called from one thread at a time."""
        raise NotImplementedError

    def image(self, number: int, content: Content) -> tuple[np.ndarray, Label]:
        """An image and its label. Errors: it cannot be decoded; reported by `error`."""
        raise NotImplementedError

    def picture(self, number: int, content: Content) -> bytes | np.ndarray:
        """What a user has of a sample: the content of an image file, or its pixels C×H×W where no file is stored."""
        return self.image(number, content)[0]

    def error(self, number: int, content: Content, what: str) -> CaffeliteError:
        """An error about a sample, with its file and line or its key."""
        raise NotImplementedError

    def sampled(self, indices: np.ndarray) -> tuple[list[Any], np.ndarray | None]:
        """The contents of samples without their labels, bytes or arrays, and their labels; None: ``all_labels`` reads
        no file."""
        return list(self.read(indices)), None

    def name(self, number: int) -> str:
        """A sample's key or file, where it has one. Called from one thread at a time."""
        return ""

    def labels(self, most: int) -> np.ndarray:
        """The labels of at most ``most`` samples, as far as no image must be decoded for them; of all where they are in
        memory."""
        return np.empty(0)

    def all_labels(self) -> np.ndarray:
        """The labels of all samples in their order, float64; they are read once, and kept. Errors: a record cannot be
        read."""
        if self._all_labels is None:
            self._all_labels = self._read_labels()
        return self._all_labels

    _all_labels: np.ndarray | None = None

    def _read_labels(self) -> np.ndarray:
        return self.labels(self.length)

    def close(self) -> None:
        """Closes files; a second call does nothing."""


MOST_LABELS = 50_000  # records that are read for their labels


def evenly(samples: Samples, count: int) -> np.ndarray:
    """The numbers, in their order, of ``count`` samples that are spread evenly over all of them, or over those
    nearby."""
    length = samples.length if samples.nearby is None else samples.nearby
    return np.linspace(0, length - 1, min(count, length)).round().astype(int)


def spread(samples: Samples, count: int) -> np.ndarray:
    """As ``evenly``, with the first sample of each class; of a database with more than MOST_LABELS records of the first
    classes alone."""
    labels = samples.labels(MOST_LABELS)[: samples.nearby] if samples.label_shape == () else np.empty(0)
    return np.union1d(evenly(samples, count), np.unique(labels, return_index=True)[1])


@dataclass(frozen=True)
class _Loaded:
    """Samples in memory: images N×C×H×W, labels N or N×L of float32, and which of the N are there."""

    images: np.ndarray
    labels: np.ndarray
    present: np.ndarray


class TransformedSource(Source):
    """Images that ``transform`` makes one by one, of bytes or of another ``pixel_type``. samples: the pictures, where
    a user could have them one by one; ``order``: theirs."""

    samples: Samples | None = None
    order: Order
    transform: Transform
    pixel_type: type | np.dtype = np.uint8

    def buffer(self) -> Batch:
        n, c, h, w = self.shapes[0]
        # Decoders return rows of pixels; the device transposes them to channels when it converts them to floats.
        pixels = (
            self.allocate((n, h, w, c), self.pixel_type).transpose(0, 3, 1, 2)
            if self.workers
            else self.allocate((n, c, h, w), self.pixel_type)
        )
        picks = np.zeros((n, 4), np.int32)
        picks[:, 0] = np.arange(n)
        return Batch([self.allocate(shape, np.float32) for shape in self.shapes[1:]], pixels, picks)

    def choose(self, position: int, batch: Batch) -> tuple[np.ndarray, Choice]:
        """The pixels of a batch, to be written with their crops, and what chance decides for them."""
        pixels, picks = batch.images()
        choice = self.transform.choose(position, len(picks))
        picks[:, 1:3], picks[:, 3] = 0, choice.flips
        return pixels, choice

    def to_float(self, batch: Batch) -> list[np.ndarray]:
        """The tops of a batch, computed on the host."""
        out = np.empty(self.shapes[0], np.float32)
        pixels, picks = batch.images()
        self.transform.finish(pixels[picks[:, 0]], Choice(picks[:, 1:3], picks[:, 3]), out)
        return [out, *batch.arrays]


class DataSource(TransformedSource):
    """Images and labels of samples, in their order or shuffled, epoch after epoch: N×C×h×w after the transform, and N
    or N×L; with more tops than two each of the L labels has one, N.

    Small data sets that need no decoding stay in memory, and so do small images once they are decoded; `cache` requests
    it for large ones. Where all images are in memory and the transform is plain (mean, crop, mirror, scale), a batch is
    a table of picks: no thread runs, and the device computes the floats.
    """

    def __init__(
        self,
        samples: Samples,
        transform: Transform,
        order: Order,
        batch: int,
        tops: int,
        prefetch: int,
        cache: bool = False,
    ):
        self.samples: Samples = samples
        self.transform, self.order = transform, order
        shape, dtype = samples.first.shape, samples.first.dtype
        self.floats, self.pixel_type = dtype.kind == "f", dtype
        self._most = (1 << 62) if cache else RESIDENT_BYTES
        self._loaded: _Loaded | None = None
        self._tried = self._resident = False
        self._draws = transform.plain and (transform.mirror or shape != transform.shape)
        if samples.encoded and samples.length * samples.first.nbytes <= self._most:
            channels, height, width = shape
            with self._enough_memory():
                images = np.empty((samples.length, height, width, channels), dtype).transpose(0, 3, 1, 2)
            labels = np.empty((samples.length, *samples.label_shape), np.float32)
            self._loaded = _Loaded(images, labels, np.zeros(samples.length, bool))
        threads = workers() if samples.encoded or not transform.plain else 0
        label_shapes = [(batch, *samples.label_shape)] if tops == 2 else [(batch,)] * (tops - 1)
        super().__init__([(batch, *transform.shape), *label_shapes], samples.length, prefetch, threads)

    # batches of resident images

    def draw(self) -> Batch:
        size = self.shapes[0][0]
        if self.position % self.length < size * self.shard.size:  # an epoch begins
            self._load()
        if not self._resident:
            return super().draw()
        if self._loaded is None:
            raise ValueError("the source is closed")
        position = self.position + self.shard.rank * size
        indices = self.order(position, size)
        self._picks[:, 0] = indices
        if self._draws:
            self._pick(self._picks, self.transform.choose(position, size))
        self.position += size * self.shard.size
        return Batch(self._tops_of(self._loaded.labels[indices]), self._loaded.images, self._picks, resident=True)

    def _tops_of(self, labels: np.ndarray) -> list[np.ndarray]:
        """The tops of a batch's labels: one, or one for each label of a sample."""
        tops = len(self.shapes) - 1
        return [np.ascontiguousarray(column) for column in labels.T] if tops > 1 else [labels][:tops]

    def _load(self) -> None:
        """Reads a small data set into memory, once; finds out whether all images are in memory by now."""
        if self._resident or self._closed:
            return
        if not self._tried and not self.samples.encoded:
            with self._enough_memory():
                loaded = self.samples.load_all(self._most, self.transform.check)
            if loaded:
                self._loaded = _Loaded(loaded[0], loaded[1].astype(np.float32), np.ones(self.length, bool))
                if bad := rows_not_finite(loaded, self.length):
                    self._warn(bad, self._name)
        self._tried = True
        if self.transform.plain and self._loaded is not None and self._loaded.present.all():
            self._stop()
            self._picks = np.zeros((self.shapes[0][0], 4), np.int32)
            self._pick(self._picks, self.transform.choose(0, len(self._picks)))
            self._resident = True

    def name(self, position: int) -> str:
        return self._name(int(self.order(position, 1)[0]))

    def facts(self) -> Facts:
        contents, labels = self.samples.sampled(sampled(self.length))
        shape = "×".join(map(str, self.samples.first.shape))
        facts = {**super().facts(), "shape": shape, "content": digest(contents)}
        if labels is None:
            labels = self.samples.all_labels()
        if len(self.shapes) > 1:
            # The digest notices labels that have changed places.
            counts = f"{histogram(labels)}, " if labels.ndim == 1 else ""
            facts["labels"] = f"{counts}digest {digest([labels])}"
        if self.transform.mean is not None and self.transform.mean.shape[1:] != (1, 1):
            facts["mean_file"] = digest([self.transform.mean])
        return facts

    def not_finite(self, most: int) -> list[str]:
        if not self.floats:
            return []
        indices = np.arange(max(1, min(self.length, most // self.samples.first.size)))
        contents = zip(indices.tolist(), self.samples.read(indices), strict=True)
        images = (self.samples.image(number, content)[0] for number, content in contents)
        return [self._name(number) for number, image in enumerate(images) if rows_not_finite([image[None]], 1)]

    def proposals(self, most: int) -> list[Proposal]:
        if not self.samples.encoded:
            return []
        indices = evenly(self.samples, most)
        contents = zip(indices.tolist(), self.samples.read(indices), strict=True)
        pictures = (self.samples.picture(number, content) for number, content in contents)
        return proposals((one for one in pictures if isinstance(one, bytes)), self.transform.param)

    def _name(self, number: int) -> str:
        name = self.samples.name(number)
        return f"sample {number}" + f" ({name})" * bool(name)

    @contextmanager
    def _enough_memory(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            found = f"{self.samples.length * self.samples.first.nbytes >> 20} MiB of images"
            what, where = "not enough memory to keep every image", self.transform.locate()
            raise CaffeliteError(what, where=where, found=found, remedy="leave cache out") from None

    # batches that are read

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        pixels, picks = batch.images()
        indices = self.order(position, len(picks))
        choice, draws = self.transform.choose(position, len(indices)), self.transform.draw(position, len(indices))
        self._pick(picks, choice)
        for start in range(0, len(indices), IMAGES_PER_TASK):
            chunk = indices[start : start + IMAGES_PER_TASK]
            absent = chunk if self._loaded is None else chunk[~self._loaded.present[chunk]]
            contents = dict(zip(absent.tolist(), self.samples.read(absent), strict=True))
            task = partial(
                self._process, chunk.tolist(), contents, position, start, choice, draws, pixels, batch.arrays
            )
            if self.workers:
                yield task
            else:
                task()

    def _process(
        self,
        indices: list[int],
        contents: dict[int, Any],
        position: int,
        start: int,
        choice: Choice,
        draws: list[Draws],
        pixels: np.ndarray,
        arrays: list[np.ndarray],
    ) -> None:
        """Writes the samples of these numbers into the rows of a batch from `start` on. contents: those that are not
        in memory, by number."""
        transform, shape = self.transform, self.samples.first.shape
        height, width = transform.shape[1:]
        for i, number in enumerate(indices, start):
            image, label = self._image(number, contents)
            try:
                if transform.plain and image.shape == shape:
                    top, left = choice.corners[i]
                    image = image[:, top : top + height, left : left + width]
                else:
                    image = transform.augment(image, position + i, draws[i])
                if image.dtype != pixels.dtype:
                    what, expected = "images differ in type", f"{pixels.dtype}, as the first is"
                    raise CaffeliteError(what, expected=expected, found=image.dtype)
            except CaffeliteError as mistake:
                raise self.samples.error(number, contents.get(number), str(mistake)) from None
            pixels[i] = image
            for array, value in zip(arrays, np.atleast_1d(label) if len(arrays) > 1 else (label,), strict=False):
                array[i] = value

    def _image(self, number: int, contents: dict[int, Any]) -> tuple[np.ndarray, float | np.ndarray]:
        loaded = self._loaded
        if loaded is not None and number not in contents:
            return loaded.images[number], loaded.labels[number]
        image, label = self.samples.image(number, contents[number])
        if loaded is not None and image.shape == loaded.images.shape[1:] and image.dtype == loaded.images.dtype:
            loaded.images[number], loaded.labels[number] = image, label
            loaded.present[number] = True
        return image, label

    @staticmethod
    def _pick(picks: np.ndarray, choice: Choice) -> None:
        picks[:, 1:3], picks[:, 3] = choice.corners, choice.flips

    def release(self) -> None:
        self.samples.close()
        self._loaded = None
