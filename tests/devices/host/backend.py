"""A GPU device without a GPU: NumPy's memory, and CUDA kernels compiled by g++ through cuda_host.h.

Every argument is checked against the kernel's own signature, which CUDA would not do. CAFFELITE_HOST_SANITIZE compiles
kernels with sanitizers: "address" for those of addresses and undefined behavior, "thread" for that of threads, which
then runs each CUDA thread as a thread of its own. test_gpu_sanitized.py shows what Python needs for that.
"""

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
from devices.host.memory import SPOILED, Pool
from devices.host.streams import Capture, Event, Graph, Refused, Stream, queued, refused, waits

HERE = Path(__file__).parent
TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long long": np.int64,
    "unsigned": np.uint32,
    "unsigned long long": np.uint64,
    "byte": np.uint8,
    "fp16": np.float16,
    "bf16": np.uint16,
}
WAITING = re.compile(r"__sync|__shfl|block_sum|comes_last|team_")  # what makes fibers of a kernel's threads


# Nothing but the kernels is seen outside a library: others have functions and variables by the same names.
FLAGS = ("-std=c++17", "-fPIC", "-ffp-contract=off", "-fvisibility=hidden", "-fno-gnu-unique", "-w")
SANITIZER = os.environ.get("CAFFELITE_HOST_SANITIZE", "")
FLAGS += {
    "": ("-O0",),  # compiling takes longer than running
    "address": ("-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-O1", "-g1", "-fsanitize=thread", "-DHOST_THREADS"),
}[SANITIZER]
SHARED = re.compile(r"__shared__ (\w+) (\w+)((?:\[[^\]]+\])*);")


def _temporary(*texts: str) -> Path:
    """The path, in the temporary folder, of what the compiler makes of texts."""
    key = hashlib.blake2b("\0".join(texts).encode(), digest_size=12).hexdigest()
    return Path(tempfile.gettempdir()) / f"caffelite-host-{os.getuid()}-{key}"


def _run(*words: str | Path, text: str = "") -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # a sanitizer's
    done = subprocess.run(["g++", *words], input=text, text=True, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr


@functools.cache
def _header() -> Path:
    """A folder with cuda_host.h, precompiled: half of the time that a kernel takes would go into it."""
    text = (HERE / "cuda_host.h").read_text()
    folder = _temporary("header", text, *FLAGS)
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            made = Path(draft) / "made"
            made.mkdir()
            (made / "cuda_host.h").write_text(text)
            _run(*FLAGS, "-x", "c++-header", made / "cuda_host.h", "-o", made / "cuda_host.h.gch")
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(folder)
    return folder


def compiled(source: str) -> Path:
    """The library of a source, from the temporary folder where this text was compiled before."""
    if SANITIZER == "thread":  # each of the blocks that run at the same time has its own
        source = SHARED.sub(r"static \1 \2_[host::BLOCKS]\3; auto& \2 = \2_[host::slot()];", source)
    text = f'#include "cuda_host.h"\n#line 1 "kernel.cu"\n{source}\n' + "".join(
        f"HOST_EXPORT({name})\n" for name in signatures(source)
    )
    library = _temporary(text, (HERE / "cuda_host.h").read_text(), *FLAGS).with_suffix(".so")
    if not library.exists():
        draft = library.with_suffix(f".{os.getpid()}")
        _run(*FLAGS, "-shared", f"-I{_header()}", "-x", "c++", "-", "-o", draft, text=text)
        draft.replace(library)
    return library


@functools.cache
def signatures(source: str) -> dict[str, tuple[list[tuple[bool, np.dtype]], bool]]:
    """For every kernel its parameters, (is a pointer, type) each, and whether its threads wait for each other."""
    aliases = {name: kind for kind, name in re.findall(r"^typedef ([\w ]+) (\w+);", source, re.M)} | {"byte": "byte"}
    kernels = {}
    for name, parameters, body in re.findall(r"^KERNEL (\w+)\(([^)]*)\) \{(.*?)^\}", source, re.M | re.S):
        actual = []
        for parameter in parameters.split(","):
            kind = re.sub(r"\bconst\b", "", parameter.replace("*", " * ")).split()[:-1]
            words = " ".join(k for k in kind if k != "*")
            actual.append(("*" in kind, np.dtype(TYPES[aliases.get(words, words)])))
        kernels[name] = actual, bool(WAITING.search(body))
    return kernels


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
        self.pool = Pool()
        self._pinned: list[np.ndarray] = []
        self._backwards, self._odd = backwards, False
        self._libraries: dict[str, ctypes.CDLL] = {}
        self.graphs: list[Graph] = []
        self.launches = 0  # of what was not captured

    def queue(self, work) -> None:
        self.launches += not self.stream.capture
        self.stream.add(self.pool.borrowed(work) if self.stream.capture else work)

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
        count = math.prod(shape) * np.dtype(dtype).itemsize
        # The address sanitizer watches what malloc gives, not the blocks of a pool.
        raw = np.full(count, SPOILED, np.uint8) if SANITIZER else self.pool.allocate(self.stream, count)
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

    def driver(self) -> str:
        return "0"

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
        assert np.uint16 not in (source.dtype, target.dtype), "bits of bfloat16"
        np.add(target, source, out=target)

    def address(self, array) -> int:
        return array.ctypes.data

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

    def convolutions(self, strict: bool, deterministic: bool):
        from .plans import Engine

        return Engine(self)

    @queued
    def matmul(self, a, b, c, m, n, k, trans_a=False, trans_b=False, add=False) -> None:
        assert a.dtype == b.dtype and c.dtype in (a.dtype, np.float32)
        a, b = decoded(a), decoded(b)
        a = a.reshape(-1)[: m * k].reshape((k, m) if trans_a else (m, k))
        b = b.reshape(-1)[: k * n].reshape((n, k) if trans_b else (k, n))
        c = c.reshape(-1)[: m * n].reshape(m, n)
        product = (a.T if trans_a else a) @ (b.T if trans_b else b)
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
