"""Lists the files of a tar archive and follows hard and symbolic links inside it."""

import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO, FileIO
from pathlib import Path
from typing import Literal

MOST_LINKS = 40  # one after another, as in Linux
MOST_NAMES = 10_000_000
FEW_NAMES, BYTES_OF_NAME = 100_000, 16  # so many may be in any archive, in a larger one so many bytes have one more
MOST_EXTENDED = 1 << 20  # bytes of a name or of a header's fields that is too long for a header
# What Python's reader raises for a damaged archive: also for malformed numbers and headers
_DAMAGE = (
    OSError,
    EOFError,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    OverflowError,
    IndexError,
    AttributeError,
    RecursionError,
)


class Unreadable(ValueError):
    """The archive is damaged or none."""


EXTENDED = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


class _Member(tarfile.TarInfo):
    """A header that rejects a negative size, which would make Python's reader loop forever, and one that is read into
    memory whole and is too large."""

    def _block(self, count: int) -> int:
        if count < 0:
            raise tarfile.ReadError("a size below 0")
        if count > MOST_EXTENDED and self.type in EXTENDED:
            raise tarfile.ReadError(f"a header of {count} bytes")
        return super()._block(count)  # type: ignore[misc]  # a method that typeshed does not list


@contextmanager
def opened(
    path: Path | None = None, mode: Literal["r", "r:"] = "r", fileobj: BytesIO | FileIO | None = None
) -> Iterator[tarfile.TarFile]:
    """A tar archive to read. Errors: Unreadable, there and within the context."""
    try:
        with tarfile.open(path, mode, fileobj, tarinfo=_Member) as archive:
            yield archive
    except _DAMAGE as mistake:
        raise Unreadable(getattr(mistake, "strerror", None) or str(mistake) or type(mistake).__name__) from None


def files(archive: tarfile.TarFile, size: int) -> Iterator[tuple[str, tarfile.TarInfo | None]]:
    """(name, member) of every file in the archive's order, without "./" at the start; a link is a name of the member
    that it leads to.

    None where a link has no target in the archive. A link to a folder names each file there, except by a further
    link to a folder. Of a name that comes twice the last member counts, as when it is unpacked. size: bytes of the
    archive's file, as it is packed. Errors: Unreadable; more names than an archive of its size has.
    """
    most = min(MOST_NAMES, FEW_NAMES + size // BYTES_OF_NAME)
    table: dict[str, tarfile.TarInfo] = {}
    for number, member in enumerate(archive, 1):
        if member.isfile() or member.islnk() or member.issym():
            table[os.path.normpath(member.name.lstrip("/")).removeprefix("./")] = member
        if number > most:
            raise tarfile.ReadError(f"more than {most} files in {size} bytes")
    folders = {parent for name in table for parent in _parents(name)}
    count = 0
    for name, member in table.items():
        if member.isfile():
            yield name, member
            continue
        target = _resolve(name, table)
        if target in folders:
            for other in [other for other in table if other.startswith(f"{target}/")]:
                count += 1
                if count > most:
                    raise tarfile.ReadError(f"links name more than {most} files")
                real = _resolve(other, table)
                if real not in folders:
                    yield f"{name}/{other[len(target) + 1 :]}", table.get(real or "")
        else:
            yield name, table.get(target or "")


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rsplit("/", 1)[0]
        yield name


def _resolve(name: str, table: dict[str, tarfile.TarInfo]) -> str | None:
    """Resolves all links in a name; None where they leave the archive or form a
    cycle."""
    left, links = name.split("/")[::-1], 0
    done: list[str] = []
    while left:
        step = left.pop()
        if step in ("", "."):
            continue
        if step == "..":
            if not done:
                return None
            done.pop()
            continue
        done.append(step)
        member = table.get("/".join(done))
        if member is None or member.isfile():
            continue
        links += 1
        if links > MOST_LINKS or member.issym() and member.linkname.startswith("/"):
            return None
        if member.issym():
            done.pop()
        else:  # a hard link names a member by its full name
            done.clear()
        left += member.linkname.split("/")[::-1]
    return "/".join(done)
