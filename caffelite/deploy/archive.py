"""Model archives as DIGITS packs them: a deploy net, its weights, a mean image and labels in one tar or ZIP file."""

import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from .. import inputs
from ..errors import CaffeliteError, quoted, reporting
from ..file_types import file_type
from ..zip_names import name_of

KINDS = {"model": r"deploy\.prototxt", "weights": r".*\.caffemodel(\.h5)?", "mean": r"mean\.(binaryproto|npy)"}
KINDS["labels"] = r"labels\.txt"
MOST_FILES = 1000
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, ValueError, RuntimeError, NotImplementedError),
)


@dataclass(frozen=True)
class Packed:
    """The files of an archive, unpacked; None where it has none."""

    model: Path
    weights: Path | None = None
    mean: Path | None = None
    labels: Path | None = None


def is_archive(path: str | Path) -> bool:
    """Whether a file is a tar, a compressed tar or a ZIP archive, by its first bytes."""
    try:
        with inputs.open_file(path) as file:
            kind = file_type(file.read(1024))
    except OSError:
        return False
    return kind is not None and kind.what.endswith(" archive")


def unpack(path: str | Path, folder: Path) -> Packed:
    """Writes the files of a model archive into a folder, under their last names; of several snapshots the one with the
    greatest iteration. Errors: no deploy.prototxt in it; a damaged one; larger than a binary message may be."""
    newest: dict[str, tuple[int, str]] = {}
    files: dict[str, Path] = {}
    total = 0
    with reporting(f"unpack {path}"):
        try:
            for number, (name, size, opened) in enumerate(_members(Path(path))):
                last = PurePosixPath(name.replace("\\", "/")).name
                kind = next((each for each, pattern in KINDS.items() if re.fullmatch(pattern, last)), None)
                total += size
                if number >= MOST_FILES or total > inputs.MESSAGE:
                    raise ValueError("more or larger files than a model has")
                if kind is None or newest.get(kind, (-1, ""))[0] > _iteration(last):
                    continue
                newest[kind], files[kind] = (_iteration(last), last), folder / last
                files[kind].write_bytes(_read(opened, size))
        except DAMAGE as error:
            what = f"cannot unpack {path}: {str(error).partition(':')[0] or type(error).__name__}"
            raise CaffeliteError(what, expected="a tar or ZIP archive of a model") from None
    if "model" not in files:
        remedy = f"unpack it, and name the net in it: tar -xf {quoted(path)}"
        raise CaffeliteError(f"{path} is no model archive", expected="a deploy.prototxt in it", remedy=remedy)
    return Packed(**files)


def _members(path: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """(name, size, open file) of each regular file. Errors: DAMAGE."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as file:
                    yield name_of(entry), entry.file_size, file
        return
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and (packed := tar.extractfile(member)):
                yield member.name, member.size, packed


def _read(file: IO[bytes], size: int) -> bytes:
    data = file.read(size + 1)
    if len(data) != size:
        raise ValueError("a file of another size than stated")
    return data


def _iteration(name: str) -> int:
    match = re.search(r"_iter_(\d{1,9})\.", name)
    return int(match[1]) if match else 0
