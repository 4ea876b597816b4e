"""The file formats of snapshots: a caffemodel and a solverstate that Caffe can load.

Fields that Caffe skips store what its state lacks for an exact resume: the position in the data, the run, the digest of
the model.
"""

import glob
import itertools
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ... import caffelite_pb2 as pb, file_types, inputs, weights
from ...errors import CaffeliteError, quoted
from ...weights import hdf5, layout
from . import atomic_files

log = logging.getLogger("caffelite")


@dataclass
class State:
    """A solver state. ``resume`` is None in a state that Caffe wrote. ``history``: arrays that can only be read."""

    iteration: int
    model: str
    history: list[np.ndarray]
    current_step: int = 0
    resume: pb.ResumeState | None = None
    plateau: tuple[float, int] | None = None  # of the policy: the least loss, the iteration of the latest event
    run: pb.RunOrigin | None = None  # the run that wrote it
    digest: bytes = b""  # of the model's file; empty: not known


def prefix(p: pb.SolverParameter, solver_path: str) -> str:
    """The start of snapshot names: snapshot_prefix; where it is a folder, the solver's stem within it; where it is
    unset, the solver's path without its extension."""
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


def pair(prefix: str, iteration: int, hdf5: bool = False) -> list[Path]:
    """The paths of all files that a snapshot may write, the state first."""
    model, state = names(prefix, iteration, hdf5)
    return [state, average_name(model), model]


def prune(prefix: str, keep: int, iteration: int, run: str) -> None:
    """Removes all but the latest ``keep`` snapshots of a run up to ``iteration``. A state is removed before its model,
    so that no state is left without one."""
    by_iteration: dict[int, list[Path]] = {}
    for path in Path(prefix).parent.glob(f"{glob.escape(Path(prefix).name)}_iter_*"):
        match = re.fullmatch(
            r"_iter_(\d+)(\.solverstate|(?:_average)?\.caffemodel)(\.h5)?", path.name[len(Path(prefix).name) :]
        )
        if match and int(match[1]) <= iteration and run_of(path) == run:
            by_iteration.setdefault(int(match[1]), []).append(path)
    for number in sorted(by_iteration)[:-keep]:
        for path in sorted(by_iteration[number], key=lambda path: ".solverstate" not in path.name):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed, which snapshot_keep requires: %s", path, atomic_files.reason(error))


def run_of(path: Path) -> str:
    """The id of the run that wrote a file; empty where the file has none."""
    try:
        run = weights.run_of(path)
    except OSError:
        return ""
    return run.id if run else ""


def state_chunks(state: State, history: Iterable[weights.StreamedBlob]) -> Iterator[weights.Chunk]:
    """A solver state with ``history`` instead of its own, in chunks."""
    head = pb.SolverState(
        iter=state.iteration, learned_net=state.model, current_step=state.current_step, resume=state.resume
    )
    if state.digest:
        head.model_digest = state.digest
    if state.plateau:
        head.minimum_loss, head.iter_last_event = state.plateau
    form = layout.current()
    blobs = (chunk for blob in history for chunk in weights.blob_field_chunks(form.history, blob))
    return weights.sealed_chunks(itertools.chain([form.state_head(head)], blobs), state.run)


def encode_hdf5_state(state: State) -> bytes:
    """A solver state in HDF5; the fields that Caffe's lacks are in a data set that Caffe does not read."""

    def fill(file: Any) -> None:
        model = state.model.encode()
        file["learned_net"] = np.array(model, f"S{len(model) + 1}")  # Caffe reads to the 0 behind it
        file["iter"], file["current_step"] = (np.array([n], np.int32) for n in (state.iteration, state.current_step))
        if state.plateau:
            file["minimum_loss"] = np.array(state.plateau[:1], "<f4")
            file["iter_last_event"] = np.array(state.plateau[1:], np.int32)
        history = file.create_group("history")
        for i, blob in enumerate(state.history):
            history[str(i)] = np.ascontiguousarray(blob, "<f4")
        if state.resume is not None:
            file[_RESUME] = np.frombuffer(state.resume.SerializeToString(), np.uint8)
        if state.digest:
            file.attrs[_MODEL_DIGEST] = state.digest.hex()

    return hdf5.encode(fill, state.run.SerializeToString() if state.run else b"")


