"""Samples from image files: from a list, a folder of class folders, or tar files in WebDataset's format."""

import glob
import math
import os
import re
import tarfile
from collections.abc import Sequence
from io import FileIO
from itertools import product
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where, closed_on_failure
from . import tar
from .database import EXACT_LABELS
from .images import resize
from .listing import Listed, files_below, list_classes, remedy_of_missing, shortened, whole_number
from .pictures import ENDINGS, Decoder
from .remote_shards import RemoteShard, ShardCache
from .samples import Samples

MOST_SHARDS = 1_000_000
LABEL_BYTES = 1 << 16  # limit for a .cls file; a label has a few digits


class Pictures(Samples[bytes]):
    """Image files, decoded and resized as in Caffe; a kind of it implements `_read` and `place`.

    size: height and width, 0 for as they are. Errors: a file that cannot be read, is empty, is cut short or is no
    image.
    """

    encoded = True

    def __init__(self, labels: Sequence[int] | np.ndarray, decoder: Decoder, size: tuple[int, int]):
        self._labels, self.decoder, self.size = labels, decoder, size
        self.label_shape = np.shape(labels)[1:]
        self.length = len(labels)
        self.first, _ = self.image(0, self._read(0))

    def read(self, indices: np.ndarray) -> Sequence[bytes]:
        return [self._read(number) for number in indices.tolist()]

    def _read(self, number: int) -> bytes:
        raise NotImplementedError

    def place(self, number: int) -> tuple[str, Where]:
        """A sample's file, and where it is named."""
        raise NotImplementedError

    def image(self, number: int, content: bytes) -> tuple[np.ndarray, int | np.ndarray]:
        try:
            image = self.decoder(content)
        except ValueError as mistake:
            raise self.error(number, content, str(mistake)) from None
        if all(self.size) and image.shape[1:] != self.size:
            image = resize(image, *self.size)
        return image, self._labels[number]

    def picture(self, number: int, content: bytes) -> bytes:
        return content

    def error(self, number: int, content: bytes, what: str) -> CaffeliteError:
        file, where = self.place(number)
        return CaffeliteError(f'image "{file}": {what}', where=where)

    def name(self, number: int) -> str:
        return self.place(number)[0]

    def labels(self, most: int) -> np.ndarray:
        return np.empty(0) if self.label_shape else np.array(self._labels, np.float64)  # in memory anyway

    def _read_labels(self) -> np.ndarray:
        return np.array(self._labels, np.float64)


class Files(Pictures):
    """Images named by a list or found in a folder; root is prepended to each name unchanged. values: files × columns,
    in place of the labels of the list."""

    def __init__(
        self,
        listed: Sequence[Listed],
        root: str,
        decoder: Decoder,
        size: tuple[int, int],
        values: np.ndarray | None = None,
    ):
        self._listed, self._root = listed, root
        super().__init__([image.label for image in listed] if values is None else values, decoder, size)

    def place(self, number: int) -> tuple[str, Where]:
        return self._root + self._listed[number].name, self._listed[number].where

    def _read(self, number: int) -> bytes:
        try:
            return inputs.read(self._root + self._listed[number].name, inputs.IMAGE)
        except OSError as mistake:
            file, where = self.place(number)
            remedy = remedy_of_missing(mistake)
            if not remedy and self._root:
                remedy = "names are relative to root_folder, which is put before them unchanged"
            raise where.error(f'cannot read image "{file}": {inputs.reason(mistake)}', remedy=remedy) from None


def folder(path: Path, classes: Sequence[str] = ()) -> list[Listed]:
    """The images of a folder of class folders; labels count these in the order of classes, or else of their names."""
    return list_classes(files_below(path), str(path), classes)[0]


