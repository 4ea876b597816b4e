"""Processes that caffelite starts itself, one for each GPU of this machine; they exchange Python values through
sockets to rank 0."""

import os
import signal
import subprocess
import time
from multiprocessing.connection import Connection, Pipe
from types import FrameType
from typing import Any

from ...system import HOME, bound_to, command, environment
from ..control import Control, Subset

# "rank size descriptor ...": rank 0 has one descriptor for each other rank, the others have the one of rank 0
PLACE = "CAFFELITE_RANK"


def inherited() -> int:
    """How many processes ``launch`` started, this one among them; 0 where it did not."""
    return int(os.environ[PLACE].split()[1]) if PLACE in os.environ else 0


def inherited_rank() -> int:
    return int(os.environ[PLACE].split()[0])


class Star:
    """The processes that ``launch`` started."""

    def __init__(self) -> None:
        self.rank, self.size, *descriptors = map(int, os.environ.pop(PLACE).split())
        self._others = [Connection(descriptor) for descriptor in descriptors]

    def gather(self, value: Any) -> list[Any]:
        try:
            return self._gather(value)
        except (EOFError, OSError):  # another process has ended: this one's watchdog ends it with a message
            time.sleep(60)
            raise

    def _gather(self, value: Any) -> list[Any]:
        if self.rank:
            self._others[0].send(value)
            return self._others[0].recv()
        values = [value, *(other.recv() for other in self._others)]
        for other in self._others:
            other.send(values)
        return values

    def subset(self, ranks: list[int]) -> Control:
        return Subset(self, ranks)

    def close(self) -> None:
        for other in self._others:
            other.close()


def launch(arguments: list[str], size: int) -> int:
    """Runs ``caffelite ARGUMENTS`` in ``size`` processes, waits for them and returns the lowest status of those that
    failed, or 0.

    It forwards signals to all of them. Where this process is killed, they receive SIGTERM and end after their iteration
    with a snapshot (Linux).
    """
    pairs = [Pipe() for _ in range(size - 1)]
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    bind = bound_to(os.getpid())
    before = {
        number: signal.signal(number, forward)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    }
    try:
        for rank in range(size):
            mine = [pairs[rank - 1][1]] if rank else [near for near, _ in pairs]
            descriptors = " ".join(map(str, (rank, size, *(end.fileno() for end in mine))))
            children.append(
                subprocess.Popen(
                    command(arguments, os.getcwd()),
                    cwd=HOME,
                    env={**environment(), PLACE: descriptors},
                    pass_fds=[end.fileno() for end in mine],
                    start_new_session=True,
                    preexec_fn=bind,
                )
            )
        for end in (end for pair in pairs for end in pair):
            end.close()
        statuses = [child.wait() for child in children]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
        for number, handler in before.items():
            signal.signal(number, handler)
    failed = [status if status > 0 else 128 - status for status in statuses if status]
    return min(failed, default=0)  # a reported error (2) before ranks that were killed because of it
