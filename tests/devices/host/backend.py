"""A GPU device without a GPU: NumPy's memory, and CUDA kernels compiled by g++ through cuda_host.h.

Every argument is checked against the kernel's own signature, which CUDA would not do. With CAFFELITE_HOST_SANITIZE=1
kernels are compiled with the address and undefined-behaviour sanitizers; Python then needs LD_PRELOAD="$(g++
-print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import hashlib
import math
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long long": np.int64,
    "unsigned": np.uint32,
    "byte": np.uint8,
    "fp16": np.float16,
    "bf16": np.uint16,
}
WAITING = re.compile(r"__sync|__shfl|block_sum|comes_last|team_")  # what makes fibers of a kernel's threads


def compiled(source: str) -> Path:
    """The library of a source, from the temporary folder where this text was compiled before."""
    sanitize = (
        ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        if os.environ.get("CAFFELITE_HOST_SANITIZE") == "1"
        else []
    )
    text = f'#include "cuda_host.h"\n#line 1 "kernel.cu"\n{source}\n' + "".join(
        f"HOST_EXPORT({name})\n" for name in signatures(source)
    )
    # Nothing but the kernels is seen outside a library: others have functions and variables by the same names.
    flags = [
        "-std=c++17",
        "-O1",
        "-g1",
        "-fPIC",
        "-shared",
        "-ffp-contract=off",
        "-fvisibility=hidden",
        "-fno-gnu-unique",
        "-w",
        *sanitize,
    ]
    key = hashlib.blake2b(
        "\0".join([text, (HERE / "cuda_host.h").read_text(), *flags]).encode(), digest_size=12
    ).hexdigest()
    library = Path(tempfile.gettempdir()) / f"caffelite-host-{os.getuid()}-{key}.so"
    if not library.exists():
        draft = library.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            ["g++", *flags, f"-I{HERE}", "-x", "c++", "-", "-o", draft], input=text, text=True, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        draft.replace(library)
    return library


@functools.cache
def signatures(source: str) -> dict[str, tuple[list[tuple[bool, np.dtype]], bool]]:
    """For every kernel its parameters, (is a pointer, type) each, and whether its threads wait for each other."""
    aliases = {name: kind for kind, name in re.findall(r"^typedef ([\w ]+) (\w+);", source, re.M)} | {"byte": "byte"}
    kernels = {}
    for name, parameters, body in re.findall(r"^KERNEL (\w+)\(([^)]*)\) \{(.*?)^\}", source, re.M | re.S):
        found = []
        for parameter in parameters.split(","):
            kind = re.sub(r"\bconst\b", "", parameter.replace("*", " * ")).split()[:-1]
            words = " ".join(k for k in kind if k != "*")
            found.append(("*" in kind, np.dtype(TYPES[aliases.get(words, words)])))
        kernels[name] = found, bool(WAITING.search(body))
    return kernels


class Refused(Exception):
    """What CUDA raises where something cannot be captured."""


def queued(method):
    """A method that only queues: in a capture it is kept, to run when the graph is launched, with the arguments of
    now."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        self.queue(functools.partial(method, self, *args, **kwargs))

    return call


def refused(method):
    """A method that a capture refuses."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if self.stream.capture:
            raise Refused(f"{method.__name__} in a capture")
        return method(self, *args, **kwargs)

    return call


def waits(method):
    """A method that returns when all that was queued is done."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        self.stream.synchronize()
        return method(self, *args, **kwargs)

    return refused(call)


class Stream:
    """Work in the order that it was queued in: done at once, or as late as CUDA may do it, or early, when what it waits
    for is done: then it goes step by step with the stream that it was made beside."""

    def __init__(self, when: str, beside: Stream | None = None):
        self._when, self._work, self.added, self.done = when, collections.deque(), 0, 0
        self._beside: list[Stream] = []  # early ones
        self._stepping = False
        if beside and when == "early":
            beside._beside.append(self)
        self.capture: Capture | None = None  # the one under way that this stream is part of

    def add(self, work) -> None:
        if self.capture:
            self.capture.keep(self, self.add, work)
            return
        self._work.append((work, None, 0))
        self._added()

    def wait_event(self, event: Event) -> None:
        if event.capture:
            event.capture.wait(self, event)
        elif self.capture:
            raise Refused("a capture waits for what was queued before it")
        elif event.stream:
            self._work.append((None, event.stream, event.at))
            self._added()

    def _added(self) -> None:
        self.added += 1
        if self._when == "at once":
            self.synchronize()
        while self._when == "early" and self._ready():
            self._step()

    def _ready(self) -> bool:
        """Whether a next step waits for nothing that is not done."""
        return (
            bool(self._work)
            and not self._stepping
            and (self._work[0][1] is None or self._work[0][1].done >= self._work[0][2])
        )

    def _step(self) -> None:
        work, stream, at = self._work.popleft()
        self._stepping = True
        try:
            if stream:
                stream.run(at)
            else:
                work()
        finally:
            self._stepping = False
            self.done += 1
        for other in self._beside:
            if other._ready():
                other._step()

    def run(self, upto: int) -> None:
        while self.done < upto:
            self._step()

    def synchronize(self) -> None:
        self.run(self.added)


