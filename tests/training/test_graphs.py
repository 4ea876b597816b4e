"""Iterations captured in graphs do what eager ones do, bit for bit. On a GPU whose graphs are lists of calls."""

import contextlib
import logging
import threading
from functools import partial

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import Event, HostBackend
from devices.host.cupy import Array, numbers, stand_in

from caffelite.devices.cuda import GPU, Sums, count
from caffelite.devices.cuda.streams import Fork
from caffelite.devices.formula import Formula
from caffelite.net import net
from caffelite.parallel import GradientReducer, SingleProcess

SOLVER = """
net: "everything.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.001 lr_policy: "inv" gamma: 0.1 power: 0.75
test_iter: 3 test_interval: 9 max_iter: 34 display: 7 snapshot: 10 snapshot_prefix: "s" random_seed: 5
"""


@pytest.fixture
def device():
    return GPU(0, "float32", HostBackend())


@pytest.fixture(params=["early", "late"])
def slack(request):
    """A device that computes as late as CUDA may, and copies as early or as late."""
    return GPU(0, "float32", HostBackend("late", request.param))


def trained(train, device, text, **options):
    """Its log (but for what it says of the files of the run before it), losses and weights."""
    run = train(text, device=device, **options)
    log = [line for line in run.log if ": moved to " not in line]
    return log, run.solver.loss_window(8), [device.download(p) for p in run.params()]


def compare(train, device, text, **options):
    """(how many graphs there are, how often they ran) after runs with graphs and without, which must agree."""
    device.eager = "told to"
    log, losses, params = trained(train, device, text, **options)
    assert not device.backend.graphs
    log.remove("Running eagerly, not as CUDA graphs: told to")
    device.eager = ""
    again = trained(train, device, text, **options)
    assert not device.why_eager() and again[0] == log and again[1] == losses
    for one, other in zip(again[2], params, strict=True):
        np.testing.assert_array_equal(one, other)
    return len(device.backend.graphs), sum(graph.runs for graph in device.backend.graphs)


VARIANTS = [
    "",
    "clip_gradients: 0.3",
    'type: "Adam" momentum2: 0.99',
    "ema_decay: 0.9",
    "iter_size: 2",
    "average_loss: 5",
]
VARIANTS += ['local_lr_auto: true lr_policy: "step" stepsize: 3', 'lr_policy: "plateau" plateau_winsize: 2']


@pytest.mark.parametrize("more", VARIANTS)
def test_as_eager(folder, train, device, more):
    text = SOLVER.replace('lr_policy: "inv"', "") if "lr_policy" in more else SOLVER
    graphs, runs = compare(train, device, text + more)
    assert graphs >= 3 and runs > 20


STANDING = """
name: "standing"
layer { name: "images" type: "Data" top: "image" top: "label"
  transform_param { crop_size: 6 mirror: true scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 shuffle: true } }
layer { name: "class" type: "InnerProduct" bottom: "image" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "class" bottom: "label" top: "accuracy" include { phase: TEST } }
"""


def test_several_iterations_a_launch(folder, train, device):
    """Data that stands on the device: 60 iterations and 6 tests of 16 batches take a fraction of as many launches."""
    (folder / "standing.prototxt").write_text(STANDING)
    text = (
        'net: "standing.prototxt" base_lr: 0.1 lr_policy: "fixed" test_iter: 16 test_interval: 12 max_iter: 60 '
        "random_seed: 1"
    )
    graphs, runs = compare(train, device, text)
    assert 0 < runs < 60
    assert max(map(len, device.backend.graphs)) > 80, "a graph of several iterations"


TRAVELLING = (
    'net: "standing.prototxt" base_lr: 0.1 lr_policy: "fixed" test_iter: 2 test_interval: 9 max_iter: 40 random_seed: 1'
)


def test_pixels_that_travel(folder, train, device, monkeypatch):
    """No room on the GPU: batches are copied, into two places in turn."""
    (folder / "standing.prototxt").write_text(STANDING)
    monkeypatch.setattr(device.backend, "free_bytes", lambda: 10)
    assert compare(train, device, TRAVELLING)[1] > 35


