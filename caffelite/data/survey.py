"""A survey of a data set: its labels, shapes, damaged files and near duplicates.

Each image has a perceptual hash: the signs of the 64 lowest coefficients of the cosine transform of its 32×32 gray
thumbnail, less their median. Images whose hashes differ in at most 7 bits are compared by their thumbnails.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import inputs
from .annotated import Objects
from .convert import in_order
from .datum_labels import labels_of
from .files import folder
from .hdf5 import HDF5Rows, Row, is_hdf5
from .listing import Listed, read_list, read_table
from .pictures import Traits, decode, traits
from .records import Records, backend_of, objects, read, shown
from .writers import progress_bar

SIDE, KEPT, THUMBNAIL = 32, 8, 16  # pixels of the gray image, coefficients a side, pixels of the compared thumbnail
BITS = 7  # that the hashes of near duplicates may differ in
CORRELATION = 0.98  # of the thumbnails, at least
BANDS = 8  # of 8 bits: two hashes that differ in at most 7 bits have one of them in common
CHUNK = 1024


@dataclass(frozen=True)
class Print:
    """The perceptual hash of an image, and its thumbnail (256 of uint8)."""

    bits: int
    thumbnail: np.ndarray


def fingerprint(image: np.ndarray) -> Print | None:
    """The hash of an image C×H×W; None of an image of one value throughout, or with values that are not finite."""
    from scipy.fft import dctn

    gray = image.astype(np.float32).mean(0)
    low, high = float(gray.min()), float(gray.max())
    if not np.isfinite((low, high)).all() or high <= low:
        return None
    gray = (gray - low) * (255 / (high - low))
    small = _resized(gray, SIDE)
    lowest = dctn(small, norm="ortho")[:KEPT, :KEPT].ravel()
    signs = lowest > np.median(lowest[1:])
    bits = int.from_bytes(np.packbits(signs).tobytes(), "big")
    return Print(bits, np.rint(_resized(small, THUMBNAIL)).clip(0, 255).astype(np.uint8).ravel())


def _resized(gray: np.ndarray, side: int) -> np.ndarray:
    """side×side of H×W: each value is the mean over its area, which may begin and end within a pixel."""
    for axis in (0, 1):
        gray = np.moveaxis(gray, axis, 0)
        length = gray.shape[0]
        sums = np.concatenate([np.zeros((1, gray.shape[1])), np.cumsum(gray, 0, np.float64)])
        edges = np.arange(side + 1) * (length / side)
        whole = np.minimum(edges.astype(int), length - 1)
        at_edges = sums[whole] + (edges - whole)[:, None] * gray[whole]
        gray = np.moveaxis(np.diff(at_edges, axis=0) * (side / length), 0, axis)
    return gray


def near_pairs(prints: list[Print]) -> Iterator[tuple[int, int]]:
    """(i, j), i < j, of the near duplicates among images."""
    if len(prints) < 2:
        return
    bits = np.array([one.bits for one in prints], np.uint64)
    thumbnails = np.stack([one.thumbnail for one in prints]).astype(np.float32)
    thumbnails -= thumbnails.mean(1, keepdims=True)
    thumbnails /= np.linalg.norm(thumbnails, axis=1, keepdims=True)
    pairs: set[tuple[int, int]] = set()
    for band in range(BANDS):
        byte = (bits >> np.uint64(8 * band)) & np.uint64(0xFF)
        order = np.argsort(byte, kind="stable")
        starts = np.flatnonzero(np.diff(byte[order], prepend=np.uint64(1 << 8)))
        for group in np.split(order, starts[1:]):
            for i, j in _in_group(group, bits, thumbnails):
                if (i, j) not in pairs:
                    pairs.add((i, j))
                    yield i, j


def _in_group(group: np.ndarray, bits: np.ndarray, thumbnails: np.ndarray) -> Iterator[tuple[int, int]]:
    """The near duplicates among images that share 8 bits of their hashes."""
    for row in range(0, len(group), CHUNK):
        for other in range(row, len(group), CHUNK):
            rows, columns = group[row : row + CHUNK], group[other : other + CHUNK]
            close = np.bitwise_count(bits[rows][:, None] ^ bits[columns]) <= BITS
            first, second = np.nonzero(close)
            i, j = rows[first], columns[second]
            i, j = i[i < j], j[i < j]  # each group is in ascending order
            for start in range(0, len(i), CHUNK):
                a, b = i[start : start + CHUNK], j[start : start + CHUNK]
                alike = np.einsum("nk,nk->n", thumbnails[a], thumbnails[b]) >= CORRELATION
                yield from zip(a[alike].tolist(), b[alike].tolist(), strict=True)


Shape = tuple[int, ...]
Record = tuple[str, int | None]  # key, label
IMAGE_FILES = "image files"
LISTS = (".txt", ".lst", ".csv")


@dataclass
class Survey:
    """A data set's records counted by kind (pixels, image file, float values), by shape C×H×W and by label.

    Of annotated images, ``objects`` counts objects by class and ``per_image`` images by their number of objects.

    unreadable, odd: key → what is wrong, or strange. traits: image files by what their arrays do not show; depth: the
    least and greatest value of those of more than 8 bits. images: digest of an image → (key, label) of its records.
    prints: (digest, perceptual hash) of each image; empty unless near duplicates are searched.
    """

    path: str
    count: int = 0
    kinds: Counter = field(default_factory=Counter)
    shapes: Counter = field(default_factory=Counter)
    labels: Counter = field(default_factory=Counter)
    objects: Counter = field(default_factory=Counter)
    per_image: Counter = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    traits: Counter = field(default_factory=Counter)
    depth: tuple[float, float] | None = None
    images: dict[bytes, list[Record]] = field(default_factory=dict)
    prints: list[tuple[bytes, Print]] = field(default_factory=list)

    def duplicates(self) -> list[list[Record]]:
        """(key, label) of the records of each image that occurs more than once."""
        return [records for records in self.images.values() if len(records) > 1]

    def shared(self, other: Survey) -> Iterator[tuple[list[Record], list[Record]]]:
        """(key, label) of the records here and there of each image that both sets hold."""
        return ((records, other.images[digest]) for digest, records in self.images.items() if digest in other.images)

    def near_duplicates(self) -> list[tuple[Record, Record]]:
        """The records of each two images that differ in size, compression or brightness only; of equal images the
        first record."""
        pairs = near_pairs([one for _, one in self.prints])
        return [(self.images[self.prints[i][0]][0], self.images[self.prints[j][0]][0]) for i, j in pairs]

    def near_shared(self, other: Survey) -> list[tuple[Record, Record]]:
        """As `near_duplicates`, a record here and one of the other set, without images that both sets hold."""
        prints = [(self, *one) for one in self.prints] + [(other, *one) for one in other.prints]
        pairs = []
        for i, j in near_pairs([one for _, _, one in prints]):
            (here, first, _), (there, second, _) = prints[i], prints[j]
            if here is self and there is other and first != second:
                pairs.append((here.images[first][0], there.images[second][0]))
        return pairs


@dataclass(frozen=True)
class _Seen:
    """One record: its kind, shape, label and digest, and what is strange about it alone."""

    kind: str
    shape: Shape
    label: int | None  # None: the row has none
    digest: bytes
    strange: list[str]
    print: Print | None
    objects: list[int] | None  # the class of each
    traits: Traits | None = None  # of an image file


def survey(path: str | os.PathLike, progress: bool = False, search_near: bool = False) -> Survey:
    """Reads every record of a database once, or every file of a folder of class folders, of a list or of a table, whose
    names are the keys, or every row of HDF5 files. Two images are the same where all their values are, however they
    are stored.

    Names of a list are absolute, or relative to the current folder, as those of an ImageData layer. Odd is: a shape, a
    number of channels or a kind unlike that of more than half of the records; a label that is negative or missing; one
    value throughout; a value that is not finite; bytes and floats in one record.
    search_near: compute perceptual hashes, for near duplicates.
    """
    survey = Survey(str(path))
    seen: dict[str, tuple[str, Shape]] = {}
    opened, look = _opened(Path(path))
    with opened as records, progress_bar(os.path.basename(path), len(records), progress, "records") as bar:
        for key, one in in_order(functools.partial(look, search_near), records):
            survey.count += 1
            bar.update()
            if isinstance(one, str):
                survey.unreadable[key] = one
                continue
            survey.kinds[one.kind] += 1
            if one.traits:
                _count_traits(survey, one.traits)
            survey.shapes[one.shape] += 1
            if one.objects is None and one.label is not None:
                survey.labels[one.label] += 1
            elif one.objects is not None:
                survey.objects.update(one.objects)
                survey.per_image[len(one.objects)] += 1
            if one.print and one.digest not in survey.images:
                survey.prints.append((one.digest, one.print))
            survey.images.setdefault(one.digest, []).append((key, one.label))
            seen[key] = one.kind, one.shape
            if one.strange:
                survey.odd[key] = "; ".join(one.strange)
    _mark_rare(survey, seen)
    return survey


TRANSPARENT, TURNED, DEEP = "transparent in places", "turned by EXIF", "more than 8 bits"


def _count_traits(survey: Survey, one: Traits) -> None:
    for name, has in ((TRANSPARENT, one.transparent), (TURNED, one.orientation > 1), (DEEP, one.high is not None)):
        survey.traits[name] += has
    if one.low is not None and one.high is not None:
        low, high = survey.depth or (one.low, one.high)
        survey.depth = min(low, one.low), max(high, one.high)


def _opened(path: Path) -> tuple[AbstractContextManager[Any], Callable[[bool, Any], tuple[str, _Seen | str]]]:
    """(the records, with a length; what examines one of them) of a data set."""
    is_database = bool(backend_of(path))
    if path.is_dir() and not is_database:
        return nullcontext(folder(path)), functools.partial(_look_at_file, f"{path}/")
    if not is_database and is_hdf5(path):
        return nullcontext(HDF5Rows(path)), _look_at_row
    if is_database or path.suffix.lower() not in LISTS:
        return Records(path), _look
    listed = read_table(path).listed if path.suffix.lower() == ".csv" else read_list(path)
    return nullcontext(listed), functools.partial(_look_at_file, "")


def _look(search_near: bool, record: tuple[bytes, bytes]) -> tuple[str, _Seen | str]:
    """The record's key and what it is, or why it cannot be read."""
    key, value = record
    try:
        datum, image = read(value)
        known = objects(value)
        labels: list[Any] = labels_of(datum, value) if known is None else [datum.label]
    except ValueError as mistake:
        return shown(key), str(mistake)
    kind = IMAGE_FILES if datum.encoded else "pixels" if datum.data else "float values"
    if known is None:
        strange = ["negative label"] * (min(labels) < 0) + ["no label"] * (
            labels == [0] and not datum.HasField("label")
        )
    else:
        strange = _strange_boxes(known)
    strange += ["both bytes and floats"] * bool(datum.data and datum.float_data)
    classes = None if known is None else known.others[:, 0].astype(int).tolist()
    have = traits(datum.data) if datum.encoded else None
    label = int(labels[0]) if len(labels) == 1 and float(labels[0]).is_integer() else None
    return shown(key), replace(_seen(kind, image, label, strange, search_near, classes), traits=have)