_RESUME, _MODEL_DIGEST = "caffelite_resume", "caffelite_model_digest"


def read_state(path: Path) -> State:
    """Reads a solver state, also one that Caffe wrote. Errors: it is damaged; the error names the newest good one in
    its folder."""
    try:
        return _read_state(path)
    except CaffeliteError as error:
        raise CaffeliteError(str(error), remedy=newest_good(path)) from None


def _read_state(path: Path) -> State:
    data = weights.read_bytes(path)
    return _decode_hdf5_state(data, path) if hdf5.starts(data) else _decode_binary_state(data, path)


def _decode_binary_state(data: bytes, path: Path) -> State:
    weights.check_seal(data, path)
    try:
        rest, history = [], []
        for number, wire, value, whole in weights.fields(memoryview(layout.current().read(data, "SolverState"))):
            if number == 3 and wire == weights.LENGTH:
                history.append(weights.decode_blob(value, copy=False))
            else:
                rest.append(bytes(whole))
        head = pb.SolverState.FromString(b"".join(rest))
        inputs.check_text(head)
    except (ValueError, DecodeError) as error:
        reason = file_types.described(data) or f"or a damaged one ({error})"
        raise weights.no_hdf5(path) or CaffeliteError(f"{path} is no solverstate, {reason}") from None
    if not head.HasField("iter") or head.iter < 0:
        raise _no_state(data, path)
    plateau = (head.minimum_loss, head.iter_last_event) if head.HasField("minimum_loss") else None
    resume, run = (getattr(head, name) if head.HasField(name) else None for name in ("resume", "run"))
    return State(head.iter, head.learned_net, history, head.current_step, resume, plateau, run, head.model_digest)


def _no_state(data: bytes, path: Path) -> CaffeliteError:
    """The error for a message without an iteration. Of a caffemodel it names the state that lies beside it."""
    if ".caffemodel" not in path.name and not any(number == 100 for number, *_ in weights.fields(memoryview(data))):
        return CaffeliteError(f"{path} is no solverstate: it has no iteration")
    return _caffemodel(path)


def _caffemodel(path: Path) -> CaffeliteError:
    """The error for a caffemodel in place of a state: the remedy names the state beside it, or -weights."""
    state = path.with_name(path.name.replace(".caffemodel", ".solverstate"))
    there = state != path and state.exists()
    remedy = f"resume from {quoted(state)}" if there else f"to start from its weights: -weights {quoted(path)}"
    return CaffeliteError(f"{path} is a caffemodel, no solverstate", remedy=remedy)


def _decode_hdf5_state(data: bytes, path: Path) -> State:
    """Caffe's HDF5 form: iter, learned_net, current_step, and a group history with a data set a blob, named by its
    number."""
    with hdf5.opened(data, path) as file:
        try:
            members: dict[str, Any] = dict(hdf5.members(file))
            if "iter" not in members:
                what = f"{path} is no solverstate: it has no iteration"
                raise _caffemodel(path) if "data" in members else CaffeliteError(what)
            blobs: dict[str, Any] = dict(hdf5.members(members["history"])) if "history" in members else {}
            history = [hdf5.values(blobs[str(i)], len(data)) for i in range(len(blobs))]
            model = str(members["learned_net"].asstr()[()]) if "learned_net" in members else ""
            model.encode()
            scalars = {name: np.ravel(members[name][()])[0] for name in _NUMBERS if name in members}
            iteration, step, event = (int(scalars.get(name, 0)) for name in _NUMBERS[:3])
            plateau = (float(scalars["minimum_loss"]), event) if "minimum_loss" in scalars else None
            resume = (
                pb.ResumeState.FromString(np.asarray(members[_RESUME], np.uint8).tobytes())
                if _RESUME in members
                else None
            )
            note = hdf5.note(data[-hdf5.TAIL :])
            run = pb.RunOrigin.FromString(note) if note else None
            for message in (resume, run):
                inputs.check_text(message or pb.RunOrigin())
            digest = bytes.fromhex(file.attrs.get(_MODEL_DIGEST, ""))
        except (*hdf5.MISTAKES, DecodeError) as error:
            raise CaffeliteError(f"{path} is no solverstate, or a damaged one ({error})") from None
        return State(iteration, model, history, step, resume, plateau, run, digest)