def test_another_standing_set_is_read(device):
    """A graph that was captured with one set on the device is not launched for the next."""
    op, out, found = device.preprocess((2, 1, 2, 2), None, 1.0), device.zeros((2, 1, 2, 2)), []
    program = device.program(lambda: op.forward(out), op.signature)
    picks = np.array([[0, 0, 0, 0], [1, 0, 0, 0]], np.int32)
    for value in (3, 5):
        pixels = np.full((4, 1, 2, 2), value, np.uint8)
        for _ in range(4):
            device.input_buffer.begin()
            op.put(0, pixels, picks, standing=True)
            device.input_buffer.send()
            program()
            found.append(set(device.download(out).flat))
    assert found == [{3}] * 4 + [{5}] * 4 and device.backend.graphs


@pytest.mark.parametrize("room", [10, 1 << 30])
@pytest.mark.parametrize(
    "text", [SOLVER, TRAVELLING, f"{TRAVELLING} iter_size: 2"], ids=["everything", "standing", "iter_size"]
)
def test_no_order_but_what_is_asked_for(folder, train, device, slack, monkeypatch, room, text):
    """Copies and computing overlap as CUDA may let them; nothing changes."""
    (folder / "standing.prototxt").write_text(STANDING)
    for dev in (device, slack):
        monkeypatch.setattr(dev.backend, "free_bytes", lambda: room)
    expected, found = trained(train, device, text), trained(train, slack, text)
    assert found[0] == expected[0] and found[1] == expected[1]
    for one, other in zip(found[2], expected[2], strict=True):
        np.testing.assert_array_equal(one, other)


CONVOLVING = """
name: "convolving"
layer { name: "images" type: "Data" top: "image" top: "label" transform_param { scale: 0.0039 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
layer { name: "conv1" type: "Convolution" bottom: "image" top: "conv1"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip1" type: "InnerProduct" bottom: "conv2" top: "ip1"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "class" type: "InnerProduct" bottom: "ip1" top: "class"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "class" bottom: "label" top: "loss" }
"""


@pytest.mark.parametrize("aside", ["early", "late"])
@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_weight_gradients_run_aside(folder, train, monkeypatch, aside, precision):
    """Beside those of the bottoms, in workspace of their own; both are there when the next layer asks for them."""
    (folder / "convolving.prototxt").write_text(CONVOLVING)
    text = 'net: "convolving.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 64 display: 0 random_seed: 1'
    found = []
    for backend in (HostBackend(), HostBackend("late", aside)):
        dev = plans.device(monkeypatch, precision, backend=backend)
        found.append(trained(train, dev, text))
        assert any(isinstance(call.args[0], Event) for graph in backend.graphs for call in graph._calls if call.args)
    assert found[0][0] == found[1][0] and np.isfinite(found[0][1]).all() and found[0][1] == found[1][1]
    for one, other in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_forks_must_join(device):
    fork, zeros = Fork(device.backend), device.zeros(3)

    def body():
        with fork:
            device.fill(zeros, 1)

    program = device.program(body)
    for _ in range(4):
        program()
    assert "a stream that forked has not joined" in device.why_eager()


