"""What the data of a run was: sizes, and a hash of a spread of contents, quick however large the data is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from .. import inputs

CHUNK, SPREAD = 1 << 16, 16  # bytes, and chunks of a file that are read
MOST_FILES = 64  # of a folder whose contents are looked at
PASSING = {"lock.mdb", "LOCK", "LOG", "LOG.old"}  # change without the data


def fingerprint(path: str | Path) -> dict[str, object]:
    """{"path", "files", "bytes", "hash"} of a file or a folder. The hash sees names, sizes and, of large files, chunks
    spread evenly."""
    path = Path(path)
    files = [path] if path.is_file() else sorted(_files(path))
    digest, total = hashlib.blake2b(digest_size=16), 0
    looked = set(files[:: -(-len(files) // MOST_FILES) or 1])
    for file in files:
        digest.update(
            b"\0" if path.is_file() else str(file.relative_to(path)).encode("utf-8", "surrogateescape") + b"\0"
        )
        if file in looked:
            total += _look(file, digest)
    return {"path": str(path), "files": len(files), "bytes": total, "hash": digest.hexdigest()}


def _files(folder: Path) -> Iterator[Path]:
    """The regular files below a folder."""
    for at, _, names in os.walk(folder):
        yield from (Path(at, name) for name in names if name not in PASSING and Path(at, name).is_file())


def _look(file: Path, digest: hashlib.blake2b) -> int:
    with inputs.open_file(file) as content:
        size = os.fstat(content.fileno()).st_size
        digest.update(size.to_bytes(8, "little"))
        step = max(CHUNK, (size - CHUNK) // (SPREAD - 1))
        for start in range(0, max(size, 1), step):
            content.seek(min(start, max(0, size - CHUNK)))
            digest.update(content.read(CHUNK))
    return size
