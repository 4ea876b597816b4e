"""What of a solver goes into a snapshot, and back."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ... import caffelite_pb2 as pb
from ... import weights
from ...errors import CaffeliteError
from ...net.graph import Node
from ...net.net import Net
from .. import nets
from . import snapshot

if TYPE_CHECKING:
    from ..trainer import Solver

log = logging.getLogger("caffelite")


def _carried(solver: Solver) -> list[tuple[str, str, list]]:
    """(net, layer, arrays) of every layer whose state goes on from pass to pass."""
    found = [("train", solver.net)] + [(f"test {i}", net) for i, (net, _) in enumerate(solver.tests)]
    return [
        (label, node.name, node.layer.carried) for label, net in found for node in net.graph.nodes if node.layer.carried
    ]


class Before:
    """What the layers of a net carried when an iteration began, so that it can be run again."""

    def __init__(self, net: Net):
        self._dev = net.dev
        self._kept = [(array, net.dev.empty(array.shape)) for node in net.graph.nodes for array in node.layer.carried]

    def keep(self) -> None:
        for array, copy in self._kept:
            self._dev.copy(array, copy)

    def put_back(self) -> None:
        for array, copy in self._kept:
            self._dev.copy(copy, array)


def config_hash(solver: Solver) -> str:
    """What shapes the numbers of a run: the solver's arithmetic fields and the nets; not how long it runs or what it
    shows."""
    kept = pb.SolverParameter()
    kept.CopyFrom(solver.p)
    for name in (
        "net",
        "train_net",
        "test_net",
        "max_iter",
        "display",
        "snapshot",
        "snapshot_prefix",
        "snapshot_after_train",
        "snapshot_format",
        "snapshot_diff",
        "solver_mode",
        "device_id",
        "debug_info",
        "test_iter",
        "test_interval",
        "test_initialization",
        "net_param",
        "train_net_param",
        "test_net_param",
        "snapshot_keep",
        "best_score",
        "best_lowest",
        "early_stop",
        "test_state",
    ):
        kept.ClearField(name)
    if solver.p.lr_policy in ("poly", "cosine"):
        kept.max_iter = solver.p.max_iter
    parts = [
        kept.SerializeToString(deterministic=True),
        nets.effective(solver.net.graph.message, solver.comm.size).SerializeToString(deterministic=True),
    ]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def carried(solver: Solver) -> list[pb.CarriedState]:
    """What layers carry from pass to pass: of each layer the arrays of rank 0, then those of rank 1, and so on."""
    found = []
    for label, layer, arrays in _carried(solver):
        entry = pb.CarriedState(net=label, layer=layer)
        for array in (a for rank in solver.comm.gather([solver.dev.download(a) for a in arrays]) for a in rank):
            entry.blob.add(shape=pb.BlobShape(dim=array.shape), data=array.reshape(-1).tolist())
        found.append(entry)
    return found


def files(solver: Solver, carried: list[pb.CarriedState]) -> Iterator[tuple[Path, bytes]]:
    """The model and then the state of a solver as it stands, each made when it is asked for."""
    hdf5 = solver.p.snapshot_format == pb.SolverParameter.HDF5
    model, state_path = snapshot.names(solver.prefix, solver.iteration, hdf5)
    form = "HDF5 file" if hdf5 else "binary proto file"
    log.info("Snapshotting to %s %s", form, model)
    body = _model(solver)
    digest = weights.digest(body)
    yield model, body
    if solver.average.decay:
        average = snapshot.average_name(model)
        log.info("Snapshotting the average of weights to %s", average)
        with solver.average.in_place():
            body = _model(solver, diffs=False)
        yield average, body
    resume = pb.ResumeState(
        solver_type=solver.updater.name,
        config_hash=config_hash(solver),
        random_seed=solver.seed,
        loss_window=solver.loss_window(),
        carried=carried,
        precision=solver.dev.precision,
    )
    for label, layer, source in solver.sources():
        resume.source.add(net=label, layer=layer, samples=source.position)
    if solver.forgiven:
        resume.rate_factor, resume.forgiven = solver.rate_factor, solver.forgiven
    solver.best.save(resume)
    solver.average.save(resume)
    solver.updater.clipping.save(resume)
    log.info("Snapshotting solver state to %s %s", form, state_path)
    history, step = solver.updater.history_blobs(), solver.rate.current_step(solver.iteration)
    state = snapshot.State(solver.iteration, str(model), history, step, resume, run=solver.owner.run, digest=digest)
    if plateau := solver.rate.plateau:
        state.plateau = plateau.minimum_loss, plateau.last_event
    yield state_path, (snapshot.encode_hdf5_state if hdf5 else snapshot.encode_state)(state)


def write_pair(solver: Solver, carried: list[pb.CarriedState]) -> Path:
    """Writes a snapshot of the solver as it stands, where no other run's files are, and removes those that are too
    many; its state."""
    paths = snapshot.pair(solver.prefix, solver.iteration, solver.p.snapshot_format == pb.SolverParameter.HDF5)
    _own(solver, paths)
    snapshot.write(files(solver, carried))
    if solver.p.snapshot_keep:
        snapshot.prune(solver.prefix, solver.p.snapshot_keep, solver.iteration, solver.owner.run.id)
    return paths[0]


def write_best(solver: Solver) -> None:
    """Writes the weights that were tested as the best."""
    _own(solver, [snapshot.best_name(solver.prefix, solver.p.snapshot_format == pb.SolverParameter.HDF5)])
    snapshot.write(best_files(solver))


def _own(solver: Solver, paths: list[Path]) -> None:
    """Makes sure that these names are this run's to write."""
    solver.owner.claim(solver.locate)
    solver.owner.make_way(paths)


