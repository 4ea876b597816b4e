"""The stand-in's memory behaves as CuPy's pool, so that a stale pointer is seen."""

from functools import partial

import numpy as np
import pytest
from devices.host.backend import HostBackend


@pytest.fixture
def backend():
    return HostBackend()


def address(array) -> int:
    return array.ctypes.data


def test_a_released_block_serves_again_and_is_spoiled(backend):
    first = backend.empty(100, np.float32)
    first.fill(1)
    where = address(first)
    view = first[10:]
    del first
    other = backend.empty(100, np.float32)
    assert address(other) != where, "a view keeps its block"
    del view
    again = backend.empty((10, 10), np.float32)
    assert address(again) == where and np.isnan(again).all() and backend.pool.reused == 1


def test_blocks_belong_to_the_stream_that_allocated_them(backend):
    main, where = backend.stream, address(backend.empty(100, np.float32))
    backend.use(backend.new_stream())
    assert address(backend.empty(100, np.float32)) != where
    backend.use(main)
    assert address(backend.empty(100, np.float32)) == where


def test_memory_is_spoiled_in_the_order_of_its_stream():
    backend = HostBackend("late")
    source, target = backend.empty(4, np.float32), backend.empty(4, np.float32)
    backend.fill(source, 3)
    backend.copy(source, target)
    del source
    assert np.isnan(backend.download(backend.empty(4, np.float32))).all(), "the next owner's, spoiled"
    assert (backend.download(target) == 3).all()


def test_memory_can_be_released_in_the_middle_of_a_step():
    """The garbage collector comes at any time."""
    backend = HostBackend()
    arrays = [backend.empty(4, np.float32)]
    target = backend.empty(4, np.float32)
    backend.queue(arrays.clear)
    backend.fill(target, 3)
    assert (backend.download(target) == 3).all()


def test_a_graph_holds_addresses(backend):
    """A stale pointer: the graph outlives its array."""
    array = backend.empty(100, np.float32)
    graph = backend.capture(partial(backend.fill, array, 1))
    del array
    owner = backend.empty(100, np.float32)
    backend.fill(owner, 2)
    graph.launch()
    assert (owner == 1).all()
