"""What of a solver goes into a snapshot, and back."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import caffelite_pb2 as pb
from .. import weights
from ..errors import CaffeliteError
from . import snapshot

if TYPE_CHECKING:
    from .solver import Solver

log = logging.getLogger("caffelite")


def config_hash(solver: Solver) -> str:
    """What shapes the numbers of a run: the solver's arithmetic fields and the nets; not how long it runs or what it shows."""
    kept = pb.SolverParameter()
    kept.CopyFrom(solver.p)
    for name in ("net", "train_net", "test_net", "max_iter", "display", "snapshot", "snapshot_prefix", "snapshot_after_train",
                 "solver_mode", "device_id", "debug_info", "test_iter", "test_interval", "test_initialization"):  # fmt: skip
        kept.ClearField(name)
    if solver.p.lr_policy == "poly":
        kept.max_iter = solver.p.max_iter
    parts = [kept.SerializeToString(deterministic=True), solver.net.graph.message.SerializeToString(deterministic=True)]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def files(solver: Solver) -> Iterator[tuple[Path, bytes]]:
    """The model and then the state of a solver as it stands, each made when it is asked for."""
    model, state_path = snapshot.names(solver.prefix, solver.iteration)
    log.info("Snapshotting to binary proto file %s", model)
    blobs = [(node.layer.spec, arrays) for node, arrays in solver.net.layer_blobs()]
    yield model, weights.sealed(weights.encode_net(solver.net.graph.message, blobs))
    resume = pb.ResumeState(
        solver_type=solver.updater.name, config_hash=config_hash(solver), random_seed=solver.seed, loss_window=solver.loss_window()
    )
    for label, layer, source in solver.sources():
        resume.source.add(net=label, layer=layer, samples=source.position)
    log.info("Snapshotting solver state to binary proto file %s", state_path)
    step = solver.iteration // solver.p.stepsize if solver.p.lr_policy == "step" else 0
    if solver.p.lr_policy == "multistep":
        step = sum(v <= solver.iteration for v in solver.p.stepvalue)
    yield state_path, snapshot.encode_state(snapshot.State(solver.iteration, str(model), solver.updater.history_blobs(), step, resume))


def restore(solver: Solver, state: snapshot.State, path: Path) -> None:
    """Puts a solver where a state left off: exactly, where the state is one of ours."""
    log.info("Resuming from %s", path)
    resume = state.resume
    if resume is not None and resume.solver_type != solver.updater.name:
        raise CaffeliteError(f"{path} is the state of another solver type", expected=solver.updater.name, found=resume.solver_type)
    solver.updater.load_history(state.history, path)
    if found := snapshot.read_model(state, path):
        model, blobs = found
        if missing := solver.net.load(blobs, str(model)).missing:
            raise CaffeliteError(f"{model} is the model of another net", expected=f"weights of layers {', '.join(missing)}")
    solver.iteration = state.iteration
    if resume is None:
        log.warning("%s was not written by caffelite: data starts from the first sample", path)
        return
    if resume.config_hash != config_hash(solver):
        log.warning("the net or the solver differs from what %s was trained with: this run is no exact continuation", path)
    positions = {(s.net, s.layer): s.samples for s in resume.source}
    for label, layer, source in solver.sources():
        if (label, layer) in positions:
            source.seek(positions[label, layer])
    kept = list(resume.loss_window)[-len(solver.window) :]
    solver.dev.upload(solver.window[: len(kept)], np.array(kept, solver.dev.dtype))
    solver.losses = len(kept)