_NUMBERS = ("iter", "current_step", "iter_last_event", "minimum_loss")


def read_model(state: State, path: Path) -> tuple[Path, dict[str, list[np.ndarray]]]:
    """The path and the blobs of a state's model, which can only be read.

    The model is searched in the folder of the state, since both may have been moved, then where the state says. Where
    the state holds the digest of its model, the model must have it. Errors: the state names no model, or the model is
    damaged or another one; the error names the newest good snapshot.
    """
    try:
        return _read_model(state, path)
    except CaffeliteError as error:
        raise CaffeliteError(str(error), remedy=newest_good(path)) from None


def _read_model(state: State, path: Path) -> tuple[Path, dict[str, list[np.ndarray]]]:
    if not state.model:
        what = f"{path} names no model (learned_net), so the weights of iteration {state.iteration} are not known"
        raise CaffeliteError(what, remedy="train from that model with -weights, without -snapshot")
    if "\0" in state.model or not (named := Path(state.model)).name:
        raise CaffeliteError(f"{path} names no file as its model", found=repr(state.model))
    sibling = path.with_name(named.name)
    choices = dict.fromkeys((sibling, named, atomic_files.backup_of(sibling)))
    models = [model for model in choices if os.path.exists(model)]
    if not state.digest:
        models = [model for model in models if model != atomic_files.backup_of(sibling)][:1]
    if not models:
        raise CaffeliteError(f"{path} belongs to {named}, which does not exist")
    errors: list[CaffeliteError] = []
    for model in models:
        try:
            data = weights.read_bytes(model)
            blobs = weights.decode_model(data, model, copy=False)
        except CaffeliteError as error:
            errors.append(error)
            continue
        if not state.digest or weights.digest(data) == state.digest:
            return model, blobs
        errors.append(Mismatch(f"{model} is not the model that {path} was written with"))
    raise errors[0]


class Mismatch(CaffeliteError):
    """A state and a model of different snapshots."""


def newest_good(path: Path) -> str | None:
    """The remedy for a damaged snapshot: the newest sound one with its prefix."""
    match = re.fullmatch(r"(.*)_iter_\d+(\.solverstate(?:\.h5)?)", path.name, re.DOTALL)
    if not match:
        return None
    for _, other in _numbered(path.parent, match[1], match[2]):
        if other != path and sound(other):
            return f"the newest good snapshot is {other}"
    return "there is no other good snapshot in its folder"


def states(prefix: str | Path) -> list[tuple[int, Path]]:
    """(iteration, path) of the states with a prefix in either format, the latest first."""
    return _numbered(Path(prefix).parent, Path(prefix).name, ".solverstate", ".solverstate.h5")


def models(prefix: str | Path) -> list[tuple[int, Path]]:
    """(iteration, path) of the models with a prefix in either format, the latest first."""
    return _numbered(Path(prefix).parent, Path(prefix).name, ".caffemodel", ".caffemodel.h5")


def _numbered(folder: Path, start: str, *ends: str) -> list[tuple[int, Path]]:
    states = []
    for end in ends:
        for path in folder.glob(f"{glob.escape(start)}_iter_*{end}"):
            if number := re.fullmatch(rf"_iter_(\d{{1,18}}){re.escape(end)}", path.name[len(start) :]):
                states.append((int(number[1]), path))
    return sorted(states, reverse=True)


def fault(path: Path) -> Exception | None:
    """The error on reading a state or its model; None: both are sound."""
    try:
        _read_model(_read_state(path), path)
    except Exception as error:  # any error makes it unsound
        return error
    return None


def sound(path: Path) -> bool:
    """Whether a state and its model can be read and belong together."""
    return fault(path) is None
