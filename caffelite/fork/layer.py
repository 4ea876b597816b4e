"""A layer type of a fork, as a layer of a net: its code runs in another process, on the host."""

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

import numpy as np

from .. import caffelite_pb2 as pb
from ..devices.context import ExecutionContext, InputBuffer
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..layers.base.config import Shape
from ..layers.base.layer import Layer, gradient_of, random_key
from ..layers.base.state import Varying
from . import build
from .data import ForkData, reads_data
from .process import NativeError, RemoteLayer
from .tree import Source, Tree

log = logging.getLogger("caffelite")


class Fork(Protocol):
    """What a layer needs of the fork in use: its sources, and the descriptors of its messages."""

    @property
    def tree(self) -> Tree: ...

    @property
    def schema(self) -> Any: ...

    def source_name(self, name: str) -> str | None:
        """The name by which the sources know a type."""
        ...

    def own_types(self) -> list[str]:
        """The types that nets have asked for, as the sources name them."""
        ...


class HostTime:
    """The seconds that layers of one net take on the host of a GPU, logged once after the second pass of all: the
    first one makes objects."""

    def __init__(self) -> None:
        self.passes: dict[str, list[float]] = {}
        self.logged = False

    @contextmanager
    def of(self, layer: "ForkLayer", backward: bool) -> Iterator[None]:
        if self.logged:
            yield
            return
        passes = self.passes.setdefault(layer.name, [])
        if not backward:
            if len(passes) == 2:
                self._log()
            passes.append(0.0)
        layer.dev.synchronize()
        start = time.perf_counter()
        yield
        passes[-1] += time.perf_counter() - start

    def _log(self) -> None:
        names = ", ".join(f'"{name}"' for name in self.passes)
        total = sum(passes[1] for passes in self.passes.values())
        log.info("layers of the fork run through the host: %s; %.1f ms for one batch", names, 1000 * total)
        self.logged = True


_HOST_TIMES: WeakKeyDictionary[InputBuffer, HostTime] = WeakKeyDictionary()  # by what each net has of its own


