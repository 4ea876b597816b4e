"""Links between GPUs, on stand-ins for CuPy and NCCL: NumPy arrays, threads for streams and for processes."""

import itertools
import queue
import threading
import time
from functools import partial

import numpy as np
import pytest
from devices.host.cupy import Array, numbers, stand_in
from devices.host.ranks import run_ranks

from caffelite.devices.cuda.links import NCCLLinks
from caffelite.parallel import MeshShape


class Stream:
    """Work that a thread does in order, each piece after a pause."""

    def __init__(self, pause=0.0):
        self.ptr, self.pause, self.work = self, pause, queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            work = self.work.get()
            time.sleep(self.pause)
            work()

    def add(self, work):
        self.work.put(work)

    def wait_event(self, event):
        self.add(partial(event.done.wait, 30))

    def synchronize(self):
        done = threading.Event()
        self.add(done.set)
        assert done.wait(30), "a deadlock"


class Event:
    def record(self, stream):
        self.done = threading.Event()
        stream.add(self.done.set)


class Group:
    """What the communicators of one id share: messages by receiver, and arrays that all bring."""

    def __init__(self, size):
        self.size, self.messages = size, queue.Queue()
        self.barrier, self.brought = threading.Barrier(size, timeout=30), [None] * size
        self.first = threading.Barrier(size, timeout=30)


class Communicator:
    groups: dict[object, Group] = {}
    made: list["Communicator"] = []
    lock = threading.Lock()

    def __init__(self, size, uid, rank):
        with self.lock:
            self.group, self.rank = self.groups.setdefault(uid, Group(size)), rank
        self.uid, self.splits = uid, 0
        assert self.group.size == size
        self.connected, self.ended = False, None
        self.made.append(self)

    def connect(self):
        """The host waits within the first call for the others."""
        if not self.connected:
            self.group.first.wait()
        self.connected = True

    def commSplit(self, color, key):
        self.splits += 1
        brought = self.group.brought
        brought[self.rank] = color, key, self.rank
        self.group.barrier.wait()
        members = [rank for other, _, rank in sorted(brought) if other == color]
        self.group.barrier.wait()
        if color < 0:
            return None
        return Communicator(len(members), (self.uid, self.splits, color), members.index(self.rank))

    def destroy(self):
        self.ended = "destroyed"

    def abort(self):
        self.ended = "aborted"

    def send(self, pointer, count, kind, peer, stream):
        self.connect()
        assert (self.rank, peer) == (0, 1), "a communicator has one direction"
        stream.add(lambda: self.group.messages.put(numbers(pointer, count, np.float32).copy()))

    def recv(self, pointer, count, kind, peer, stream):
        assert (self.rank, peer) == (1, 0)
        self.connect()
        stream.add(lambda: np.copyto(numbers(pointer, count, np.float32), self.group.messages.get(timeout=30)))

    def allGather(self, part, whole, count, kind, stream):
        size = count * self.group.size
        stream.add(lambda: np.copyto(numbers(whole, size, np.float32), np.concatenate(self.bring(part, count))))

    def reduceScatter(self, whole, part, count, kind, how, stream):
        def work():
            rows = np.sum(self.bring(whole, count * self.group.size), 0).reshape(self.group.size, -1)
            np.copyto(numbers(part, count, np.float32), rows[self.rank])

        stream.add(work)

    def allReduce(self, source, target, count, kind, how, stream):
        self.connect()
        stream.add(lambda: np.copyto(numbers(target, count, np.float32), np.sum(self.bring(source, count), 0)))

    def bring(self, pointer, count):
        self.group.brought[self.rank] = numbers(pointer, count, np.float32).copy()
        self.group.barrier.wait()
        actual = list(self.group.brought)
        self.group.barrier.wait()
        return actual


