"""NCCL's communicators between processes of this machine, by way of sockets.

The calls of a communicator come in one order; where ranks disagree about it, NCCL waits for ever or moves wrong
numbers, and this raises. STAND_IN_FAULT plants a fault in rank 1: "plan", its sums have another length; "order", it
sends before its turn; "resident", its kernel never gets a place on the GPU, so that all wait.
"""

import itertools
import os
import queue
import tempfile
import threading
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np

from .cupy import numbers

SECONDS = 60  # until all ranks have come
FAULTY_CALL = 8


class Disagreement(RuntimeError):
    """Ranks make different calls at the same time."""


def unique_id() -> bytes:
    return tempfile.mkdtemp(prefix="nccl-", dir="/tmp").encode()


class Communicator:
    def __init__(self, size: int, uid: bytes, rank: int):
        self.size, self.rank, self._calls = size, rank, itertools.count(1)
        self._fault = os.environ.get("STAND_IN_FAULT") if rank == 1 else None
        self._peers = _connect(size, Path(uid.decode()), rank)
        self._received: dict[int, queue.Queue] = {peer: queue.Queue() for peer in self._peers}
        for peer, connection in self._peers.items():
            threading.Thread(target=self._read, args=(peer, connection), daemon=True).start()

    def _read(self, peer: int, connection: Connection) -> None:
        """Takes whatever comes, so that nobody waits in a send. A rank that ended is waited for: so does NCCL."""
        try:
            while True:
                self._received[peer].put(connection.recv())
        except (EOFError, OSError):
            pass

    def _send(self, peer: int, call: str, content) -> None:
        try:
            self._peers[peer].send((call, content))
        except OSError:
            time.sleep(600)

    def _receive(self, peer: int, call: str):
        theirs, content = self._received[peer].get()
        if theirs != call:
            raise Disagreement(f"rank {self.rank} calls {call} while rank {peer} calls {theirs}")
        return content

    def _meet(self, call: str, content) -> list:
        """What all ranks bring to a call, in their order."""
        for peer in self._peers:
            self._send(peer, call, content)
        return [content if rank == self.rank else self._receive(rank, call) for rank in range(self.size)]

    def _arrays(self, call: str, pointer: int, count: int) -> list[np.ndarray]:
        if self._fault and next(self._calls) == FAULTY_CALL:
            self._break(call)
            if self._fault == "plan":
                call, count = call.replace(str(count), str(count - 1)), count - 1
        return self._meet(call, numbers(pointer, count, np.float32).copy())

    def _break(self, call: str) -> None:
        if self._fault == "resident":
            time.sleep(600)
        if self._fault == "order":
            for peer in self._peers:
                self._send(peer, "send 1", np.zeros(1, np.float32))

    def commSplit(self, color: int, key: int):
        folder = unique_id() if color >= 0 else b""
        every = self._meet("split", (color, key, self.rank, folder))
        if color < 0:
            return None
        members = sorted(each[1:] for each in every if each[0] == color)
        return Communicator(len(members), members[0][2], [rank for _, rank, _ in members].index(self.rank))

    def allReduce(self, send, received, count, kind, how, stream) -> None:
        assert (kind, how) == (7, 0), "a sum of float32"

        def work():
            numbers(received, count, np.float32)[...] = _total(self._arrays(f"allReduce {count}", send, count))

        stream.add(work)

    def allGather(self, send, received, count, kind, stream) -> None:
        def work():
            every = self._arrays(f"allGather {count}", send, count)
            numbers(received, count * self.size, np.float32)[...] = np.concatenate(every)

        stream.add(work)

    def reduceScatter(self, send, received, count, kind, how, stream) -> None:
        def work():
            total = _total(self._arrays(f"reduceScatter {count * self.size}", send, count * self.size))
            numbers(received, count, np.float32)[...] = total.reshape(self.size, count)[self.rank]

        stream.add(work)

    def send(self, pointer, count, kind, peer, stream) -> None:
        stream.add(lambda: self._send(peer, f"send {count}", numbers(pointer, count, np.float32).copy()))

    def recv(self, pointer, count, kind, peer, stream) -> None:
        def work():
            numbers(pointer, count, np.float32)[...] = self._receive(peer, f"send {count}")

        stream.add(work)

    def check_async_error(self) -> None:
        pass

    def destroy(self) -> None:
        for connection in self._peers.values():
            connection.close()

    abort = destroy


def _total(arrays: list[np.ndarray]) -> np.ndarray:
    """The sum in the order of ranks, the same bits on all."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


def _connect(size: int, folder: Path, rank: int) -> dict[int, Connection]:
    """Connections to all other ranks: each listens, and calls those before it."""
    folder.mkdir(exist_ok=True)
    peers: dict[int, Connection] = {}
    with Listener(str(folder / str(rank)), "AF_UNIX", backlog=size) as listener:
        for other in range(rank):
            peers[other] = _call(folder / str(other))
            peers[other].send(rank)
        for _ in range(size - 1 - rank):
            connection = listener.accept()
            peers[connection.recv()] = connection
    return dict(sorted(peers.items()))


def _call(path: Path) -> Connection:
    until = time.monotonic() + SECONDS
    while True:
        try:
            return Client(str(path), "AF_UNIX")
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
