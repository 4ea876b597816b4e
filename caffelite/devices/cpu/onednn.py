"""oneDNN 3 through its C interface: finds the library, and wraps its descriptors and primitives.

The wheel `onednn-cpu-gomp` (the extra `onednn`), conda and Linux distributions provide it; any of them is used.
$CAFFELITE_ONEDNN names another library, or is 0 for none.

Numbers in this file are those of the header dnnl_types.h of oneDNN 3.0, which later versions keep.
"""

from __future__ import annotations

import ctypes as ct
import ctypes.util
import functools
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from operator import is_
from pathlib import Path
from typing import NamedTuple

import numpy as np

log = logging.getLogger("caffelite")

FORWARD_TRAINING, DIRECT = 64, 1
# Queries of primitive descriptors
SRC, DIFF_SRC, WEIGHTS, DIFF_WEIGHTS, DST, DIFF_DST, WORKSPACE, SCRATCHPAD = 129, 130, 131, 132, 133, 134, 135, 136
# Queries of memory descriptors
STRIDES, DIMENSIONS, PADDED, FORMAT, BLOCK_COUNT, BLOCK_SIZES, BLOCK_AXES = 14, 256, 260, 262, 263, 264, 265
RELU, POOL_MAX, POOL_INCLUDING, POOL_EXCLUDING = 0x20, 0x1FF, 0x2FF, 0x3FF
F32, BF16 = 3, 2
_BLOCKED = 2  # a format
_ANY, _CPU, _IN_ORDER, _USER_SCRATCHPAD, _NAME = 1, 1, 1, 1, 8
_AVX512, _AVX512_BF16 = 0x27, 0xE7
# Names of operands → (the number by which they are passed, what to ask for their layout, its index)
OPERANDS = {
    "x": (1, SRC, 0),
    "y": (17, DST, 0),
    "w": (33, WEIGHTS, 0),
    "b": (41, WEIGHTS, 1),
    "record": (64, WORKSPACE, 0),
    "scratch": (80, SCRATCHPAD, 0),
    "dx": (129, DIFF_SRC, 0),
    "dy": (145, DIFF_DST, 0),
    "dw": (161, DIFF_WEIGHTS, 0),
    "db": (169, DIFF_WEIGHTS, 1),
}

_pointer, _long = ct.c_void_p, ct.c_int64


class _Argument(ct.Structure):
    _fields_ = [("kind", ct.c_int), ("memory", _pointer)]


def _paths() -> Iterator[str]:
    """Where the library may be, the likeliest place first; for the last one ctypes asks compilers."""
    name = "libdnnl.so.3"
    with suppress(metadata.PackageNotFoundError):
        yield from (str(f.locate()) for f in metadata.files("onednn-cpu-gomp") or () if f.name == name)
    for path in (Path(sys.prefix) / "lib" / name, Path(sys.prefix) / "lib" / "libdnnl.3.dylib"):
        if path.exists():
            yield str(path)
    yield name
    yield from filter(None, [ctypes.util.find_library("dnnl")])


@functools.cache
def load() -> Library | None:
    """The library, or None where there is none (of version 3)."""
    chosen = os.environ.get("CAFFELITE_ONEDNN", "")
    if chosen == "0":
        return None
    for path in [chosen] if chosen else _paths():
        try:
            library = Library(ct.CDLL(path))
        except (OSError, AttributeError):  # not there, or of a version that lacks what version 3 has
            continue
        if library.version[0] == 3:
            return library
    return None


class Blocking(NamedTuple):
    """How an array is stored: the strides of each axis's blocks, its padded sizes, and within a block (size, axis) from
    the outermost to the innermost."""

    strides: tuple[int, ...]
    padded: tuple[int, ...]
    inner: tuple[tuple[int, int], ...]