class Event:
    stream = capture = None

    def record(self, stream: Stream) -> None:
        self.capture = stream.capture
        if stream.capture:
            stream.capture.record(stream, self)
        else:
            self.stream, self.at = stream, stream.added

    def synchronize(self) -> None:
        if self.stream:
            self.stream.run(self.at)


class Capture:
    """What is queued on a stream, and on those that fork from it, is kept until it ends. All of those must have joined
    it by then."""

    def __init__(self, stream: Stream):
        self._origin, self._streams, self.calls = stream, [stream], []
        self._loose: dict[
            Stream, Event | None
        ] = {}  # streams that have not joined since they forked, and what they recorded last of all
        stream.capture = self

    def keep(self, stream: Stream, call, *arguments) -> None:
        self.calls.append(functools.partial(call, *arguments))
        if stream is not self._origin:
            self._loose[stream] = None

    def record(self, stream: Stream, event: Event) -> None:
        self.keep(stream, event.record, stream)
        if stream is not self._origin:
            self._loose[stream] = event

    def wait(self, stream: Stream, event: Event) -> None:
        if not stream.capture:
            stream.capture = self
            self._streams.append(stream)
        self.keep(stream, stream.wait_event, event)
        if stream is self._origin:
            self._loose = {other: last for other, last in self._loose.items() if last is not event}

    def end(self) -> None:
        for stream in self._streams:
            stream.capture = None
        if self._loose:
            raise Refused("a stream that forked has not joined")


class Graph:
    """What a capture kept."""

    def __init__(self, calls: list):
        self._calls, self.runs, self.closed = calls, 0, False

    def launch(self) -> None:
        assert not self.closed
        self.runs += 1
        for call in self._calls:
            call()

    def close(self) -> None:
        self.closed = True

    def __len__(self) -> int:
        return len(self._calls)


