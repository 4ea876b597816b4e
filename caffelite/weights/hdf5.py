"""HDF5 files of weights and states in memory: recognized by content, sealed with a checksum, read so that a damaged
file is an error.

A damaged file can make the HDF5 library loop, crash or allocate any amount of memory. So a file without a valid
checksum is first read by hdf5_probe.py, in a separate process with limits on time and memory.
"""

import contextlib
import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..errors import CaffeliteError
from . import hdf5_probe

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# HDF5 ignores bytes after its end; our checksum is stored there. An attribute of the root says that it exists.
SEAL, PROMISE = b"caffelite checksum", "caffelite_checksum"
DIGEST = 16
# Before the checksum: a message in a part of constant length, with its length in one byte.
NOTE, NOTE_SIZE = b"caffelite run", 80
TAIL = NOTE_SIZE + len(SEAL) + DIGEST  # bytes behind the end of HDF5
MISTAKES = (
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
# The probe's time, bytes that it reads in a second more, and memory besides the file.
SECONDS, PER_SECOND, MEMORY = 20, 20 << 20, 1 << 30


def starts(data: bytes) -> bool:
    """Whether bytes are an HDF5 file: its signature is at 0 or, after a user block, at 512, 1024, 2048
    and so on."""
    at = 0
    while at < len(data):
        if data[at : at + len(SIGNATURE)] == SIGNATURE:
            return True
        at = max(512, 2 * at)
    return False


def encode(fill: Callable[[object], None], note: bytes = b"") -> bytes:
    """The bytes of an HDF5 file that ``fill`` was given to fill, a note and their checksum."""
    import h5py

    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        file.attrs[PROMISE] = "stands behind the end"
        fill(file)
        file.flush()
        body = file.id.get_file_image()
    if note:
        body += (NOTE + bytes([len(note)]) + note).ljust(NOTE_SIZE, b"\0")
    return body + SEAL + hashlib.blake2b(body, digest_size=DIGEST).digest()


def note(tail: bytes) -> bytes:
    """The note in the last TAIL bytes of a file; empty where there is none."""
    if len(tail) < TAIL or tail[-TAIL:][: len(NOTE)] != NOTE:
        return b""
    body = tail[-TAIL:][len(NOTE) : NOTE_SIZE]
    return body[1 : 1 + body[0]]


def check_seal(data: bytes, path: Path) -> bool:
    """Compares the checksum with the bytes, where there is one; whether there is."""
    body, seal = data[: -len(SEAL) - DIGEST], data[-len(SEAL) - DIGEST :]
    if not seal.startswith(SEAL):
        return False
    if hashlib.blake2b(body, digest_size=DIGEST).digest() != seal[len(SEAL) :]:
        raise CaffeliteError(f"{path} is damaged: its checksum does not match")
    return True


@contextlib.contextmanager
def opened(data: bytes, path: str | Path) -> Iterator:
    """An h5py.File over the bytes of a file, verified. Errors: a damaged file, one that takes too long or too much
    memory."""
    import h5py

    sealed = check_seal(data, Path(path))
    if not sealed:
        _probe(data, path)
    try:
        file = h5py.File(io.BytesIO(data), "r")
        promised = PROMISE in file.attrs
    except MISTAKES as error:
        raise CaffeliteError(f"cannot read {path} as HDF5: {error}") from None
    with file:
        if promised and not sealed:
            raise CaffeliteError(f"{path} is damaged: its end is missing")
        yield file


def _probe(data: bytes, path: str | Path) -> None:
    """Reads all of an unsealed file in another process."""
    seconds = SECONDS + len(data) // PER_SECOND
    command = [sys.executable, "-I", str(Path(hdf5_probe.__file__)), str(MEMORY + 4 * len(data)), str(seconds)]
    command.append(json.dumps(sys.path))  # h5py may be outside the path of -I
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=2 * seconds)
    except subprocess.TimeoutExpired:
        raise CaffeliteError(f"cannot read {path} as HDF5: it is damaged: reading it does not end") from None
    except OSError as error:
        what = f"cannot read {path} as HDF5: no process to check it with ({error.strerror or error})"
        raise CaffeliteError(what) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        why = "it is damaged: reading it ends the process that tries it"
        if done.returncode == hdf5_probe.REFUSED and lines:
            why = lines[-1]
        raise CaffeliteError(f"cannot read {path} as HDF5: {why}")


def members(group) -> Iterator[tuple[str, object]]:
    """(name, group or data set) of a group's members. Errors: ValueError for a link to another place or file."""
    return hdf5_probe.members(group)


def values(data_set, size: int) -> np.ndarray:
    """The numbers of a data set as float32. size: the file's, which bounds how many there can be. Errors:
    ValueError."""
    hdf5_probe.check_size(data_set, size)
    return np.asarray(data_set[()], np.float32)


def address(group) -> int:
    """The place of a group in its file, the same by whatever name it was found."""
    return hdf5_probe.address(group)
