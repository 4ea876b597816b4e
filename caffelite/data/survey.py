"""Examines a data set: shapes, labels, records that a net refuses or that look wrong, and duplicate images."""

from __future__ import annotations

import functools
import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from . import near
from .annotated import Objects
from .convert import in_order
from .records import Records, objects, read, shown
from .writers import progress_bar

Shape = tuple[int, ...]
Record = tuple[str, int]  # key, label


@dataclass
class Survey:
    """A data set's records counted by kind (pixels, image file, float values), by shape C×H×W and by label.

    Of annotated images, ``objects`` counts objects by class and ``per_image`` images by their number of objects.

    unreadable, odd: key → what is wrong, or strange. images: digest of an image → (key, label) of its records. prints:
    (digest, perceptual hash) of each image; empty unless near duplicates are searched.
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
    images: dict[bytes, list[Record]] = field(default_factory=dict)
    prints: list[tuple[bytes, near.Print]] = field(default_factory=list)

    def duplicates(self) -> list[list[Record]]:
        """(key, label) of the records of each image that occurs more than once."""
        return [records for records in self.images.values() if len(records) > 1]

    def shared(self, other: Survey) -> Iterator[tuple[list[Record], list[Record]]]:
        """(key, label) of the records here and there of each image that both sets hold."""
        return ((records, other.images[digest]) for digest, records in self.images.items() if digest in other.images)

    def near_duplicates(self) -> list[tuple[Record, Record]]:
        """The records of each two images that differ in size, compression or brightness only; of equal images the
        first record."""
        found = near.pairs([one for _, one in self.prints])
        return [(self.images[self.prints[i][0]][0], self.images[self.prints[j][0]][0]) for i, j in found]

    def near_shared(self, other: Survey) -> list[tuple[Record, Record]]:
        """As `near_duplicates`, a record here and one of the other set, without images that both sets hold."""
        prints = [(self, *one) for one in self.prints] + [(other, *one) for one in other.prints]
        found = []
        for i, j in near.pairs([one for _, _, one in prints]):
            (here, first, _), (there, second, _) = prints[i], prints[j]
            if here is self and there is other and first != second:
                found.append((here.images[first][0], there.images[second][0]))
        return found


@dataclass(frozen=True)
class _Seen:
    """One record: its kind, shape, label and digest, and what is strange about it alone."""

    kind: str
    shape: Shape
    label: int
    digest: bytes
    strange: list[str]
    print: near.Print | None
    objects: list[int] | None  # the class of each


def survey(path: str | os.PathLike, progress: bool = False, search_near: bool = False) -> Survey:
    """Reads every record of a database once. Two images are the same where all their values are, however they are
    stored.

    Odd is: a shape, a number of channels or a kind unlike that of more than half of the records; a label that is
    negative or missing; one value throughout; a value that is not finite; bytes and floats in one record.
    search_near: compute perceptual hashes, for near duplicates.
    """
    found = Survey(str(path))
    seen: dict[str, tuple[str, Shape]] = {}
    with Records(path) as records, progress_bar(os.path.basename(path), len(records), progress, "records") as bar:
        for record, one in in_order(functools.partial(_look, search_near), records):
            key = shown(record)
            found.count += 1
            bar.update()
            if isinstance(one, str):
                found.unreadable[key] = one
                continue
            found.kinds[one.kind] += 1
            found.shapes[one.shape] += 1
            if one.objects is None:
                found.labels[one.label] += 1
            else:
                found.objects.update(one.objects)
                found.per_image[len(one.objects)] += 1
            if one.print and one.digest not in found.images:
                found.prints.append((one.digest, one.print))
            found.images.setdefault(one.digest, []).append((key, one.label))
            seen[key] = one.kind, one.shape
            if one.strange:
                found.odd[key] = "; ".join(one.strange)
    _mark_rare(found, seen)
    return found


def _look(search_near: bool, record: tuple[bytes, bytes]) -> tuple[bytes, _Seen | str]:
    """The record's key and what it is, or why it cannot be read."""
    key, value = record
    try:
        datum, image = read(value)
    except ValueError as mistake:
        return key, str(mistake)
    kind = "image files" if datum.encoded else "pixels" if datum.data else "float values"
    known = objects(value)
    if known is None:
        strange = ["negative label"] * (datum.label < 0) + ["no label"] * (not datum.HasField("label"))
    else:
        strange = _strange_boxes(known)
    strange += ["both bytes and floats"] * bool(datum.data and datum.float_data)
    if not np.isfinite(image).all():
        strange.append("a value that is not finite")
    elif image.size > 1 and (image == image.flat[0]).all():
        strange.append(f"{image.flat[0]:g} throughout")
    digest = hashlib.blake2b(
        repr(image.shape).encode() + np.ascontiguousarray(image, np.float32).tobytes(), digest_size=16
    ).digest()
    print_ = near.fingerprint(image) if search_near and not strange else None
    classes = None if known is None else known.others[:, 0].astype(int).tolist()
    return key, _Seen(kind, image.shape, datum.label, digest, strange, print_, classes)


def _strange_boxes(known: Objects) -> list[str]:
    """What is strange about the boxes of an image."""
    boxes = known.boxes
    outside, empty = ((boxes < 0) | (boxes > 1)).any(1), ~(boxes[:, 2:] > boxes[:, :2]).all(1)
    return (
        [f"boxes beyond the image: {outside.sum()}"] * bool(outside.any())
        + [f"boxes without area: {empty.sum()}"] * bool(empty.any())
        + ["an object of the background or of a negative class"] * bool((known.others[:, 0] < 1).any())
    )


def _mark_rare(found: Survey, seen: dict[str, tuple[str, Shape]]) -> None:
    """Adds the records that differ from most others to ``odd``."""
    channels = Counter(shape[0] for _, shape in seen.values())
    usual = {
        name: _usual(counts)
        for name, counts in (("kind", found.kinds), ("shape", found.shapes), ("channels", channels))
    }
    for key, (kind, shape) in seen.items():
        said = []
        if usual["kind"] not in (None, kind):
            said.append(f"{kind} among {usual['kind']}")
        if usual["shape"] not in (None, shape):
            said.append(f"{_times(shape)} among {_times(usual['shape'])}")
        elif usual["shape"] is None and usual["channels"] not in (None, shape[0]):
            said.append(f"{shape[0]} channels among {usual['channels']}")
        if said:
            found.odd[key] = "; ".join([*said, *([found.odd[key]] if key in found.odd else [])])


def _usual(counts: Counter):
    """What more than half are, if there is such."""
    [(value, count)] = counts.most_common(1) or [(None, 0)]
    return value if 2 * count > counts.total() else None


def _times(shape: Shape) -> str:
    return "×".join(map(str, shape))
