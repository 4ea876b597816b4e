"""Times the passes of a net: by layer, in total, and as a share of the device's peak."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ..devices import ops
from ..devices.dtypes import BFLOAT16
from ..devices.protocol import Device
from ..net.net import Net

SIDE = {"cpu": 2048, "gpu": 8192}  # of the square matrices for the measurement of peak compute
COPIED = {"cpu": 1 << 27, "gpu": 1 << 30}  # bytes of the copy for the measurement of memory bandwidth
TRIES = 5


@dataclass
class PassTimes:
    """Milliseconds of one pass: of each layer by name, forward and backward, and of all."""

    forward: dict[str, float]
    backward: dict[str, float]
    forward_whole: float
    backward_whole: float


def timed_pass(net: Net, iteration: int) -> PassTimes:
    """Times one pass, layer by layer. GPU times are measured on the GPU: it never waits for the host in between."""
    dev = net.dev
    marks: list[tuple[str, object]] = []

    def observe(node) -> None:
        marks.append((node.name, dev.record_event()))

    begin = dev.record_event()
    net.clear_loss()
    net.forward(iteration, observe=observe)
    forward, marks = marks, []
    middle = dev.record_event()
    net.backward(observe=observe)
    end = dev.record_event()
    return PassTimes(
        _by_layer(dev, begin, forward),
        _by_layer(dev, middle, marks),
        dev.elapsed_ms(begin, middle),
        dev.elapsed_ms(middle, end),
    )


def _by_layer(dev: Device, begin, marks: list[tuple[str, object]]) -> dict[str, float]:
    times: dict[str, float] = {}
    for name, end in marks:
        times[name] = times.get(name, 0.0) + dev.elapsed_ms(begin, end)
        begin = end
    return times


def whole(net: Net, count: int) -> float:
    """Milliseconds of a pass forward and backward as training runs it, the median of ``count``: on a GPU as CUDA
    graphs."""
    dev = net.dev
    for _ in range(0 if dev.traits.synchronous else 4):  # graphs are captured
        _pass(net)
    return statistics.median(laps(dev, lambda: _pass(net), count))


def _pass(net: Net) -> None:
    net.clear_loss()
    net.forward()
    net.backward()


def thread_use(net: Net, count: int) -> list[str]:
    """Sentences on what the threads of a CPU, the net's device, do in ``count`` passes."""
    from ..devices.cpu import CPU, thread_use

    assert isinstance(net.dev, CPU)
    return thread_use.measured(net.dev, lambda: _pass(net), count).lines()


def laps(dev: Device, run: Callable[[], None], count: int) -> list[float]:
    """Milliseconds between one end of ``run`` and the next, ``count`` of them."""
    marks = [dev.record_event()]
    for _ in range(count):
        run()
        marks.append(dev.record_event())
    return [dev.elapsed_ms(a, b) for a, b in zip(marks, marks[1:], strict=False)]


def ceilings(dev: Device) -> tuple[float, float]:
    """(operations, bytes) a second of a device: of a product of large matrices at its precision, and of a large copy,
    read and written."""
    side, size = SIDE[dev.traits.kind], COPIED[dev.traits.kind]
    x, w, y = (dev.zeros((side, side)) for _ in range(3))
    op = dev.build(ops.InnerProduct(side, side, side, half=dev.traits.half))
    half_input = (dev.zeros((side, side), BFLOAT16),) if dev.traits.half else ()
    source, target = dev.zeros(size, "uint8"), dev.zeros(size, "uint8")

    def multiply() -> None:
        op.forward(x, w, None, y, None, *half_input)

    def copy() -> None:
        dev.copy(source, target)

    multiply()
    copy()
    product, moved = (min(laps(dev, run, TRIES)) for run in (multiply, copy))
    return 2e3 * side**3 / product, 2e3 * size / moved


def algorithms(operation: object) -> list[str]:
    """The algorithms that the passes of a convolution took, where they are measured: of forward, data gradient and
    weight gradient, in this order; none for other operations."""
    taken: dict[str, str] = getattr(operation, "taken", {})
    return [taken[name] for name in sorted(taken, key=("forward", "data gradient", "weight gradient").index)]