def best_files(solver: Solver) -> Iterator[tuple[Path, bytes]]:
    """The model of the best test, of the weights that were tested."""
    path = snapshot.best_name(solver.prefix, solver.p.snapshot_format == pb.SolverParameter.HDF5)
    log.info("Snapshotting the best weights to %s", path)
    yield path, _model(solver, diffs=False)


def _model(solver: Solver, diffs: bool = True) -> bytes:
    """A caffemodel of the net's weights."""
    blobs = [
        (node.layer.spec, _with_diffs(solver, node, arrays) if diffs else arrays)
        for node, arrays in solver.net.layer_blobs()
    ]
    if solver.p.snapshot_format == pb.SolverParameter.HDF5:
        return weights.encode_hdf5_net(((spec.name, arrays) for spec, arrays in blobs), solver.owner.run)
    return weights.sealed(weights.encode_net(solver.net.graph.message, blobs), solver.owner.run)


def _with_diffs(solver: Solver, node: Node, arrays: list[np.ndarray]) -> list[weights.Blob]:
    """A layer's parameters, where snapshot_diff asks for it each with the gradient of the last iteration, 0 where it
    never learns."""
    if not solver.p.snapshot_diff:
        return arrays
    found = []
    for param, data in zip(node.layer.params, arrays, strict=True):
        diff = np.zeros_like(data) if param.diff is None else solver.dev.download(param.diff) / solver.comm.size
        found.append((data, diff))
    return found


def restore(solver: Solver, state: snapshot.State, path: Path) -> None:
    """Puts a solver where a state left off: exactly, where the state is one of ours."""
    log.info("Resuming from %s", path)
    resume = state.resume
    if resume is not None and resume.solver_type != solver.updater.name:
        raise CaffeliteError(
            f"{path} is the state of another solver type", expected=solver.updater.name, found=resume.solver_type
        )
    solver.updater.load_history(state.history, path)
    if found := snapshot.read_model(state, path):
        model, blobs = found
        if missing := solver.net.load(blobs, str(model)).missing:
            raise CaffeliteError(
                f"{model} is the model of another net", expected=f"weights of layers {', '.join(missing)}"
            )
    solver.iteration = state.iteration
    if (plateau := solver.rate.plateau) and state.plateau:
        plateau.steps = state.current_step
        plateau.minimum_loss, plateau.last_event = state.plateau
    if resume is None:
        log.warning("%s was not written by caffelite: data starts from the first sample", path)
        return
    if resume.config_hash != config_hash(solver):
        log.warning(
            "the net or the solver differs from what %s was trained with: this run is no exact continuation", path
        )
    if resume.precision not in ("", solver.dev.precision):
        text = "%s was trained with -precision %s, this run takes %s: it is no exact continuation"
        log.warning(text, path, resume.precision, solver.dev.precision)
    positions = {(s.net, s.layer): s.samples for s in resume.source}
    for label, layer, source in solver.sources():
        if (label, layer) in positions:
            source.seek(positions[label, layer])
    solver.rate_factor, solver.forgiven = resume.rate_factor if resume.forgiven else 1.0, resume.forgiven
    solver.best.load(resume)
    solver.average.load(resume, path)
    solver.updater.clipping.load(resume)
    _restore_carried(solver, {(s.net, s.layer): s.blob for s in resume.carried})
    kept = list(resume.loss_window)[-len(solver.window) :]
    solver.window.reset(np.array(kept).reshape(-1, 1))
    solver.losses = solver.told = len(kept)


def _restore_carried(solver: Solver, kept: dict[tuple[str, str], Sequence[pb.BlobProto]]) -> None:
    """Gives each process what it carried; of another number of processes, each its share of the sequences (axis 0) that
    all carried."""
    rank, size = solver.comm.rank, solver.comm.size
    for label, layer, arrays in _carried(solver):
        blobs = [np.array(b.data, solver.dev.dtype).reshape(tuple(b.shape.dim)) for b in kept.get((label, layer), ())]
        for i, array in enumerate(arrays):
            whole = [b for b in blobs[i :: len(arrays)]]
            joined = np.concatenate(whole) if whole else np.empty((0, *array.shape[1:]), array.dtype)
            if joined.shape == (size * len(array), *array.shape[1:]):
                solver.dev.upload(array, joined[rank * len(array) : (rank + 1) * len(array)])
            elif whole:
                log.warning(
                    'layer "%s" starts anew: its state was kept for a batch of %d, not %d',
                    layer,
                    len(joined),
                    size * len(array),
                )
                break
