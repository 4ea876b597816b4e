"""The process that runs the code of a fork: it loads libraries, makes layers and answers calls."""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from .mapped import Blobs, Layout, Shape
from .slots import Slots

BLAS = "sgemm dgemm sgemv dgemv sger dger ssymm dsymm ssyrk dsyrk sdot ddot".split()
MOST_AXES = 32
COUNTS = "exact_bottoms least_bottoms most_bottoms exact_tops least_tops most_tops automatic_tops".split()


class Failed(Exception):
    """What the fork's code reports."""


class Library:
    """A shared library with layers of a fork."""

    def __init__(self, path: str):
        self.c = ctypes.CDLL(path, ctypes.RTLD_LOCAL if hasattr(ctypes, "RTLD_LOCAL") else 0)
        pointer = ctypes.c_void_p
        for name in ("fork_create", "fork_blob", "fork_blob_data", "fork_blob_diff"):
            getattr(self.c, name).restype = pointer
        self.c.fork_error.restype = ctypes.c_char_p
        if hasattr(self.c, "fork_net"):
            self.c.fork_net.restype = self.c.fork_net_blob.restype = pointer
            self.c.fork_net_blob_name.restype = self.c.fork_net_layer_name.restype = ctypes.c_char_p
        self.c.fork_blob_count.restype = self.c.fork_blob_room.restype = ctypes.c_long
        self.c.fork_rate.restype = self.c.fork_loss.restype = ctypes.c_float
        for name, address in _blas().items():
            self.c.fork_blas(name.encode(), pointer(address))

    def check(self, status: int | None) -> None:
        if status is None or status < 0:
            raise Failed(self.c.fork_error().decode(errors="replace"))

    def array(self, blob: int, diff: bool = False) -> np.ndarray:
        """The memory of a blob, flat. A later Reshape may move it."""
        count = self.c.fork_blob_count(ctypes.c_void_p(blob))
        if not (address := self.address(blob, diff)):
            return np.zeros(0, np.float32)
        return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))

    def address(self, blob: int, diff: bool = False) -> int:
        return (self.c.fork_blob_diff if diff else self.c.fork_blob_data)(ctypes.c_void_p(blob)) or 0

    def room(self, blob: int) -> int:
        return self.c.fork_blob_room(ctypes.c_void_p(blob))

    def shared(self, blob: int, diff: bool) -> bool:
        return bool(self.c.fork_blob_shared(ctypes.c_void_p(blob), diff))

    def use(self, blob: int, diff: bool, address: int, room: int, keep: bool) -> bool:
        pointer = ctypes.c_void_p(address)
        return bool(self.c.fork_blob_use(ctypes.c_void_p(blob), diff, pointer, ctypes.c_long(room), keep))

    def at(self, blob: int, diff: bool, address: int, count: int) -> bool:
        return self.c.fork_blob_count(ctypes.c_void_p(blob)) == count and self.address(blob, diff) == address

    def shape(self, blob: int) -> Shape:
        dims = (ctypes.c_int * MOST_AXES)()
        axes = self.c.fork_blob_shape(ctypes.c_void_p(blob), dims, MOST_AXES)
        return tuple(dims[:axes])

    def reshape(self, blob: int, shape: Shape) -> None:
        self.check(self.c.fork_blob_reshape(ctypes.c_void_p(blob), (ctypes.c_int * len(shape))(*shape), len(shape)))


def _blas() -> dict[str, int]:
    """Addresses of the Fortran functions of the BLAS that SciPy has."""
    from scipy.linalg import cython_blas

    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsules = {name: cython_blas.__pyx_capi__[name] for name in BLAS}
    return {name: api.PyCapsule_GetPointer(each, api.PyCapsule_GetName(each)) for name, each in capsules.items()}


