"""What a file is that a user has named in place of another one: a web page in place of what it offers to download, a
pointer of Git LFS, an archive that holds the file."""

import contextlib
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from . import inputs
from .errors import CaffeliteError, quoted


class FileType(NamedTuple):
    """A kind of file: what it is called, and what to do with one; {} in the remedy is the file."""

    what: str
    remedy: str


_START = 1024  # bytes that show the type
_WEB_PAGE = FileType("a web page", "download the file itself: on GitHub by the button Raw, elsewhere by its own link")
_NO_FILE = FileType("a server's answer that there is no such file", "check the address, and download it again")
_POINTER = FileType("a pointer of Git LFS, not the file itself", "fetch it in its repository: git lfs pull")
_UNPACK = "unpack it, and name the file in it: {}"
_TYPES = (  # what the file begins with
    (rb"\s*(<!doctype html|<html|<head|<\?xml[^>]*>\s*<(!doctype html|html))", _WEB_PAGE),
    (rb"\s*(<\?xml[^>]*>\s*<error>|404: not found|not found\s*$|\{\s*\"message\"\s*:\s*\"not found)", _NO_FILE),
    (rb"version https://(git-lfs\.github\.com|hawser\.github\.com)/spec/", _POINTER),
    (rb"\x1f\x8b", FileType("a gzip archive", _UNPACK.format("tar -xzf {0}, or gunzip {0} where it holds one file"))),
    (rb"BZh[1-9]1AY&SY", FileType("a bzip2 archive", _UNPACK.format("tar -xjf {0}"))),
    (rb"\xfd7zXZ\0", FileType("an xz archive", _UNPACK.format("tar -xJf {0}"))),
    (rb"\x28\xb5\x2f\xfd", FileType("a zstd archive", _UNPACK.format("tar --zstd -xf {0}"))),
    (rb"(?s:.{257})ustar", FileType("a tar archive", _UNPACK.format("tar -xf {0}"))),
    (rb"PK\x03\x04", FileType("a ZIP archive", _UNPACK.format("unzip {0}; weights of PyTorch: caffelite import"))),
    (rb"7z\xbc\xaf\x27\x1c", FileType("a 7z archive", _UNPACK.format("7z x {0}"))),
    (rb"Rar!\x1a\x07", FileType("a RAR archive", _UNPACK.format("unrar x {0}"))),
    (rb"%PDF-", FileType("a PDF document", "name the file that the document describes")),
    (rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a", FileType("a picture", "name the file of the net or of its weights")),
    (rb"\x89HDF\r\n", FileType("an HDF5 file", "weights and data in HDF5 have options and fields of their own")),
    (
        rb"\x80[\x02-\x05]",
        FileType("a pickle of Python", "of PyTorch? caffelite import {0} -model NET -out OUT"),
    ),
)
HDF5, ZIP, PICKLE, PICTURE = "an HDF5 file", "a ZIP archive", "a pickle of Python", "a picture"


def file_type(data: bytes) -> FileType | None:
    """The type of a file by its first bytes, None where they show none of these."""
    start = data[:_START].removeprefix(b"\xef\xbb\xbf")
    return next((kind for pattern, kind in _TYPES if re.match(pattern, start, re.IGNORECASE)), None)


def described(data: bytes) -> str | None:
    """What a file is that was to be binary: "it is text, such as a prototxt"; None where it is no text."""
    text = data and not re.search(rb"[\0-\x08\x0e-\x1f\x7f-\xff]", data[:_START])
    return "it is text, such as a prototxt" if text else None


def read_listing(path: str | os.PathLike, errors: str = "strict") -> str:
    """The text of a list, a table or annotations. errors: how bytes that are no UTF-8 are read. Errors: OSError,
    UnicodeDecodeError; the file is a web page or another of these types, but for pictures."""
    text = inputs.read_text(path, inputs.LIST, errors)
    refuse(text[:_START].encode("utf-8", "surrogateescape"), path, but=(PICTURE,))
    return text


def refuse_file(path: str | Path, but: Collection[str] = ()) -> None:
    """``refuse`` for a file that is not read yet; one that cannot be opened is not judged."""
    with contextlib.suppress(OSError), inputs.open_file(path) as file:
        refuse(file.read(_START), path, but)


def refuse(data: bytes, path: str | os.PathLike, but: Collection[str] = ()) -> None:
    """Errors: the content of a file shows that it is of one of these types, which is none of ``but``."""
    if (kind := file_type(data)) and kind.what not in but:
        raise CaffeliteError(f"{path} is {kind.what}", remedy=kind.remedy.format(quoted(path)))
