"""Links between the parts of a net that run as threads of one process; one thread computes at a time."""

import threading
from collections.abc import Callable

import numpy as np

WAIT = 120  # seconds until a part that waits fails


class Stopped(Exception):
    """Another part has failed."""


class Exchange:
    """What the parts of one net share: a lock that the part holds which computes, and the messages."""

    def __init__(self, shards: int = 1):
        self.shards = shards
        self.turn = threading.Condition()
        self.messages: dict[tuple, list[Message]] = {}
        self.gathered: dict[int, dict[int, np.ndarray]] = {}  # by stage
        self.taken: dict[int, set[int]] = {}
        self.failed = False

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        """Lets other parts compute until ``ready``."""
        if not self.turn.wait_for(lambda: self.failed or ready(), WAIT):
            raise TimeoutError(what)
        if self.failed:
            raise Stopped

    def run(self, *parts: Callable[[], None]) -> None:
        """Runs each part as a thread; raises the first error."""
        errors: list[BaseException] = []

        def call(part: Callable[[], None]) -> None:
            with self.turn:
                try:
                    part()
                except BaseException as error:
                    errors.append(error)
                    self.failed = True
                self.turn.notify_all()

        threads = [threading.Thread(target=call, args=(part,), daemon=True) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * WAIT)
        for error in sorted(errors, key=lambda e: isinstance(e, (Stopped, TimeoutError))):
            raise error
        assert not any(thread.is_alive() for thread in threads)


class Message:
    """An array that was sent; the receiver reads it where it is, so that the sender must not change it before."""

    def __init__(self, exchange: Exchange, array: np.ndarray, what: str):
        assert array.flags.c_contiguous
        self.exchange, self.array, self.what = exchange, array, what
        self.before, self.received = array.copy(), False

    def take(self, target: np.ndarray) -> None:
        assert target.flags.c_contiguous and target.shape == self.array.shape and target.dtype == self.array.dtype
        np.testing.assert_array_equal(self.array, self.before, f"{self.what} changed before it was received")
        target[...] = self.array
        self.received = True

    def wait(self) -> None:
        self.exchange.wait(lambda: self.received, f"{self.what} is not received")


class ThreadLinks:
    """The links of one part. bytes: what it has sent."""

    def __init__(self, exchange: Exchange, stage: int = 0, shard: int = 0):
        self.exchange, self.me, self.bytes = exchange, (stage, shard), 0

    def send(self, array: np.ndarray, peer: tuple[int, int], tag: int) -> Message:
        message = Message(self.exchange, array, f"message {tag} from {self.me} to {peer}")
        self.bytes += array.nbytes
        self.exchange.messages.setdefault((self.me, peer, tag), []).append(message)
        self.exchange.turn.notify_all()
        return message

    def receive(self, array: np.ndarray, peer: tuple[int, int], tag: int) -> None:
        queue = self.exchange.messages.setdefault((peer, self.me, tag), [])
        self.exchange.wait(lambda: bool(queue), f"{self.me} waits for message {tag} from {peer}")
        queue.pop(0).take(array)
        self.exchange.turn.notify_all()

    def _collect(self, array: np.ndarray) -> list[np.ndarray]:
        """The arrays of all shards of the stage."""
        exchange, (stage, shard) = self.exchange, self.me
        given, taken = exchange.gathered.setdefault(stage, {}), exchange.taken.setdefault(stage, set())
        exchange.wait(lambda: shard not in given and not taken, f"{self.me} waits for the last exchange of its stage")
        given[shard] = array.copy()
        self.bytes += array.nbytes
        exchange.turn.notify_all()
        exchange.wait(lambda: len(given) == exchange.shards, f"{self.me} waits for the other shards of its stage")
        actual = [given[i] for i in range(exchange.shards)]
        assert len({(a.shape, a.dtype) for a in actual}) == 1, "the shards of a stage exchange different arrays"
        taken.add(shard)
        if len(taken) == exchange.shards:
            given.clear()
            taken.clear()
        exchange.turn.notify_all()
        return actual

    def all_gather(self, source: np.ndarray, target: np.ndarray) -> None:
        assert source.flags.c_contiguous and target.flags.c_contiguous
        for i, array in enumerate(self._collect(source)):
            target.reshape(self.exchange.shards, -1)[i] = array.reshape(-1)

    def reduce_scatter(self, source: np.ndarray, target: np.ndarray) -> None:
        assert source.flags.c_contiguous and target.flags.c_contiguous
        actual = [a.reshape(self.exchange.shards, -1)[self.me[1]] for a in self._collect(source)]
        target.reshape(-1)[...] = sum(actual)

    def all_reduce(self, array: np.ndarray) -> None:
        assert array.flags.c_contiguous
        array[...] = sum(self._collect(array))
