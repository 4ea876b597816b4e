"""The context of checks: the device under test, a CPU to compare with, and the comparison of numbers."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..devices import open_device
from ..devices.protocol import Device

SEED = 20260101
log = logging.getLogger("caffelite")


class Skipped(Exception):
    """There is nothing to test here, and why."""


class Wrong(Exception):
    """A check's numbers are wrong."""


class Bench:
    """The device under test: GPU ``number``, or the CPU where that is None.

    open: opens its devices, as ``devices.open_device`` does. gpus: reports GPUs, as the module ``devices.cuda`` does
    (the default). seconds: limit of a training in processes of its own. Devices are opened once per set of options, and
    shared by the checks.
    """

    def __init__(self, number: int | None, open: Callable = open_device, gpus=None, seconds: float = 50):
        self.number, self._open, self.seconds = number, open, seconds
        self._devices: dict[tuple[str | None, bool, bool], Any] = {}
        if gpus is None and number is not None:
            from ..devices import cuda as gpus
        self.gpus = gpus

    def device(self, precision: str | None = None, *, deterministic: bool = False, eager: bool = False):
        key = precision, deterministic, eager
        if key not in self._devices:
            self._devices[key] = self._open(self.number, precision=precision, deterministic=deterministic, eager=eager)
        return self._devices[key]

    def wants_gpu(self, why: str) -> None:
        """Skips what a CPU does not have."""
        if self.number is None:
            raise Skipped(why)

    def close(self) -> None:
        """Frees the devices' memory."""
        self._devices.clear()


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def put(dev: Device, values, dtype=None):
    """An array of the device that holds ``values``."""
    array = dev.empty(np.shape(values), dtype)
    dev.upload(array, np.asarray(values))
    return array


def compare(what: str, computed: np.ndarray, expected: np.ndarray, tolerance: float) -> float:
    """The largest difference as a share of the largest number expected. Errors: ``Wrong`` where it exceeds the
    tolerance or is NaN."""
    computed, expected = np.asarray(computed, np.float64), np.asarray(expected, np.float64)
    if computed.shape != expected.shape:
        raise Wrong(f"{what}: shape {computed.shape} for {expected.shape}")
    largest = np.abs(expected).max(initial=0) or 1.0
    error = float(np.abs(computed - expected).max(initial=0) / largest)
    if not error <= tolerance:
        raise Wrong(f"{what}: off by {error:.2g} of the largest number; up to {tolerance:.2g} is rounding")
    return error


@contextlib.contextmanager
def warnings() -> Iterator[list[str]]:
    """Collects the warnings of a block, each line once, and keeps them out of the log."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING and record.getMessage() not in messages:
                messages.append(record.getMessage())

    messages: list[str] = []
    keep, others, level, up = Keep(), log.handlers[:], log.level, log.propagate
    log.handlers[:], log.propagate = [keep], False
    log.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        log.handlers[:], log.propagate = others, up
        log.setLevel(level)
