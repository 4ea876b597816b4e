"""Opens nets and trainers: a prototxt, a phase and a device become a `Net`; a configuration becomes a `Trainer`."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb
from .. import data, prototxt, weights
from ..errors import CaffeliteError
from ..layers import unknown_types
from ..net import graph
from ..net.net import Net
from ..net.parameters import matches
from ..prototxt.overrides import Overrides
from ..training import Trainer, build_trainer, class_weights, nets
from .config import RunConfig

log = logging.getLogger("caffelite")


def open_net(
    document: prototxt.Document,
    dev: Any,
    phase: int,
    *,
    level: int | None = None,
    stages: Sequence[str] = (),
    seed: int = 0,
    keep: bool = False,
    share: Net | None = None,
    random_seed: int = 0,
    test_gradients: bool = False,
    fixed_shapes: bool = True,
) -> Net:
    """Builds the net of a prototxt on a device, with its data sources open.

    phase: pb.TRAIN or pb.TEST. level, stages: for the rules of the prototxt. seed: of fillers and data; random_seed: of
    passes. keep: every blob keeps its values after a pass. share: a net of the same layers, whose parameters and class
    weights this one uses. test_gradients: see ``graph.build``. fixed_shapes: False for a net that ``Net.reshape``
    serves. Errors: every mistake in the prototxt and its data.
    """
    message, locate = document.message, document.locate
    open_source = functools.partial(data.open_source, seed=seed)

    def build(phase: int) -> graph.Graph:
        state = nets.state(phase, message, None, level, tuple(stages))
        return graph.build(message, state, locate, open_source, test_gradients)

    measured = class_weights.known(share.graph) if share else None
    if measured is None and phase != pb.TRAIN:
        measured = _class_weights(build, message)
    wiring = build(phase)
    class_weights.set_weights(wiring, class_weights.measure(wiring) if measured is None else measured)
    return Net.of(wiring, dev, seed=seed, random_seed=random_seed, share=share, keep=keep, fixed_shapes=fixed_shapes)


def _class_weights(build: Callable[[int], graph.Graph], message: pb.NetParameter) -> dict[str, np.ndarray]:
    """The class weights that a net's layers ask for, measured from the data of its TRAIN phase."""
    if not class_weights.wanted(message):
        return {}
    train = build(pb.TRAIN)
    try:
        return class_weights.measure(train)
    finally:
        train.close()


def load_weights(net: Net, files: Sequence[str], complete: graph.Graph | None = None) -> None:
    """Copies weights into a net and logs which layers matched, were skipped and are missing. complete: the graph that
    ``net`` is a part of. Errors: a file without a layer of the net."""
    for path in files:
        blobs = weights.read_model(Path(path), copy=False)
        loaded = net.load(blobs, path)
        if complete:
            loaded = matches(complete, blobs)
        if not loaded.matched:
            known = ", ".join(n.name for n in (complete or net.graph).nodes if n.params) or "none"
            raise CaffeliteError(
                f"{path}: no layer of the file is in the net",
                expected=f"layers {known}",
                found=", ".join(blobs) or "no layers with weights",
            )
        log.info("Weights from %s: matched %s", path, ", ".join(loaded.matched))
        if loaded.skipped:
            log.info("  skipped, not in the net: %s", ", ".join(loaded.skipped))
        if loaded.missing:
            log.warning("  missing, kept as the fillers made them: %s", ", ".join(loaded.missing))


def read_solver(config: RunConfig) -> prototxt.Document:
    """The solver of a run with its overrides."""
    return Overrides(config.overrides).solver(prototxt.read_solver(config.solver, unknown_types.tolerate))


def open_trainer(config: RunConfig, document: prototxt.Document, dev: Any, **options: Any) -> Trainer:
    """Builds the trainer of a run on a device.

    document: the solver, as ``read_solver`` returns it or changed. options: comm, requests, resume (the state to
    continue from), keep, snapshots and overrides (in place of the configuration's) of `build_trainer`.
    """
    return build_trainer(
        document.message,
        document.locate,
        config.solver,
        dev,
        strong_scaling=config.scaling == "strong",
        fp16_gradients=config.compress == "fp16",
        strict=config.strict,
        split=config.split,
        level=config.level,
        stages=config.stages,
        nan_recoveries=config.nan_recoveries,
        **{"overrides": Overrides(config.overrides), **options},
    )


def load_initial_weights(trainer: Trainer, config: RunConfig) -> None:
    """Loads the caffemodels of the configuration, else those that the solver names."""
    load_weights(trainer.net, config.weights or list(trainer.p.weights), trainer.division.complete(trainer.net))


def without_extras(solver: pb.SolverParameter, display: int = 0) -> pb.SolverParameter:
    """A copy of a solver without tests and snapshots, which displays every ``display`` iterations."""
    p = pb.SolverParameter()
    p.CopyFrom(solver)
    p.snapshot, p.snapshot_after_train, p.test_interval, p.display = 0, False, 0, display
    tests = ("test_iter", "test_net", "test_net_param", "test_state", "test_epoch", "best_score", "early_stop")
    for name in (*tests, "snapshot_epoch"):
        p.ClearField(name)
    return p
