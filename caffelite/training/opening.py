"""Builds the graph of a net to run it: with its data sources open, and with class weights."""

import functools
from contextlib import closing
from copy import deepcopy

from .. import caffelite_pb2 as pb, data
from ..net import graph
from ..net.graph import Graph
from . import class_weights
from .nets import NetSpec


def open_graph(
    spec: NetSpec,
    seed: int,
    shard: data.Shard = data.Shard(),  # noqa: B008
    like: Graph | None = None,
    all_gradients: bool = False,
) -> Graph:
    """The graph of a net that is to run, its data sources open.

    spec: its message gets the class weights that its layers ask for. seed: of the data. shard: which of several
    processes reads them. like: a net with the same layers, whose class weights these get; None: they are measured from
    the data of phase TRAIN. all_gradients: see ``gradients.mark``. Errors: every mistake in the prototxt and its data.
    """
    open_source = functools.partial(data.open_source, seed=seed, shard=shard)

    def build(state: pb.NetState) -> Graph:
        return graph.build(spec.message, state, spec.locate, open_source, all_gradients)

    if like is not None:
        weights = class_weights.known(like)
    elif spec.state.phase != pb.TRAIN and class_weights.wanted(spec.message):
        state = deepcopy(spec.state)
        state.phase = pb.TRAIN
        with closing(build(state)) as train:
            weights = class_weights.measure(train)
    else:
        weights = None
    wiring = build(spec.state)
    class_weights.set_weights(wiring, class_weights.measure(wiring) if weights is None else weights, spec)
    return wiring
