"""Snapshots: a caffemodel and a solverstate that Caffe itself would load, written so that a crash at any instant loses neither.

Each file goes to a temporary name, is synced, renamed, and its folder synced; the state comes last, so that a state on disk always has
its model. What Caffe's state lacks for an exact resume lies in fields that Caffe skips.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from .. import weights
from ..errors import CaffeliteError, Locator


@dataclass
class State:
    """A solver state. ``resume`` is None in a state that Caffe wrote."""

    iteration: int
    model: str
    history: list[np.ndarray]
    current_step: int = 0
    resume: pb.ResumeState | None = field(default=None)


def prefix(p: pb.SolverParameter, solver_path: str) -> str:
    """What snapshot names start with: snapshot_prefix; unset, the solver's path less its extension; a folder gets the solver's stem."""
    stem = Path(solver_path).stem
    if not p.snapshot_prefix:
        return str(Path(solver_path).with_suffix(""))
    return str(Path(p.snapshot_prefix) / stem) if Path(p.snapshot_prefix).is_dir() else p.snapshot_prefix


def names(prefix: str, iteration: int) -> tuple[Path, Path]:
    """The paths of an iteration's model and state."""
    return Path(f"{prefix}_iter_{iteration}.caffemodel"), Path(f"{prefix}_iter_{iteration}.solverstate")


def check_room(prefix: str, size: int, locate: Locator) -> None:
    """Finds out before training starts that snapshots of ``size`` bytes cannot be written."""
    folder = Path(prefix).parent
    where = locate("snapshot_prefix")
    if not folder.is_dir():
        raise CaffeliteError(f"the folder of snapshot_prefix, {folder}, does not exist", where=where, remedy=f"make it: mkdir -p {folder}")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{Path(prefix).name}.", dir=folder)
        try:
            os.posix_fallocate(handle, 0, max(size, 1))
        finally:
            os.close(handle)
            os.unlink(name)
    except OSError as error:
        what = f"snapshots cannot be written to {folder}: {error.strerror.lower()}"
        raise CaffeliteError(what, where=where, expected=f"room for {size / 2**20:.1f} MiB", remedy="choose another snapshot_prefix") from None


def write(path: Path, body: bytes) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise CaffeliteError(f"cannot write {path}: {error.strerror.lower()}") from None


def write_state(path: Path, state: State) -> None:
    head = pb.SolverState(iter=state.iteration, learned_net=state.model, current_step=state.current_step)
    if state.resume is not None:
        head.resume.CopyFrom(state.resume)
    history = b"".join(weights.field_bytes(3, weights.encode_blob(blob)) for blob in state.history)
    write(path, weights.sealed(head.SerializeToString() + history))


def read_state(path: Path) -> State:
    """Reads a solver state of ours or of Caffe's; a damaged one is an error that names the newest good one beside it."""
    if path.suffix == ".h5":
        return _read_hdf5_state(path)
    data = weights.read_bytes(path)
    try:
        weights.check_seal(data, path)
        rest, history = [], []
        for number, wire, value, whole in weights.fields(memoryview(data)):
            if number == 3 and wire == weights.LENGTH:
                history.append(weights.decode_blob(value))
            else:
                rest.append(bytes(whole))
        head = pb.SolverState.FromString(b"".join(rest))
    except CaffeliteError as error:
        raise CaffeliteError(str(error), remedy=newest_good(path)) from None
    except ValueError as error:
        raise CaffeliteError(f"{path} is no solverstate, or a damaged one ({error})", remedy=newest_good(path)) from None
    except Exception as error:  # protobuf's DecodeError differs between versions
        raise CaffeliteError(f"{path} is no solverstate ({error})", remedy=newest_good(path)) from None
    if not head.HasField("iter"):
        raise CaffeliteError(f"{path} is no solverstate: it has no iteration", remedy=newest_good(path))
    return State(head.iter, head.learned_net, history, head.current_step, head.resume if head.HasField("resume") else None)


def _read_hdf5_state(path: Path) -> State:
    """Caffe's HDF5 form: iter, learned_net, current_step, and a group history with a data set a blob, named by its number."""
    with weights.open_hdf5(path) as file:
        if "iter" not in file:
            raise CaffeliteError(f"{path} is no solverstate: it has no iteration")
        group = file.get("history", {})
        history = [np.asarray(group[str(i)], np.float32) for i in range(len(group))]
        model = file["learned_net"].asstr()[()] if "learned_net" in file else ""
        iteration, step = (int(np.ravel(file[name])[0]) if name in file else 0 for name in ("iter", "current_step"))
        return State(iteration, str(model), history, step)


def find_model(state: State, path: Path) -> Path | None:
    """The model that a state names: as written, or beside the state, which may have been moved."""
    if not state.model:
        return None
    named, beside = Path(state.model), path.with_name(Path(state.model).name)
    if not named.exists() and not beside.exists():
        raise CaffeliteError(f"{path} belongs to {named}, which is not there", remedy=newest_good(path))
    return named if named.exists() else beside


def newest_good(path: Path) -> str | None:
    """The remedy that names the newest sound snapshot with the prefix of a damaged one."""
    match = re.fullmatch(r"(.*_iter_)\d+\.solverstate", path.name)
    if not match:
        return None
    others = {}
    for other in path.parent.glob(f"{glob_escape(match[1])}*.solverstate"):
        number = re.fullmatch(r"(\d+)\.solverstate", other.name[len(match[1]) :])
        if number and other != path:
            others[int(number[1])] = other
    for _, other in sorted(others.items(), reverse=True):
        if _sound(other):
            return f"the newest good snapshot is {other}"
    return "no other good snapshot lies beside it"


def glob_escape(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


def _sound(path: Path) -> bool:
    try:
        data = weights.read_bytes(path)
        weights.check_seal(data, path)
        head = pb.SolverState.FromString(data)
        model = find_model(State(head.iter, head.learned_net, []), path) if path.exists() else None
        if model is not None:
            weights.read_model(model)
        return head.HasField("iter")
    except Exception:  # whatever is wrong with it, it is not good
        return False
