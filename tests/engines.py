"""Devices by engine: a CPU with oneDNN, without it, and without it though blobs lie channels last; the GPU's kernels
where they do."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from devices.host.backend import HostBackend

from caffelite.devices import ops
from caffelite.devices.cpu import CPU, onednn
from caffelite.devices.cuda import GPU

ENGINES = ("onednn", "stand-in", pytest.param("host", marks=pytest.mark.host))


@contextlib.contextmanager
def chosen(library: str | None) -> Iterator[None]:
    """Devices that open meanwhile look for oneDNN as $CAFFELITE_ONEDNN = ``library`` says; None: as they always do."""
    with mock.patch.dict(os.environ):
        os.environ.pop("CAFFELITE_ONEDNN", None)
        if library is not None:
            os.environ["CAFFELITE_ONEDNN"] = library
        onednn.load.cache_clear()
        try:
            yield
        finally:
            onednn.load.cache_clear()


def without_onednn(kind: type[CPU] = CPU) -> CPU:
    """A float32 device that found no oneDNN."""
    with chosen("0"):
        return kind()


def with_onednn(precision: str = "fp32") -> CPU:
    """A float32 device that found oneDNN; skips where there is none, and where the processor lacks the precision."""
    library = onednn.load()
    if library is None:
        pytest.skip("oneDNN is not installed")
    if precision == "bf16" and library.bf16() is None:
        pytest.skip("this processor cannot multiply bfloat16 numbers")
    return CPU(precision=precision)


def assert_alike_in_threads(passes: Callable[[CPU], list]) -> None:
    """The arrays that passes(device) gives have the same bits with any number of threads."""
    results = []
    for threads in (1, 2, 5):
        dev = with_onednn()
        dev.threads = threads
        results.append(passes(dev))
    for other in results[1:]:
        np.testing.assert_equal(results[0], other)


def channels_last(engine: str) -> CPU:
    """A device, by its name among ENGINES, whose convolutions want their blobs channels last."""
    return with_onednn() if engine == "onednn" else Host() if engine == "host" else without_onednn(StandIn)


class Host(GPU):
    """The GPU's kernels, run by the host, with blobs channels last."""

    def __init__(self, precision: str = "fp32"):
        super().__init__(0, "float32", HostBackend(), precision)
        images = self.traits.product_dtype
        self.traits = replace(self.traits, channels_last=True, image_dtype=images, little_work=0)


class StandIn(CPU):
    """A CPU that wants blobs channels last without oneDNN: it runs what Caffe's layout has in copies that NumPy
    transposes."""

    def __init__(self):
        super().__init__()
        self.traits = replace(self.traits, channels_last=True)

    def build(self, op):
        if not getattr(op, "channels_last", False) or isinstance(op, ops.Preprocess):
            return super().build(op)
        plain = super().build(replace(op, channels_last=False))
        return _Convolution(plain, op.y) if isinstance(op, ops.Convolution) else _Pooling(plain, op.x, op.y)


class _Convolution:
    def __init__(self, plain, y: tuple[int, ...]):
        self._plain, self._y = plain, y

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        out = np.empty(self._y, x.dtype)
        self._plain.forward(first(x), w, b, out, slope)
        y[...] = last(out)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        out = None if dx is None else np.empty_like(first(dx))
        self._plain.backward(first(x), w, first(dy), out, dw, db, add_w, add_b)
        if dx is not None:
            dx[...] = last(out)


class _Pooling:
    def __init__(self, plain, x: tuple[int, ...], y: tuple[int, ...]):
        self._plain, self._x, self._y, self._index = plain, x, y, np.zeros(y, np.int32)

    def forward(self, x, y, index) -> None:
        out = np.empty(self._y, x.dtype)
        self._plain.forward(first(_seen(x, self._x)), out, self._index)
        _seen(y, self._y)[...] = last(out)

    def backward(self, dy, index, dx) -> None:
        out = np.empty(self._x, dx.dtype)
        self._plain.backward(first(_seen(dy, self._y)), self._index, out)
        _seen(dx, self._x)[...] = last(out)


def _seen(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The memory of N×C×H×W as it is stored, N×H×W×C."""
    n, c, h, w = shape
    return x.reshape(n, h, w, c)


def last(x: np.ndarray) -> np.ndarray:
    """N×C×H×W as N×H×W×C, a copy."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def first(x: np.ndarray) -> np.ndarray:
    """N×H×W×C as N×C×H×W, a copy."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