class Shards(Pictures):
    """The samples of tar files, in their order: what has one name up to the first dot of the file name is one sample,
    an image and a label. cache: of shards that are at addresses.

    Errors besides: a damaged or packed archive; a sample without exactly one image and one .cls; a label that is no
    number.
    """

    def __init__(
        self,
        archives: Sequence[Path | RemoteShard],
        decoder: Decoder,
        size: tuple[int, int],
        cache: ShardCache | None = None,
    ):
        self._archives, self._cache = archives, cache
        self._files: dict[int, FileIO] = {}  # of archives on disk
        self._parts: list[tuple[int, str, int, int]] = []  # archive, name, offset and bytes of each image
        labels = []
        with closed_on_failure(self):
            for archive_index in range(len(archives)):
                for label, name, offset, count in self._index(archive_index):
                    labels.append(label)
                    self._parts.append((archive_index, name, offset, count))
            if not labels:
                raise Where(_text(archives[0])).error("no samples in any archive")
            if cache:
                self.nearby = sum(part[0] == self._parts[0][0] for part in self._parts)
            super().__init__(labels, decoder, size)

    def _index(self, archive_index: int) -> list[tuple[int, str, int, int]]:
        """Label, name, offset and bytes of each image of an archive."""
        archive = self._archives[archive_index]
        named = _text(archive)
        try:
            if isinstance(archive, RemoteShard):
                assert self._cache
                return self._cache.index(archive, lambda file: _index(file, named))
            file = self._files[archive_index] = inputs.open_file(archive)  # closed by close
            return _index(file, named)
        except (OSError, tar.Unreadable) as mistake:
            packed = named.endswith((".gz", ".tgz", ".bz2", ".xz", ".zst"))
            raise Where(named).error(
                f"cannot read the archive: {inputs.reason(mistake)}",
                expected="a .tar",
                remedy="unpack it with gunzip or the like" if packed else None,
            ) from None

    def _read(self, number: int) -> bytes:
        archive_index, _, offset, size = self._parts[number]
        archive = self._archives[archive_index]
        try:
            if isinstance(archive, RemoteShard):
                assert self._cache
                following = self._archives[(archive_index + 1) % len(self._archives)]
                assert isinstance(following, RemoteShard)
                self._cache.prefetch(following, archive)
                with self._cache.opened(archive) as file:
                    content = os.pread(file.fileno(), size, offset)
            else:
                content = os.pread(self._files[archive_index].fileno(), size, offset)
        except OSError as mistake:
            raise self.error(number, b"", f"cannot be read: {mistake.strerror}") from None
        if len(content) < size:
            raise self.error(number, b"", "the archive is cut short")
        return content

    def place(self, number: int) -> tuple[str, Where]:
        archive_index, name, _, _ = self._parts[number]
        return name, Where(_text(self._archives[archive_index]))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()


def _text(archive: Path | RemoteShard) -> str:
    return archive.shown if isinstance(archive, RemoteShard) else str(archive)


def _index(file: FileIO, named: str) -> list[tuple[int, str, int, int]]:
    """Label, name, offset and bytes of each image of an archive. Errors: those of `Shards`; OSError; Unreadable."""
    samples: dict[str, dict[str, tarfile.TarInfo]] = {}
    with tar.opened(mode="r:", fileobj=file) as archive:  # unbuffered: the headers alone are read
        for full_name, member in tar.files(archive, os.fstat(file.fileno()).st_size):
            folder_, name = os.path.split(full_name)
            stem, _, ending = name.partition(".")
            if stem:
                samples.setdefault(os.path.join(folder_, stem), {})[ending.lower()] = _usable(named, full_name, member)
    index = []
    for stem, members in samples.items():
        images = [(ending, member) for ending, member in members.items() if f".{ending.rsplit('.')[-1]}" in ENDINGS]
        if len(images) != 1 or "cls" not in members:
            expected = "an image and a .cls"
            raise Where(named).error(f'sample "{stem}"', expected=expected, found=", ".join(sorted(members)))
        text = os.pread(file.fileno(), min(members["cls"].size, LABEL_BYTES), members["cls"].offset_data).strip()
        label = whole_number(text.decode(errors="replace"))
        if label is None or abs(label) > EXACT_LABELS:
            found = repr(shortened(text.decode(errors="backslashreplace")))
            raise Where(named).error(f'"{stem}.cls" is no label', expected="an integer", found=found)
        [(ending, image)] = images
        index.append((label, f"{stem}.{ending}", image.offset_data, image.size))
    return index


def _usable(named: str, name: str, member: tarfile.TarInfo | None) -> tarfile.TarInfo:
    if member is None:
        raise Where(named).error(f'the link "{name}" has no target in the archive', remedy="pack what it names too")
    if member.issparse():
        raise Where(named).error(f'"{name}" is stored as a sparse file', remedy="pack it without --sparse")
    return member


def shards(pattern: str) -> list[Path]:
    """The files that a pattern names: as in ``expanded``, and * and ? are as in a shell, in the order of their names.
    Errors: more than 1,000,000 names."""
    names = expanded(pattern)
    return [Path(path) for name in names for path in (sorted(glob.glob(name)) if glob.has_magic(name) else [name])]


def expanded(pattern: str) -> list[str]:
    """The names of a pattern, in which {000..127} counts. Errors: more than 1,000,000 names."""
    pieces = re.split(r"\{([0-9]+)\.\.([0-9]+)\}", pattern)
    ends = [
        (whole_number(a) or 0, whole_number(b) or 0, len(a)) for a, b in zip(pieces[1::3], pieces[2::3], strict=True)
    ]
    if math.prod(max(0, last - first + 1) for first, last, _ in ends) > MOST_SHARDS:
        what = f'the pattern "{shortened(pattern)}" names more than {MOST_SHARDS} files'
        raise CaffeliteError(what, remedy="correct its ranges, as in {000..127}")
    counts = [[f"{n:0{width}d}" for n in range(first, last + 1)] for first, last, width in ends]
    return [
        "".join(x for pair in zip(pieces[::3], [*index, ""], strict=True) for x in pair) for index in product(*counts)
    ]
