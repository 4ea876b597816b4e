"""Decides how the devices of a stage divide each layer, and which part of each value they have."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ... import caffelite_pb2 as pb, layers
from ...errors import CaffeliteError
from ...layers import Layer, ParameterShard, Shape
from ...layers.base.compilation import includes
from ...layers.base.division import Positioned, divides_outputs
from ...layers.data import Feed
from ..nodes import Graph, Node, Value
from .placement import Division, LayerPlacement, Placement

Axis = int | None  # along which a value is divided; None: each device has the whole value


@dataclass(frozen=True)
class Need:
    """What a layer reads of a bottom. partial: its gradient for the bottom is one of several, one a device, which sum
    to the bottom's."""

    axis: Axis = None
    partial: bool = False


@dataclass(frozen=True)
class LayerPlan:
    """How a stage runs a layer: what it reads of each bottom, the axes along which its tops are divided, and where it
    is divided itself the axis and its part's message."""

    stage: int
    needs: tuple[Need, ...]
    tops: tuple[Axis, ...]
    axis: Axis = None
    message: pb.LayerParameter | None = None

    @property
    def sums_gradients(self) -> bool:
        """Whether the gradients of its parameters are to be summed over the stage."""
        return self.axis == 0 and self.message is not None


def feeds_divided(node: Node, divided: Collection[Node]) -> bool:
    """Whether each device should read its samples alone: all layers that read the data of ``node`` are ``divided`` by
    samples."""
    feeds = isinstance(node.layer, Feed) and node.layer.divides_samples
    return feeds and bool(node.tops[0].readers) and all(reader in divided for reader, _ in node.tops[0].readers)


