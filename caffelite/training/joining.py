"""Joins the processes that train together, before their first iteration."""

from __future__ import annotations

import logging
import zlib

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError
from . import gradients
from .epochs import Epoch
from .iteration import Iteration
from .requests import Agreement
from .state import TrainingState

log = logging.getLogger("caffelite")


def join(
    p: pb.SolverParameter, state: TrainingState, iteration: Iteration, agreement: Agreement, half: bool = False
) -> None:
    """From now on gradients are summed over processes. half: they are sent as 16-bit numbers. Errors: processes with
    the same part of the net start from different numbers."""
    comm, parts, nets = iteration.comm, iteration.parts, iteration.pipeline.nets
    starts = comm.gather((state.iteration, _digest(state, iteration)), "what to start with")
    firsts = [parts.mesh.shape.replicas(rank)[0] for rank in range(comm.size)]
    if differ := [rank for rank, first in enumerate(firsts) if starts[rank] != starts[first]]:
        what = f"rank {differ[0]} starts from other parameters than rank {firsts[differ[0]]}"
        remedy = "let all read the same snapshot, weights and random_seed, on a file system that they share"
        raise CaffeliteError(what, remedy=remedy)
    net = iteration.net
    deferred = iteration.pipeline.deferred.parameters
    buckets = gradients.buckets(net, p.layer_wise_reduce, parts.summed_over_stage(net), deferred)
    reducer = comm.reducer(net.dev, net.params.diff, buckets, half, parts.mesh if parts.divided else None)
    assert reducer, "a group of several processes sums gradients"
    iteration.join(reducer, {node: at for each in nets for node, at in gradients.steps(each).items()}, agreement)
    agreement.join()
    comm.name_layers({step.node: step.node.name for each in nets for step in each.compiled.forward})


def _digest(state: TrainingState, iteration: Iteration) -> int:
    """A checksum of what this process trains, where another one trains the same."""
    digest = 0
    if iteration.parts.mesh.data.size == 1:
        return digest
    for flat in (state.parameters, *state.histories):
        digest = zlib.crc32(iteration.net.dev.download(flat).data, digest)
    return digest


def log_processes(
    p: pb.SolverParameter, iteration: Iteration, scaling: str, batch: int, rate: float, epoch: Epoch | None
) -> None:
    """Logs how the processes share the net and the samples. scaling: weak or strong. batch: samples that a pass reads.
    rate: the first one."""
    comm, parts = iteration.comm, iteration.parts
    each = batch * iteration.micro_batches
    length = f", {epoch.of(p.max_iter):.4g} epochs of {epoch.samples} samples" if epoch else ""
    log.info(
        "%d processes (%s, %s)%s, %s scaling: %d samples each, %d in an iteration; rate %.6g as the solver sets "
        "it; %d iterations%s",
        comm.size,
        comm.kind,
        iteration.net.dev.name.upper(),
        parts.description,
        scaling,
        each,
        each * parts.mesh.shape.groups,
        rate,
        p.max_iter,
        length,
    )