class Library:
    """The loaded library with its CPU engine and stream, which live as long as the process."""

    def __init__(self, functions: ct.CDLL):
        self._functions = functions
        functions.dnnl_primitive_desc_query_md.restype = _pointer
        functions.dnnl_primitive_desc_query_md.argtypes = [_pointer, ct.c_int, ct.c_int]
        functions.dnnl_primitive_desc_query.argtypes = [_pointer, ct.c_int, ct.c_int, _pointer]
        functions.dnnl_memory_desc_get_size.restype = ct.c_size_t
        functions.dnnl_memory_desc_get_size.argtypes = [_pointer]
        functions.dnnl_memory_desc_equal.argtypes = [_pointer, _pointer]
        functions.dnnl_memory_set_data_handle.argtypes = [_pointer, _pointer]
        functions.dnnl_primitive_execute.argtypes = [_pointer, _pointer, ct.c_int, _pointer]
        functions.dnnl_version.restype = ct.POINTER(ct.c_int * 3)
        self.version = tuple(functions.dnnl_version().contents)
        self.engine, self.stream = _pointer(), _pointer()
        self("engine_create", ct.byref(self.engine), _CPU, ct.c_size_t(0))
        self("stream_create", ct.byref(self.stream), self.engine, _IN_ORDER)
        self.execute: Callable[..., int] = functions.dnnl_primitive_execute
        self.set_handle = functions.dnnl_memory_set_data_handle
        # Both are constant, and oneDNN copies them.
        self.layout, self.attributes = functools.cache(self._layout), functools.cache(self._attributes)

    def set_threads(self, count: int) -> None:
        """Primitives that are created or executed from now on by this thread use so many threads."""
        self._functions.omp_set_num_threads(count)

    @property
    def instructions(self) -> int:
        """oneDNN's number of the instruction sets that it uses."""
        return self._functions.dnnl_get_effective_cpu_isa()

    def bf16(self) -> str | None:
        """How bfloat16 numbers are multiplied: "native" (AVX-512 with that extension, AMX), "emulated" (AVX-512), or
        not at all."""
        kind = self.instructions
        return "native" if kind & _AVX512_BF16 == _AVX512_BF16 else "emulated" if kind & _AVX512 == _AVX512 else None

    def __call__(self, name: str, *arguments) -> None:
        """Calls a function of the library that returns a status."""
        status = getattr(self._functions, f"dnnl_{name}")(*arguments)
        if status:
            raise RuntimeError(f"oneDNN's {name} failed with status {status}")

    def _layout(self, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, dtype: int = F32) -> ct.c_void_p:
        """A memory descriptor; strides in elements, None: the primitive's preferred layout."""
        description, dims = _pointer(), (_long * len(shape))(*shape)
        if strides is None:
            self("memory_desc_create_with_tag", ct.byref(description), len(shape), dims, dtype, _ANY)
        else:
            self(
                "memory_desc_create_with_strides",
                ct.byref(description),
                len(shape),
                dims,
                dtype,
                (_long * len(shape))(*strides),
            )
        return description

    def dense(self, shape: tuple[int, ...], dtype: int = F32) -> ct.c_void_p:
        """A memory descriptor of an array as NumPy has it."""
        return self.layout(shape, tuple(np.cumprod((1, *shape[:0:-1]))[::-1].tolist()), dtype)

    def channels_last(self, shape: tuple[int, ...], dtype: int = F32) -> ct.c_void_p:
        """A memory descriptor of N×C×H×W stored as N×H×W×C."""
        _, c, h, w = shape
        return self.layout(shape, (c * h * w, 1, w * c, c), dtype)

    def _attributes(self, slope: float | None = None, add: bool = False) -> ct.c_void_p:
        """A primitive's attributes: scratchpad given by the caller, a leaky ReLU at the end, the result added to what
        is there."""
        attributes, after = _pointer(), _pointer()
        self("primitive_attr_create", ct.byref(attributes))
        self("primitive_attr_set_scratchpad_mode", attributes, _USER_SCRATCHPAD)
        self("post_ops_create", ct.byref(after))
        if add:
            self("post_ops_append_sum", after, ct.c_float(1), ct.c_int32(0), 0)
        if slope is not None:
            self("post_ops_append_eltwise", after, RELU, ct.c_float(slope), ct.c_float(0))
        self("primitive_attr_set_post_ops", attributes, after)
        return attributes

    def describe(self, kind: str, *arguments) -> Descriptor:
        """A primitive descriptor: ``kind`` and arguments as in the header, without the result and the engine."""
        descriptor = _pointer()
        self(f"{kind}_primitive_desc_create", ct.byref(descriptor), self.engine, *arguments)
        return Descriptor(self, descriptor)

    def reorder(self, source: ct.c_void_p, target: ct.c_void_p, add: bool = False) -> Primitive:
        """``run(x, y)``: copies from one layout to another."""
        descriptor = _pointer()
        self(
            "reorder_primitive_desc_create",
            ct.byref(descriptor),
            source,
            self.engine,
            target,
            self.engine,
            self.attributes(add=add),
        )
        return Descriptor(self, descriptor).primitive("x", "y", layouts={"x": source, "y": target})

    def bytes(self, layout: ct.c_void_p) -> int:
        return self._functions.dnnl_memory_desc_get_size(layout)

    def blocking(self, layout: ct.c_void_p) -> Blocking | None:
        """How an array is stored; None where that is no order by blocks."""

        def ask(what: int, count: int = 0) -> tuple[int, ...]:
            one, several = ct.c_int(), ct.POINTER(_long)()
            self("memory_desc_query", layout, what, ct.byref(several if count else one))
            return tuple(several[:count]) if count else (one.value,)

        (kind,), (axes,) = ask(FORMAT), ask(DIMENSIONS)
        if kind != _BLOCKED:
            return None
        (count,) = ask(BLOCK_COUNT)
        inner = zip(ask(BLOCK_SIZES, count), ask(BLOCK_AXES, count), strict=True) if count else ()
        return Blocking(ask(STRIDES, axes), ask(PADDED, axes), tuple(inner))

    def equal(self, a: ct.c_void_p, b: ct.c_void_p) -> bool:
        return bool(self._functions.dnnl_memory_desc_equal(a, b))


