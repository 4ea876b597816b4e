"""Pictures that a page uploads: many files, folders or ZIP archives become a folder of class folders.

Only the last two parts of a name are used, the class and the file, reduced to plain characters: no path is extracted.
"""

import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from starlette.datastructures import UploadFile

from .. import roots
from ..errors import CaffeliteError, printable, reporting
from .config import Limits

MOST_IMAGE = 32 << 20  # bytes of one picture
ENTRY = 512  # bytes of the directory of an archive for each picture that is allowed
END, END_64 = b"PK\5\6", b"PK\6\7"  # marks of the end of an archive
SUFFIXES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"BM": ".bmp", b"RIFF": ".webp"}
SKIPPED = re.compile(r"(^|/)(\.[^./]|__MACOSX/|Thumbs\.db$)")  # files that systems put beside pictures


@dataclass
class Stored:
    """What was stored. pictures: their number by class. others: the number of files that are no pictures; left_out: the
    first names of these."""

    pictures: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    others: int = 0


def safe_name(text: str) -> str:
    """A name for a file: letters, digits, dots, dashes and underscores of a text, at most 80."""
    safe = re.sub(r"[^\w.\-]+", "_", text, flags=re.ASCII).lstrip(".-")[-80:]
    return safe or "unnamed"


def suffix(image: bytes) -> str:
    """The suffix of an image's format, by its first bytes; empty for another format."""
    return next((each for start, each in SUFFIXES.items() if image.startswith(start)), "")


def store(folder: Path, uploads: list[UploadFile], label: str, limits: Limits) -> Stored:
    """Writes pictures into a new folder, with a folder for each class: the last folder in a picture's name, else
    ``label``.

    Errors: the folder exists; no pictures; a picture without a class; an archive that cannot be read or is encrypted;
    more pictures or bytes than the limits allow. Nothing is left behind then.
    """
    draft = folder.with_name(f".{folder.name}.upload")
    if os.path.lexists(folder) or os.path.lexists(draft):
        raise CaffeliteError(f"{folder.name} exists already", remedy="choose another name")
    stored, bytes_ = Stored(), 0
    with reporting(f"write {folder.name}"), _new_folder(draft, folder) as draft:
        for name, content in _files(uploads, limits):
            bytes_ += len(content)
            if bytes_ > limits.upload:
                expected = f"at most {limits.upload} bytes in all"
                raise CaffeliteError("the pictures are too large", expected=expected)
            if SKIPPED.search(name):
                continue
            if suffix(content):
                _write(draft, name, content, label, stored, limits)
            else:
                stored.others += 1
                stored.left_out += [printable(name, keep="")[-80:]] * (len(stored.left_out) < 10)
        if not stored.pictures:
            expected = "PNG, JPEG, BMP or WebP, as files, folders or a ZIP archive of them"
            raise CaffeliteError("there are no pictures in this upload", expected=expected)
    return stored


@contextmanager
def _new_folder(draft: Path, folder: Path) -> Iterator[Path]:
    """A new folder, which gets its name at the end and is removed after an error. Errors: OSError."""
    with roots.folder(folder.parent) as above:
        (above / draft.name).mkdir()
        try:
            with roots.folder(draft) as opened:
                yield opened
            os.rename(above / draft.name, above / folder.name)
        finally:
            shutil.rmtree(above / draft.name, ignore_errors=True)


def _write(draft: Path, name: str, content: bytes, label: str, stored: Stored, limits: Limits) -> None:
    segments = [segment for segment in re.split(r"[/\\]", name) if segment not in ("", ".", "..")]
    chosen = segments[-2] if len(segments) > 1 else label.strip()
    if not chosen:
        remedy = "name their class, or upload a folder or an archive with a folder for each class"
        raise CaffeliteError("pictures without a folder have no class", found=printable(name)[-80:], remedy=remedy)
    if sum(stored.pictures.values()) >= limits.files:
        raise CaffeliteError("there are too many pictures", expected=f"at most {limits.files}")
    chosen = safe_name(chosen)
    stored.pictures[chosen] = number = stored.pictures.get(chosen, 0) + 1
    (draft / chosen).mkdir(exist_ok=True)
    path = draft / chosen / (safe_name(Path(segments[-1]).stem) + suffix(content))
    path = path if not path.exists() else path.with_name(f"{path.stem}_{number}{path.suffix}")
    roots.write(path, content)


def _files(uploads: list[UploadFile], limits: Limits) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files of an upload, and of those in its archives."""
    for upload in uploads:
        name = upload.filename or ""
        if name.lower().endswith(".zip"):
            yield from _archived(upload.file, limits)
        else:
            yield name, _limited(upload.file, name)


def _archived(file: IO[bytes], limits: Limits) -> Iterator[tuple[str, bytes]]:
    try:
        _check_directory(file, limits)
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if entry.is_dir():
                    continue
                plain = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                if entry.flag_bits & 1 or not plain:
                    expected = "one without a password, stored or deflated"
                    raise CaffeliteError("this archive cannot be read", expected=expected)
                with archive.open(entry) as content:
                    yield entry.filename, _limited(content, entry.filename)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise CaffeliteError("this archive is damaged, or no ZIP archive", found=printable(str(error))[:200]) from None


def _check_directory(file: IO[bytes], limits: Limits) -> None:
    """Refuses an archive whose list of files, which is read as a whole, is too long. Errors: CaffeliteError;
    BadZipFile."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 22))
    tail = file.read()
    at = tail.rfind(END)
    if at < 0:
        raise zipfile.BadZipFile("it has no end")
    length = int.from_bytes(tail[at + 12 : at + 16], "little")
    if length > limits.files * ENTRY or END_64 in tail[max(0, at - 20) : at]:
        raise CaffeliteError("the archive has too many files", expected=f"at most {limits.files}")


def _limited(file: IO[bytes], name: str) -> bytes:
    content = file.read(MOST_IMAGE + 1)
    if len(content) > MOST_IMAGE:
        found = printable(name, keep="")[-80:]
        raise CaffeliteError("a picture is too large", expected=f"at most {MOST_IMAGE >> 20} MiB", found=found)
    return content