class NativeLayer:
    """An object of a layer's class, with its blobs. same: for each top the bottom that is the same blob, or None;
    None alone: forward returns a loss, which the net has as a top."""

    def __init__(
        self, library: Library, message: bytes, phase: int, seed: int, same: Sequence[int | None] | None, bottoms: int
    ):
        self.library, self.phase = library, phase
        c = library.c
        library.check(c.fork_seed(ctypes.c_uint(seed)))
        self.object = c.fork_create(message, len(message), phase)
        if not self.object:
            library.check(None)
        self.bottoms = [c.fork_blob() for _ in range(bottoms)]
        self.returns_loss, same = same is None, same or []
        self.tops = [c.fork_blob() if index is None else self.bottoms[index] for index in same]
        self.own_tops = [top for top, index in zip(self.tops, same, strict=True) if index is None]
        self.blobs: Blobs | None = None
        self.params: list[int] = []
        self.slots: Slots | None = None

    def _wired(self) -> tuple:
        return (
            ctypes.c_void_p(self.object),
            _pointers(self.bottoms),
            len(self.bottoms),
            _pointers(self.tops),
            len(self.tops),
        )

    def counts(self) -> dict[str, int]:
        numbers = (ctypes.c_int * len(COUNTS))()
        self.library.c.fork_counts(ctypes.c_void_p(self.object), numbers)
        return dict(zip(COUNTS, numbers, strict=True))

    def constant_bottoms(self) -> list[int]:
        """The bottoms that get no gradient even where all gradients are asked for."""
        every = range(len(self.bottoms))
        return [i for i in every if not self.library.c.fork_forced(ctypes.c_void_p(self.object), i)]

    def setup(self, shapes: Sequence[Shape]) -> tuple[list[Shape], list[np.ndarray], list[float]]:
        """The tops' shapes, the parameters as the layer fills them, and by what it multiplies their learning rates."""
        for blob, shape in zip(self.bottoms, shapes, strict=True):
            self.library.reshape(blob, shape)
        self.library.check(self.library.c.fork_setup(*self._wired()))
        most = self.library.c.fork_params(ctypes.c_void_p(self.object), None, 0)
        pointers = (ctypes.c_void_p * max(most, 1))()
        self.library.c.fork_params(ctypes.c_void_p(self.object), pointers, most)
        self.params = [pointers[i] or 0 for i in range(most)]
        values = [self.library.array(each).reshape(self.library.shape(each)).copy() for each in self.params]
        rates = [self.library.c.fork_rate(ctypes.c_void_p(self.object), i) for i in range(most)]
        return self._shapes(), values, rates

    def reshape(self, shapes: Sequence[Shape]) -> list[Shape]:
        for blob, shape in zip(self.bottoms, shapes, strict=True):
            self.library.reshape(blob, shape)
        self.library.check(self.library.c.fork_reshape(*self._wired()))
        if self.blobs:
            self._attached().leave()
        return self._shapes()

    def _shapes(self) -> list[Shape]:
        return [()] if self.returns_loss else [self.library.shape(top) for top in self.tops]

    def rooms(self) -> list[list[int]]:
        """How many numbers the memory of each bottom, of each top and of each parameter holds."""
        if self.slots is None:
            self.slots = Slots(self.library, self.bottoms, self.tops, self.params)
        return self.slots.rooms()

    def attach(self, layout: Layout, path: str) -> None:
        assert self.slots
        self.blobs = self.slots.attach(layout, path)

    def forward(self, shapes: Sequence[Shape], seed: int, gpu: bool) -> list[Shape]:
        """The tops' shapes. The values are in the mapped memory, those of the tops if it has these shapes, and those
        of the parameters, which the layer may change."""
        slots = self._attached()
        for blob, shape in zip(self.bottoms, shapes, strict=True):
            self.library.reshape(blob, shape)
        slots.enter()
        self.library.check(self.library.c.fork_reshape(*self._wired()))
        slots.clear(slots.bottom_diffs)  # not in backward: HingeLoss keeps there what its forward computes
        self.library.check(self.library.c.fork_seed(ctypes.c_uint(seed)))
        self.library.check(self.library.c.fork_forward(*self._wired(), self.phase, gpu))
        slots.write(slots.params)
        made = self._shapes()
        if self.blobs and made == [array.shape for array in self.blobs.tops]:
            self.fetch()
        slots.leave()
        return made

    def fetch(self) -> None:
        slots = self._attached()
        if self.returns_loss:
            assert self.blobs
            self.blobs.tops[0][...] = self.library.c.fork_loss()
        slots.write(slots.tops)

    def backward(self, down: Sequence[bool], gpu: bool) -> None:
        """Gradients of bottoms and parameters into the mapped memory, from those of the tops there."""
        slots = self._attached()
        slots.clear(slots.param_diffs)  # first: Parameter's is the gradient of its top
        slots.enter_backward()
        o, bottoms, nb, tops, nt = self._wired()
        flags = bytes(map(int, down))
        self.library.check(self.library.c.fork_backward(o, tops, nt, flags, bottoms, nb, self.phase, gpu))
        slots.write((*slots.bottom_diffs, *slots.param_diffs))
        slots.leave()
        if self.returns_loss:  # the code knows no loss weight
            assert self.blobs
            for array in (*self.blobs.bottom_diffs, *self.blobs.param_diffs):
                array *= self.blobs.top_diffs[0]

    def _attached(self) -> Slots:
        if self.slots is None or self.blobs is None:
            raise Failed("the layer has no memory yet")
        return self.slots

    def delete(self) -> None:
        c = self.library.c
        c.fork_delete(ctypes.c_void_p(self.object))
        for blob in (*self.bottoms, *self.own_tops):
            c.fork_blob_delete(ctypes.c_void_p(blob))