class Descriptor:
    """A primitive's operation and layouts."""

    def __init__(self, library: Library, handle: ct.c_void_p):
        self.library, self.handle = library, handle
        weakref.finalize(self, library, "primitive_desc_destroy", handle)

    def layout(self, operand: str) -> ct.c_void_p:
        """The memory descriptor of an operand; NULL where it has none."""
        _, query, index = OPERANDS[operand]
        return ct.c_void_p(self.library._functions.dnnl_primitive_desc_query_md(self.handle, query, index))

    @property
    def name(self) -> str:
        """The implementation's name, as "jit:avx2"."""
        name = ct.c_char_p()
        self.library("primitive_desc_query", self.handle, _NAME, 0, ct.byref(name))
        return (name.value or b"").decode()

    def bytes(self, operand: str) -> int:
        layout = self.layout(operand)
        return self.library.bytes(layout) if layout else 0

    def primitive(self, *operands: str, layouts: dict | None = None) -> Primitive:
        return Primitive(self, operands, layouts or {})


class Primitive:
    """``run(*arrays)``, operands in the order given at construction; ``at``: byte offsets of the operands in their
    arrays."""

    def __init__(self, descriptor: Descriptor, operands: tuple[str, ...], layouts: dict):
        library, self._descriptor = descriptor.library, descriptor
        self._library, self._handle = library, _pointer()
        library("primitive_create", ct.byref(self._handle), descriptor.handle)
        self._memories: list[ct.c_void_p] = []
        self._bound: tuple[np.ndarray | None, ...] = (None,) * len(operands)
        self.at = [0] * len(operands)
        for operand in operands:
            memory = _pointer()
            layout = layouts.get(operand) or descriptor.layout(operand)
            library("memory_create", ct.byref(memory), layout, library.engine, None)
            self._memories.append(memory)
            weakref.finalize(self, library, "memory_destroy", memory)
        weakref.finalize(self, library, "primitive_destroy", self._handle)
        pairs = zip(operands, self._memories, strict=True)
        self._arguments = (_Argument * len(operands))(*[_Argument(OPERANDS[o][0], m.value) for o, m in pairs])
        self._call = self._handle, library.stream, len(operands), self._arguments

    def run(self, *arrays: np.ndarray) -> None:
        if not all(map(is_, arrays, self._bound)):
            self._bind(arrays)
        if status := self._library.execute(*self._call):
            raise RuntimeError(f"oneDNN failed with status {status}")

    def _bind(self, arrays: tuple[np.ndarray, ...]) -> None:
        """Keeps the arrays, so that no other ones can take their identities."""
        for memory, array, at in zip(self._memories, arrays, self.at, strict=True):
            self._library.set_handle(memory, array.ctypes.data + at)
        self._bound = arrays
