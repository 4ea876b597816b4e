"""The other process, in which a fork's layers run, as the process that trains sees it."""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from .. import system
from .mapped import Blobs, Layout, Shape

_SERVE = "from caffelite.fork.worker import serve; serve(int(sys.argv[1]))"


class NativeError(Exception):
    """What a fork's code reports, or how its process ended."""


class NativeProcess:
    """A process that runs the code of a fork. It ends with this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        variables = system.environment() | dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
        )
        self.child = subprocess.Popen(
            system.python(_SERVE, str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=variables,
            preexec_fn=system.bound_to(os.getpid()),
        )
        theirs.close()
        self.pipe = Connection(ours.detach())
        self.owner = os.getpid()
        self.ended = ""
        self.unused: list[int] = []  # numbers of objects to delete; the garbage collector adds some at any time
        self._lock = threading.Lock()
        atexit.register(self.close)

    def call(self, method: str, number: int, folder: str, *arguments: Any) -> Any:
        """Errors: NativeError."""
        with self._lock:
            if self.ended:
                raise NativeError(self.ended)
            try:
                while self.unused:
                    self.pipe.send(("delete", self.unused.pop(), folder, ()))
                    self.pipe.recv()
                self.pipe.send((method, number, folder, arguments))
                status, value = self.pipe.recv()
            except (EOFError, OSError):
                self.ended = self._death()
                raise NativeError(self.ended) from None
        if status == "error":
            raise NativeError(value)
        return value

    def _death(self) -> str:
        try:
            status = self.child.wait(10)
        except subprocess.TimeoutExpired:
            return "its process no longer answers"
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended by exit({status})"

    def close(self) -> None:
        """Ends the process."""
        if self.owner == os.getpid():
            self.pipe.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(10)


_process: NativeProcess | None = None


def process() -> NativeProcess:
    """The process of this one that runs code of a fork; a new one where the last has ended."""
    global _process
    if _process is None or _process.ended or _process.owner != os.getpid():
        _process = NativeProcess()
    return _process


class RemoteLayer:
    """An object of a fork's layer class in the other process. folder: in which the layer's code opens files.

    same: for each top the bottom that is the same blob, or None. gpu: whether forward and backward call the functions
    for a GPU. Errors of all methods: NativeError.
    """

    def __init__(
        self,
        library: Path,
        message: bytes,
        phase: int,
        seed: int,
        folder: str,
        same: Sequence[int | None] | None,
        bottoms: int,
    ):
        self._process, self._folder, self._same = process(), folder, same or ()
        arguments = (str(library), message, phase, seed, same, bottoms)
        self._number = self._process.call("create", 0, folder, *arguments)
        self.blobs: Blobs | None = None
        self.bottoms: list[Shape] = []
        self.tops: list[Shape] = []
        self.params: list[Shape] = []
        self.rates: list[float] = []

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._process.call(method, self._number, self._folder, *arguments)

    def counts(self) -> dict[str, int]:
        """How many bottoms and tops the layer has, by the names of ``worker.COUNTS``; -1: it does not say."""
        return self._call("counts")

    def constant_bottoms(self) -> frozenset[int]:
        """The bottoms that get no gradient even where all gradients are asked for."""
        return frozenset(self._call("constant_bottoms"))

    def setup(self, bottoms: Sequence[Shape]) -> list[np.ndarray]:
        """The parameters as the layer fills them."""
        self.bottoms = list(bottoms)
        self.tops, values, self.rates = self._call("setup", self.bottoms)
        self.params = [value.shape for value in values]
        self._attach()
        return values

    def reshape(self, bottoms: Sequence[Shape]) -> list[Shape]:
        """The shapes of the tops for bottoms of these shapes."""
        before = self.bottoms, self.tops
        self.bottoms = list(bottoms)
        self.tops = self._call("reshape", self.bottoms)
        if before != (self.bottoms, self.tops):
            self._attach()
        return self.tops

    def _attach(self) -> None:
        layout = Layout(self.bottoms, self.tops, self.params, self._same, self._call("rooms"))
        self.blobs = Blobs(layout)
        try:
            self._call("attach", layout, self.blobs.mapped.path)
        finally:
            self.blobs.mapped.forget()

    def forward(self, seed: int, gpu: bool) -> list[np.ndarray]:
        """Computes the tops of ``blobs`` from the bottoms and parameters there; the tops may get other shapes. Returns
        the parameters, which the layer may change."""
        assert self.blobs
        params = self.blobs.params
        tops = self._call("forward", self.bottoms, seed, gpu)
        if tops != self.tops:
            self.tops = tops
            self._attach()
            self._call("fetch")
        return params

    def backward(self, down: Sequence[bool], gpu: bool) -> None:
        """Computes the gradients of bottoms and parameters in ``blobs`` from those of the tops."""
        self._call("backward", list(down), gpu)

    def __del__(self) -> None:
        if number := self.__dict__.get("_number"):
            self._process.unused.append(number)


class RemoteNet:
    """A net that the fork's own Net runs in the other process; the arguments are those of ``worker.NativeNet``. folder:
    in which the code opens files. Errors of all methods: NativeError."""

    def __init__(self, library: Path, folder: str, message: bytes, phase: int, seed: int, solved: bool):
        self._process, self._folder = process(), folder
        self._number = self._process.call("create_net", 0, folder, str(library), message, phase, seed, solved)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of ``worker.NativeNet`` returns."""
        return self._process.call(method, self._number, self._folder, *arguments)
