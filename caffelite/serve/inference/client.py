"""The server's side of inference: starts a process per model on demand, sends requests, ends what is idle or too
large."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from ...data import pictures
from ...errors import CaffeliteError
from ...runs.usage import resident
from ...system import HOME, environment, python

Answer = tuple[dict[str, Any], list[bytes]]
Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class InferenceLimits:
    """open, request: seconds that opening a model and a request may take. idle: seconds after which an unused process
    ends. memory: bytes of a process. processes: how many run at the same time. pixels: of an image."""

    open: float = 120.0
    request: float = 60.0
    idle: float = 300.0
    memory: int = 8 << 30
    processes: int = 4
    pixels: int = 100_000_000


class Died(CaffeliteError):
    """The process ended before it answered."""


class Worker:
    """A model in a process of its own, started by the first request and again after a crash. One request at a time.
    Path(): no model, for images alone."""

    def __init__(
        self, model: Path, limits: InferenceLimits, python: bool = False, roots: tuple[Path, ...] | None = None
    ):
        self.model, self._roots = model, roots
        self.info: dict[str, Any] = {}
        self._limits, self._python = limits, python
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._output: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.used = time.monotonic()

    def request(self, content: dict[str, Any], image: bytes) -> Answer:
        """The answer to a request. Errors: CaffeliteError with what the process reports; it takes too long, crashes, or
        exceeds its memory."""
        if not self._lock.acquire(timeout=self._limits.open + self._limits.request):
            raise CaffeliteError("the model is busy", remedy="try again")
        try:
            self.used = time.monotonic()
            fresh = self._start()
            try:
                response = self._exchange(content, [image], self._limits.request)
            except Died:
                if fresh:
                    raise
                self._start()  # it had crashed since its last answer, or did so now: once more
                response = self._exchange(content, [image], self._limits.request)
            self._check_memory()
            self.used = time.monotonic()
            return response
        finally:
            self._lock.release()

    def open(self) -> dict[str, Any]:
        """What the process says of its model; starts it. Errors: as `request`."""
        with self._lock:
            self.used = time.monotonic()
            self._start()
            return self.info

    @property
    def process(self) -> int | None:
        """The number of the process; None where none runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def close(self) -> None:
        """Ends the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for stream in (self._connection, self._output):
            if stream is not None:
                stream.close()

    def close_if_idle(self) -> None:
        """Ends the process where it is idle for too long, or exceeds its memory."""
        if self.process is None or not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self.used > self._limits.idle:
                self.close()
            else:
                self._check_memory()
        finally:
            self._lock.release()

    def _start(self) -> bool:
        """Starts the process where none runs; returns whether it did."""
        if self.process is not None:
            return False
        self.close()
        self._connection, theirs = multiprocessing.Pipe()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close
        with theirs:
            start = f"from {__package__}.worker import main; import os; os.chdir({os.getcwd()!r}); main()"
            self._process = subprocess.Popen(
                python(start, str(theirs.fileno())),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                start_new_session=True,
                cwd=HOME,  # the folder of this process may be a stranger's
                env={**environment(), "OPENCV_IO_MAX_IMAGE_PIXELS": str(self._limits.pixels)},
            )
        model = "" if self.model == Path() else str(self.model)
        roots = None if self._roots is None else [str(root) for root in self._roots]
        content: dict[str, Any] = {"op": "open", "model": model, "roots": roots}
        content |= {"python": self._python, "memory": self._limits.memory}
        try:
            self.info, _ = self._exchange(content, [], self._limits.open)
        except CaffeliteError:
            self.close()
            raise
        return True

    def _exchange(self, content: dict[str, Any], payloads: list[bytes], seconds: float) -> Answer:
        process, connection, expired = self._process, self._connection, threading.Event()
        assert process is not None and connection is not None

        def expire() -> None:
            expired.set()
            _kill(process)

        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            send(connection, content, payloads)
            answer = receive(connection)
        except (OSError, EOFError, ValueError):
            words = self._last_words()
            if expired.is_set():
                raise CaffeliteError(f"the model took longer than {seconds:g} s") from None
            raise Died(f"the process of the model ended: {words}") from None
        finally:
            timer.cancel()
        if answer[0].get("fatal"):
            self.close()
        if "error" in answer[0]:
            raise CaffeliteError(str(answer[0]["error"]))
        return answer

    def _last_words(self) -> str:
        """How the process ended, and the last line that it printed."""
        process, line = self._process, ""
        if self._output is not None:
            self._output.seek(0)
            lines = self._output.read().decode(errors="replace").strip().splitlines()
            line = f"; {lines[-1][:300]}" if lines else ""
        status = process.wait(5) if process is not None else None
        self.close()
        text = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        return text + line

    def _check_memory(self) -> None:
        pid = self.process
        if pid is not None and resident(pid) > self._limits.memory:
            self.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


class Models:
    """The workers of a server, a context manager. A model whose files change is opened again. roots: the folders below
    which the files of models are; None: anywhere."""

    PERIOD = 5.0  # seconds between looks for idle processes

    def __init__(
        self, limits: InferenceLimits | None = None, python: bool = False, roots: tuple[Path, ...] | None = None
    ):
        self.limits = limits or InferenceLimits()
        self._python, self._roots = python, roots
        self._workers: dict[Path, tuple[Stamp, Worker]] = {}
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def worker(self, model: Path, files: list[Path]) -> Worker:
        """The worker of a model; its process is not started yet. files: those that the model consists of."""
        stamp = tuple(_stamp(file) for file in [model, *files])
        with self._lock:
            before, worker = self._workers.get(model, (None, None))
            if worker is None or before != stamp:
                if worker is not None:
                    worker.close()
                worker = Worker(model, self.limits, self._python, self._roots)
                self._workers[model] = stamp, worker
            worker.used = time.monotonic()
            self._end_oldest(worker)
            return worker

    def _end_oldest(self, current: Worker) -> None:
        """Ends the processes that were used least recently where there are too many."""
        running = [
            worker for _, worker in self._workers.values() if worker.process is not None and worker is not current
        ]
        running.sort(key=lambda worker: worker.used)
        for worker in running[: max(0, len(running) + 1 - self.limits.processes)]:
            worker.close()

    def __enter__(self) -> Models:
        self._thread = threading.Thread(target=self._watch, name="inference", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()
        self._each(Worker.close)

    def _watch(self) -> None:
        while not self._ended.wait(self.PERIOD):
            self._each(Worker.close_if_idle)

    def _each(self, act: Callable[[Worker], None]) -> None:
        with self._lock:
            every = [worker for _, worker in self._workers.values()]
        for worker in every:
            act(worker)


def _stamp(file: Path) -> tuple[str, int, int]:
    try:
        status = file.stat()
    except OSError:
        return str(file), 0, 0
    return str(file), status.st_mtime_ns, status.st_size


MOST_JSON, MOST_BYTES = 16 << 20, 256 << 20  # of a message: its JSON, each of its payloads


def send(connection: Connection, content: dict[str, Any], payloads: Sequence[bytes] = ()) -> None:
    """Sends a message. content: plain values. Errors: OSError."""
    connection.send_bytes(json.dumps({**content, "payloads": len(payloads)}).encode())
    for payload in payloads:
        connection.send_bytes(payload)


def receive(connection: Connection) -> Answer:
    """The next message: (content, payloads). Errors: EOFError at the end; OSError where it is too large; ValueError
    where it is none."""
    content = json.loads(connection.recv_bytes(MOST_JSON))
    count = content.pop("payloads", None) if isinstance(content, dict) else None
    if not isinstance(count, int):
        raise ValueError("not a message of caffelite")
    return content, [connection.recv_bytes(MOST_BYTES) for _ in range(count)]


MEMORY = 2 << 30  # bytes of the process


@contextmanager
def decoding(limits: InferenceLimits) -> Iterator[None]:
    """Within it this program decodes images in a process of its own, which the first one starts."""
    worker = Worker(Path(), replace(limits, memory=MEMORY))

    def decode(what: str, content: bytes, decoder: pictures.Decoder) -> np.ndarray:
        try:
            answer, (pixels,) = worker.request({"op": what, "decoder": asdict(decoder)}, content)
        except CaffeliteError as error:
            raise ValueError(str(error)) from None
        shape, dtype, transposed = answer["shape"], answer["dtype"], what == pictures.DECODE
        image = np.frombuffer(pixels, dtype).reshape(shape)
        return image.transpose(2, 0, 1) if transposed else image

    before, pictures.elsewhere = pictures.elsewhere, decode
    try:
        yield
    finally:
        pictures.elsewhere = before
        worker.close()


def decoding_answer(content: dict, payloads: list[bytes]) -> tuple[dict, list[bytes]]:
    """The process's answer to a request of ``decoding``. Errors: CaffeliteError where it is no image."""
    try:
        decoder = pictures.Decoder(**content["decoder"])
        if content["op"] == pictures.DECODE:
            image = decoder(payloads[0]).transpose(1, 2, 0)
        else:
            image = decoder.labels(payloads[0], lossy=True)
    except ValueError as error:
        raise CaffeliteError(str(error)) from None
    return {"shape": image.shape, "dtype": image.dtype.str}, [np.ascontiguousarray(image).tobytes()]