class NativeNet:
    """A net that the fork's own Net runs. message: a SolverParameter with the net in it where ``solved``, else a
    NetParameter."""

    def __init__(self, library: Library, message: bytes, phase: int, seed: int, solved: bool):
        self.library, c = library, library.c
        self.seed = seed
        library.check(c.fork_seed(ctypes.c_uint(seed)))
        net = c.fork_net(message, len(message), phase, solved)
        if not net:
            library.check(None)
        self.net = ctypes.c_void_p(net)
        names = [c.fork_net_blob_name(self.net, i).decode() for i in range(c.fork_net_blobs(self.net))]
        self.blobs = {name: c.fork_net_blob(self.net, i) for i, name in enumerate(names)}
        self.params = dict(map(self._params_of, range(c.fork_net_layers(self.net))))

    def _params_of(self, layer: int) -> tuple[str, list[int]]:
        most = self.library.c.fork_net_params(self.net, layer, None, 0)
        pointers = (ctypes.c_void_p * max(most, 1))()
        self.library.c.fork_net_params(self.net, layer, pointers, most)
        name = self.library.c.fork_net_layer_name(self.net, layer).decode()
        return name, [pointers[i] or 0 for i in range(most)]

    def _copy(self, blob: int, diff: bool) -> np.ndarray:
        return self.library.array(blob, diff).reshape(self.library.shape(blob)).copy()

    def arrays(self, diff: bool) -> dict[str, np.ndarray]:
        """The blobs by name, or their gradients."""
        return {name: self._copy(blob, diff) for name, blob in self.blobs.items()}

    def parameters(self, diff: bool) -> dict[str, list[np.ndarray]]:
        """The parameters by the layer's name, or their gradients."""
        return {name: [self._copy(blob, diff) for blob in blobs] for name, blobs in self.params.items() if blobs}

    def set_parameters(self, values: dict[str, list[np.ndarray]]) -> None:
        for name, arrays in values.items():
            for blob, array in zip(self.params.get(name, ()), arrays, strict=False):
                self.library.array(blob)[...] = array.ravel()

    def passes(self, inputs: dict[str, np.ndarray], count: int = 1) -> tuple[float, float]:
        """Runs forward and backward, ``count`` times for one sum of gradients: the loss, and the seconds."""
        c, loss, total = self.library.c, ctypes.c_float(), 0.0
        for blob in (blob for blobs in self.params.values() for blob in blobs):
            self.library.array(blob, diff=True)[...] = 0
        self.library.check(c.fork_seed(ctypes.c_uint(self.seed)))
        start = time.perf_counter()
        for _ in range(count):
            for name, values in inputs.items():
                self.library.array(self.blobs[name])[...] = values.ravel()
            self.library.check(c.fork_net_forward(self.net, ctypes.byref(loss)))
            self.library.check(c.fork_net_backward(self.net))
            total += loss.value
        return total / count, time.perf_counter() - start

    def update(self) -> None:
        """Changes the parameters by their gradients, as the fork's solver does in an iteration."""
        self.library.check(self.library.c.fork_net_update(self.net))


def _pointers(values: Sequence[int]) -> Any:
    return (ctypes.c_void_p * max(len(values), 1))(*values)


class Server:
    """Answers calls: (method, number of a layer or net, folder, arguments)."""

    def __init__(self) -> None:
        self.libraries: dict[str, Library] = {}
        self.layers: dict[int, NativeLayer | NativeNet] = {}
        self.folder = ""  # the current one, which may be gone
        self._next = 0

    def create(self, kind: Callable, library: str, *arguments: Any) -> int:
        if library not in self.libraries:
            self.libraries[library] = Library(library)
        self._next += 1
        self.layers[self._next] = kind(self.libraries[library], *arguments)
        return self._next

    def answer(self, method: str, number: int, folder: str, arguments: tuple) -> Any:
        if self.folder != folder:
            os.chdir(folder)
            self.folder = folder
        if method in ("create", "create_net"):
            return self.create(NativeLayer if method == "create" else NativeNet, *arguments)
        call: Callable = getattr(self.layers[number], method)
        result = call(*arguments)
        if method == "delete":
            del self.layers[number]
        return result


def serve(descriptor: int) -> None:
    """Runs until the other end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that trains decides
    os.dup2(2, 1)  # what a layer prints is no output of the command
    server = Server()
    with Connection(descriptor) as pipe:
        while True:
            try:
                request = pipe.recv()
            except EOFError:
                os._exit(0)  # destructors of a fork's statics may crash
            try:
                reply = ("ok", server.answer(*request))
            except (Failed, OSError, MemoryError) as mistake:
                reply = ("error", str(mistake) or type(mistake).__name__)
            pipe.send(reply)
