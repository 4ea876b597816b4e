"""Compares a deploy net with the net that it was made of: samples of the data go through both."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import caffelite_pb2 as pb
from ..data.order import Order
from ..data.samples import TransformedSource, spread
from ..errors import NOWHERE
from ..layers.base.feeding import is_input
from ..net import graph
from ..net.net import Net
from ..proof.differences import Differences
from .convert import Converted
from .preprocessing import Preparation

NEAR = 1e-5  # of the greatest score: what rounding may change
REVERSED = "image files are decoded to blue, green, red: leave out -channel_order rgb"

STRETCHED = "images are stretched to the net's size: set resize_mode: WARP and interp_mode: LINEAR for tests"


@dataclass(frozen=True)
class Proof:
    """samples compared; difference: the greatest, as a share of the greatest score; raw: of stored images, not of the
    net's input."""

    samples: int
    difference: float
    raw: bool


class _Chosen(Order):
    """Some samples, over and over."""

    def __init__(self, indices: np.ndarray):
        super().__init__(len(indices))
        self._indices = indices

    def __call__(self, position: int, count: int) -> np.ndarray:
        return self._indices[super().__call__(position, count)]


def prove(
    validation: Net, converted: Converted, samples: int, progress: Callable[[int], None] = lambda n: None
) -> Proof:
    """Runs samples through both nets, which share weights, and compares their scores blob by blob.

    validation: a TEST net that keeps its blobs, before its first batch. The scores that its losses use are compared,
    and the probabilities if it has them. If its data are images, the deploy net gets what a user has of them, image
    files or stored pixels, and prepares them as ``classify`` does; the samples are spread over the data set, with at
    least one of each class, so they may be more than ``samples``. Errors: they differ by more than rounding; a score is
    not finite.
    """
    state = pb.NetState(phase=pb.TEST)
    deploy = Net.of(
        graph.build(rebatched(converted.message, validation), state), validation.dev, share=validation, keep=True
    )
    source, preparation = _pictures(validation, converted, deploy)
    if source is not None and source.samples is not None:
        chosen = spread(source.samples, samples)
        source.order, samples = _Chosen(chosen), len(chosen)
    fed_here = {value.name: value for node in validation.graph.feeds for value in node.tops}
    nodes = {node.layer_index: node for node in validation.graph.nodes}  # the net has a copy of the converted graph
    scores = {name: nodes[value.node.layer_index].tops[value.top] for name, value in converted.scores.items()}
    remedy = "are the weights those of this net, and the data without NaN?"
    differences = Differences(NEAR, "the deploy net", "the validated net", remedy)
    tested = 0
    while tested < samples:
        start = source.position if source is not None else tested
        validation.forward(tested)
        fed = {name: validation.dev.download(validation.data[fed_here[name]]) for name in converted.inputs}
        many = next(iter(fed.values())).shape[0]
        if source is not None and preparation is not None:
            _prepare(source, start, preparation, fed[converted.inputs[0]])
        deploy.set_inputs(**fed)
        deploy.forward(tested)
        for name, value in scores.items():
            arrays = deploy.blobs[name], validation.shown(validation.data[value], value)
            mine, theirs = (validation.dev.download(array).astype(float) for array in arrays)
            named = partial(_named, source, start)
            differences.add(name, mine, theirs, named, _remedy(validation, preparation))
        tested += many
        progress(many)
    return Proof(tested, max(differences.shares.values(), default=0.0), preparation is not None)


def _remedy(validation: Net, preparation: Preparation | None) -> str | None:
    if preparation is None:
        return None
    if any(node.layer.spec.transform_param.resize_param for node in validation.graph.feeds):
        return STRETCHED
    return REVERSED if preparation.deploy.channel_order == pb.DeployParameter.RGB else None


def _pictures(
    validation: Net, converted: Converted, deploy: Net
) -> tuple[TransformedSource, Preparation] | tuple[None, None]:
    """The source of the images that the deploy net reads, and how it prepares them; None where it reads no images."""
    sources = (source for _, source in validation.sources() if isinstance(source, TransformedSource))
    source = next((source for source in sources if source.samples is not None), None)
    if source is None or len(converted.inputs) != 1:
        return None, None
    if source.shapes[0] != deploy.graph.values[converted.inputs[0]].shape or len(source.shapes[0]) != 4:
        return None, None
    if source.shapes[0][1] not in (1, 3, 4):
        return None, None
    return source, Preparation(converted.message, NOWHERE)


def _prepare(source: TransformedSource, position: int, preparation: Preparation, rows: np.ndarray) -> None:
    """Writes the samples from a position on into the rows of the deploy net's input, as ``classify`` does."""
    assert source.samples is not None
    indices = source.order(position, len(rows))
    for row, (index, content) in enumerate(zip(indices.tolist(), source.samples.read(indices), strict=True)):
        stored = source.samples.picture(index, content)
        # Stored pixels have the net's channels in their own order, which no setting changes.
        image = preparation.decode(stored) if isinstance(stored, bytes) else stored
        rows[row] = preparation.views(preparation.fitted(image)[0])[0]


def _named(source: TransformedSource | None, position: int, differences: np.ndarray) -> str:
    """The sample of the greatest difference, of a batch that begins at a position."""
    rows = np.nan_to_num(differences.astype(float).reshape(len(differences), -1), nan=np.inf).max(1)
    position += int(rows.argmax())
    if source is None:
        return f"sample {position}"
    source.seek(source.position)  # no thread reads now
    return source.name(position)


def rebatched(message: pb.NetParameter, validation: Net) -> pb.NetParameter:
    """The deploy net with the input shapes of the validated net."""
    made = deepcopy(message)
    for layer in made.layer:
        if is_input(layer):
            layer.ClearField("input_param")
            for top in layer.top:
                layer.input_param.shape.add(dim=validation.graph.values[top].shape)
    return made
