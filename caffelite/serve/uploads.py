"""Pictures that a page uploads: many files, folders or ZIP archives become a folder of class folders.

Only the last two parts of a name are used, the class and the file: no path is extracted. A class keeps its name, which
is refused where a folder cannot have it: two classes never become one.
"""

import os
import re
import shutil
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from starlette.datastructures import UploadFile

from .. import roots
from ..errors import CaffeliteError, printable, reporting
from ..zip_names import name_of
from .config import Limits

MOST_IMAGE = 32 << 20  # bytes of one picture
ENTRY = 512  # bytes of the directory of an archive for each picture that is allowed
END, END_64 = b"PK\5\6", b"PK\6\7"  # marks of the end of an archive
SUFFIXES = {
    **{b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"BM": ".bmp", b"RIFF": ".webp", b"GIF8": ".gif"},
    **{b"II*\0": ".tif", b"MM\0*": ".tif"},
}
SKIPPED = re.compile(r"(^|/)(\.[^./]|__MACOSX/|Thumbs\.db$)")  # files that systems put beside pictures


LONGEST_NAME = 255  # bytes
MOST_NAMES = 10  # of files that are left out
CONTROL = ("Cc", "Cs", "Zl", "Zp")  # Unicode's categories of control codes, lone surrogates and breaks of lines


@dataclass
class Stored:
    """What was stored. pictures: their number by class. others: the number of files that are no pictures; left_out: the
    first names of these."""

    pictures: dict[str, int] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    others: int = 0

    def leave_out(self, name: str) -> None:
        """Counts a file that is no picture."""
        self.others += 1
        self.left_out += [printable(name, keep="")[-80:]] * (len(self.left_out) < MOST_NAMES)


def folder_name(text: str, kind: str) -> str:
    """A name that a folder can have, as it is. kind: of what it names, for the error. Errors: it cannot be kept."""
    if not is_plain(text):
        expected = f"at most {LONGEST_NAME} bytes without slashes and control codes, no dot at the start"
        what, remedy = f"the name of the {kind} cannot be kept", "rename it"
        raise CaffeliteError(what, expected=expected, found=printable(text, keep="")[:80] or "none", remedy=remedy)
    return text


def is_plain(name: str) -> bool:
    """Whether a file of this name stays in its folder, is not hidden, and has one line."""
    if not name or name.startswith(".") or re.search(r"[/\\]", name):
        return False
    if any(unicodedata.category(character) in CONTROL for character in name):
        return False
    return len(name.encode()) <= LONGEST_NAME


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

    Errors: the folder exists; no pictures; a picture without a class; a class whose name cannot be kept, or that comes
    from two folders; an archive that cannot be read or is encrypted;
    more pictures or bytes than the limits allow. Nothing is left behind then.
    """
    draft = folder.with_name(f".{folder.name}.upload")
    if os.path.lexists(folder) or os.path.lexists(draft):
        raise CaffeliteError(f"{folder.name} exists already", remedy="choose another name")
    stored, bytes_ = Stored(), 0
    with reporting(f"write {folder.name}"), _new_folder(draft, folder) as draft:
        pictures = _Pictures(draft, label, limits)
        for name, content in files(uploads, limits):
            bytes_ += len(content)
            if bytes_ > limits.upload:
                expected = f"at most {limits.upload} bytes in all"
                raise CaffeliteError("the pictures are too large", expected=expected)
            if SKIPPED.search(name):
                continue
            if suffix(content):
                pictures.add(name, content)
            else:
                stored.leave_out(name)
        stored.pictures = dict(pictures.number)
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


class _Pictures:
    """Writes the pictures of an upload below a folder."""

    def __init__(self, draft: Path, label: str, limits: Limits):
        self._draft, self._label, self._limits = draft, label, limits
        self.number: Counter[str] = Counter()  # of pictures by class
        self._folders: dict[str, list[str]] = {}  # the path of each class in the upload
        self._names: Counter[Path] = Counter()

    def add(self, name: str, content: bytes) -> None:
        segments = [segment for segment in re.split(r"[/\\]", name) if segment not in ("", ".", "..")]
        chosen = segments[-2] if len(segments) > 1 else self._label.strip()
        if not chosen:
            remedy = "name their class, or upload a folder or an archive with a folder for each class"
            raise CaffeliteError("pictures without a folder have no class", found=printable(name)[-80:], remedy=remedy)
        if self.number.total() >= self._limits.files:
            raise CaffeliteError("there are too many pictures", expected=f"at most {self._limits.files}")
        chosen = folder_name(chosen, "class")
        path = segments[:-1] or [chosen]
        if (before := self._folders.setdefault(chosen, path)) != path:
            found = printable(f"{'/'.join(before)} and {'/'.join(path)}", keep="")[:200]
            remedy = "upload each set on its own, or rename one of them"
            raise CaffeliteError(f"two folders have the name of class {chosen}", found=found, remedy=remedy)
        self.number[chosen] += 1
        (self._draft / chosen).mkdir(exist_ok=True)
        roots.write(self._free(self._draft / chosen, Path(segments[-1]).stem, suffix(content)), content)

    def _free(self, folder: Path, stem: str, suffix: str) -> Path:
        """A path for a file that no other one has."""
        if not is_plain(stem) or len(stem.encode()) > LONGEST_NAME - len(suffix) - len("_99999"):
            stem = safe_name(stem)
        path = folder / f"{stem}{suffix}"
        while path.exists():
            self._names[folder / stem] += 1
            path = folder / f"{stem}_{self._names[folder / stem] + 1}{suffix}"
        return path


def files(uploads: list[UploadFile], limits: Limits) -> Iterator[tuple[str, bytes]]:
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
                    name = name_of(entry)
                    yield name, _limited(content, name)
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
