"""Snapshots: a caffemodel and a solverstate that Caffe itself would load, written so that a crash at any instant loses neither.

Each file goes to a temporary name, is synced, renamed, and its folder synced; the state comes last, so that a state on disk always has
its model. What Caffe's state lacks for an exact resume lies in fields that Caffe skips.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from .. import caffelite_pb2 as pb
from .. import weights
from ..errors import CaffeliteError, Locator

log = logging.getLogger("caffelite")


@dataclass
class State:
    """A solver state. ``resume`` is None in a state that Caffe wrote."""

    iteration: int
    model: str
    history: list[np.ndarray]
    current_step: int = 0
    resume: pb.ResumeState | None = field(default=None)
    plateau: tuple[float, int] | None = None  # the least loss and the iteration of the latest event, of lr_policy "plateau"


def prefix(p: pb.SolverParameter, solver_path: str) -> str:
    """What snapshot names start with: snapshot_prefix; unset, the solver's path less its extension; a folder gets the solver's stem."""
    stem = Path(solver_path).stem
    if not p.snapshot_prefix:
        return str(Path(solver_path).with_suffix(""))
    folder = p.snapshot_prefix.endswith("/") or os.path.isdir(p.snapshot_prefix)
    return str(Path(p.snapshot_prefix) / stem) if folder else p.snapshot_prefix


def names(prefix: str, iteration: int, hdf5: bool = False) -> tuple[Path, Path]:
    """The paths of an iteration's model and state."""
    end = ".h5" if hdf5 else ""
    return Path(f"{prefix}_iter_{iteration}.caffemodel{end}"), Path(f"{prefix}_iter_{iteration}.solverstate{end}")


def average_name(model: Path) -> Path:
    """The path of the averaged weights that belong to a model."""
    return model.with_name(re.sub(r"(\.caffemodel(\.h5)?)$", r"_average\1", model.name))


def best_name(prefix: str, hdf5: bool = False) -> Path:
    return Path(f"{prefix}_best.caffemodel{'.h5' if hdf5 else ''}")


def prune(prefix: str, keep: int, iteration: int) -> None:
    """Removes snapshots of the prefix but the latest ``keep`` up to ``iteration``; each state first, so that none lacks its model."""
    found: dict[int, list[Path]] = {}
    for path in Path(prefix).parent.glob(f"{glob.escape(Path(prefix).name)}_iter_*"):
        match = re.fullmatch(r"_iter_(\d+)(\.solverstate|(?:_average)?\.caffemodel)(\.h5)?", path.name[len(Path(prefix).name) :])
        if match and int(match[1]) <= iteration:
            found.setdefault(int(match[1]), []).append(path)
    for number in sorted(found)[:-keep]:
        for path in sorted(found[number], key=lambda path: ".solverstate" not in path.name):
            path.unlink(missing_ok=True)


