"""Reads rows of HDF5 files in a separate process: a damaged file can make the HDF5 library crash, loop or allocate
any amount of memory.

One such process serves all sources of this process and ends with it. After an error a new one replaces it.
"""

import atexit
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from .. import inputs, roots
from . import hdf5_process

# Limits of a request: CPU time, memory besides the data read, and bytes read per additional second.
SECONDS, MEMORY, PER_SECOND = 5, 1 << 30, 20 << 20


class Unreadable(ValueError):
    """The file cannot be read; the text says why."""


@dataclass(frozen=True)
class Described:
    """A data set: its shape, its type in words, whether it holds numbers, and the bytes of a chunk of it."""

    shape: tuple[int, ...] | None
    type: str
    numbers: bool
    chunk: int


def look(path: Path, names: Sequence[str]) -> tuple[list[Described | None], list[str]]:
    """Data sets by name, None for what is none; and, where one is none, names that are there. Reads no values. Errors:
    Unreadable."""
    answer, _ = _ask({"do": "look", "path": os.fspath(path), "names": list(names)}, 0, [])
    descriptions = [
        one and Described(one["shape"] and tuple(one["shape"]), one["type"], one["numbers"], one["chunk"])
        for one in answer["found"]
    ]
    return descriptions, answer["names"]


def read(
    path: Path, names: Sequence[str], rows: slice | np.ndarray, shapes: Sequence[tuple[int, ...]], chunks: int
) -> list[np.ndarray]:
    """Rows of data sets as float32, rows×shape each. rows: a slice with both ends, or numbers. chunks: bytes of a chunk
    of each, in all.

    Errors: Unreadable, also where the data sets are no longer of these shapes.
    """
    picked = {"start": rows.start, "stop": rows.stop} if isinstance(rows, slice) else rows.tolist()
    count = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    wanted = [(count, *shape) for shape in shapes]
    # Read row by row, each row may need a separate chunk to be decoded.
    work = chunks * (1 if isinstance(rows, slice) else count)
    return _ask(
        {"do": "read", "path": os.fspath(path), "names": list(names), "rows": picked}, work, wanted, 2 * chunks
    )[1]


def _ask(request: dict, work: int, shapes: list[tuple[int, ...]], memory: int = 0) -> tuple[dict, list[np.ndarray]]:
    with _opened(request["path"]) as request["path"]:
        return _answered(request | {"confined": bool(roots.current())}, work, shapes, memory)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[str]:
    """The path by which the process opens a file: where this one is confined to roots, that of the file which it has
    opened. Errors: OSError; Outside."""
    if not roots.current():
        yield path
        return
    with inputs.open_file(path) as file:
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}" if os.path.isdir(roots.DESCRIPTORS) else path


def _answered(request: dict, work: int, shapes: list[tuple[int, ...]], memory: int) -> tuple[dict, list[np.ndarray]]:
    size = sum(4 * math.prod(shape) for shape in shapes)
    request["seconds"] = SECONDS + (size + work) // PER_SECOND
    request["memory"] = MEMORY + 2 * size + memory
    request["folder"] = "/"
    with contextlib.suppress(OSError):  # it may be gone
        request["folder"] = os.getcwd()  # from which paths count, also those that a file names
    with _lock:
        process = _running()
        try:
            process.requests.write(json.dumps(request).encode() + b"\n")
            process.requests.flush()
            answer = json.loads(process.answers.readline() or "null")
            if answer is None:
                raise EOFError
            if "error" in answer:
                raise Unreadable(answer["error"])
            if [tuple(shape) for shape in answer.get("shapes", ())] != shapes:
                raise Unreadable("it has changed since it was opened")
            return answer, [_received(process, shape) for shape in shapes]
        except (OSError, EOFError):
            raise Unreadable(_end(process)) from None
        except BaseException:
            _end(process)
            raise


@dataclass(frozen=True)
class _Process:
    """The reading process and its two pipes."""

    popen: subprocess.Popen[bytes]
    requests: IO[bytes]
    answers: BufferedReader


def _received(process: _Process, shape: tuple[int, ...]) -> np.ndarray:
    values = np.empty(shape, np.float32)
    left = values.data.cast("B") if values.size else memoryview(b"")
    while left:
        count = process.answers.readinto(left)
        if not count:
            raise EOFError
        left = left[count:]
    return values


# The process, and the one that started it: a fork of that must not use it.
_lock = Lock()
_process: tuple[int, _Process] | None = None


def _running() -> _Process:
    global _process
    if _process is None or _process[0] != os.getpid():
        command = [
            sys.executable,
            "-I",
            str(Path(hdf5_process.__file__)),
            json.dumps([path for path in sys.path if isinstance(path, str)]),
        ]
        nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            # A separate session: Ctrl-C must reach only this process; the other one ends with it.
            popen = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=nowhere, start_new_session=True, pipesize=1 << 20
            )
        except OSError as error:
            raise Unreadable(f"no process to read it with ({error.strerror or error})") from None
        assert popen.stdin is not None and isinstance(popen.stdout, BufferedReader), "both are pipes"
        process = _Process(popen, popen.stdin, popen.stdout)
        _process = os.getpid(), process
        if not process.answers.readline():
            _end(process)
            raise Unreadable("the process to read it with does not start (is h5py installed?)")
    return _process[1]


def _end(process: _Process) -> str:
    """Ends the process; returns how it ended, if it had already ended."""
    global _process
    _process = None
    with contextlib.suppress(OSError):
        process.requests.close()
    process.answers.close()
    try:
        status = process.popen.wait(0.1)
    except subprocess.TimeoutExpired:
        process.popen.kill()
        status = process.popen.wait()
    if status == -signal.SIGXCPU:
        return "it is damaged: reading it does not end"
    if status == -signal.SIGKILL:
        return "the process that reads it was killed"
    return "it is damaged: reading it ends the process that tries it"


def _renew_lock_in_child() -> None:
    """In a child: a thread of the parent may have held the lock, and the process stays the parent's."""
    global _lock
    _lock = Lock()


os.register_at_fork(after_in_child=_renew_lock_in_child)


@atexit.register
def stop() -> None:
    """Ends the process, where there is one; the next request starts another one."""
    if _process and _process[0] == os.getpid():
        _end(_process[1])
