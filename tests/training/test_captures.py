"""Captures of a device's work in graphs: what voids a graph, and errors within a capture."""

import contextlib
import logging

import numpy as np
import pytest
from devices.host.backend import HostBackend
from training.capturing import LibraryError

from caffelite.devices import ops
from caffelite.devices.cuda import GPU
from caffelite.devices.cuda.streams import Fork
from caffelite.devices.formula import Formula


@pytest.fixture
def device():
    return GPU(0, "float32", HostBackend())


@pytest.mark.host
def test_another_data_set_on_the_device_is_read(device):
    """A graph that was captured with one set on the device is not launched for the next."""
    context = device.make_context()
    op, out, actual = device.build(ops.Preprocess((2, 1, 2, 2), None, 1.0, context)), device.zeros((2, 1, 2, 2)), []
    program = device.capture(lambda: op.forward(out), context, op.signature)
    picks = np.array([[0, 0, 0, 0], [1, 0, 0, 0]], np.int32)
    for value in (3, 5):
        pixels = np.full((4, 1, 2, 2), value, np.uint8)
        for _ in range(4):
            context.input_buffer.begin()
            op.set_batch(0, pixels, picks, resident=True)
            context.input_buffer.send()
            program()
            actual.append(set(device.download(out).flat))
    assert actual == [{3}] * 4 + [{5}] * 4 and device.backend.graphs


def test_an_unjoined_fork_is_an_error(device):
    fork, zeros = Fork(device.backend), device.zeros(3)

    def body():
        with fork:
            device.fill(zeros, 1)

    program = device.capture(body, device.make_context())
    for _ in range(4):
        program()
    assert "a stream that forked has not joined" in device.why_eager()


def test_uncapturable_work_runs_eagerly(device, caplog):
    zeros = device.zeros(1)

    def body():
        device.download(zeros)

    with caplog.at_level(logging.WARNING, "caffelite"):
        program = device.capture(body, device.make_context())
        for _ in range(5):
            program()
    assert "download in a capture" in device.why_eager()
    assert [text.split(" (")[0] for text in caplog.messages] == [
        "A CUDA graph cannot be captured",
        "Running eagerly: CUDA graphs cannot be captured",
    ]


@pytest.mark.host
@pytest.mark.parametrize("aside", [False, True], ids=["on the main stream", "inside a fork"])
def test_an_error_in_a_capture_runs_eagerly(device, caplog, aside):
    """Once: the launch runs eagerly on the main stream, and the next one is captured."""
    fork = Fork(device.backend)
    total = device.zeros(1)
    main = device.backend.stream
    failures = [LibraryError("status 8\nmore")]
    add = device.map(Formula("a + 1", ("a",)))

    def body():
        with fork if aside else contextlib.nullcontext():
            if device.capturing and failures:
                raise failures.pop()
            add(total, total)
        if aside:
            fork.join()

    program = device.capture(body, device.make_context())
    with caplog.at_level(logging.WARNING, "caffelite"):
        for launches in range(1, 6):
            program()
            assert device.backend.stream is main and not main.capture
            assert device.download(total)[0] == launches
    assert caplog.messages == [
        "A CUDA graph cannot be captured (status 8): this launch runs eagerly, the next one is captured again"
    ]
    assert not device.why_eager() and device.backend.graphs[0].runs == 3


def test_an_error_outside_a_capture_is_raised(device):
    """An error that the capture did not cause keeps its type."""
    mistakes = []

    def body():
        if mistakes:
            raise mistakes[0]

    program = device.capture(body, device.make_context())
    program()
    mistakes.append(LibraryError("out of memory"))
    with pytest.raises(LibraryError):
        program()


def test_a_replaced_graph_is_destroyed(device):
    program = device.capture(lambda: None, device.make_context())
    for _ in range(3):
        program()
    device.workspace(1 << 20)
    for _ in range(3):
        program()
    assert [graph.closed for graph in device.backend.graphs] == [True, False]
    device.drop_graphs()
    assert all(graph.closed for graph in device.backend.graphs)


# What processes must agree on


def test_no_launch_after_workspace_grew_in_a_capture(device, caplog):
    """The graph holds addresses of freed memory: it is not launched."""
    source, target, sizes = device.zeros(1), device.zeros(1), []
    device.backend.empty = HostBackend.empty.__wrapped__.__get__(
        device.backend
    )  # as CuPy, which allocates in a capture

    def body():
        if device.capturing and not sizes:
            sizes.append(device.workspace(1 << 20))
        device.copy(source, target)

    program = device.capture(body, device.make_context())
    for _ in range(4):
        program()
    assert [graph.runs for graph in device.backend.graphs] == [0, 1] and "has grown" in caplog.text


def test_a_grown_workspace_voids_graphs(device):
    source, target = device.zeros(1), device.zeros(1)
    program = device.capture(lambda: device.copy(source, target), device.make_context())
    for _ in range(3):
        program()
    assert len(device.backend.graphs) == 1
    device.workspace(1 << 20)
    device.upload(source, np.ones(1))
    for _ in range(3):
        program()
    assert len(device.backend.graphs) == 2 and device.download(target)[0] == 1
