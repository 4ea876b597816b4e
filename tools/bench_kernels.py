"""Times the GPU's own kernels at the shapes of AlexNet, GoogLeNet and ResNet-50, each beside a copy of as many bytes
within the device.

A row: GB/s of the bytes that the kernel must read and write, each once; the copy's GB/s; their ratio. Medians of rounds
that alternate, by events, with the GPU kept waiting while they are queued. Arrays are chosen so large, or so many, that
caches do not hold them.

Example:
  python tools/bench_kernels.py -batch 128 -numbers bf16
"""

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from caffelite.devices import Window, formula_ops, ops
from caffelite.devices.cuda import GPU, why_none
from caffelite.devices.formula import Formula

NUMBERS = {"fp32": "float32", "fp16": "float16", "bf16": "uint16"}
ROUNDS, TIMES = 7, 20
SGD = Formula(
    "g = g + decay * w; h = momentum * h + rate * g; w = w - h",
    ("w", "g", "h"),
    constants=("rate", "decay", "momentum"),
)
RELU = "where({0} > 0, {0}, 0)"


# net, channels, side
CHANNELS = [("AlexNet", 96, 55), ("GoogLeNet", 64, 112), ("ResNet-50", 256, 56), ("ResNet-50", 2048, 7)]
NEIGHBORS = [("AlexNet", 96, 27), ("GoogLeNet", 192, 56)]
TURNED = [("ResNet-50", 3, 224), ("AlexNet", 256, 13)]
POOLS = [  # and kernel, stride, pad
    ("AlexNet", "MAX", 96, 55, 3, 2, 0),
    ("GoogLeNet", "MAX", 64, 112, 3, 2, 0),
    ("GoogLeNet", "MAX", 192, 28, 3, 1, 1),
    ("ResNet-50", "AVE", 2048, 7, 7, 1, 0),
]
PARAMETERS = 60_965_224  # AlexNet's


class Case(NamedTuple):
    """A kernel at a shape: the arrays that it must read or write, each once, and its run."""

    name: str
    shape: str
    arrays: tuple
    run: Callable[[], None]