def work_of(shape: MeshShape, rank: int, gather, pauses: tuple[float, float]) -> None:
    """Sends to every device of the shard, and receives in another order than was sent."""
    compute = Stream(pauses[0])
    ids = itertools.count()
    modules = stand_in(None, lambda: Stream(pauses[1]), Event)
    modules["nccl"].NcclCommunicator = Communicator
    modules["nccl"].get_unique_id = lambda: (rank, next(ids))
    at = shape.position(rank)
    group = [(stage, shard) for stage in range(shape.stages) for shard in range(shape.shards)]
    links = NCCLLinks(compute, (at.stage, at.shard), group, gather, at.group, **modules)
    links.connect((one, other) for one in group for other in group if one != other and one[1] == other[1])
    others = [(other, at.shard) for other in range(shape.stages) if other != at.stage]
    pending, received = [], {}
    for turn in range(3):
        for peer in others:
            array = np.zeros(5, np.float32).view(Array)
            compute.add(partial(np.copyto, array, np.float32(100 * at.group + 10 * at.stage + peer[0] + 1000 * turn)))
            pending.append((links.send(array, peer, 0), array))
    for turn in range(3):
        for peer in reversed(others):
            array = received[peer, turn] = np.full(5, -1, np.float32).view(Array)
            links.receive(array, peer, 0)
    for sent, array in pending:
        if at.shard:
            sent.wait()
        else:
            links.finish()
        compute.add(partial(np.copyto, array, np.float32(-5)))  # it has left
    compute.synchronize()
    for (peer, turn), array in received.items():
        np.testing.assert_array_equal(array, 100 * at.group + 10 * peer[0] + at.stage + 1000 * turn)
    total = np.full(3, at.stage + 10 * at.shard, np.float32).view(Array)
    links.all_reduce_group(total)
    compute.synchronize()
    np.testing.assert_array_equal(total, sum(stage + 10 * shard for stage, shard in group))
    if at.group == 0:  # as for a snapshot, of which the other groups know nothing
        links.connect((device, (0, 0)) for device in group[1:])
    if shape.shards > 1:
        check_collectives(links, compute, shape.shards, at.shard)


def check_collectives(links, compute, shards: int, shard: int) -> None:
    part, whole = (np.zeros(shape, np.float32).view(Array) for shape in (4, (shards, 4)))
    compute.add(partial(np.copyto, part, np.float32(shard + 1)))
    links.all_gather(part, whole)
    links.reduce_scatter(whole, part)
    links.all_reduce(whole)
    compute.synchronize()
    np.testing.assert_array_equal(part, shards * (shard + 1))
    np.testing.assert_array_equal(whole, np.repeat(shards * (np.arange(shards) + 1)[:, None], 4, 1))


@pytest.mark.parametrize("pauses", [(0, 0), (0.002, 0), (0, 0.002)], ids=["at once", "slow compute", "slow links"])
@pytest.mark.parametrize("shape", [MeshShape(1, 2, 1), MeshShape(1, 3, 1), MeshShape(2, 2, 2), MeshShape(1, 1, 3)])
def test_every_device_receives_what_was_sent(shape, pauses):
    Communicator.groups, Communicator.made = {}, []
    run_ranks(shape.size, lambda rank, gather: work_of(shape, rank, gather, pauses))


@pytest.mark.parametrize("failed, ended", [(False, "destroyed"), (True, "aborted")])
def test_the_end_of_links(failed, ended):
    """Graphs are destroyed before the communicators: NCCL waits for those that captured its calls."""
    Communicator.groups, Communicator.made = {}, []
    modules = stand_in(None, Stream, Event)
    modules["nccl"].NcclCommunicator = Communicator
    ends = []

    def drop_graphs():
        ends.append({comm.ended for comm in Communicator.made})

    me = (0, 0)
    links = NCCLLinks(Stream(), me, [me], lambda ids: [ids], 0, drop_graphs, **modules)
    links.close(failed)
    links.close(failed)
    assert ends == [{None}] and {comm.ended for comm in Communicator.made} == {ended}