def decoded(array: np.ndarray) -> np.ndarray:
    """float64, from numbers of any type; uint16 holds bfloat16."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def encoded(values: np.ndarray, dtype) -> np.ndarray:
    """The nearest numbers of a type, ties to even."""
    if dtype != np.uint16:
        return values.astype(dtype)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


class HostBackend:
    """What caffelite.devices.cuda.backend.CuPyBackend does, on the host.

    main, copies: when what is queued there is done, "at once", "early" or "late"; what relies on an order that CUDA
    does not promise fails under one of them. backwards: whether threads run from the last to the first; by default
    every other launch does.
    """

    name = "host"
    capability = 9, 0  # an H100's

    def __init__(self, main: str = "at once", copies: str = "at once", backwards: bool | None = None) -> None:
        self.stream, self._copies = Stream(main), copies
        self._pinned: list[np.ndarray] = []
        self._backwards, self._odd = backwards, False
        self._libraries: dict[str, ctypes.CDLL] = {}
        self.graphs: list[Graph] = []
        self.launches = 0  # of what was not captured

    def queue(self, work) -> None:
        self.launches += not self.stream.capture
        self.stream.add(work)

    def here(self) -> None: ...

    def capture(self, body) -> Graph:
        assert not self.stream.capture
        main, capture = self.stream, Capture(self.stream)
        try:
            body()
        except BaseException:
            with contextlib.suppress(Refused):
                capture.end()
            self.use(main)
            raise
        capture.end()
        self.graphs.append(Graph(capture.calls))
        return self.graphs[-1]

    def use(self, stream: Stream) -> None:
        self.stream = stream

    @refused
    def empty(self, shape, dtype) -> np.ndarray:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        raw = np.full(math.prod(shape) * np.dtype(dtype).itemsize, 0xFF, np.uint8)  # NaN: nothing may count on zeros
        return raw.view(dtype).reshape(shape)

    def view(self, raw, offset, shape, dtype) -> np.ndarray:
        assert offset % dtype.itemsize == 0
        return np.ndarray(shape, dtype, raw.data, offset)

    @refused
    def upload(self, array, host, stream=None) -> None:
        assert array.shape == host.shape if stream else array.size == host.size
        assert array.dtype == host.dtype and array.flags.c_contiguous and host.flags.c_contiguous
        host = host.reshape(array.shape)
        pinned = any(np.may_share_memory(host, memory) for memory in self._pinned)
        (stream or self.stream).add(functools.partial(np.copyto, array, host if pinned else host.copy()))

    @refused
    def pinned(self, shape, dtype) -> np.ndarray:
        self._pinned.append(np.empty(shape, dtype))
        return self._pinned[-1]

    def new_stream(self) -> Stream:
        return Stream(self._copies, self.stream)

    def new_event(self) -> Event:
        return Event()

    def model(self) -> str:
        return "host"

    def free_bytes(self) -> int:
        return 1 << 30

    @waits
    def download(self, array) -> np.ndarray:
        return array.copy()

    @queued
    def copy(self, source, target) -> None:
        target.reshape(-1)[:] = source.reshape(-1)

    @queued
    def assign(self, source, target) -> None:
        np.copyto(target, source)

    @queued
    def add(self, source, target) -> None:
        np.add(target, source, out=target)

    @queued
    def fill(self, array, value) -> None:
        array.fill(value)

    @waits
    def record_event(self) -> float:
        return time.perf_counter()

    def elapsed_ms(self, begin: float, end: float) -> float:
        return 1e3 * (end - begin)

    @waits
    def synchronize(self) -> None:
        pass

    def kernel(self, source: str, name: str):
        if source not in self._libraries:
            self._libraries[source] = ctypes.CDLL(str(compiled(source)))
        function = self._libraries[source][f"{name}_on_host"]
        parameters, waiting = signatures(source)[name]
        pitched = "_pitch_" in source

        def launch(grid, block, args):
            self._launch(function, name, parameters, waiting, pitched, grid, block, args)

        return launch

    @queued
    def _launch(self, function, name, parameters, waiting, pitched, grid, block, args) -> None:
        assert len(args) == len(parameters), f"{name}: {len(args)} arguments for {len(parameters)} parameters"
        assert grid[1:] == block[1:] == (1, 1) and 0 < grid[0] < 1 << 31 and 0 < block[0] <= 1024
        values = [
            _value(f"{name}, argument {i}", v, *p, pitched)
            for i, (v, p) in enumerate(zip(args, parameters, strict=True))
        ]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        self._odd = not self._odd
        function(
            (ctypes.c_uint * 4)(grid[0], block[0], waiting, self._odd if self._backwards is None else self._backwards),
            pointers,
        )

    @queued
    def matmul(self, a, b, c, m, n, k, trans_a=False, trans_b=False, add=False, batch=1) -> None:
        assert a.dtype == b.dtype and c.dtype in (a.dtype, np.float32)
        a, b = decoded(a), decoded(b)
        a = a.reshape(-1)[: batch * m * k].reshape(batch, *((k, m) if trans_a else (m, k)))
        b = b.reshape(-1)[: batch * k * n].reshape(batch, *((n, k) if trans_b else (k, n)))
        c = c.reshape(-1)[: batch * m * n].reshape(batch, m, n)
        product = (a.swapaxes(1, 2) if trans_a else a) @ (b.swapaxes(1, 2) if trans_b else b)
        c[...] = encoded(decoded(c) + product if add else product, c.dtype)


def _value(what: str, value, pointer: bool, dtype: np.dtype, pitched: bool = False):
    """The C value of an argument; CUDA would take any, and read what it finds. pitched: the kernel knows how far rows
    are apart."""
    if isinstance(value, np.uintp) and pointer and value == 0:
        return ctypes.c_void_p(0)
    assert isinstance(value, np.ndarray if pointer else np.generic), f"{what}: {type(value)}"
    assert value.dtype == dtype, f"{what}: {value.dtype} for {dtype}"
    if pointer:
        assert value.flags.c_contiguous or (pitched and value.strides[-1] == value.itemsize), what
        return ctypes.c_void_p(value.ctypes.data)
    return (ctypes.c_char * dtype.itemsize).from_buffer_copy(value.tobytes())
