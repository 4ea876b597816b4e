"""CustomData: the images and flows of FlowNet's databases."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from ... import caffelite_pb2 as pb
from ...data.database import Database
from ...data.lmdb_reader import Record
from ...data.opening import source_path
from ...data.sampled import DataLayer
from ...data.samples import Label
from ...layers.base.layer import register

DATA = pb.DataParameter
UNKNOWN, UNITS = np.iinfo(np.int16).max, 32  # of flows that are stored as integers


class Slices(Database):
    """Records whose channels are stored in slices, each in its own way. points: where new slices begin; encoding: of
    each; those that lack are bytes. Their images are of float32."""

    def __init__(self, path: Path, points: Sequence[int], encoding: Sequence[int]):
        self.points, self.encoding = points, encoding
        super().__init__(path)

    def image(self, number: int, content: Record) -> tuple[np.ndarray, Label]:
        key, datum = content[0], self.datum(content)
        if datum.float_data or datum.encoded:
            if self.encoding:
                raise self._bad(key, "the encoding is of bytes, and the record has none")
            image, label = super().image(number, content)
            return image.astype(np.float32), label
        shape = datum.channels, datum.height, datum.width
        if min(shape) < 1 or any(point >= shape[0] for point in self.points):
            expected = f"more than {max(self.points, default=0)} channels, of 1 pixel or more"
            raise self._bad(key, "wrong shape", expected=expected, found="×".join(map(str, shape)))
        parts, rest = [], datum.data
        for i, (first, last) in enumerate(zip([0, *self.points], [*self.points, shape[0]], strict=True)):
            kind = self.encoding[i] if i < len(self.encoding) else DATA.UINT8
            count = (last - first) * shape[1] * shape[2]
            size = 2 * count if kind == DATA.UINT16FLOW else -(-count // 8) if kind == DATA.BOOL1 else count
            part, rest = rest[:size], rest[size:]
            if len(part) < size:
                raise self._bad(key, f"slice {i} has too few bytes", expected=size, found=len(part))
            if kind == DATA.BOOL1 and last - first != 1:
                raise self._bad(key, f"slice {i} is of BOOL1", expected="1 channel", found=last - first)
            parts.append(_decoded(part, kind, count).reshape(-1, *shape[1:]))
        return np.concatenate(parts), datum.label


def _decoded(part: bytes, kind: int, count: int) -> np.ndarray:
    if kind == DATA.BOOL1:
        return np.unpackbits(np.frombuffer(part, np.uint8), bitorder="little")[:count].astype(np.float32)
    if kind == DATA.UINT16FLOW:
        numbers = np.frombuffer(part, "<i2")
        return np.where(numbers == UNKNOWN, np.nan, numbers / np.float32(UNITS)).astype(np.float32)
    return np.frombuffer(part, np.uint8).astype(np.float32)


@register
class CustomData(DataLayer):
    """The records of an LMDB in slices of channels: a top (N, C, H, W) for each slice, N = data_param.batch_size, and
    perhaps the labels (N).

    slice_point: the channels where new slices begin. encoding of each slice: UINT8 (default), bytes; UINT16FLOW,
    integers of 16 bits, 32 for a pixel, 32767 for unknown, NaN; BOOL1, bits, of a slice of one channel. subtract: a
    number for each channel, then scale multiplies. range_start to range_end, of all: the records; rand_permute: in a
    new order in each epoch. Errors: mean_file, crop_size, mirror, LevelDB, rand_permute of a range unless the range is
    first, since the seed of the fork's order is its machine's. As in lmb-freiburg/flownet2,
    src/caffe/layers/custom_data_layer.cpp.
    """

    field = "data_param"
    files = ("source",)
    tops = (1, None)

    def setup(self) -> None:
        p = self.p
        for name in ("mean_file", "crop_size", "mirror", "rand_skip"):
            if getattr(p, name):
                raise self.error(f"{name} is not supported", name, remedy="use a DataAugmentation layer")
        if p.HasField("backend") and p.backend != DATA.LMDB:
            raise self.error("a bad backend", "backend", expected="LMDB", found=DATA.DB.Name(p.backend))
        points = list(p.slice_point)
        if points != sorted({*points} - {0}):
            raise self.error("slice_point must increase", "slice_point", expected="numbers from 1 on", found=points)
        if len(self.spec.top) - len(points) not in (1, 2):
            expected, found = f"{len(points) + 1}, or one more for labels", len(self.spec.top)
            raise self.error("has another number of tops", "top", 0, expected=expected, found=found, outer=True)
        ranges = p.range_start > 0 or p.range_end >= 0
        if p.rand_permute and ranges and p.rand_permute_order == DATA.FIRST_PERMUTE_THEN_RANGE:
            what = "rand_permute before a range is not supported"
            raise self.error(what, "rand_permute", remedy="set rand_permute_order: FIRST_RANGE_THEN_PERMUTE")
        self._bounds = [0, *points, None]
        if len(p.encoding) > len(points) + 1:
            expected, found = f"{len(points) + 1}, one for each slice", len(p.encoding)
            raise self.error("a bad number of encoding", "encoding", expected=expected, found=found)

    def shuffles(self) -> bool:
        return self.p.rand_permute

    def open(self) -> None:
        path = source_path(self.p, self.locate.at(self.field))
        self._database = Slices(path, self.p.slice_point, self.p.encoding)
        self._reading = Lock()
        last = self._database.length - 1
        self._first = min(max(self.p.range_start, 0), last)
        self._last = self.p.range_end if 0 <= self.p.range_end <= last else last
        channels = len(self._database.first)
        if self._last < self._first:
            raise self.error("range_end is before range_start", "range_end", found=self._last)
        if len(self.p.subtract) not in (0, channels):
            expected = f"{channels}, one for each channel"
            raise self.error("a bad number of subtract", "subtract", expected=expected, found=len(self.p.subtract))

    def close(self) -> None:
        self._database.close()

    def length(self) -> int:
        return self._last - self._first + 1

    def sample(self, index: int, random: np.random.Generator) -> tuple:
        index += self._first
        with self._reading:  # several threads ask for samples
            (record,) = self._database.read(np.array([index]))
            record = bytes(record[0]), bytes(record[1])
        image, label = self._database.image(index, record)
        if self.p.subtract:
            image = image - np.array(self.p.subtract, np.float32)[:, None, None]
        slices = [self.p.scale * image[a:b] for a, b in zip(self._bounds, self._bounds[1:], strict=False)]
        return (*slices, label)[: len(self.spec.top)]