class ForkLayer(Varying, Layer):
    """A layer that a fork's own code computes; any shape."""

    bottoms, tops = (0, None), (0, None)
    requires_host = True
    varies = False
    backward_reads_bottoms = backward_reads_tops = False  # the object has copies
    fork: Fork
    remote: RemoteLayer | None
    library: Path
    probe: RemoteLayer | None = None  # another object, until it is known whether the class keeps a state
    started = False
    own_values: Sequence[np.ndarray] = ()

    def setup(self) -> None:
        self.remote = None
        self.source: Source = self.fork.tree.types[self.spec.fork.type]
        self.on_gpu = {name: build.runs_as_gpu(self.fork.tree, self.source, name) for name in ("Forward", "Backward")}
        if self.spec.top and build.has_silent_forward(self.fork.tree, self.source):
            what = f"Forward_cpu of {self._file()} is empty: the fork computes this layer on a GPU only"
            raise self.error(what, remedy="its .cu is not among the fork's files, or does not compute it either")
        try:
            made = build.Build(self.fork.tree, self.fork.schema.descriptor_set, _progress)
            made.compile_ahead(self.fork.own_types())
            self.library = made.library([self.spec.fork.type])
        except CaffeliteError as mistake:
            remedy = mistake.remedy
            if not self.spec.bottom and self.spec.top and not remedy:
                shapes = " ".join(f"-shape {top}=3x224x224" for top in self.spec.top)
                remedy = f"to check the rest of the net without it: {shapes}"
            raise self.error(mistake.what, found=mistake.found, remedy=remedy) from None

    def _file(self) -> str:
        return self.fork.tree.location(self.source.file)

    def _native(self, what: str, call: Callable, *arguments: Any) -> Any:
        """Calls code of the fork. Errors: what it reports, with the fork's file and line where it says them."""
        try:
            return call(*arguments)
        except NativeError as mistake:
            text = str(mistake).replace(f"{self.fork.tree.path}/", "")
            raise self.error(f"{what} of {self._file()}: {text}") from None

    def _object(self, seed: int, bottoms: Sequence[Shape]) -> RemoteLayer:
        """A new object of the layer's class, set up for these bottoms. ``own_values``: how it fills its parameters."""
        same: list[int | None] | None
        same = [next((i for i, b in enumerate(self.spec.bottom) if b == name), None) for name in self.spec.top]
        if type(self).loss and self.fork.tree.generation.returns_loss:
            same = None
        folder = str(Path(self.locate.file).resolve().parent)
        folder = folder if Path(folder).is_dir() else str(Path.cwd())
        arguments = (self.library, self.spec.fork.message, self.phase, seed, folder, same, len(self.spec.bottom))
        remote = self._native("the constructor", RemoteLayer, *arguments)
        self.own_values = self._native("SetUp", remote.setup, bottoms)
        return remote

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        if self.remote is None:
            self.remote = self._object(random_key(self), bottoms)
            refused = self._native("AllowForceBackward", self.remote.constant_bottoms)
            self.constant_bottoms = type(self).constant_bottoms | refused
        elif self.remote.bottoms != bottoms:
            self._native("Reshape", self.remote.reshape, bottoms)
        for shape, rate in zip(self.remote.params, self.remote.rates, strict=True):
            self.add_param(shape, pb.FillerParameter(), statistic=rate == 0)
        return list(self.remote.tops)

    def bound(self, dev: Device, params: list, context: ExecutionContext, replica: bool = False) -> Self:
        """A copy with an object of the class of its own."""
        copied = super().bound(dev, params, context, replica)
        assert self.remote
        copied.remote = copied._object(_seed(context.seed, random_key(self)), self.remote.bottoms)
        copied.probe = None if replica or self.phase != pb.TRAIN else self.remote
        return copied

    def build(self, dev: Device) -> None:
        if not self.started:
            self._fill()
        self.started = True

    def _fill(self) -> None:
        """Gives parameters that nothing else has filled the values that the layer's SetUp gives them."""
        arrays = [param.data for param in self.params]
        if not any(np.any(self.dev.download(array)) for array in arrays):
            for array, values in zip(arrays, self.own_values, strict=True):
                self.dev.upload(array, values)

    def _on_host(self, backward: bool) -> AbstractContextManager[None]:
        if self.dev.traits.synchronous:
            return nullcontext()
        return _HOST_TIMES.setdefault(self.context.input_buffer, HostTime()).of(self, backward)

    def forward(self, x: list, y: list) -> None:
        with self._on_host(backward=False):
            self._forward(x, y)

    def _forward(self, x: list, y: list) -> None:
        remote = self.remote
        assert remote and remote.blobs
        seed = _seed(self.context.seed, random_key(self), *self.context.clock)
        if self.probe is not None:
            probe, self.probe = self.probe, None
            self._warn_of_state(probe, x, seed)
        self._send_bottoms(remote, x)
        shapes = list(remote.tops)
        sent = self._send_params(remote)
        params = self._native("Forward", remote.forward, seed, self.on_gpu["Forward"])
        for param, before, values in zip(self.params, sent, params, strict=True):
            if not np.array_equal(before.view(np.uint32), values.view(np.uint32)):  # bits: NaN equals itself
                self.dev.upload(param.data, values)
        if remote.tops != shapes:
            y = self.resize(list(remote.tops))
        for array, values in zip(y, remote.blobs.tops, strict=True):
            self.dev.upload(array, values)

    def _warn_of_state(self, probe: RemoteLayer, x: list, seed: int) -> None:
        """Two passes of one object with the same numbers tell whether it keeps some outside its parameters."""
        if probe.bottoms != [array.shape for array in x]:
            return
        results = []
        for _ in range(2):
            self._send_bottoms(probe, x)
            self._send_params(probe)
            self._native("Forward", probe.forward, seed, self.on_gpu["Forward"])
            assert probe.blobs
            results.append([values.copy() for values in probe.blobs.tops])
        if not all(np.array_equal(first, second, equal_nan=True) for first, second in zip(*results, strict=True)):
            what = "keeps numbers outside its parameters from one pass to the next; a resumed training differs"
            log.warning('layer "%s" (%s of %s) %s', self.name, self.spec.type, self._file(), what)

    def _on_this_host(self, array: Any) -> np.ndarray:
        """The array itself where the host computes, else a copy."""
        host = array if self.dev.traits.synchronous else self.dev.download(array)
        return np.asarray(host, np.float32)

    def _send_bottoms(self, remote: RemoteLayer, x: list) -> None:
        assert remote.blobs
        for target, array in zip(remote.blobs.bottoms, x, strict=True):
            target[...] = self._on_this_host(array)

    def _send_params(self, remote: RemoteLayer) -> list[np.ndarray]:
        """Returns them."""
        assert remote.blobs
        sent = [self._on_this_host(param.data) for param in self.params]
        for target, values in zip(remote.blobs.params, sent, strict=True):
            target[...] = values
        return sent

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        with self._on_host(backward=True):
            self._backward(dy, dx)

    def _backward(self, dy: list, dx: list) -> None:
        remote = self.remote
        assert remote and remote.blobs
        for target, gradient in zip(remote.blobs.top_diffs, dy, strict=True):
            target[...] = 0 if gradient is None else self._on_this_host(gradient)
        self._send_params(remote)
        self._native("Backward", remote.backward, [each is not None for each in dx], self.on_gpu["Backward"])
        for gradient, values in zip(dx, remote.blobs.bottom_diffs, strict=True):
            if gradient is not None:
                self.dev.upload(gradient, values)
        for i, values in enumerate(remote.blobs.param_diffs):
            gradient, add = gradient_of(self, i)
            if gradient is not None:
                self.dev.upload(gradient, values + self._on_this_host(gradient) if add else values)


def _progress(text: str) -> None:
    log.info("fork: %s", text)


def _seed(*keys: int) -> int:
    """32 bits for the fork's generator."""
    return zlib.crc32(" ".join(map(str, keys)).encode())


def layer_class(fork: Fork, name: str) -> type[Layer]:
    """The class of a layer type whose layers the fork's code computes; a layer's message says the fork's own type."""
    source = fork.tree.types.get(fork.source_name(name) or name)
    returned = fork.tree.generation.returns_loss and source is not None and source.class_name.endswith("LossLayer")
    loss = returned or (source is not None and fork.tree.derives(source.class_name, "LossLayer"))
    feeds = source is not None and reads_data(fork.tree, source.class_name)
    base = ForkData if feeds else ForkLayer
    kind = type(name, (base,), {"type": name, "fork": fork, "loss": loss, "__doc__": f"{name} of a fork; any shape."})
    kind.__module__ = __name__
    return kind
