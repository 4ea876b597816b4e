"""Samples: images with labels, by number; and the source that makes batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..errors import CaffeliteError
from .order import Order
from .pipeline import Batch, Source, workers
from .transforms import Choice, Transform

RESIDENT_BYTES = 512 << 20
IMAGES_PER_TASK = 8
Check = Callable[[tuple[int, ...]], None]


class Samples:
    """Images C×H×W, uint8 or float32, and whole-numbered labels, by number from 0 to length - 1.

    first: the image of number 0. encoded: images take work to decode.
    """

    length: int
    first: np.ndarray
    encoded = False

    def whole(self, most: int, check: Check) -> tuple[np.ndarray, np.ndarray] | None:
        """All images (N×C×H×W) and labels, where they take no decoding, are of one shape and have at most so many
        bytes."""
        return None

    def read(self, numbers: np.ndarray) -> Sequence[object]:
        """What `image` takes of each; called from one thread at a time."""
        return numbers

    def image(self, number: int, content: object) -> tuple[np.ndarray, int]:
        """An image and its label. Errors: it cannot be decoded; named as in `bad`."""
        raise NotImplementedError

    def bad(self, number: int, content: object, what: str) -> CaffeliteError:
        """The error that says what is wrong with a sample, and where that stands."""
        raise NotImplementedError

    def labels(self, most: int) -> np.ndarray:
        """The labels of the first samples, as far as no image must be decoded for them; of all, where they are in
        memory."""
        return np.empty(0)

    def close(self) -> None:
        """Lets go of files; a second call does nothing."""


class DataSource(Source):
    """Images and labels of samples, in their order or shuffled, around and around: N×C×h×w after the transform, and N.

    What takes no decoding and is small, or what `cache` asks for, lives in memory; so do small images once they are
    decoded. Where then nothing but mean, crop, mirror and scale is asked for, a batch is a choice of them: no thread
    runs, and a device makes floats of it.
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
        self.samples, self.transform, self.order = samples, transform, order
        shape, dtype = samples.first.shape, samples.first.dtype
        self._most = (1 << 62) if cache else RESIDENT_BYTES
        self._images: np.ndarray | None = None  # N×C×H×W in memory, of which _held says which are there
        self._held: np.ndarray | None = None
        self._labels: np.ndarray | None = None
        self._looked = self._standing = False
        self._draws = transform.plain and (transform.mirror or shape != transform.shape)
        if samples.encoded and samples.length * samples.first.nbytes <= self._most:
            channels, height, width = shape
            with self._enough_memory():
                self._images = np.empty((samples.length, height, width, channels), dtype).transpose(0, 3, 1, 2)
            self._held, self._labels = np.zeros(samples.length, bool), np.empty(samples.length, np.float32)
        threads = workers() if samples.encoded or not transform.plain else 0
        super().__init__([(batch, *transform.shape), (batch,)][:tops], samples.length, prefetch, threads)

    # batches of what stands in memory

    def draw(self) -> Batch:
        size = self.shapes[0][0]
        if self.position % self.length < size * self.share.size:  # an epoch begins
            self._stand()
        if not self._standing:
            return super().draw()
        if self._closed:
            raise ValueError("the source is closed")
        position = self.position + self.share.rank * size
        numbers = self.order(position, size)
        self._picks[:, 0] = numbers
        if self._draws:
            self._pick(self._picks, self.transform.choose(position, size))
        self.position += size * self.share.size
        arrays = [self._labels[numbers]] if len(self.shapes) > 1 else []
        return Batch(arrays, self._images, self._picks, standing=True)

    def _stand(self) -> None:
        """Reads what is small into memory, once; sees whether by now everything is there."""
        if self._standing or self._closed:
            return
        if not self._looked and not self.samples.encoded:
            with self._enough_memory():
                found = self.samples.whole(self._most, self.transform.check)
            if found:
                self._images, self._labels = found[0], found[1].astype(np.float32)
                self._held = np.ones(self.length, bool)
        self._looked = True
        if self.transform.plain and self._held is not None and self._held.all():
            self._stop()
            self._picks = np.zeros((self.shapes[0][0], 4), np.int32)
            self._pick(self._picks, self.transform.choose(0, len(self._picks)))
            self._standing = True

    @contextmanager
    def _enough_memory(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            found = f"{self.samples.length * self.samples.first.nbytes >> 20} MiB of images"
            what, where = "not enough memory to keep every image", self.transform.locate()
            raise CaffeliteError(what, where=where, found=found, remedy="leave cache out") from None

    # batches that are read

    def buffer(self) -> Batch:
        n, c, h, w = self.shapes[0]
        dtype = self.samples.first.dtype
        # Decoders give rows of pixels; a device turns them into channels while it makes floats of them.
        pixels = (
            self.allocate((n, h, w, c), dtype).transpose(0, 3, 1, 2)
            if self.workers
            else self.allocate((n, c, h, w), dtype)
        )
        picks = np.zeros((n, 4), np.int32)
        picks[:, 0] = np.arange(n)
        return Batch([self.allocate(shape, np.float32) for shape in self.shapes[1:]], pixels, picks)

    def tasks(self, position: int, batch: Batch) -> Iterator[Callable[[], None]]:
        numbers = self.order(position, len(batch.picks))
        choice = self.transform.choose(position, len(numbers))
        self._pick(batch.picks, choice)
        for start in range(0, len(numbers), IMAGES_PER_TASK):
            part = numbers[start : start + IMAGES_PER_TASK]
            absent = part if self._held is None else part[~self._held[part]]
            contents = dict(zip(absent.tolist(), self.samples.read(absent), strict=True))
            task = partial(self._process, part.tolist(), contents, position, start, choice, batch)
            if self.workers:
                yield task
            else:
                task()

    def _process(
        self, numbers: list[int], contents: dict, position: int, start: int, choice: Choice, batch: Batch
    ) -> None:
        transform, shape = self.transform, self.samples.first.shape
        height, width = transform.shape[1:]
        for i, number in enumerate(numbers, start):
            image, label = self._image(number, contents)
            try:
                if transform.plain and image.shape == shape:
                    top, left = choice.corners[i]
                    image = image[:, top : top + height, left : left + width]
                else:
                    image = transform.augment(image, position + i)
                if image.dtype != batch.pixels.dtype:
                    what, expected = "images differ in type", f"{batch.pixels.dtype}, as the first is"
                    raise CaffeliteError(what, expected=expected, found=image.dtype)
            except CaffeliteError as mistake:
                raise self.samples.bad(number, contents.get(number), str(mistake)) from None
            batch.pixels[i] = image
            if batch.arrays:
                batch.arrays[0][i] = label

    def _image(self, number: int, contents: dict) -> tuple[np.ndarray, float]:
        if number not in contents:
            return self._images[number], self._labels[number]
        image, label = self.samples.image(number, contents[number])
        if self._held is not None and image.shape == self._images.shape[1:] and image.dtype == self._images.dtype:
            self._images[number], self._labels[number] = image, label
            self._held[number] = True
        return image, label

    @staticmethod
    def _pick(picks: np.ndarray, choice: Choice) -> None:
        picks[:, 1:3], picks[:, 3] = choice.corners, choice.flips

    def finished(self, batch: Batch) -> list[np.ndarray]:
        """The batch's tops, made by the host."""
        out = np.empty(self.shapes[0], np.float32)
        picks = batch.picks
        self.transform.finish(batch.pixels[picks[:, 0]], Choice(picks[:, 1:3], picks[:, 3]), out)
        return [out, *batch.arrays]

    def release(self) -> None:
        self.samples.close()
        self._images = self._labels = self._held = None