def check_room(prefix: str, size: int, locate: Locator) -> None:
    """Finds out before training starts that snapshots of ``size`` bytes cannot be written. Removes what killed runs left half written."""
    folder = Path(prefix).parent
    where = locate("snapshot_prefix")
    if not os.path.isdir(folder):
        raise CaffeliteError(f"the folder of snapshot_prefix, {folder}, does not exist", where=where, remedy=f"make it: mkdir -p {folder}")
    try:
        _remove_stale(prefix)
        draft = _draft(Path(f"{prefix}_iter_"))
        try:
            with open(draft, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
        finally:
            draft.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        what = f"snapshots cannot be written to {folder}: {_reason(error)}"
        raise CaffeliteError(
            what, where=where, expected=f"room for {size / 2**20:.1f} MiB", remedy="choose another snapshot_prefix"
        ) from None


def write(files: Iterable[tuple[Path, bytes]]) -> None:
    """Writes files whole or not at all: drafts of all of them are on disk before the first takes its name, in the order given."""
    drafts: list[tuple[Path, Path]] = []
    try:
        for path, body in files:
            drafts.append((_draft(path), path))
            with open(drafts[-1][0], "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
        for draft, path in drafts:
            os.replace(draft, path)
            _sync_folder(path.parent)
    except OSError as error:
        what = f"cannot write {path}: {_reason(error)}"
        raise CaffeliteError(what, remedy="make room, then go on from the last snapshot with -snapshot") from None
    finally:
        for draft, _ in drafts:
            with contextlib.suppress(OSError):
                draft.unlink()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.draft")


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that sync no folders
            raise
    finally:
        os.close(handle)


def _remove_stale(prefix: str) -> None:
    """Removes the drafts of processes that are no more."""
    for draft in Path(prefix).parent.glob(f".{glob.escape(Path(prefix).name)}_iter_*.draft"):
        process = draft.name.split(".")[-2]
        if process.isdecimal() and not _runs(int(process)):
            draft.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    if process == os.getpid():
        return False  # a number used again: this process has written nothing yet
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def encode_state(state: State) -> bytes:
    head = pb.SolverState(iter=state.iteration, learned_net=state.model, current_step=state.current_step, resume=state.resume)
    if state.plateau:
        head.minimum_loss, head.iter_last_event = state.plateau
    history = b"".join(weights.field_bytes(3, weights.encode_blob(blob)) for blob in state.history)
    return weights.sealed(head.SerializeToString() + history)


def encode_hdf5_state(state: State) -> bytes:
    """A solver state in HDF5; what Caffe's lacks is a data set that Caffe does not ask for."""

    def fill(file) -> None:
        model = state.model.encode()
        file["learned_net"] = np.array(model, f"S{len(model) + 1}")  # Caffe reads to the 0 behind it
        file["iter"], file["current_step"] = (np.array([n], np.int32) for n in (state.iteration, state.current_step))
        if state.plateau:
            file["minimum_loss"], file["iter_last_event"] = np.array(state.plateau[:1], "<f4"), np.array(state.plateau[1:], np.int32)
        history = file.create_group("history")
        for i, blob in enumerate(state.history):
            history[str(i)] = np.ascontiguousarray(blob, "<f4")
        if state.resume is not None:
            file[_RESUME] = np.frombuffer(state.resume.SerializeToString(), np.uint8)

    return weights.encode_hdf5(fill)


_RESUME = "caffelite_resume"


def read_state(path: Path) -> State:
    """Reads a solver state of ours or of Caffe's; a damaged one is an error that names the newest good one beside it."""
    try:
        return _read_state(path)
    except CaffeliteError as error:
        raise CaffeliteError(str(error), remedy=newest_good(path)) from None


def _read_state(path: Path) -> State:
    return _read_hdf5_state(path) if path.suffix == ".h5" else _read_binary_state(path)


def _read_binary_state(path: Path) -> State:
    data = weights.read_bytes(path)
    weights.check_seal(data, path)
    try:
        rest, history = [], []
        for number, wire, value, whole in weights.fields(memoryview(data)):
            if number == 3 and wire == weights.LENGTH:
                history.append(weights.decode_blob(value))
            else:
                rest.append(bytes(whole))
        head = pb.SolverState.FromString(b"".join(rest))
    except ValueError as error:
        raise CaffeliteError(f"{path} is no solverstate, or a damaged one ({error})") from None
    except DecodeError as error:
        raise CaffeliteError(f"{path} is no solverstate ({error})") from None
    if not head.HasField("iter"):
        raise CaffeliteError(f"{path} is no solverstate: it has no iteration")
    plateau = (head.minimum_loss, head.iter_last_event) if head.HasField("minimum_loss") else None
    return State(head.iter, head.learned_net, history, head.current_step, head.resume if head.HasField("resume") else None, plateau)


def _read_hdf5_state(path: Path) -> State:
    """Caffe's HDF5 form: iter, learned_net, current_step, and a group history with a data set a blob, named by its number."""
    with weights.open_hdf5(path) as file:
        if "iter" not in file:
            raise CaffeliteError(f"{path} is no solverstate: it has no iteration")
        try:
            group = file.get("history", {})
            history = [np.asarray(group[str(i)], np.float32) for i in range(len(group))]
            model = file["learned_net"].asstr()[()] if "learned_net" in file else ""
            numbers = {name: np.ravel(file[name])[0] for name in _NUMBERS if name in file}
            resume = pb.ResumeState.FromString(np.asarray(file[_RESUME], np.uint8).tobytes()) if _RESUME in file else None
        except (KeyError, ValueError, TypeError, IndexError, AttributeError, OSError, RuntimeError, DecodeError) as error:
            raise CaffeliteError(f"{path} is no solverstate, or a damaged one ({error})") from None
        iteration, step, event = (int(numbers.get(name, 0)) for name in _NUMBERS[:3])
        plateau = (float(numbers["minimum_loss"]), event) if "minimum_loss" in numbers else None
        return State(iteration, str(model), history, step, resume, plateau)


_NUMBERS = ("iter", "current_step", "iter_last_event", "minimum_loss")


def find_model(state: State, path: Path) -> Path | None:
    """The model that a state names: beside the state, where every snapshot puts it and which may have been moved, or else as written."""
    if not state.model:
        return None
    named, beside = Path(state.model), path.with_name(Path(state.model).name)
    if not named.exists() and not beside.exists():
        raise CaffeliteError(f"{path} belongs to {named}, which is not there", remedy=newest_good(path))
    return beside if beside.exists() else named


def read_model(state: State, path: Path) -> tuple[Path, dict[str, list[np.ndarray]]] | None:
    """The path and the blobs of a state's model; None where it names none. Of a damaged one the error names the newest good."""
    model = find_model(state, path)
    if model is None:
        return None
    try:
        return model, weights.read_model(model)
    except CaffeliteError as error:
        raise CaffeliteError(str(error), remedy=newest_good(path)) from None


def newest_good(path: Path) -> str | None:
    """The remedy that names the newest sound snapshot with the prefix of a damaged one."""
    match = re.fullmatch(r"(.*)_iter_\d+(\.solverstate(?:\.h5)?)", path.name)
    if not match:
        return None
    for other in _states(path.with_name(match[1]), match[2]):
        if other != path and sound(other):
            return f"the newest good snapshot is {other}"
    return "no other good snapshot lies beside it"


def newest(p: pb.SolverParameter, solver_path: str) -> str | None:
    """The newest sound state that the solver's snapshots left, in either format, or None. Damaged ones are told and passed over."""
    for path in _states(Path(prefix(p, solver_path)), ".solverstate", ".solverstate.h5"):
        if sound(path):
            return str(path)
        log.warning("%s is damaged, or its model is: passed over", path)
    return None


def _states(prefix: Path, *ends: str) -> list[Path]:
    """The states with a prefix, the latest iteration first."""
    found = []
    for end in ends:
        for path in prefix.parent.glob(f"{glob.escape(prefix.name)}_iter_*{end}"):
            if number := re.fullmatch(rf"_iter_(\d+){re.escape(end)}", path.name[len(prefix.name) :]):
                found.append((int(number[1]), path))
    return [path for _, path in sorted(found, reverse=True)]


def sound(path: Path) -> bool:
    """Whether a state and its model can be read."""
    try:
        model = find_model(_read_state(path), path)
        if model is not None:
            weights.read_model(model)
        return True
    except Exception:  # whatever is wrong with it, it is not good
        return False
