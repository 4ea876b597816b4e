"""Measures images: sizes, color, mean and spread of their values; and finds those that cannot be read."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb, inputs
from ..data.convert import in_order
from ..data.listing import remedy_of_missing
from ..data.pictures import Decoder
from ..data.proposals import Proposal, proposals
from ..data.records import Records, read
from ..data.writers import progress_bar
from ..errors import CaffeliteError, Collector
from .reading import Subset

MOST_SCANNED = 50_000  # images; of larger sets a part is measured
MOST_PROPOSED = 500  # images that settings are proposed by
MOST_SHOWN = 20  # unreadable images in an error


@dataclass
class Measured:
    """sizes: images by (height, width). color: whether any image has color. moments: of each measured row the means
    of its values (0 to 255; blue, green, red) and of their squares. encoded: records of a database are image files.
    unreadable: rows of files, with the reason."""

    sizes: Counter = field(default_factory=Counter)
    color: bool = False
    moments: dict[int, np.ndarray] = field(default_factory=dict)
    encoded: bool = True
    unreadable: dict[int, CaffeliteError] = field(default_factory=dict)

    def mean_and_std(self, rows: Iterable[int], color: bool) -> tuple[list[float], list[float], int]:
        """Mean and standard deviation by channel, three or one, over the measured ones of these rows, and how many
        these are. Each image counts the same, whatever its size."""
        moments = np.array([self.moments[row] for row in rows if row in self.moments])
        mean, square = moments.mean(0)
        if not color:
            mean, square = mean.mean(keepdims=True), square.mean(keepdims=True)
        return mean.tolist(), np.sqrt(np.maximum(square - mean * mean, 0)).tolist(), len(moments)

    @property
    def uniform(self) -> tuple[int, int] | None:
        """The size of all images, where they have one."""
        return next(iter(self.sizes)) if len(self.sizes) == 1 else None

    @property
    def side(self) -> int:
        """The median of the shorter sides, in pixels."""
        sides = sorted((min(size), count) for size, count in self.sizes.items())
        half, passed = self.sizes.total() / 2, 0
        for side, count in sides:
            passed += count
            if passed >= half:
                return side
        return 0


Look = tuple[int, tuple[int, int], bool, np.ndarray, np.ndarray]


def propose(subset: Subset) -> list[Proposal]:
    """The settings that suit the image files of a subset, or the records that are such files, by an even sample."""
    step = max(1, len(subset) // MOST_PROPOSED)
    return proposals(_contents(subset, step), pb.TransformationParameter())


def _contents(subset: Subset, step: int) -> Iterator[bytes]:
    if not subset.database:
        for image in subset.listed[::step]:
            with suppress(OSError):
                yield inputs.read(image.name, inputs.IMAGE)
        return
    with Records(subset.database) as records:
        for _, value in _every(records, step):
            with suppress(DecodeError):
                datum = pb.Datum.FromString(value)
                if not datum.encoded:
                    return
                yield datum.data


def measure(subset: Subset, progress: bool, decoder: Decoder, name: str = "images") -> Measured:
    """Decodes all images of a subset, or an even sample of more than 50,000, and measures them.

    Unreadable files are collected; of a database the first one is an error.
    """
    measured = Measured()
    step = math.ceil(len(subset) / MOST_SCANNED)
    looks = _of_database(subset, step, decoder, measured) if subset.database else _of_files(subset, step, decoder)
    with progress_bar(f"measuring {name}", math.ceil(len(subset) / step), progress) as bar:
        for look in looks:
            bar.update()
            if isinstance(look[1], CaffeliteError):
                measured.unreadable[look[0]] = look[1]
                continue
            _, size, color, mean, square = look
            measured.sizes[size] += 1
            measured.color |= color
            measured.moments[look[0]] = np.stack([mean, square])
    return measured


def _of_files(subset: Subset, step: int, decoder: Decoder) -> Iterator:
    def look(row: int):
        image = subset.listed[row]
        try:
            return _look(row, decoder(inputs.read(image.name, inputs.IMAGE)))
        except (OSError, ValueError) as mistake:
            text = f'cannot read image "{image.name}": {inputs.reason(mistake)}'
            return row, CaffeliteError(text, where=image.where, remedy=remedy_of_missing(mistake))

    return in_order(look, range(0, len(subset), step))


def _of_database(subset: Subset, step: int, decoder: Decoder, measured: Measured) -> Iterator:
    assert subset.database is not None
    with Records(subset.database) as records:

        def look(item):
            row, (record, value) = item
            try:
                datum, image = read(value, decoder)
            except ValueError as mistake:
                raise records.bad(record, mistake) from None
            if image.dtype != np.uint8 or len(image) not in (1, 3):
                kind = "×".join(map(str, image.shape))
                expected, seen = "1 or 3 channels of bytes", f"{kind} of {image.dtype}"
                remedy = "copy a net with caffelite models and change its data layer"
                raise records.bad(record, "no picture", expected=expected, found=seen, remedy=remedy)
            measured.encoded &= datum.encoded
            return _look(row, image)

        yield from in_order(look, _every(enumerate(records), step))


def _every(items: Iterable, step: int) -> Iterator:
    return (item for i, item in enumerate(items) if i % step == 0)


def _look(row: int, image: np.ndarray) -> Look:
    """Size, color, and the means of values and of their squares by channel of an image C×H×W."""
    color = len(image) == 3 and not (np.array_equal(image[0], image[1]) and np.array_equal(image[0], image[2]))
    values = image.reshape(len(image), -1).astype(np.float32)
    mean, square = values.mean(1, dtype=np.float64), np.square(values).mean(1, dtype=np.float64)
    if len(image) == 1:
        mean, square = np.repeat(mean, 3), np.repeat(square, 3)
    return row, (image.shape[1], image.shape[2]), color, mean, square


def refuse(left_out: list[str], command: str) -> None:
    """Raises what holds no image that can be read, in one summary. command: what goes on without it."""
    if not left_out:
        return
    collector = Collector()
    for text in left_out[:MOST_SHOWN]:
        collector.add(CaffeliteError(text))
    unlisted = len(left_out) - MOST_SHOWN
    more = f", {unlisted} more than are listed" if unlisted > 0 else ""
    what = f"{len(left_out)} {'file' if len(left_out) == 1 else 'files and folders'} without a picture{more}"
    collector.add(CaffeliteError(what, remedy=f"repair or remove them, or go on without them: {command}"))
    collector.raise_any()