def test_exactly_resumed(folder, train, device):
    whole = trained(train, device, SOLVER)
    train(SOLVER, stop_at=20)
    again = trained(train, device, SOLVER, resume="s_iter_20.solverstate")
    for one, other in zip(again[2], whole[2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert again[1] == whole[1]


def test_what_cannot_be_captured_runs_eagerly(device, caplog):
    def body():
        device.download(device.input_buffer.clock.array)

    with caplog.at_level(logging.WARNING, "caffelite"):
        program = device.program(body)
        for _ in range(5):
            program()
    assert "download in a capture" in device.why_eager()
    assert [text.split(" (")[0] for text in caplog.messages] == [
        "A CUDA graph cannot be captured",
        "Running eagerly: CUDA graphs cannot be captured",
    ]


class NotCUDAs(Exception):
    """As cuDNN's, cuBLAS's and NCCL's errors are not CuPy's."""


@pytest.mark.parametrize("aside", [False, True], ids=["on the main stream", "inside a fork"])
def test_any_error_in_a_capture_is_survived(device, caplog, aside):
    """Once: the launch runs eagerly on the main stream, and the next one is captured."""
    fork, total, main, failures = (
        Fork(device.backend),
        device.zeros(1),
        device.backend.stream,
        [NotCUDAs("status 8\nmore")],
    )
    add = device.map(Formula("a + 1", ("a",)))

    def body():
        with fork if aside else contextlib.nullcontext():
            if device.capturing and failures:
                raise failures.pop()
            add(total, total)
        if aside:
            fork.join()

    program = device.program(body)
    with caplog.at_level(logging.WARNING, "caffelite"):
        for launches in range(1, 6):
            program()
            assert device.backend.stream is main and not main.capture
            assert device.download(total)[0] == launches
    assert caplog.messages == [
        "A CUDA graph cannot be captured (status 8): this launch runs eagerly, the next one is captured anew"
    ]
    assert not device.why_eager() and device.backend.graphs[0].runs == 3


def test_what_fails_eagerly_too_is_raised(device):
    """A mistake that is none of the capture's is told as what it is."""
    mistakes = []

    def body():
        if mistakes:
            raise mistakes[0]

    program = device.program(body)
    program()
    mistakes.append(NotCUDAs("out of memory"))
    with pytest.raises(NotCUDAs):
        program()


def test_a_graph_that_is_captured_anew_is_destroyed(device):
    program = device.program(lambda: None)
    for _ in range(3):
        program()
    device.workspace(1 << 20)
    for _ in range(3):
        program()
    assert [graph.closed for graph in device.backend.graphs] == [True, False]
    device.drop_graphs()
    assert all(graph.closed for graph in device.backend.graphs)


# What processes must agree on


class ProcessGroup:
    """Threads for processes, which meet in ``gather``."""

    def __init__(self, size):
        self.values, self.barrier = [None] * size, threading.Barrier(size, timeout=30)

    def gather(self, rank, value):
        self.values[rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found


def together(body):
    """Runs body(rank, gather) for two ranks at once; what it gives, in order."""
    ranks, found = ProcessGroup(2), [None, None]

    def run(rank):
        try:
            found[rank] = body(rank, partial(ranks.gather, rank))
        except BaseException:
            ranks.barrier.abort()
            raise

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def how(device, program):
    """How each of a program's calls ran: eagerly, captured or launched."""
    told, (graphs, runs) = [], (0, 0)
    while True:
        program()
        made, ran = len(device.backend.graphs), sum(graph.runs for graph in device.backend.graphs)
        told.append("captured" if made > graphs else "launched" if ran > runs else "eager")
        graphs, runs = made, ran
        yield told


def test_ranks_capture_anew_together():
    """One rank's memory grows, or its pixels change their shape: NCCL wants all to capture, or none."""

    def run(rank, gather):
        device, shape = GPU(0, "float32", HostBackend()), [1]
        told = how(device, device.program(lambda: None, lambda: (shape[0],), gather))
        for call in range(12):
            if rank and call == 4:
                device.workspace(1 << 20)
            if not rank and call == 8:
                shape[0] = 2
            found = next(told)
        return found

    one, other = together(run)
    assert one == other == ["eager", "captured", "launched", "launched"] * 3


def test_what_one_rank_cannot_capture_by_itself():
    """Its own programs become eager, such as a test net's; what all ranks run together is still captured by all."""

    def run(rank, gather):
        device = GPU(0, "float32", HostBackend())

        def body():
            if rank and device.capturing:
                raise NotCUDAs("no memory")

        alone, shared = device.program(body), how(device, device.program(lambda: None, tuple, gather))
        for _ in range(4):
            alone()
            found = next(shared)
        return found, device.why_eager()

    (one, _), (other, why) = together(run)
    assert one[1:2] == ["captured"] and other == ["eager", "captured", "launched", "launched"] and "no memory" in why


def test_memory_that_grows_in_a_capture(device, caplog):
    """The graph knows memory that is no more: it is not launched."""
    source, target, sizes = device.zeros(1), device.zeros(1), []
    device.backend.empty = HostBackend.empty.__wrapped__.__get__(
        device.backend
    )  # as CuPy, which allocates in a capture

    def body():
        if device.capturing and not sizes:
            sizes.append(device.workspace(1 << 20))
        device.copy(source, target)

    program = device.program(body)
    for _ in range(4):
        program()
    assert [graph.runs for graph in device.backend.graphs] == [0, 1] and "has grown" in caplog.text


def test_a_capture_that_fails_on_one_rank_fails_on_all(caplog):
    def run(rank, gather):
        device, failures = GPU(0, "float32", HostBackend()), [2 * rank]

        def body():
            if device.capturing and failures[0]:
                failures[0] -= 1
                raise NotCUDAs("no memory")

        told = how(device, device.program(body, tuple, gather))
        for _ in range(6):
            found = next(told)
        return found[3:], device.why_eager(), all(graph.closed for graph in device.backend.graphs)

    one, other = together(run)
    assert one == other == (["eager"] * 3, "CUDA graphs cannot be captured (no memory)", True)


def test_memory_that_grows_voids_graphs(device):
    source, target = device.zeros(1), device.zeros(1)
    program = device.program(lambda: device.copy(source, target))
    for _ in range(3):
        program()
    assert len(device.backend.graphs) == 1
    device.workspace(1 << 20)
    device.upload(source, np.ones(1))
    for _ in range(3):
        program()
    assert len(device.backend.graphs) == 2 and device.download(target)[0] == 1


class Twin:
    """Sums over two processes that compute the same, queued on the device as NCCL's are."""

    captures, turn = True, 0

    def __init__(self, dev):
        self._double = dev.map(Formula("x + x", ("x",)))

    def put(self, flags) -> None:
        self.turn, self._flags = 1 - self.turn, flags

    def note(self, loss) -> None:
        self._double(loss, loss)

    def post(self, array) -> None:
        self._double(array, array)

    def progress(self) -> None: ...

    finish = progress

    def noted(self, loss):
        return self._flags


class Twins(SingleProcess):
    """Two processes of which this is one, and the other does what it does."""

    size, kind = 2, "twins"

    def gather(self, value, what=""):
        return [value, value]

    def total(self, values, what=""):
        return 2 * values

    def reducer(self, dev, flat, buckets, half=False):
        return GradientReducer(Twin(dev), flat, buckets, 2, lambda what: contextlib.nullcontext())


def test_sums_over_processes_are_captured(folder, train, device):
    graphs, runs = compare(train, device, SOLVER + "clip_gradients: 0.5", comm=Twins())
    assert runs > 25


class Communicator:
    """NCCL's, of two processes of which this is one, and the other brings the same numbers."""

    def allReduce(self, send, received, count, kind, how, stream):
        mine = numbers(send, count, np.float32)
        stream.add(partial(np.multiply, mine, 2, out=mine))

    def check_async_error(self):
        pass


class OnHost(Sums):
    """Sums by NCCL on a backend of the host."""

    def __init__(self, backend):
        super().__init__(backend.stream, 0, 2, lambda uid: [uid], **stand_in(Communicator(), backend.new_stream))

    def _sum(self, array, *how):
        super()._sum(array.view(Array), *how)


class Summing(Twins):
    def reducer(self, dev, flat, buckets, half=False):
        return GradientReducer(OnHost(dev.backend), flat, buckets, 2, lambda what: contextlib.nullcontext())


def test_sums_by_nccl_are_captured(folder, train, device, slack):
    """On a stream beside, forked and joined within the graph; whenever that does its work the numbers are those of
    plain sums."""
    text = SOLVER + "clip_gradients: 0.5"
    log, losses, params = trained(train, device, text, comm=Twins())
    again = trained(train, slack, text, comm=Summing())
    assert again[0] == log and again[1] == losses and not slack.why_eager() and slack.backend.graphs
    for one, other in zip(again[2], params, strict=True):
        np.testing.assert_array_equal(one, other)


def test_training_passes_agree_on_plans(folder, train, monkeypatch):
    """Each problem once, in whatever iteration it is first met; what a process runs by itself, as its share of a test,
    agrees on none."""
    (folder / "convolving.prototxt").write_text(CONVOLVING)
    told = []

    class Told(Summing):
        def gather(self, value, what=""):
            told.append(value)
            return [value, value]

    dev = plans.device(monkeypatch, backend=HostBackend())
    train(
        'net: "convolving.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 6 display: 0 random_seed: 1',
        device=dev,
        comm=Told(),
    )
    assert told.count(("one", "")) == len(dev.engine._agreed) > 4 and dev.engine.ranks is None


class Lone(Twins):
    """NCCL with a communicator of one process; averages halve its gradients."""

    def reducer(self, dev, flat, buckets, half=False):
        self.sums = Sums(dev.backend.stream, 0, 1, lambda uid: [uid], drop_graphs=dev.drop_graphs)
        return GradientReducer(self.sums, flat, buckets, 2, lambda what: contextlib.nullcontext())


@pytest.mark.gpu
def test_nccl_in_a_graph_on_a_gpu(folder, train):
    if not count():
        pytest.skip("no usable GPU")
    found = []
    for eager in ("the test asks for it", ""):
        dev, lone = GPU(0, "float32", precision="fp32", deterministic=True, eager=eager), Lone()
        found.append(trained(train, dev, SOLVER + "clip_gradients: 0.5", comm=lone)[1:])
        assert dev.why_eager() == eager, "NCCL's sums are captured"
        lone.sums.close()
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_by_the_host_are_not(folder, train, device, monkeypatch):
    monkeypatch.setattr(Twin, "captures", False)
    log, *_ = trained(train, device, SOLVER, comm=Twins())
    assert "Running eagerly, not as CUDA graphs: gradients that travel by the host, or in 16 bits" in log


def half_precision() -> GPU:
    return GPU(0, "float32", HostBackend(), precision="fp16")


@pytest.mark.parametrize("more", ["", "clip_gradients: 0.3 iter_size: 2"])
def test_loss_scale(folder, train, more):
    """The scale cancels out: losses are those of float32 as far as products of 16-bit numbers tell."""
    device = half_precision()
    assert compare(train, device, SOLVER + more)[0] >= 3
    plain = train(SOLVER + more).solver  # on the fixture's device
    scaled = train(SOLVER + more, device=half_precision()).solver
    assert scaled.updater.clipping.factor() == 2**10 and plain.updater.clipping.factor() == 1
    np.testing.assert_allclose(scaled.loss_window(8), plain.loss_window(8), rtol=2e-3)
    norms = [solver.updater.clipping.norm(solver.net.params.data) for solver in (scaled, plain)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_a_scale_that_is_too_large(folder, make):
    """Gradients overflow: nothing is learned, nothing spoilt, until halving has made it small enough."""
    device = half_precision()
    solver = make(
        SOLVER.replace("test_interval: 9", "test_interval: 9 test_initialization: false") + 'type: "Adam"',
        device=device,
    )
    solver.updater.clipping.loss_scale.load(2.0**127)
    before = device.download(solver.net.params.data)
    history = [device.download(flat) for flat in solver.updater.history]
    solver.step(1)
    np.testing.assert_array_equal(device.download(solver.net.params.data), before)
    for flat, held in zip(solver.updater.history, history, strict=True):
        np.testing.assert_array_equal(device.download(flat), held)
    assert solver.updater.clipping.factor() == 2.0**126
    solver.updater.clipping.loss_scale.load(2.0**9, good=7)
    solver.step(1)
    assert np.abs(device.download(solver.net.params.data) - before).max() > 1e-3
    assert solver.updater.clipping.loss_scale.held() == (2.0**9, 8)


def test_the_scale_is_resumed(folder, train):
    device = half_precision()
    run = train(SOLVER, stop_at=20, device=device).solver
    assert run.updater.clipping.loss_scale.held() == (2.0**10, 20)
    again = train(SOLVER, device=half_precision(), resume="s_iter_20.solverstate", iterations=3).solver
    assert again.updater.clipping.loss_scale.held() == (2.0**10, 23)


@pytest.mark.parametrize("room", [0, 5])
def test_outputs_that_are_large_wait_in_small_numbers(folder, train, device, monkeypatch, room):
    """No room, or room for two passes of two scores."""
    (folder / "standing.prototxt").write_text(STANDING)
    monkeypatch.setattr(net, "ROOM", room)
    text = (
        'net: "standing.prototxt" base_lr: 0.1 lr_policy: "fixed" test_iter: 7 test_interval: 5 max_iter: 10 '
        "random_seed: 1"
    )
    compare(train, device, text)
    run = train(text, device=device)
    assert {len(ring) for ring in run.solver.tests[0][0]._rings} == {max(1, room // 2)}
