"""A backend of the GPU device that runs nothing: it records kernels, copies and matrix products with their arrays.

Arrays have addresses and no memory behind them.
"""

from __future__ import annotations

import functools
import math
import mmap
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from caffelite.devices.cuda.cudnn import Problem

# Estimates of what an H100 SXM reaches: 82 % of its data sheet's 3.35 TB/s in long kernels, and half of its peaks,
# which are those without sparsity.
BANDWIDTH = 2.75e12  # bytes a second
EFFICIENCY = 0.5
PEAKS = {
    "float32": 495e12,
    "strict": 67e12,
    "float16": 990e12,
    "uint16": 990e12,
    "float64": 67e12,
}  # operations a second
NODE = 1e-6  # seconds between two nodes of a graph
SHORTEST = 1.8e-6  # seconds of the shortest kernel
NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's; older Pythons do not name it
OUTSIDE = "(update)"  # what belongs to no layer: the loss's ring, the update


class Launch(NamedTuple):
    """A kernel, copy or product. layer, way: whose it is, "forward" or "backward"."""

    layer: str
    way: str
    kernel: str
    read: int
    written: int
    seconds: float


class Event:
    def record(self, stream: Stream) -> None:
        self.depth, self.time = stream.depth, stream.time

    depth = time = 0

    def synchronize(self) -> None:
        pass


class Stream:
    """depth: launches in a row up to here; time: the seconds that they take."""

    depth = time = 0
    ptr = 0

    def wait_event(self, event: Event) -> None:
        self.depth, self.time = max(self.depth, event.depth), max(self.time, event.time)


