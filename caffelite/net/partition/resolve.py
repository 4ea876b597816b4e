"""The placement of a net's layers from its ``placement`` messages or from the option -split."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError
from ...layers.base.division import divides_outputs
from ...layers.base.feeding import Feeding
from ..micro_batches import check_micro_batches
from ..nodes import Graph, Node
from .analysis import Analysis
from .division import feeds_divided
from .placement import Division, LayerPlacement, Placement

WEIGHTS, PRODUCTS = 4096, 1 << 18  # of a layer, and of a sample in it: from either on shards divide a layer
EXPECTED = "a number of devices, hybrid=N, or stages=N,shards=N,micro_batches=N"


@dataclass(frozen=True)
class SplitRequest:
    """What -split says. devices: for one copy of the net, 0 where stages and shards say it; hybrid: convolutions are
    divided by samples and inner products by outputs; micro_batches: into which a batch is divided."""

    devices: int = 0
    stages: int = 1
    shards: int = 1
    micro_batches: int = 1
    hybrid: bool = False

    @property
    def size(self) -> int:
        """The devices for one copy of the net."""
        return self.devices or self.stages * self.shards


def parse_split(text: str) -> SplitRequest:
    """Reads the value of -split: ``2``, ``hybrid=2`` or ``stages=2,shards=2,micro_batches=8``; a number may be followed
    by micro_batches. Errors: anything else, a count below 1."""
    counts: dict[str, int] = {}
    for i, item in enumerate(text.split(",")):
        name, equals, value = item.strip().partition("=")
        if not i and name == "auto":
            what, remedy = f'-split "{text}": auto is no longer an arrangement', "leave -split out, or name the devices"
            raise CaffeliteError(what, expected=EXPECTED, found=item.strip(), remedy=remedy)
        if not i and name.isdecimal() and not equals:
            name, value = "devices", name
        if name not in ("devices", "stages", "shards", "micro_batches", "hybrid") or name in counts:
            what = f'-split "{text}" is not understood'
            raise CaffeliteError(what, expected=EXPECTED, found=item.strip() or "nothing")
        if not value.isdecimal() or not 1 <= int(value) <= 1 << 16:
            what = f'-split "{text}": a bad {name}'
            raise CaffeliteError(what, expected="a whole number from 1", found=value or "none")
        counts[name] = int(value)
    hybrid = counts.pop("hybrid", 0)
    chosen = [name for name in ("devices", "hybrid", "stages") if name in counts or (name == "hybrid" and hybrid)]
    if len(chosen) > 1 or (hybrid and "shards" in counts) or ("devices" in counts and "shards" in counts):
        raise CaffeliteError(f'-split "{text}" gives more than one arrangement', expected=EXPECTED)
    if hybrid:
        counts["shards"] = hybrid
    return SplitRequest(**counts, hybrid=hybrid > 0)


def has_messages(graph: Graph) -> bool:
    """Whether a layer of the net has a ``placement`` message."""
    return any(node.layer.spec.HasField("placement") for node in graph.nodes)


def from_messages(graph: Graph, micro_batches: int = 1) -> Placement:
    """The placement that the layers' messages give. A layer without a stage is on that of the layer before, or on a
    later one of a bottom.

    Errors: stages without a layer, layers divided by different numbers of devices, and what ``Analysis`` refuses.
    """
    layers: dict[str, LayerPlacement] = {}
    stages: dict[Node, int] = {}
    shards, first = 1, None
    stage = 0
    for node in graph.nodes:
        message = node.layer.spec.placement
        stage = max([stage, *(stages[b.node] for b in node.bottoms)])
        if message.HasField("stage"):
            stage = message.stage
        stages[node] = stage
        division = Division.WHOLE
        if message.shards < 1 or message.HasField("division") and message.shards == 1:
            expected = "the number of devices that divide the layer"
            where = ("placement", "shards")
            raise node.layer.error("a bad placement", *where, expected=expected, found=message.shards, outer=True)
        if message.shards > 1:
            if first is not None and message.shards != shards:
                what = f'{message.shards} devices divide it, but {shards} divide layer "{first}"'
                remedy = "give all divided layers the same shards"
                raise node.layer.error(what, "placement", "shards", remedy=remedy, outer=True)
            shards, first = message.shards, first or node.name
            by_batch = message.division == pb.PlacementParameter.BATCH
            division = Division.BATCH if by_batch else Division.OUTPUTS
        layers[node.name] = LayerPlacement(stage, division)
    count = max(stages.values(), default=0) + 1
    if empty := sorted(set(range(count)) - set(stages.values())):
        last = next(node for node in graph.nodes if stages[node] == count - 1)
        what = f"is on stage {count - 1}, but no layer is on stage {empty[0]}"
        raise last.layer.error(what, "placement", "stage", remedy="number the stages from 0 without gaps", outer=True)
    return Placement(count, shards, micro_batches, layers)


def default_placement(graph: Graph, request: SplitRequest) -> Placement:
    """A placement by simple rules: stages of about equal numbers of multiply-adds, and divided outputs wherever a layer
    has many weights or much to compute and the devices divide them evenly; where no layer has, and shards are named,
    wherever they do.

    Of a number of devices alone: what all of them compute at once, ``hybrid`` or else shards, where the net allows it;
    stages where it does not, and where there are micro-batches.

    Errors: more stages than layers; no layer that the devices can divide.
    """
    if not request.devices:
        return _placed(graph, request, small=True)
    count, others = request.devices, []
    if count > 1 and request.micro_batches == 1:
        others = [SplitRequest(shards=count, hybrid=True), SplitRequest(shards=count)]
    for other in others:
        with suppress(CaffeliteError):
            placement = _placed(graph, other)
            Analysis(graph, placement)
            return placement
    return _placed(graph, SplitRequest(stages=count, micro_batches=request.micro_batches))


def _placed(graph: Graph, request: SplitRequest, small: bool = False) -> Placement:
    """The placement of a request that names stages and shards. small: shards divide small layers where all are."""
    divisions = _hybrid(graph, request.shards) if request.hybrid else _divided_outputs(graph, request.shards, small)
    cuts = cut_stages(graph, [_work(node) for node in graph.nodes], request.stages)
    layers = {
        node.name: LayerPlacement(stage, divisions.get(node, Division.WHOLE))
        for node, stage in zip(graph.nodes, cuts, strict=True)
    }
    return Placement(request.stages, request.shards, request.micro_batches, layers)


def extend(placement: Placement, graph: Graph) -> Placement:
    """The placement of another phase of the net: layers that ``placement`` does not name are on the last stage of their
    bottoms."""
    layers = dict(placement.layers)
    for node in graph.nodes:
        if node.name not in layers:
            stage = max((layers[b.node.name].stage for b in node.bottoms), default=0)
            layers[node.name] = LayerPlacement(stage)
    return Placement(placement.stages, placement.shards, placement.micro_batches, layers)


def _work(node: Node) -> int:
    """The work of a layer: its multiply-adds, and a little for each number of its tops."""
    return _products(node) + sum(math.prod(top.shape) for top in node.tops)


def _products(node: Node) -> int:
    return node.layer.multiply_adds([b.shape for b in node.bottoms], [top.shape for top in node.tops])


def cut_stages(graph: Graph, work: Sequence[float], stages: int) -> list[int]:
    """The stage of each node, in order: the largest sum of ``work`` of a stage is as small as possible, and layers that
    share parameters are on one stage. Errors: more stages than layers that can be separated."""
    allowed = [0, *_separable(graph), len(graph.nodes)]
    if stages > len(allowed) - 1:
        what = f"the net cannot be cut into {stages} stages"
        raise CaffeliteError(what, expected=f"at most {len(allowed) - 1} stages", remedy="lower stages in -split")
    sums = [0.0]
    for one in work:
        sums.append(sums[-1] + one)
    # best[i]: the least largest sum of a stage, of the nodes before allowed[i]; came: where the last stage begins
    best: list[float] = [sums[end] for end in allowed]
    came: list[list[int]] = []
    for stage in range(1, stages):
        now, begins = [math.inf] * len(allowed), [0] * len(allowed)
        for i in range(stage + 1, len(allowed)):
            for j in range(stage, i):
                cost = max(best[j], sums[allowed[i]] - sums[allowed[j]])
                if cost < now[i]:
                    now[i], begins[i] = cost, j
        best = now
        came.append(begins)
    ends, i = [], len(allowed) - 1
    for begins in reversed(came):
        i = begins[i]
        ends.append(allowed[i])
    ends.reverse()
    return [sum(index >= end for end in ends) for index in range(len(graph.nodes))]


def _separable(graph: Graph) -> list[int]:
    """The indices of nodes before which a net can be cut: a layer that computes is on each side, and no parameter."""
    computing = [node.index for node in graph.nodes if not isinstance(node.layer, Feeding)]
    closed: set[int] = set()
    for node in graph.nodes:
        for ref in node.params:
            closed.update(range(graph.parameters[ref.owner].node.index + 1, node.index + 1))
    return [i for i in computing[1:] if i not in closed]


def _divided_outputs(graph: Graph, shards: int, small: bool = False) -> dict[Node, Division]:
    """The layers with many weights or much to compute that ``shards`` devices can divide by outputs; with small all
    that they can divide, where none is large."""
    if shards == 1:
        return {}
    large: dict[Node, Division] = {}
    others: dict[Node, Division] = {}
    for node in graph.nodes:
        weights = max((math.prod(spec.shape) for spec in node.layer.param_blobs), default=0)
        if weights and _can_divide(node, shards):
            is_large = weights >= WEIGHTS or _products(node) >= PRODUCTS * max(1, graph.batch_size)
            (large if is_large else others)[node] = Division.OUTPUTS
    divisions = large or (others if small else {})
    if not divisions:
        what = f"{shards} devices can divide no layer of the net by outputs"
        raise CaffeliteError(what, expected=f"a num_output that is a multiple of {shards}", remedy="use stages instead")
    return _alike(graph, divisions)


def _can_divide(node: Node, shards: int) -> bool:
    if not divides_outputs(node.layer):
        return False
    try:
        node.layer.output_part(shards)
    except CaffeliteError:
        return False
    return True


def _alike(graph: Graph, divisions: Mapping[Node, Division]) -> dict[Node, Division]:
    """Without the layers that share a parameter with one that is not divided."""
    alike = dict(divisions)
    for node in graph.nodes:
        for ref in node.params:
            owner = graph.parameters[ref.owner].node
            if (owner in divisions) != (node in divisions):
                alike.pop(owner, None)
                alike.pop(node, None)
    return alike


def _hybrid(graph: Graph, shards: int) -> dict[Node, Division]:
    """Inner products by outputs, and by samples what comes before them. Errors: samples that depend on each other."""
    products = _divided_outputs(graph, shards)
    products = {node: d for node, d in products.items() if not node.layer.needs_images}
    divisions: dict[Node, Division] = {}
    behind: set[Node] = set()
    for node in graph.nodes:
        if node in products or any(b.node in behind for b in node.bottoms):
            behind.add(node)
        elif node.bottoms and node.params:
            if node.layer.couples_samples:
                what = "hybrid divides the samples before the inner products, but its samples depend on each other"
                raise node.layer.error(what, remedy="use stages or shards in -split", outer=True)
            divisions[node] = Division.BATCH
    for node in graph.nodes:
        if feeds_divided(node, divisions.keys()) and all(top.shape[0] % shards == 0 for top in node.tops):
            divisions[node] = Division.BATCH
    return {**divisions, **{node: Division.OUTPUTS for node in products}}


def resolve(graph: Graph, request: SplitRequest | None) -> Placement | None:
    """The placement of a TRAIN net: of its messages, else of ``request`` by simple rules; None: the net is not divided.

    Errors: a -split that differs from the messages; an arrangement that the net does not allow.
    """
    if has_messages(graph):
        placement = from_messages(graph, request.micro_batches if request else 1)
        if request and request.size not in (1, placement.devices):
            what = f"-split asks for {request.size} devices, but the placements of the layers are for"
            raise CaffeliteError(f"{what} {placement.devices}", remedy="drop one of the two")
    elif request:
        placement = default_placement(graph, request)
    else:
        return None
    check_micro_batches(graph, placement.micro_batches)
    return placement
