"""Checks that a deploy net computes the same scores as the validated net, on the same raw samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.samples import DataSource
from ..errors import NOWHERE, CaffeliteError
from ..layers.feeding import is_input
from ..net import graph
from ..net.net import Net
from .convert import Converted
from .preprocessing import Preparation

NEAR = 1e-5  # of the greatest score: what rounding may change


@dataclass(frozen=True)
class Proof:
    """samples compared; difference: the greatest, as a share of the greatest score; raw: of stored images, not of the
    net's input."""

    samples: int
    difference: float
    raw: bool


def prove(
    validation: Net, converted: Converted, samples: int, progress: Callable[[int], None] = lambda n: None
) -> Proof:
    """Runs samples through both nets, which share weights, and compares their scores blob by blob.

    validation: a TEST net that keeps its blobs, before its first batch. The scores that its losses use are compared,
    and the probabilities if it has them. If its data are images, the deploy net gets them as they are stored and
    prepares them itself. Errors: they differ by more than rounding; a score is not finite.
    """
    state = pb.NetState(phase=pb.TEST)
    deploy = Net.of(
        graph.build(rebatched(converted.message, validation), state), validation.dev, share=validation, keep=True
    )
    source = next((s for _, s in validation.sources() if isinstance(s, DataSource)), None)
    if source is None or len(converted.inputs) != 1:
        preparation = None
    elif source.shapes[0] != deploy.graph.values[converted.inputs[0]].shape:
        preparation = None
    else:
        preparation = Preparation(converted.message, NOWHERE)
    fed_here = {value.name: value for node in validation.graph.feeds for value in node.tops}
    nodes = {node.layer_index: node for node in validation.graph.nodes}  # the net has a copy of the converted graph
    scores = {name: nodes[value.node.layer_index].tops[value.top] for name, value in converted.scores.items()}
    tested, worst, most = 0, 0.0, 1e-30
    while tested < samples:
        start = source.position if source is not None else 0
        validation.forward(tested)
        fed = {name: validation.dev.download(validation.data[fed_here[name]]) for name in converted.inputs}
        many = next(iter(fed.values())).shape[0]
        if source is not None and preparation is not None:
            indices = source.order(start, many)
            for row, (index, content) in enumerate(zip(indices.tolist(), source.samples.read(indices), strict=True)):
                image = source.samples.image(index, content)[0]
                fed[converted.inputs[0]][row] = preparation.views(preparation.fitted(image)[0])[0]
        deploy.set_inputs(**fed)
        deploy.forward(tested)
        for name, value in scores.items():
            arrays = deploy.blobs[name], validation.shown(validation.data[value], value)
            mine, theirs = (validation.dev.download(array).astype(float) for array in arrays)
            if not np.isfinite(theirs).all():
                what = f'the validated net\'s "{name}" is not finite, samples {tested} to {tested + many - 1}'
                raise CaffeliteError(what, remedy="are the weights those of this net, and the data without NaN?")
            worst, most = float(np.maximum(worst, np.abs(mine - theirs).max())), max(most, float(np.abs(theirs).max()))
            if not worst <= NEAR * most:  # so that NaN is a difference
                what = f'the deploy net differs from the validated one in "{name}", samples {tested} to '
                what += str(tested + many - 1)
                raise CaffeliteError(what, expected=f"at most {NEAR * most:.2g}", found=f"{worst:.6g}")
        tested += many
        progress(many)
    return Proof(tested, worst / most, preparation is not None)


def rebatched(message: pb.NetParameter, validation: Net) -> pb.NetParameter:
    """The deploy net with the input shapes of the validated net."""
    made = pb.NetParameter()
    made.CopyFrom(message)
    for layer in made.layer:
        if is_input(layer):
            layer.ClearField("input_param")
            for top in layer.top:
                layer.input_param.shape.add(dim=validation.graph.values[top].shape)
    return made