def shard_shape(shape: Shape, axis: Axis, shards: int) -> Shape:
    """The shape of a part of a value."""
    if axis is None:
        return shape
    return (*shape[:axis], shape[axis] // shards, *shape[axis + 1 :])


def plan(graph: Graph, placement: Placement) -> dict[Node, LayerPlan]:
    """How each layer of a graph is divided. Errors: a layer that cannot be divided as its placement says."""
    planner = LayerPlanner(graph, placement)
    return {node: planner.add(node) for node in graph.nodes}


class LayerPlanner:
    """Plans the layers of a graph one after the other."""

    def __init__(self, graph: Graph, placement: Placement):
        self.graph, self.placement, self.shards = graph, placement, placement.shards
        self._axes: dict[Value, Axis] = {}

    def add(self, node: Node) -> LayerPlan:
        """Plans a layer whose bottoms are planned."""
        placement = self.placement.layers.get(node.name, LayerPlacement())
        division = placement.division if self.shards > 1 else Division.WHOLE
        if division is Division.OUTPUTS:
            plan = self.by_outputs(node, placement.stage)
        elif division is Division.BATCH:
            plan = self._by_samples(node, placement.stage)
        else:
            plan = self._following(node, placement.stage)
        self._axes.update(zip(node.tops, plan.tops, strict=True))
        return plan

    def _following(self, node: Node, stage: int) -> LayerPlan:
        """A layer without a division of its own works on parts where its bottoms are parts and it can."""
        axes = dict.fromkeys(a for b in node.bottoms if (a := self._axes[b]) is not None)
        for axis in axes:
            if plan := self.along(node, stage, axis):
                return plan
        return LayerPlan(stage, (Need(),) * len(node.bottoms), (None,) * len(node.tops))

    def along(self, node: Node, stage: int, axis: int) -> LayerPlan | None:
        """The plan of a layer that takes the same part of each bottom as of its tops; None where it cannot."""
        if not includes(node.layer.divisible_axes, axis) or not self._have(node.bottoms or node.tops, axis):
            return None
        needs = (Need(axis),) * len(node.bottoms)
        plan = LayerPlan(stage, needs, (axis,) * len(node.tops), axis, node.layer.spec)
        return plan if self._fits(node, plan) else None

    def _have(self, values: Sequence[Value], axis: int) -> bool:
        """Whether the values can be divided along an axis."""
        return bool(values) and all(len(v.shape) > axis and v.shape[axis] % self.shards == 0 for v in values)

    def _fits(self, node: Node, plan: LayerPlan) -> bool:
        """Whether the part of a layer has the expected shapes, and the gradient of no parameter is a part of a sum
        unless it is over samples."""
        try:
            layer, tops = shard_layer(node, plan, 0, self.shards)
        except CaffeliteError:
            return False
        expected = [shard_shape(top.shape, a, self.shards) for top, a in zip(node.tops, plan.tops, strict=True)]
        divided = [spec.shard is not None for spec in layer.param_blobs]
        wanted = [ref.wanted for ref in node.params]
        if plan.axis == 0:
            return tops == expected and not any(divided)
        return tops == expected and all(d or not w for d, w in zip(divided, wanted, strict=True))

    def _by_samples(self, node: Node, stage: int) -> LayerPlan:
        """A layer that the placement divides by samples."""
        layer = node.layer
        what = f"{self.shards} devices cannot divide its samples"
        if layer.couples_samples and not includes(layer.divisible_axes, 0):
            remedy = "divide its outputs, or place it without a division"
            raise layer.error(f"{what}: they depend on each other", "placement", "division", remedy=remedy, outer=True)
        if not (plan := self.along(node, stage, 0)):
            shapes = ", ".join(f'"{v.name}" {list(v.shape)}' for v in (*node.bottoms, *node.tops))
            expected = f"bottoms and tops with a multiple of {self.shards} samples"
            raise layer.error(what, "placement", "division", expected=expected, found=shapes or "no bottom", outer=True)
        return plan

    def by_outputs(self, node: Node, stage: int) -> LayerPlan:
        """A layer that the placement divides by outputs."""
        layer = node.layer
        if not divides_outputs(layer):
            what = f"{self.shards} devices cannot divide its outputs"
            remedy = "leave out shards: it works on parts where its bottoms are divided and it can"
            raise layer.error(what, "placement", "shards", remedy=remedy, outer=True)
        message = layer.output_part(self.shards)
        axis = layer.input_part_axis(self.shards)
        needs = tuple(Need(axis) if axis is not None else Need(None, wanted) for wanted in node.gradient_to)
        plan = LayerPlan(stage, needs, (1,) * len(node.tops), 1, message)
        _, shapes = shard_layer(node, plan, 0, self.shards)
        axes = tuple(_divided(top.shape, shape) for top, shape in zip(node.tops, shapes, strict=True))
        return replace(plan, tops=axes, axis=axes[0])


def _divided(whole: Shape, shard: Shape) -> int:
    """The axis along which ``shard`` is smaller."""
    return next(i for i, (a, b) in enumerate(zip(whole, shard, strict=True)) if a != b)


def shard_layer(node: Node, plan: LayerPlan, shard: int, shards: int) -> tuple[Layer, list[Shape]]:
    """The layer of one device, and the shapes of its tops."""
    if isinstance(node.layer, Feed):
        layer: Layer = node.layer.sample_shard(shard, shards)
    else:
        layer = layers.create(plan.message or node.layer.spec, node.layer.phase, node.layer.locate)
    needs = zip(node.bottoms, plan.needs, strict=True)
    bottoms = [shard_shape(bottom.shape, need.axis, shards) for bottom, need in needs]
    tops = [tuple(int(d) for d in shape) for shape in layer.shapes(bottoms)]
    if isinstance(layer, Positioned):
        layer.set_part(plan.axis or 0, shard, shards)
    for i, (own, whole) in enumerate(zip(layer.param_blobs, node.layer.param_blobs, strict=True)):
        if own.shape != whole.shape:
            axis = _divided(whole.shape, own.shape)
            divided = ParameterShard(axis, shard * own.shape[axis], whole.shape)
            layer.param_blobs[i] = replace(own, shard=divided)
    return layer, tops


def check_shared_parameters(graph: Graph, plans: Mapping[Node, LayerPlan], shards: int) -> None:
    """Raises an error where layers share a parameter and divide it differently."""
    first_uses: dict[int, tuple[Node, ParameterShard | None, bool]] = {}
    for node in graph.nodes:
        plan = plans[node]
        own = shard_layer(node, plan, 0, shards)[0] if plan.message is not None and node.params else node.layer
        for i, ref in enumerate(node.params):
            divided, sums = own.param_blobs[i].shard, plan.sums_gradients
            first, other, others = first_uses.setdefault(ref.owner, (node, divided, sums))
            if (divided, sums) != (other, others):
                what = f'divides parameter "{graph.parameters[ref.owner].name}" differently than layer "{first.name}"'
                what, remedy = f"{what}, with which it shares it", "give both the same placement"
                raise node.layer.error(what, "param", i, "name", remedy=remedy, outer=True)