def reserved(count: int) -> np.ndarray:
    """An array of ``count`` bytes that uses memory only where it is written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    return np.frombuffer(mmap.mmap(-1, max(1, count), flags=flags), np.uint8)[:count]


class Parameter(NamedTuple):
    name: str
    pointer: bool
    constant: bool


@functools.cache
def parameters(source: str, name: str) -> tuple[Parameter, ...]:
    """Of a kernel, from its own text."""
    found = re.search(rf"^KERNEL {name}\(([^)]*)\)", source, re.M)
    words = [(part, re.findall(r"\w+", part)) for part in found[1].split(",")]
    return tuple(Parameter(names[-1].rstrip("_"), "*" in part, "const" in names) for part, names in words)


def touched(name: str, named: dict[str, tuple[Parameter, np.ndarray]]) -> tuple[int, int]:
    """(bytes read, bytes written) by a kernel: constant pointers are read, others written. named: its arrays by their
    parameters."""
    sizes = {key: array.nbytes for key, (_, array) in named.items()}
    if name in ("copy_into", "copy_out"):  # a part of the whole
        return sizes["part"], sizes["part"]
    if name == "sum_out":
        return sizes["part"] * (len(sizes) - 1), sizes["part"]
    if name in ("pack_all", "unpack_all"):  # the weights of all tiles
        first, stop = named["table"][1][:, 4:].sum(0)
        sizes |= {key: (stop - first) * named[key][1].itemsize for key in named.keys() - {"table"}}
    if name == "preprocess":  # of a data set no more than the batch
        pixels = "bytes" if "bytes" in named else "floats"
        sizes[pixels] = named["out"][1].size * named[pixels][1].itemsize
    seen: dict[tuple, str] = {}  # an array that is given twice is read once
    for key, (parameter, array) in named.items():
        if parameter.constant:
            seen[array.ctypes.data, array.nbytes] = key
    read, written = (
        sum(sizes[key] for key in seen.values()),
        sum(sizes[key] for key, (p, _) in named.items() if not p.constant),
    )
    both = ("partial", *(k for k, (p, _) in named.items() if not p.constant and name == "formula_update"))
    return read + sum(sizes.get(key, 0) for key in both), written


class Plans:
    """In place of cuDNN: a plan for every problem."""

    choices = None

    def __init__(self, recorder: RecordingBackend):
        self._recorder = recorder

    def plan(self, problem: Problem) -> SimpleNamespace:
        operations = 2.0 * math.prod(problem.y) * math.prod(problem.w[1:])

        def run(inputs, output, workspace) -> None:
            read = sum(a.nbytes for a in inputs)
            self._recorder.record(f"convolution {problem.kind}", read, output.nbytes, operations, problem.dtype)

        return SimpleNamespace(workspace=0, run=run)

    def name(self, problem: Problem) -> str:
        return problem.kind

    def choose(self, problem: str, ways: Mapping[str, Callable[[], None]]) -> str:
        return next(iter(ways))


class RecordingBackend:
    """A backend that runs nothing and records each launch. sources: the text of each kernel that was built.

    only_sources: kernels are built and not launched, so that their arguments do not matter.
    """

    name = "model"
    capability = 9, 0  # an H100's

    def __init__(self, strict: bool = False, only_sources: bool = False):
        self.sources: set[str] = set()
        self._only_sources = only_sources
        self.stream, self._strict = Stream(), strict
        self._streams = [self.stream]
        self.launches: list[Launch] = []
        self.layer, self.way = OUTSIDE, "update"

    def record(self, kernel: str, read: int, written: int, operations: float = 0, numbers: str = "float32") -> None:
        peak = PEAKS["strict" if self._strict and numbers == "float32" else numbers]
        seconds = NODE + max(SHORTEST, (read + written) / BANDWIDTH, operations / (EFFICIENCY * peak))
        self.launches.append(Launch(self.layer, self.way, kernel, read, written, seconds))
        self.stream.depth, self.stream.time = self.stream.depth + 1, self.stream.time + seconds

    def begin(self) -> None:
        """Forgets what was recorded so far."""
        self.launches.clear()
        for stream in self._streams:
            stream.depth, stream.time = 0, 0.0

    # memory

    def empty(self, shape, dtype) -> np.ndarray:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return reserved(math.prod(shape) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)

    pinned = empty

    def view(self, raw, offset, shape, dtype) -> np.ndarray:
        return np.ndarray(shape, dtype, raw.data, offset)

    def free_bytes(self) -> int:
        return 1 << 50

    def upload(self, array, host, stream=None) -> None:
        if array.dtype == np.int64:  # tables, which tell what a kernel reads
            array[...] = host

    def address(self, array) -> int:
        return array.ctypes.data

    def download(self, array) -> np.ndarray:
        return np.zeros(array.shape, array.dtype)

    # streams

    def model(self) -> str:
        return "no GPU"

    def here(self) -> None:
        pass

    def use(self, stream: Stream) -> None:
        self.stream = stream

    def new_stream(self) -> Stream:
        self._streams.append(Stream())
        return self._streams[-1]

    def new_event(self) -> Event:
        return Event()

    def synchronize(self) -> None:
        pass

    # work

    def copy(self, source, target) -> None:
        self.record("copy", source.nbytes, target.nbytes)

    def assign(self, source, target) -> None:
        self.record("assign", source.nbytes, target.nbytes)

    def add(self, source, target) -> None:
        self.record("add", source.nbytes + target.nbytes, target.nbytes)

    def fill(self, array, value) -> None:
        self.record("fill", 0, array.nbytes)

    def kernel(self, source: str, name: str) -> Callable:
        known = parameters(source, name)
        self.sources.add(source)

        def launch(grid, block, args) -> None:
            if self._only_sources:
                return
            given = {
                p.name: (p, a) for p, a in zip(known, args, strict=True) if p.pointer and isinstance(a, np.ndarray)
            }
            self.record(name, *touched(name, given))

        return launch

    def convolutions(self, strict: bool, deterministic: bool) -> Plans:
        return Plans(self)

    def matmul(self, a, b, c, m, n, k, trans_a=False, trans_b=False, add=False) -> None:
        read = m * k * a.itemsize + k * n * b.itemsize + add * m * n * c.itemsize
        self.record("matrix product", read, m * n * c.itemsize, 2.0 * m * n * k, a.dtype.name)
