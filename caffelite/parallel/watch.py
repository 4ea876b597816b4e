"""A rank's side of its guard: it notes where it is on a board, a few bytes of memory that the guard reads."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import guard

COLLECTIVES = ("gradients", "scores", "the loss", "what to start with", "an agreement")


class Watched:
    """This process's guard. limit: seconds without progress after which a rank counts as hanging; 0: never.

    ``mark(what, key)`` notes a step: a number of guard.WHATS and a layer.
    """

    def __init__(self, rank: int, size: int, limit: float):
        self._ticks = self._iteration = self._done = 0
        self._file = tempfile.TemporaryFile()
        self._file.truncate(mmap.PAGESIZE)
        self._board = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self._places: dict[Hashable, int] = {}
        self._rank = rank
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(self._file.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            pass_fds=[self._file.fileno()],
            start_new_session=True,
        )
        self._say(rank=rank, size=size, pid=os.getpid(), limit=limit)
        self._say(collectives=COLLECTIVES)

    def address(self) -> tuple[int, str] | None:
        """Where the guard of rank 0 listens, and the word that opens; None on the others."""
        if self._rank:
            return None
        port, token = json.loads(self._guard.stdout.readline())
        self._guard.stdout.close()
        return port, token

    def join(self, host: str, port: int, token: str) -> None:
        if self._rank:
            self._say(join=[host, port], token=token)

    def name_layers(self, names: dict[Hashable, str]) -> None:
        self._places = {key: i for i, key in enumerate(names)}
        self._say(names=list(names.values()))

    def mark(self, what: int, key: Hashable = None, iteration: int | None = None) -> None:
        self._ticks += 1
        self._done += what == guard.UPDATE
        if iteration is not None:
            self._iteration = iteration
        guard.BOARD.pack_into(self._board, 0, self._ticks, self._iteration, self._done, what, self._places.get(key, -1))

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        before = guard.BOARD.unpack_from(self._board)
        self._ticks += 1
        guard.BOARD.pack_into(
            self._board, 0, self._ticks, self._iteration, self._done, guard.WAITING, COLLECTIVES.index(what)
        )
        yield  # not put back where it fails: that is the place to tell
        self._ticks += 1
        guard.BOARD.pack_into(self._board, 0, self._ticks, self._iteration, self._done, *before[3:])

    def last_words(self, text: str) -> None:
        """What ends this rank, for the guard to tell."""
        self._say(words=text[:2000])

    def done(self) -> None:
        """All went well, or ended by agreement: the guard goes."""
        self._say(done=True)
        with suppress(OSError):
            self._guard.stdin.close()
        self._guard.wait()

    def _say(self, **line: object) -> None:
        with suppress(OSError):  # a guard that is gone ends the job by itself
            self._guard.stdin.write(json.dumps(line).encode() + b"\n")
            self._guard.stdin.flush()