def _look_at_file(root: str, search_near: bool, listed: Listed) -> tuple[str, _Seen | str]:
    """The name of an image file and what it is, or why it cannot be read. root: stands before the name."""
    name = listed.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    try:
        content = inputs.read(root + listed.name, inputs.IMAGE)
        image = decode(content)
    except OSError as mistake:
        return name, inputs.reason(mistake)
    except ValueError as mistake:
        return name, str(mistake)
    seen = _seen(IMAGE_FILES, image, listed.label, ["negative label"] * (listed.label < 0), search_near)
    return name, replace(seen, traits=traits(content))


def _look_at_row(search_near: bool, record: tuple[str, Row]) -> tuple[str, _Seen | str]:
    """The place of a row and what it is: its image is the data set "data", or the first one that is no label."""
    row_name, row = record
    name = "data" if "data" in row else next((name for name in row if name != "label"), "label")
    label = row.get("label", np.empty(0))
    whole = label.size == 1 and np.isfinite(label).all() and float(label.item()).is_integer()
    strange = [
        f'a value of "{other}" that is not finite'
        for other in row
        if other != name and not np.isfinite(row[other]).all()
    ]
    return row_name, _seen("HDF5 rows", row[name], int(label.item()) if whole else None, strange, False)


def _seen(
    kind: str,
    image: np.ndarray,
    label: int | None,
    strange: list[str],
    search_near: bool,
    classes: list[int] | None = None,
) -> _Seen:
    """An image C×H×W. strange: what is strange about its record. classes: of its objects, where it is annotated."""
    if not np.isfinite(image).all():
        strange.append("a value that is not finite")
    elif image.ndim == 3 and image.size > 1 and (image == image.flat[0]).all():
        strange.append(f"{image.flat[0]:g} throughout")
    digest = hashlib.blake2b(
        repr(image.shape).encode() + np.ascontiguousarray(image, np.float32).tobytes(), digest_size=16
    ).digest()
    print_ = fingerprint(image) if search_near and not strange else None
    return _Seen(kind, image.shape, label, digest, strange, print_, classes)


