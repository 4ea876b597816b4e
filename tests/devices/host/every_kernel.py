"""Runs every kernel of the stand-in once or more, and prints their names. A process of its own, for sanitizers.

Arguments, if any: the groups of kernels to run alone, joined by commas; a kernel, text of its source and what replaces
it, as a planted fault. ``--digests`` runs no kernel: it prints a digest of all that a group's kernels are made of, as
sanitized.json has them of the groups that passed under both sanitizers.
"""

import hashlib
import inspect
import json
import sys
from collections.abc import Callable

import numpy as np
from devices.host.backend import HERE, SANITIZER, HostBackend, encoded

from caffelite.devices import Window, detection_ops, formula_ops, ops, sequence_ops
from caffelite.devices.cuda import GPU, alternatives, cudnn, formula_kernels, kernels
from caffelite.devices.formula import Formula

# Where each CUDA thread is a thread, starting them takes the time: two blocks show what blocks do to each other, and
# neither a blob's type nor more numbers change which threads meet.
THREADS = SANITIZER == "thread"
kernels.MOST_BLOCKS = 2 if THREADS else 3
formula_kernels.PIECE = 64  # several blocks share a sum
RNG = np.random.default_rng(1)
BLOBS = ("float32",) if THREADS else ("float32", "uint16")  # fp16 takes the same way


class Recording(HostBackend):
    """``ran``: names of kernels. fault: (name, text, replacement)."""

    def __init__(self, fault: tuple[str, str, str] | None = None):
        super().__init__()
        self.ran: set[str] = set()
        self.fault = fault

    def kernel(self, source: str, name: str) -> Callable:
        if self.fault and name == self.fault[0]:
            assert self.fault[1] in source
            source = source.replace(*self.fault[1:], 1)
        launch = super().kernel(source, name)

        def run(grid, block, args) -> None:
            self.ran.add(name)
            launch(grid, block, args)

        return run


class Unlaunched(HostBackend):
    """Launches nothing; ``sources``, ``calls``: of the kernels that would have run."""

    def __init__(self):
        super().__init__()
        self.sources: set[str] = set()
        self.calls: list[str] = []

    def kernel(self, source: str, name: str) -> Callable:
        def launch(grid, block, args) -> None:
            self.sources.add(source)
            values = [(a.shape, a.dtype.name) if np.ndim(a) else (type(a).__name__, str(a)) for a in args]
            self.calls.append(f"{name} {grid} {block} {values}")

        return launch


