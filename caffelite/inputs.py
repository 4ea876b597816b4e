"""Opens the files that a user names: only regular files, up to the maximum size of their kind.

Opening a FIFO blocks, and a device may return endless data. Errors are OSError; `strerror` says what kind of file was
found, so that a caller reports them with the position of the file's name, as it does for a missing file. Where this
process is confined to roots (roots.py), a file that is not below them is Outside.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import roots

if TYPE_CHECKING:
    from google.protobuf.message import Message

TEXT = 64 << 20  # bytes of a prototxt, a file of labels, a hierarchy
LIST = 1 << 30  # a list of images
IMAGE = 1 << 30  # an image file
MESSAGE = (1 << 31) - 1  # a binary protobuf message, which protobuf limits
LOG = 1 << 30  # a log or the records of a run
UNPACKED, RATIO = 1 << 30, 100  # bytes that any packed file may have unpacked; a larger file this many times its own

_KINDS = (
    (stat.S_ISDIR, "it is a folder, not a file"),
    (stat.S_ISFIFO, "it is a FIFO, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
)


WINDOWS_PATH = "write / instead of \\ in paths"
_copies: dict[str, bytes] = {}


def replace(copies: dict[str, bytes]) -> None:
    """From now on ``read`` and ``read_text`` return these bytes in place of files: by path, links resolved."""
    _copies.update(copies)


def exists(path: str | os.PathLike) -> bool:
    """Whether there is a file or a folder, or a copy of one."""
    return os.path.exists(path) or (bool(_copies) and os.path.realpath(path) in _copies)


def beside(folder: Path, name: str) -> str:
    """A name in a file of a folder: it counts from the working directory, or else, where only that exists, from the
    folder. A name that is too long for the system exists nowhere."""
    sibling = str(folder / name)
    return sibling if not exists(name) and exists(sibling) else name


def check(path: str | os.PathLike, most: int | None = None) -> os.stat_result:
    """The status of a regular file. Errors: OSError where there is none, where it is of another kind, or larger than
    `most` bytes; Outside for one that is not below the roots of this process."""
    roots.check(path)
    try:
        status = os.stat(path)
    except ValueError:
        raise OSError(errno.EINVAL, "its name holds a NUL character", str(path)) from None
    except FileNotFoundError as error:
        if remedy := windows_path(path):
            raise FileNotFoundError(errno.ENOENT, f"{error.strerror} ({remedy})", str(path)) from None
        raise
    _check(status, path, most)
    return status


def windows_path(path: str | os.PathLike) -> str | None:
    """What helps where a path that does not exist is written as on Windows: with a drive or backslashes, of which \\t
    and \\n are control codes in a prototxt; None for others."""
    return WINDOWS_PATH if re.search(r"[\\\x01-\x1f\x7f]|^[A-Za-z]:", os.fspath(path)) else None


def open_file(path: str | os.PathLike, most: int | None = None) -> io.FileIO:
    """Opens a regular file to read, unbuffered. Errors: as for `check`."""
    return io.FileIO(open_descriptor(path, most))


def open_descriptor(path: str | os.PathLike, most: int | None = None) -> int:
    """The file descriptor of a regular file that is open to read; the caller closes it. Errors: as for `check`."""
    if not roots.current():  # below roots a look first would only take time
        check(path, most)
    # Not blocking: the path may be a FIFO.
    handle = roots.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _check(os.fstat(handle), path, most)
        return handle
    except BaseException:
        os.close(handle)
        raise


def read(path: str | os.PathLike, most: int | None = None) -> bytes:
    """The bytes of a regular file. Errors: as for `check`; it grows beyond `most` bytes while it is read."""
    if _copies and (copy := _copies.get(os.path.realpath(path))) is not None:
        return copy
    with open_file(path, most) as file:
        if most is None:
            return file.readall()
        parts, left = [], most + 1
        while left and (part := file.read(min(left, 1 << 24))):
            parts.append(part)
            left -= len(part)
        if not left:
            raise _too_large(path, most)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(path: str | os.PathLike, most: int = TEXT, errors: str = "strict") -> str:
    """The text of a regular file in UTF-8 or, with a byte order mark, in UTF-16; its line ends as "\\n", without the
    mark. Errors: as for `read`; UnicodeDecodeError."""
    content = read(path, most)
    return io.TextIOWrapper(io.BytesIO(content), encoding(content), errors).read()


def encoding(content: bytes) -> str:
    """The encoding of a text by the byte order mark that it may begin with."""
    return "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"


def check_unpacked(size: int, packed: int) -> None:
    """Refuses what a packed file holds, before it is unpacked. size: unpacked, packed: of the file, in bytes. Errors:
    OSError."""
    most = max(UNPACKED, RATIO * packed)
    if size > most:
        raise OSError(errno.EFBIG, f"{packed} bytes unpack to {size}, too many for a file of its size (at most {most})")


def reason(mistake: Exception) -> str:
    """The message of an exception of these functions, without the file's name."""
    return getattr(mistake, "strerror", None) or str(mistake)


def _check(status: os.stat_result, path: str | os.PathLike, most: int | None) -> None:
    for is_kind, said in _KINDS:
        if is_kind(status.st_mode):
            raise (IsADirectoryError if is_kind is stat.S_ISDIR else OSError)(
                errno.EISDIR if is_kind is stat.S_ISDIR else errno.EINVAL, said, str(Path(path))
            )
    if most is not None and status.st_size > most:
        raise _too_large(path, most, status.st_size)


def _too_large(path: str | os.PathLike, most: int, size: int | None = None) -> OSError:
    description = f"it has {size} bytes" if size else "it grows"
    return OSError(errno.EFBIG, f"{description}, too large for a file of its kind (at most {most})", str(path))


def check_text(message: Message) -> None:
    """Raises ValueError for text that is not UTF-8: protobuf accepts it in proto2 files, some versions as bytes."""
    for descriptor, value in message.ListFields():
        parts: Iterable[Any] = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
        if descriptor.type == descriptor.TYPE_STRING:
            if bad := next((text for text in parts if isinstance(text, bytes)), None):
                raise ValueError(f"{descriptor.name} is not UTF-8: {bad!r}")
        elif descriptor.message_type is not None and descriptor.message_type.name != "BlobProto":
            for part in parts:
                check_text(part)