def _strange_boxes(known: Objects) -> list[str]:
    """What is strange about the boxes of an image."""
    boxes = known.boxes
    outside, empty = ((boxes < 0) | (boxes > 1)).any(1), ~(boxes[:, 2:] > boxes[:, :2]).all(1)
    return (
        [f"boxes beyond the image: {outside.sum()}"] * bool(outside.any())
        + [f"boxes without area: {empty.sum()}"] * bool(empty.any())
        + ["an object of the background or of a negative class"] * bool((known.others[:, 0] < 1).any())
    )


def _mark_rare(survey: Survey, seen: dict[str, tuple[str, Shape]]) -> None:
    """Adds the records that differ from most others to ``odd``; image files have many sizes, and only those are odd
    that are far smaller."""
    channels = Counter(shape[0] for _, shape in seen.values())
    sides = [min(shape[1:]) for kind, shape in seen.values() if kind == IMAGE_FILES]
    least = np.median(sides) / FAR_SMALLER if sides else 0
    usual = {
        name: _usual(counts)
        for name, counts in (("kind", survey.kinds), ("shape", survey.shapes), ("channels", channels))
    }
    for key, (kind, shape) in seen.items():
        said = []
        if usual["kind"] not in (None, kind):
            said.append(f"{kind} among {usual['kind']}")
        if kind != IMAGE_FILES and usual["shape"] not in (None, shape):
            said.append(f"{_times(shape)} among {_times(usual['shape'])}")
        elif usual["channels"] not in (None, shape[0]):
            said.append(f"{shape[0]} channels among {usual['channels']}")
        if kind == IMAGE_FILES and min(shape[1:]) < least:
            said.append(f"{_times(shape)}, far smaller than most")
        if said:
            survey.odd[key] = "; ".join([*said, *([survey.odd[key]] if key in survey.odd else [])])


FAR_SMALLER = 4  # times: the shorter side of most image files in relation to that of an odd one


def _usual(counts: Counter):
    """What more than half are, if there is such."""
    [(value, count)] = counts.most_common(1) or [(None, 0)]
    return value if 2 * count > counts.total() else None


def _times(shape: Shape) -> str:
    return "×".join(map(str, shape))