class Bench:
    """The kernels on a device; images are of ``dtype`` numbers, channels last or not."""

    def __init__(self, device, batch: int, dtype: str, last: bool):
        self.dev, self.batch, self.dtype, self.last = device, batch, dtype, last

    def blob(self, *shape: int, dtype: str | None = None):
        array = self.dev.empty(shape, dtype or self.dtype)
        self.dev.fill(array, 1)
        return array

    def split(self, c: int, *sides: int) -> tuple[int, int, int]:
        """(N, C, P) as it lies in memory."""
        p = math.prod(sides)
        return (self.batch * p, c, 1) if self.last else (self.batch, c, p)

    def cases(self) -> Iterator[Case]:
        for net, c, side in CHANNELS:
            yield from self.channels(net, c, side)
        for net, method, c, side, kernel, stride, pad in POOLS:
            yield from self.pooling(net, method, c, side, Window((kernel, kernel), (stride, stride), (pad, pad)))
        for net, c, side in NEIGHBORS:
            yield from self.lrn(net, c, side)
        yield from self.copies()
        yield from self.rest()

    def channels(self, net: str, c: int, side: int) -> Iterator[Case]:
        """What has a number a channel: bias, batch norm, sums."""
        split = self.split(c, side, side)
        shape = f"{net} {self.batch}×{c}×{side}×{side}"
        x, y, dy = (self.blob(*split) for _ in range(3))
        u, s, g, b, t, d = (self.blob(c, dtype="float32") for _ in range(6))
        names = ("u", "s", "g", "b")
        value = "(x - u) * s * g + b"
        slope = f"where({value} > 0, dy, 0)"
        biased = self.dev.channel_map(Formula(RELU.format("(y + b)"), ("y", "b")), ("b",), *split)
        yield Case("bias + ReLU", shape, (x, y), lambda: biased(x, b, y))
        relu_backward = self.dev.relu_backward(*split, 0.0)
        yield Case("ReLU's and bias's gradients", shape, (y, dy, dy), lambda: relu_backward(y, dy, b))
        moments, count = self.dev.batch_moments(*split, 1e-5, 0.999), self.blob(1, dtype="float32")
        yield Case("batch norm: moments", shape, (x,), lambda: moments(x, u, s, t, d, count))
        normalize = self.dev.channel_map(Formula(RELU.format(f"({value})"), ("x", *names)), names, *split)
        yield Case("batch norm + scale + ReLU", shape, (x, y), lambda: normalize(x, u, s, g, b, y))
        sums = self.dev.channel_sums(
            (Formula(slope, ("dy", "x", *names)), Formula(f"{slope} * (x - u) * s", ("dy", "x", *names))), names, *split
        )
        yield Case("its backward: sums", shape, (dy, x), lambda: sums(dy, x, u, s, g, b, (t, d)))
        text = f"({slope} - t / m - d / m * (x - u) * s) * s * g"
        both = (*names, "t", "d")
        gradient = self.dev.channel_map(
            Formula(text, ("dy", "x", *both), constants=("m",)), both, *split, m=split[0] * split[2]
        )
        yield Case("its backward: gradient", shape, (dy, x, dy), lambda: gradient(dy, x, u, s, g, b, t, d, dy))
        total = self.dev.map(Formula(RELU.format("(a + b)"), ("a", "b")))
        yield Case("sum + ReLU", shape, (x, y, dy), lambda: total(x, y, dy))

    def pooling(self, net: str, method: str, c: int, side: int, window: Window) -> Iterator[Case]:
        x_shape = (self.batch, c, side, side)
        out = [-(-(side + 2 * window.pad[0] - window.kernel[0]) // window.stride[0]) + 1] * 2
        y_shape = (self.batch, c, *out)
        x, dx, y, dy = (self.blob(*shape) for shape in (x_shape, x_shape, y_shape, y_shape))
        op = self.dev.build(ops.Pooling(method, x_shape, y_shape, window, self.last))
        indices = self.blob(*y_shape, dtype="uint8" if self.last else "int32")
        stored = (indices,) if method == "MAX" else ()
        shape = f"{net} {c}×{side}×{side}, {window.kernel[0]}×{window.kernel[1]} / {window.stride[0]}"
        yield Case(f"{method} pooling", shape, (x, y, *stored), lambda: op.forward(x, y, indices))
        yield Case("its backward", shape, (dy, dx, *stored), lambda: op.backward(dy, indices, dx))

    def lrn(self, net: str, c: int, side: int) -> Iterator[Case]:
        split = self.split(c, side, side)
        op, (x, y, dy, dx) = self.dev.build(ops.LRN(*split, 5, 1e-4, 0.75, 1.0)), (self.blob(*split) for _ in range(4))
        scale = self.blob(*split, dtype="float32")
        shape = f"{net} {self.batch}×{c}×{side}×{side}"
        yield Case("LRN", shape, (x, scale, y), lambda: op.forward(x, scale, y))
        yield Case("its backward", shape, (x, y, scale, dy, dx), lambda: op.backward(x, y, scale, dy, dx))

    def copies(self) -> Iterator[Case]:
        for net, c, side in TURNED:
            x, y = self.blob(self.batch, c, side * side), self.blob(self.batch, side * side, c)
            yield Case(
                "other layout",
                f"{net} {self.batch}×{c}×{side}×{side}",
                (x, y),
                lambda x=x, y=y: self.dev.transpose(x, y),
            )
        n, c, p = self.split(128, 28, 28)
        part, whole = self.blob(n, c * p), self.blob(n, 480 // 128 * c * p)
        shape = f"GoogLeNet {self.batch}×128×28×28 of 384"
        yield Case("Concat, one of its bottoms", shape, (part, part), lambda: self.dev.copy_into(part, whole, c * p))

    def rest(self) -> Iterator[Case]:
        """What has no channels; parameters and scores are float32."""
        n, d = self.batch, 9216
        x, y, mask = self.blob(n, d), self.blob(n, d), self.blob(n, d, dtype="uint8")
        context = self.dev.make_context()
        context.set_clock(0, 0)
        drop = self.dev.build(ops.Dropout(n, d, 0.5, 1, context))
        yield Case("dropout", f"{n}×{d}", (x, y, mask), lambda: drop.forward(x, mask, y))
        yield Case("its backward", f"{n}×{d}", (x, y, mask), lambda: drop.backward(mask, x, y))
        scores, prob, label, loss = (self.blob(*s, dtype="float32") for s in ((n, 1000), (n, 1000), (n,), (1,)))
        softmax = self.dev.build(ops.SoftmaxLoss(n, 1000, 1, None, None))
        yield Case("softmax with loss", f"{n}×1000", (scores, prob), lambda: softmax.forward(scores, label, prob, loss))
        yield Case("its backward", f"{n}×1000", (prob, scores), lambda: softmax.backward(prob, label, loss, scores))
        size = PARAMETERS
        w, g, h = (self.blob(size, dtype="float32") for _ in range(3))
        ends = np.arange(0, size, 4096)
        ones, numbers = np.ones(len(ends)), self.blob(1, dtype="float32")
        chunks = np.stack([ends, np.minimum(ends + 4096, size)], 1)
        update = self.dev.build(formula_ops.Update(SGD, chunks, ones, ones, {"momentum": 0.9}))
        yield Case("SGD's update", f"{size:,}", (w, w, h, h, g), lambda: update(numbers, loss, w, g, h))
        square = self.dev.sum(Formula("g * g", ("g",)))
        yield Case("sum of squares", f"{size:,}", (g,), lambda: square(g, loss))


def rate(device, case: Case) -> tuple[float, float]:
    """GB/s of a case and of a copy of as many bytes; both run once before."""
    count = sum(array.nbytes for array in case.arrays)
    source, target = (device.empty((max(1, count // 2),), np.uint8) for _ in range(2))
    runs = case.run, lambda: device.copy(source, target)
    laps: tuple[list[float], list[float]] = ([], [])
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for run, found in zip(runs, laps, strict=True):
            found.append(device.backend.lap(run, TIMES))
    return tuple(count / statistics.median(found) / 1e6 for found in laps)


def table(device, batch: int, dtype: str) -> Iterator[str]:
    """The rows of a table in markdown."""
    yield "| kernel | shape | lies | GB/s | copy's | share |"
    yield "| --- | --- | --- | ---: | ---: | ---: |"
    for last in (True, False):
        for case in Bench(device, batch, dtype, last).cases():
            mine, copy = rate(device, case)
            lies = "channels last" if last else "as Caffe"
            yield f"| {case.name} | {case.shape} | {lies} | {mine:,.0f} | {copy:,.0f} | {mine / copy:.0%} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-gpu", type=int, default=0, help="which GPU")
    parser.add_argument("-batch", type=int, default=128, help="images")
    parser.add_argument("-numbers", choices=NUMBERS, default="fp32", help="what images are stored as")
    given = parser.parse_args(arguments)
    if missing := why_none():
        print(" ".join(missing.split()), file=sys.stderr)
        return 1
    for line in table(GPU(given.gpu), given.batch, NUMBERS[given.numbers]):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
