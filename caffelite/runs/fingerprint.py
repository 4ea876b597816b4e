"""Identifies what a run depends on: its data, by sizes and a hash of samples of the content, and package versions."""

import functools
import hashlib
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from .. import inputs

CHUNK, CHUNKS = 1 << 16, 16  # bytes, and chunks of a file that are read
MOST_FILES = 64  # maximum number of files of a folder that are hashed
TRANSIENT = {"lock.mdb", "LOCK", "LOG", "LOG.old"}  # can change while the data does not


def fingerprint(path: str | Path) -> dict[str, object]:
    """{"path", "files", "bytes", "hash"} of a file or a folder. The hash covers names, sizes and, of large files,
    evenly spaced chunks."""
    path = Path(path)
    files = [path] if path.is_file() else sorted(_files(path))
    digest, total = hashlib.blake2b(digest_size=16), 0
    hashed = set(files[:: -(-len(files) // MOST_FILES) or 1])
    for file in files:
        digest.update(
            b"\0" if path.is_file() else str(file.relative_to(path)).encode("utf-8", "surrogateescape") + b"\0"
        )
        if file in hashed:
            total += _hash(file, digest)
    return {"path": str(path), "files": len(files), "bytes": total, "hash": digest.hexdigest()}


def _files(folder: Path) -> Iterator[Path]:
    for at, _, names in os.walk(folder):
        yield from (Path(at, name) for name in names if name not in TRANSIENT and Path(at, name).is_file())


def _hash(file: Path, digest: hashlib.blake2b) -> int:
    with inputs.open_file(file) as content:
        size = os.fstat(content.fileno()).st_size
        digest.update(size.to_bytes(8, "little"))
        step = max(CHUNK, (size - CHUNK) // (CHUNKS - 1))
        for start in range(0, max(size, 1), step):
            content.seek(min(start, max(0, size - CHUNK)))
            digest.update(content.read(CHUNK))
    return size


PACKAGES = (
    "caffelite click numpy protobuf numba scipy h5py lmdb opencv-python-headless onednn-cpu-gomp mpi4py "
    "cupy-cuda12x cupy-cuda13x nvidia-cudnn-cu12 nvidia-cudnn-cu13 matplotlib"
).split()


def installed_versions() -> dict[str, str]:
    """Package → version, of those that are installed."""
    return {name: version for name in PACKAGES if (version := version_of(name))}


@functools.cache
def version_of(package: str) -> str:
    """The version of a package; "" where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
