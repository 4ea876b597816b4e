"""Converts image files to records as Caffe's convert_imageset does: threads decode them, one thread writes them in
order, and each file that is skipped is reported."""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from .. import caffelite_pb2 as pb, inputs
from ..errors import CaffeliteError, Where
from ..system import usable_cores
from .drafts import final
from .images import channels_last, opencv, resize
from .listing import Listed, remedy_of_missing
from .pictures import Decoder, decode
from .proposals import Proposal, proposals
from .writers import write_records

IMAGES_PER_TASK = 32
TASKS_AHEAD = 4  # for each thread
PROPOSED = 100  # images that settings are proposed by
Item = TypeVar("Item")
Result = TypeVar("Result")


ENCODINGS = {"jpeg": "jpg", "jpe": "jpg", "jfif": "jpg"}  # endings of one format
# By a file's own format: what an image is encoded in anew, without loss, where that has no gray or few colors
ANEW = dict.fromkeys(("gif", "avif", "webp", "ppm"), "png")


@dataclass(frozen=True)
class Recipe:
    """Converts the bytes of an image file to a Datum.

    decoder: of the file, to 3 channels or to 1. height, width: the size after resizing (bilinear), where both are set.
    encoding: None stores pixels; "jpg", "png", … an image file of that format; "" one of the format of the image's file
    extension, PNG in place of GIF, AVIF, WebP and PPM. A file that already has the requested form, and means the same
    without the decoder's settings, is stored unchanged.
    """

    decoder: Decoder = Decoder(True)
    height: int = 0
    width: int = 0
    encoding: str | None = None

    def __call__(self, content: bytes, name: str, label: int) -> tuple[pb.Datum, tuple[int, ...]]:
        """The record, and the shape of the image in it. Errors: ValueError where the content is no complete image
        or cannot be encoded."""
        if self.encoding is None:
            image = self._resized(content)
            channels, height, width = image.shape
            # Caffe's tool sets `encoded`, so that its records hold it though it is the default.
            datum = pb.Datum(
                channels=channels, height=height, width=width, data=image.tobytes(), label=label, encoded=False
            )
            return datum, image.shape
        ending = os.path.splitext(name)[1][1:].lower()
        encoding = self.encoding.lower() or ending
        own = ENCODINGS.get(encoding, encoding) == ENCODINGS.get(ending, ending)
        if own and not (self.height and self.width) and (stored := self._stored(content)):
            return pb.Datum(data=content, label=label, encoded=True), stored
        image = self._resized(content)
        anew = encoding if self.encoding else ANEW.get(encoding, encoding)
        return pb.Datum(data=_encoded(image, anew), label=label, encoded=True), image.shape

    def _resized(self, content: bytes) -> np.ndarray:
        image = self.decoder(content)
        return resize(image, self.height, self.width) if self.height and self.width else image

    def _stored(self, content: bytes) -> tuple[int, ...] | None:
        """The shape of an image file that is stored as it is; None where a reader without the decoder's settings would
        see another image. As in Caffe, a gray file stays gray among colored ones."""
        plain = decode(content)
        if self.decoder == Decoder(True):
            return plain.shape
        image = self.decoder(content)
        same = len(image) >= len(plain) and image.shape[1:] == plain.shape[1:] and (image == plain).all()
        return plain.shape if same else None


@dataclass
class Converted:
    """What became of a list of images: how many were written, which were not and why, how many have each shape C×H×W,
    and settings that suit the pictures better than those of a decoder without any."""

    written: int = 0
    skipped: list[str] = field(default_factory=list)
    shapes: Counter = field(default_factory=Counter)
    proposals: list[Proposal] = field(default_factory=list)


def convert(
    path: Path,
    images: Sequence[Listed],
    read: Callable[[str], bytes],
    recipe: Recipe,
    *,
    check_size: bool = False,
    skip: bool = False,
    remedy: str = "repair or remove it",
    threads: int | None = None,
    progress: bool = False,
    backend: str = "lmdb",
    force: bool = False,
) -> Converted:
    """Writes a database of images under the keys "<number>_<name>", the number of eight digits.

    read: a name's bytes. check_size: all must be of the first one's shape. skip: leave out unreadable images; their
    numbers are not reused. remedy: of the error for such an image. threads: default one for each core. backend:
    "lmdb" or "leveldb". Errors: path exists and not force; the first invalid image, by its position.
    """
    done = Converted()

    def task(item: tuple[int, Listed]) -> tuple[int, Listed, tuple[bytes, tuple[int, ...]] | CaffeliteError]:
        number, image = item
        try:
            datum, shape = recipe(read(image.name), image.name, image.label)
            return number, image, (datum.SerializeToString(), shape)
        except (OSError, ValueError) as mistake:
            reason = mistake.strerror or mistake if isinstance(mistake, OSError) else mistake
            what = f'cannot read "{image.name}": {reason}'
            return number, image, CaffeliteError(what, where=image.where, remedy=remedy_of_missing(mistake) or remedy)

    def records() -> Iterator[tuple[bytes, bytes]]:
        first: tuple[int, ...] | None = None
        for number, image, result in in_order(task, enumerate(images), threads):
            if isinstance(result, CaffeliteError):
                if not skip:
                    raise result
                done.skipped.append(f"{result.where}: {result.what}")
                continue
            value, shape = result
            first = first or shape
            if check_size and shape != first:
                expected, found = ("×".join(map(str, s)) for s in (first, shape))
                what = f'"{image.name}" has another shape than the first image'
                raise image.where.error(what, expected=expected, found=found)
            done.shapes[shape] += 1
            yield b"%08d_%s" % (number, os.fsencode(image.name)), value

    try:
        done.written = write_records(path, records(), len(images), progress, backend=backend, force=force)
    except CaffeliteError as mistake:
        if done.skipped and not done.shapes:
            raise Where(str(final(path))).error("none of the images can be read", found=done.skipped[0]) from mistake
        raise
    if recipe.decoder == Decoder(recipe.decoder.color):
        done.proposals = proposals(_some(images, read), pb.TransformationParameter())
    return done


def _some(images: Sequence[Listed], read: Callable[[str], bytes]) -> Iterator[bytes]:
    """The files of at most PROPOSED images, evenly over all."""
    for image in images[:: -(-len(images) // PROPOSED)]:
        with suppress(OSError):
            yield read(image.name)


def reader(root: str) -> Callable[[str], bytes]:
    """Reads a file by its name below root."""
    return lambda name: inputs.read(
        f"{root}{'' if root.endswith('/') or name.startswith('/') or not root else '/'}{name}", inputs.IMAGE
    )


def in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """function(item) of each item in their order, computed by threads a bounded number of items ahead. Default: a
    thread for each core."""
    threads = threads or len(usable_cores())
    items = iter(items)
    ahead: deque[Future[list[Result]]] = deque()
    with ThreadPoolExecutor(threads, "caffelite decode") as pool:
        try:
            while chunk := list(islice(items, IMAGES_PER_TASK)):
                ahead.append(pool.submit(lambda chunk: [function(item) for item in chunk], chunk))
                if len(ahead) > threads * TASKS_AHEAD:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            for task in ahead:
                task.cancel()


def _encoded(image: np.ndarray, encoding: str) -> bytes:
    cv2 = opencv("encoding images")
    try:
        written, content = cv2.imencode(f".{ENCODINGS.get(encoding, encoding)}", channels_last(image))
    except cv2.error:
        written, content = False, None
    if not written:
        raise ValueError(f'no image can be encoded as "{encoding}"')
    return content.tobytes()