class Runs:
    """The groups of kernels; each method runs one."""

    def __init__(self, dev: GPU):
        self.dev = dev

    def put(self, values, dtype: str = "float32"):
        array = self.dev.empty(np.shape(values), dtype)
        array[...] = encoded(np.asarray(values, float), array.dtype)
        return array

    def normal(self, *shape: int, dtype: str = "float32"):
        return self.put(RNG.normal(size=shape), dtype)

    def index(self, high: int, *shape: int):
        return self.put(RNG.integers(0, high, shape))

    def copies(self) -> None:
        for blob in BLOBS:
            for shape in ((2, 5, 40), (2, 40, 50), (2, 70, 3)):
                self.dev.transpose(self.normal(*shape, dtype=blob), self.normal(2, *shape[:0:-1], dtype=blob))
            part, wholes = self.normal(5, 24, dtype=blob), [self.normal(5, 64, dtype=blob) for _ in range(3)]
            for start in (8, 3):
                self.dev.copy_into(part, wholes[0], start)
                self.dev.copy_out(wholes[0], start, part)
                self.dev.copy_out(wholes[0], start, part, wholes[1:])

    def formulas(self) -> None:
        dev = self.dev
        for blob in BLOBS:
            for n, c, p in ((100, 36, 1), (40, 3, 1), (3, 2, 144), (1, 1, 300)):
                x, y, dy = (self.normal(n, c, p, dtype=blob) for _ in range(3))
                of_channel = [self.normal(c) for _ in range(4)]
                dev.batch_moments(n, c, p, 1e-5, 0.9)(x, *of_channel, dev.zeros(1))
                dev.relu_backward(n, c, p, 0.1)(y, dy, of_channel[0])
                dev.channel_map(Formula("x * a", ("x", "a")), ("a",), n, c, p)(x, of_channel[0], y)
            wide, other = (self.normal(6, 5, 2, 64, dtype=blob) for _ in range(2))
            dev.relu_backward(60, 32, 1, 0.0)(wide[..., 16:48], other[..., 16:48], self.normal(32))
        dev.map(Formula("x * x", ("x",)))(self.normal(5000), self.normal(5000))
        dev.sum(Formula("x * x", ("x",)))(self.normal(9000), dev.empty(1))
        GPU(0, "float32", dev.backend, "fp16").loss_scale(None).check(self.normal(5000))
        rule = Formula("h = mu * h + rate * g; w -= h", ("w", "g", "h"), constants=("rate", "mu"))
        arrays = [self.normal(5000) for _ in range(3)]
        chunks = np.array([[0, 3000], [3000, 5000]])
        dev.build(formula_ops.Update(rule, chunks, np.ones(2), np.ones(2), {"mu": 0.5}))(
            dev.zeros(1), dev.zeros(1), *arrays
        )

    def losses(self) -> None:
        dev = self.dev
        for shape in ((70, 10, 1), (3, 10, 40)):
            n, c, p = shape
            x, y, dx, label = self.normal(*shape), self.normal(*shape), self.normal(*shape), self.index(c, n, p)
            dev.build(ops.Softmax(*shape)).forward(x, y)
            dev.build(ops.Softmax(*shape)).backward(y, x, dx)
            loss = dev.build(ops.SoftmaxLoss(*shape, None, None))
            for _ in range(2):
                loss.forward(x, label, y, dev.empty(1), dev.zeros(1))
            loss.backward(y, label, dev.zeros(1), dx)
            score = dev.build(ops.Accuracy(*shape, 2, None))
            score.forward(x, label, dev.empty(1), dev.empty(c))
            dev.build(ops.TopK(*shape, 3)).forward(x, self.normal(n, 3, p), self.normal(n, 3, p))
        product = dev.build(ops.InnerProduct(7, 50, 12))
        product._few(self.normal(7, 50), self.normal(12, 50), self.normal(12), self.normal(7, 12), 0.0, True)

    def windows(self) -> None:
        dev, window = self.dev, Window((3, 3), (2, 2))
        x, y, index = (2, 8, 9, 9), (2, 8, 4, 4), dev.empty((2, 8, 4, 4), np.int32)
        context = dev.make_context()
        context.input_buffer.begin()
        pools = [dev.build(ops.Pooling(method, x, y, window)) for method in ("MAX", "AVE", "STOCHASTIC")]
        for pool in (*pools, dev.build(ops.Pooling("STOCHASTIC", x, y, window, 1, context))):
            pool.forward(self.put(RNG.uniform(size=x)), out := self.normal(*y), index)
            if pool is not pools[2]:
                pool.backward(out, index, self.normal(*x))
        for blob in BLOBS:
            for method, places in (("MAX", np.uint8), ("MAX", np.int32), ("AVE", np.uint8)):
                pool, last = dev.build(ops.Pooling(method, x, y, window, True)), dev.empty((2, 4, 4, 8), places)
                top = self.normal(2, 4, 4, 8, dtype=blob)
                pool.forward(self.normal(2, 9, 9, 8, dtype=blob), top, last if method == "MAX" else None)
                pool.backward(top, last if method == "MAX" else None, self.normal(2, 9, 9, 8, dtype=blob))
        for p in (1, 20):
            lrn, arrays = dev.build(ops.LRN(3, 20, p, 5, 1e-4, 0.75, 1.0)), [self.normal(3, 20, p) for _ in range(5)]
            lrn.forward(arrays[0], arrays[1], arrays[2])
            lrn.backward(arrays[0], arrays[2], arrays[1], arrays[3], arrays[4])
        columns = dev.build(ops.Im2col((2, 3, 7, 6), Window((3, 2), (2, 1), (1, 0))))
        columns.forward(self.normal(2, 3, 7, 6), out := self.normal(2, 18, 4, 5))
        columns.backward(out, self.normal(2, 3, 7, 6))

    def random(self) -> None:
        dev, context = self.dev, self.dev.make_context()
        context.input_buffer.begin()
        for channels in (0, 5):
            drop = dev.build(ops.Dropout(6, 35, 0.4, 1, context, channels=channels))
            drop.forward(self.normal(6, 35), mask := dev.empty((6, 35), np.uint8), y := self.normal(6, 35))
            drop.backward(mask, y, self.normal(6, 35))
        dev.build(ops.Uniform(6, 35, -1, 1, 2, context)).forward(self.normal(6, 35))
        ring = dev.ring(5, 3)
        ring.append(self.normal(3))
        ring.append(self.normal(3), 2.0, True)

    def pixels(self) -> None:
        for dtype in ("uint8", "float32"):
            context = self.dev.make_context()
            op = self.dev.build(ops.Preprocess((4, 3, 6, 5), None, 0.5, context))
            label = context.input_buffer.field((4,))
            context.input_buffer.begin()
            picks = np.array([[i, 1, 2, i % 2] for i in range(4)], np.int32)
            op.set_batch(0, np.ones((4, 3, 9, 8), dtype), picks)
            label.set(0, np.ones(4))
            context.input_buffer.send()
            op.forward(self.normal(4, 3, 6, 5), (label,), (self.normal(4),))
            last = self.dev.build(ops.Preprocess((4, 3, 6, 5), None, 0.5, context, channels_last=True))
            context.input_buffer.begin()
            last.set_batch(0, np.ones((4, 3, 9, 8), dtype), picks)
            context.input_buffer.send()
            last.forward(self.normal(4, 6, 5, 3, dtype="uint16"))

    def recurrent(self) -> None:
        t, n, d = 3, 2, 5
        lstm, gates, h = self.dev.build(ops.LSTM(t, n, d)), self.normal(t, n, 4 * d), self.normal(t, n, d)
        cont, w, c = self.put(np.ones((t, n))), self.normal(4 * d, d), self.normal(t + 1, n, d)
        last, dh, dc = (self.normal(n, d) for _ in range(3))
        lstm.forward(gates, cont, w, last, self.normal(t, n, d), c, h)
        lstm.backward(gates, cont, w, c, h, dh, dc, self.normal(t, n, 4 * d))

    def regions(self) -> None:
        rois = self.put([[0, 1, 1, 15, 18], [1, 0, 0, 20, 9], [0, 5, 5, 9, 9], [7, 2, 3, 20, 20]])
        for method, channels, each in (("MAX", 8, 8), ("POSITION", 18, 2), ("ALIGN", 8, 8)):
            x, y = (2, channels, 12, 12), (4, each, 3, 3)
            pool, index = self.dev.build(detection_ops.RegionPooling(method, x, y, 0.5)), self.dev.empty(y, np.int32)
            pool.forward(self.normal(*x), rois, top := self.normal(*y), index)
            pool.backward(top, rois, index, self.normal(*x))

    def resizing(self) -> None:
        x, y = (2, 3, 7, 7), (2, 3, 13, 13)
        resize = self.dev.build(ops.Interpolation(x, y, (0, 0), (7, 7)))
        resize.forward(self.normal(*x), top := self.normal(*y))
        resize.backward(top, self.normal(*x))
        places, unpool = self.index(80, 3, 20), self.dev.build(ops.Unpooling(3, 20, 80))
        unpool.forward(self.normal(3, 20), places, top := self.normal(3, 80))
        unpool.backward(top, places, self.normal(3, 20))

    def selection(self) -> None:
        dev, table, rows = self.dev, self.normal(9, 6), self.index(9, 30)
        take = dev.build(ops.Take(9, 6, 30))
        take.forward(table, rows, out := self.normal(30, 6))
        take.backward(rows, out, table)
        for squared in (False, True):
            far = dev.build(ops.Distances(7, 5, 6, squared))
            x, w, y = self.normal(7, 6), self.normal(5, 6), self.normal(7, 5)
            far.forward(x, w, y)
            far.backward_x(x, w, y, self.normal(7, 6))
            far.backward_w(x, w, y, self.normal(5, 6))

    def detection(self) -> None:
        n, p, c, rows = 2, 300, 3, 5
        low, objects = RNG.uniform(0, 0.5, (p + rows, 2)), np.ones((rows, 8))
        boxes = np.concatenate([low, low + RNG.uniform(0.1, 0.5, low.shape)], 1)
        objects[:, 0], objects[:, 3:7], priors = (0, 1, 1, -1, 1), boxes[p:], self.put([boxes[:p], 0.1 + 0 * boxes[:p]])
        offsets, scores = self.normal(n, p * 4), self.normal(n, p * c)
        for ratio in (None, 3.0):
            flags, weights = (False,) * 3, (1.0, None, (1.0, 1.0))
            op = detection_ops.MultiBoxLoss(n, p, c, 1, rows, 0, 2, 0.4, *flags, ratio, 0.5, *flags, *weights)
            gradients, numbers = (self.normal(n, p * 4), self.normal(n, p * c)), (self.normal(1), self.normal(1))
            self.dev.build(op).forward(offsets, scores, priors, self.put(objects), gradients, *numbers)

        for locations in (1, c):
            op = detection_ops.Detections(n, p, c, locations, 2, 0, 2, False, 0.0, 0.4, 130)
            self.dev.build(op).forward(self.normal(n, p * 4 * locations), scores, priors)

        anchors = ((-8.0, -8.0, 8.0, 8.0), (-4.0, -9.0, 4.0, 9.0))
        op = detection_ops.Proposals(2, (5, 6), anchors, 16, 3, 9.0, False, 0.5, 55, 20)
        maps = self.normal(2, 4, 5, 6), self.normal(2, 8, 5, 6), self.put([[80, 96, 1], [80, 90, 2]])
        self.dev.build(op).forward(*maps)

    def grids(self) -> None:
        shape, sizes = (2, 2, 8, 3, 4), ((1.0, 1.5), (2.0, 0.75))
        for wide, label in (
            (True, [[0, 1, 0, 0.1, 0.2, 0.6, 0.8, 0], [1, 2, 0, 0.3, 0.1, 0.5, 0.9, 0]]),
            (False, [[1, 0.5, 0.5, 0.2, 0.3]] * 4),
        ):
            op = detection_ops.RegionLoss(shape, 2, wide, sizes, 0.3, 0.5, 5.0, 1.0, 2.0, True, wide)
            x, errors = self.normal(*shape), self.normal(*shape)
            self.dev.build(op).forward(x, self.put(label), errors, self.normal(1))

    def correlation(self) -> None:
        x, shifts = (2, 3, 6, 5), ((-1, 0), (0, 2))
        for kernel, subtract in ((1, True), (3, False)):
            y = (2, 2, 6, 5) if kernel == 1 else (2, 2, 2, 2)
            op = self.dev.build(ops.Correlation(x, y, kernel, (0, 0), 1 + kernel // 3, shifts, subtract))
            a, b, top = self.normal(*x), self.normal(*x), self.normal(*y)
            op.forward(a, b, top)
            op.backward(a, b, top, self.normal(*x), self.normal(*x))

    def sequences(self) -> None:
        t, n, c, most = 6, 5, 4, 3
        rows, columns = self.index(c, n, most), self.index(c, most, n)
        starts, steps, counts = self.index(2, t, n), self.index(t + 1, n), self.index(most + 1, n)
        for form, bottoms in (
            ("rows", [rows]),
            ("indicated", [starts, columns]),
            ("counted", [steps, counts, columns]),
        ):
            op = self.dev.build(sequence_ops.CTCLoss(t, n, c, most, form, t, 0, form == "indicated"))
            scores, loss = self.normal(t, n, c), self.normal(1)
            op.forward(scores, bottoms, loss)
            op.backward(scores, loss, self.normal(t, n, c))

    def convolutions(self) -> None:
        for half in ("float16",) if THREADS else ("float32", "float16", "uint16"):
            context = self.dev.make_context()
            sizes = (2, 4, 6, 6), (2, 8, 4, 4), Window((3, 3))
            op = self.dev.build(ops.Convolution(*sizes, channels_last=True, context=context))
            x, dx = (self.normal(2, 6, 6, 4, dtype=half) for _ in range(2))
            w, dw = self.normal(8, 4, 3, 3), self.normal(8, 4, 3, 3)
            b, y = self.normal(8), self.normal(2, 4, 4, 8, dtype=half)
            for bias in (b, None, None):
                with context.forward_pass():
                    op.forward(x, w, bias, y, 0.1)
                with context.backward_pass(False):
                    op.backward(x, w, y, dx, dw, self.normal(8))

    def small_convolutions(self) -> None:
        for m, groups in ((8, 2), (3, 1)):
            x, w, y = (2, 4, 6, 7), (m, 4 // groups, 3, 2), (2, m, 3, 6)
            window = Window((3, 2), (2, 1), (1, 1), (1, 2))
            arrays = {name: self.normal(*shape) for name, shape in (("x", x), ("w", w), ("y", y), ("b", (m,)))}
            for kind, names in (("forward", "xwby"), ("forward", "xwy"), ("dgrad", "ywx"), ("wgrad", "xyw")):
                task = cudnn.Problem(kind, x, w, y, window, len(names) == 4, len(names) == 4)
                *read, written = (arrays[name] for name in names)
                alternatives.Small(self.dev.kernel, task).run(read, written, None)
            tops, pooling = (2, m, 2, 2), ops.Pooling("MAX", y, (2, m, 2, 2), Window((2, 3), (2, 3)))
            op = self.dev.build(ops.PooledConvolution(ops.Convolution(x, y, window, groups), pooling))
            read, (index, top) = [arrays[name] for name in "xwby"], (self.dev.empty(tops, np.int32), self.normal(*tops))
            op._both(*read, top, index)


GROUPS = [name for name in vars(Runs) if name not in ("put", "normal", "index") and not name.startswith("_")]


def run(group: str, backend: HostBackend) -> None:
    getattr(Runs(GPU(0, "float32", backend, "fp32")), group)()


def digest(group: str) -> str:
    run(group, backend := Unlaunched())
    texts = (HERE / "cuda_host.h").read_text(), inspect.getsource(getattr(Runs, group))
    texts += *sorted(backend.sources), *backend.calls
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).hexdigest()


def main(words: list[str]) -> None:
    if words == ["--digests"]:
        print(json.dumps({group: digest(group) for group in GROUPS}, indent=2))
        return
    groups, *fault = words or [",".join(GROUPS)]
    backend = Recording(tuple(fault) or None)
    for group in groups.split(","):
        run(group, backend)
    print(*sorted(backend.ran))


if __name__ == "__main__":
    main(sys.argv[1:])
