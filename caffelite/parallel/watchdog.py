"""A rank's side of its watchdog: it writes its progress to a few bytes of shared memory that the watchdog's process
reads."""

import json
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import watchdog_process as process

NOBODY = process.NOBODY
COLLECTIVES = (
    "gradients",
    "scores",
    "the loss",
    "divisors of losses",
    "what to start with",
    "an agreement",
    "how the run ended",
)


class Watchdog:
    """Starts the watchdog of this process. limit: seconds without progress after which a rank counts as hanging; 0:
    never."""

    def __init__(self, rank: int, size: int, limit: float):
        self._ticks = self._iteration = self._done = 0
        self._file = tempfile.TemporaryFile()
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        process.PROGRESS.pack_into(self._memory, 0, 0, 0, 0, process.STARTING, 0, NOBODY)
        self._places: dict[Hashable, int] = {}
        self._rank = rank
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(process.__file__)), str(self._file.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            pass_fds=[self._file.fileno()],
            start_new_session=True,
        )
        assert self._process.stdin
        self._stdin = self._process.stdin
        self._send(rank=rank, size=size, pid=os.getpid(), limit=limit)
        self._send(collectives=COLLECTIVES)

    def address(self) -> tuple[int, str] | None:
        """The port and the token of the watchdog of rank 0; None on the others."""
        if self._rank:
            return None
        assert self._process.stdout
        port, token = json.loads(self._process.stdout.readline())
        self._process.stdout.close()
        return port, token

    def join(self, host: str, port: int, token: str) -> None:
        if self._rank:
            self._send(join=[host, port], token=token)

    def name_layers(self, names: dict[Hashable, str]) -> None:
        self._places = {key: i for i, key in enumerate(names)}
        self._send(names=list(names.values()))

    def record_failure_in(self, path: Path) -> None:
        self._send(outcome=str(path.absolute()))

    def mark(self, what: int, key: Hashable = None, iteration: int | None = None) -> None:
        """Reports progress. what: one of the phases of watchdog_process; key: of the layer, as in ``name_layers``."""
        self._ticks += 1
        self._done += what == process.UPDATE
        if iteration is not None:
            self._iteration = iteration
        process.PROGRESS.pack_into(
            self._memory, 0, self._ticks, self._iteration, self._done, what, self._places.get(key, -1), NOBODY
        )

    def name_position(self, text: str) -> None:
        """Gives the watchdog the part of the net that this rank holds, for its report."""
        self._send(position=text)

    @contextmanager
    def transfer(self, rank: int) -> Iterator[None]:
        """Within it this rank waits for an array of another rank."""
        before = process.PROGRESS.unpack_from(self._memory)
        self._ticks += 1
        process.PROGRESS.pack_into(self._memory, 0, self._ticks, *before[1:5], rank)
        yield  # not restored after an error: the report then names the transfer
        self._ticks += 1
        process.PROGRESS.pack_into(self._memory, 0, self._ticks, *before[1:])

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Within it this rank waits for a collective operation. Errors: ``what`` is none of COLLECTIVES."""
        if what not in COLLECTIVES:
            raise ValueError(
                f'rank {self._rank}: unknown collective "{what}"; expected one of {", ".join(COLLECTIVES)}'
            )
        before = process.PROGRESS.unpack_from(self._memory)
        self._ticks += 1
        process.PROGRESS.pack_into(
            self._memory, 0, self._ticks, self._iteration, self._done, process.WAITING, COLLECTIVES.index(what), NOBODY
        )
        yield  # not restored after an error: the report then names the collective
        self._ticks += 1
        process.PROGRESS.pack_into(self._memory, 0, self._ticks, self._iteration, self._done, *before[3:])

    def report_error(self, text: str) -> None:
        """Gives the watchdog the error that ends this rank."""
        self._send(error=text[:2000])

    def done(self) -> None:
        """The rank ends as planned: the watchdog ends, too."""
        self._send(done=True)
        with suppress(OSError):
            self._stdin.close()
        self._process.wait()

    def _send(self, **line: object) -> None:
        with suppress(OSError):  # a watchdog that has died ends the job
            self._stdin.write(json.dumps(line).encode() + b"\n")
            self._stdin.flush()
