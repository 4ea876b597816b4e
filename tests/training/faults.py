"""Fails or kills a snapshot at every call that it makes to the system, one at a time, and resumes: nothing may be lost.

A kill is an exception after which no call of the run has any effect.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from caffelite import weights
from caffelite.data.writers import write_hdf5
from caffelite.training.checkpoint import snapshot

CALLS = {
    os: ("open", "write", "pwrite", "ftruncate", "fsync", "replace", "rename", "unlink", "mkdir", "posix_fallocate"),
    fcntl: ("flock",),
}
KINDS = ("ENOSPC", "EIO", "kill", "half a write, then ENOSPC", "half a write, then a kill")


class Killed(BaseException):
    """What stands for a kill: nothing in between may catch it."""


def place() -> tuple[tuple[str, int], ...]:
    """The lines of the package that lead to the caller, innermost first."""
    frame, actual = sys._getframe(1), []
    while frame:
        if frame.f_globals.get("__name__", "").startswith("caffelite."):
            actual.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(actual)


@dataclass
class Injector:
    """Lets the call number ``at`` (from 0) fail in one of KINDS; counts and names all of them.

    places: the lines of the package that lead to each call. kinds: the faults that a call can
    have, less a kill that finds the files as the one at an earlier call.
    """

    at: int
    kind: str
    names: list[str] = field(default_factory=list)
    places: list[tuple[tuple[str, int], ...]] = field(default_factory=list)
    kinds: list[tuple[str, ...]] = field(default_factory=list)
    changed: bool = False
    dead: bool = False

    def count(self, name: str, arguments: tuple) -> None:
        reads = name == "open" and not arguments[1] & os.O_CREAT
        left_out = set() if name == "write" else {kind for kind in KINDS if kind.startswith("half")}
        left_out |= {"ENOSPC"} if reads else set()
        left_out |= set() if self.changed else {"kill"}
        self.names.append(name)
        self.places.append(place())
        self.kinds.append(tuple(kind for kind in KINDS if kind not in left_out))
        self.changed = not reads and name not in ("fsync", "flock")

    def wrap(self, name: str, call: Callable) -> Callable:
        def wrapped(*arguments, **options):
            if self.dead:
                raise Killed
            self.count(name, arguments)
            if len(self.names) - 1 != self.at:
                return call(*arguments, **options)
            if self.kind.startswith("half") and name == "write":
                call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if self.kind.endswith("kill"):
                self.dead = True
                raise Killed
            number = errno.EIO if self.kind == "EIO" else errno.ENOSPC
            raise OSError(number, os.strerror(number))

        return wrapped

    @contextlib.contextmanager
    def installed(self) -> Iterator[Injector]:
        kept = [(module, name, getattr(module, name)) for module, names in CALLS.items() for name in names]
        for module, name, call in kept:
            setattr(module, name, self.wrap(name, call))
        try:
            yield self
        finally:
            for module, name, call in kept:
                setattr(module, name, call)


def contents(folder: Path, less: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Every snapshot file below a folder."""
    actual = {}
    for path in folder.rglob("*caffemodel*"):
        actual[str(path.relative_to(folder))] = path.read_bytes()
    for path in folder.rglob("*solverstate*"):
        actual[str(path.relative_to(folder))] = path.read_bytes()
    return {name: body for name, body in actual.items() if not name.startswith(less or ("\0",))}


NET = """
name: "plain"
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "gaussian" std: 0.5 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "value" bottom: "y" top: "loss" }
"""
SOLVER = """
net: "net.prototxt" test_iter: 1 test_interval: 2 best_score: "loss" ema_decay: 0.5 base_lr: 0.05 lr_policy: "fixed"
momentum: 0.9
snapshot_prefix: "run" snapshot: 2 snapshot_keep: 2 snapshot_format: %s random_seed: %d max_iter: %d
"""
FORMS = ("BINARYPROTO", "HDF5")


def prepare(folder: Path, form: str) -> None:
    """Data, a net, and the solvers of an earlier run, and of one of six iterations and its first two."""
    rng = np.random.default_rng(1)
    write_hdf5(folder / "rows.h5", {"x": rng.standard_normal((13, 5)), "y": rng.standard_normal((13, 2))})
    (folder / "net.prototxt").write_text(NET)
    for name, seed, iterations in (("earlier", 2, 4), ("begin", 1, 2), ("solver", 1, 6)):
        (folder / f"{name}.prototxt").write_text(SOLVER % (form, seed, iterations))


def numbers(folder: Path, form: str, iteration: int) -> list[bytes]:
    """What a snapshot holds, less who wrote it."""
    state_path = snapshot.names(str(folder / "run"), iteration, form == "HDF5")[1]
    state = snapshot.read_state(state_path)
    model, blobs = snapshot.read_model(state, state_path)
    average = weights.read_model(snapshot.average_name(model))
    best = weights.read_model(snapshot.best_name(str(folder / "run"), form == "HDF5"))
    arrays = [*state.history, *(blob for each in (blobs, average, best) for layer in each.values() for blob in layer)]
    return [
        str(state.iteration).encode(),
        state.resume.SerializeToString(deterministic=True),
        *(array.tobytes() for array in arrays),
    ]


def restore(folder: Path, files: dict[str, bytes]) -> None:
    """Makes a folder what it was."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, body in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(body)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
