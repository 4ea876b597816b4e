"""Builds the graph of one device from the graph of a net."""

from ...layers.base.state import writes
from ..nodes import AUTOMATIC, Graph, Node, Parameter, ParameterRef, Value
from .analysis import Analysis, Transfer
from .division import Axis, LayerPlan, Need, shard_layer, shard_shape
from .placement import DevicePosition, Placement
from .transfers import AllGather, PartLayer, Receive, Send, ShardSlice, SumGradients


def partition(graph: Graph, placement: Placement, position: DevicePosition) -> Graph:
    """The part of a net's graph that the device at ``position`` runs, with layers that exchange values with the other
    parts. ``graph`` does not change, and the parts share its layers where these are not divided.

    Errors: a placement that the net does not allow.
    """
    return part(Analysis(graph, placement), position)


def part(whole: Analysis, position: DevicePosition) -> Graph:
    """The graph of the device at ``position``."""
    return _Builder(whole, position).graph()


class _Builder:
    """Builds the graph of one device. Its nodes are in the order of the complete graph: a value is sent as soon as it
    is computed, and received just before its first reader. Values of one peer are received in the order in which they
    are sent, and gradients in the reverse order, so that no stage waits for a message behind another. All devices of a
    stage exchange parts of values in the same order."""

    def __init__(self, whole: Analysis, position: DevicePosition):
        self.whole, self.stage, self.shard = whole, position.stage, position.shard
        self.shards, self.phase = whole.placement.shards, whole.graph.phase
        self.nodes: list[Node] = []
        self.values: dict[Value, Value] = {}  # of the complete graph → here, as they are divided
        self.named: dict[str, Value] = {}
        self._made: dict[Node, Node] = {}
        self._converted: dict[tuple[Value, Need], Value] = {}
        self._sends: dict[Value, list[Transfer]] = {}
        for transfer in whole.transfers:
            if transfer.source == self.stage:
                self._sends.setdefault(transfer.value, []).append(transfer)
        self._receives = _receive_times([t for t in whole.transfers if t.stage == self.stage])
        mine = [node for node in whole.graph.nodes if whole.plans[node].stage == self.stage]
        # Divided values of which a layer here reads all, with one gradient on all devices
        self._gathered = {
            bottom
            for node in mine
            for bottom, need in zip(node.bottoms, whole.plans[node].needs, strict=True)
            if not need.partial and whole.axes[bottom] not in (None, need.axis)
        } | {top for node in mine for i, top in enumerate(node.tops) if self._is_result(node, i, top)}

    def graph(self) -> Graph:
        whole, graph = self.whole, self.whole.graph
        owners = [i for i, p in enumerate(graph.parameters) if whole.plans[p.node].stage == self.stage]
        local = {owner: i for i, owner in enumerate(owners)}
        for node in graph.nodes:
            for transfer in self._receives.get(node.index, ()):
                self._receive(transfer)
            if whole.plans[node].stage == self.stage:
                self._add(node, whole.plans[node], local)
        parameters = []
        for owner in owners:
            p = graph.parameters[owner]
            node = self._made[p.node]
            blob = node.layer.param_blobs[p.index]
            parameters.append(Parameter(node, p.index, p.name, blob, p.lr_mult, p.decay_mult))
        for index, node in enumerate(self.nodes):
            node.index = index
        return Graph(graph.name, self.phase, self.nodes, self.named, parameters, graph.message, [*graph.dropped])

    def _is_result(self, node: Node, i: int, top: Value) -> bool:
        """Whether a top is an output or a loss of the net."""
        output = not top.readers and self.whole.graph.values.get(top.name) is top
        return bool(node.loss_weights[i]) or output

    def _add(self, node: Node, plan: LayerPlan, owners: dict[int, int]) -> None:
        """Adds a layer of this stage, then sends its tops."""
        bottoms = [
            self._as_needed(bottom, need, wanted)
            for bottom, need, wanted in zip(node.bottoms, plan.needs, node.gradient_to, strict=True)
        ]
        if writes(node.layer) and self.shard:
            return  # the first device writes the file
        layer = node.layer if plan.message is None else shard_layer(node, plan, self.shard, self.shards)[0]
        new = self._made[node] = node.unwired(layer)
        new.params = [ParameterRef(owners[ref.owner], ref.wanted) for ref in node.params]
        for i, bottom in enumerate(bottoms):
            _read(bottom, new, i)
        for top, axis in zip(node.tops, plan.tops, strict=True):
            shape = shard_shape(top.shape, axis, self.shards)
            new.tops.append(Value(top.name, shape, new, top.top, [], top.gradient))
        self.nodes.append(new)
        for i, (top, axis) in enumerate(zip(node.tops, plan.tops, strict=True)):
            self._add_value(top, new.tops[i])
            for transfer in self._sends.get(top, ()):
                self._send(transfer, new.tops[i])
            if axis is not None and self._is_result(node, i, top):
                self._gather_result(node, i, top)

    def _add_value(self, value: Value, own: Value) -> None:
        self.values[value] = own
        if value.name != AUTOMATIC:
            self.named[value.name] = own

    def _gather_result(self, node: Node, i: int, top: Value) -> None:
        """An output or a loss is shown, and summed, as a whole."""
        weight = node.loss_weights[i]
        gathered = self._as_needed(top, Need(), top.gradient and (weight != 0 or not top.readers))
        gathered.node.loss_weights, self._made[node].loss_weights[i] = [weight], 0.0
        if not top.readers:
            self.named[top.name] = gathered

    def _as_needed(self, value: Value, need: Need, gradient: bool) -> Value:
        """The value as a layer needs it. gradient: the layer computes one for it."""
        axis, own = self.whole.axes[value], self.values[value]
        if need.axis == axis and not need.partial:
            return own
        if need.axis is not None:
            below = own if axis is None else self._as_needed(value, Need(), gradient)
            return self._convert(value, below, need, gradient)
        if axis is None or (need.partial and value in self._gathered):
            below = own if axis is None else self._as_needed(value, Need(), gradient)
            return self._convert(value, below, need, gradient)
        return self._convert(value, own, need, gradient)

    def _convert(self, value: Value, below: Value, need: Need, gradient: bool) -> Value:
        """A copy of ``below`` as ``need`` says, made where it is first read."""
        if (value, need) not in self._converted:
            layer = self._conversion(value, below, need)
            node = Node(-1, -1, layer, loss_weights=[0.0], gradient_to=[False])
            _read(below, node, 0)
            shape = shard_shape(value.shape, need.axis, self.shards)
            node.tops = [Value(value.name, shape, node, 0)]
            self.nodes.append(node)
            self._converted[value, need] = node.tops[0]
        made = self._converted[value, need]
        if gradient:
            made.gradient = made.node.backward = made.node.gradient_to[0] = True
        return made

    def _conversion(self, value: Value, below: Value, need: Need) -> PartLayer:
        shard = (self.shard, self.shards)
        if need.axis is not None:
            return ShardSlice(value, self.phase, value.shape, need.axis, *shard)
        axis: Axis = self.whole.axes[value] if below is self.values[value] else None
        if axis is None:
            return SumGradients(value, self.phase)
        return AllGather(value, self.phase, value.shape, axis, *shard, need.partial)

    def _send(self, transfer: Transfer, value: Value) -> None:
        peer = (transfer.stage, self.shard)
        layer = Send(value, self.phase, peer, transfer.tag, transfer.gradient, value.shape)
        node = Node(-1, -1, layer, backward=transfer.gradient, gradient_to=[transfer.gradient])
        _read(value, node, 0)
        self.nodes.append(node)

    def _receive(self, transfer: Transfer) -> None:
        value, peer = transfer.value, (transfer.source, self.shard)
        layer = Receive(value, self.phase, peer, transfer.tag, transfer.gradient, transfer.shape)
        node = Node(-1, -1, layer, backward=transfer.gradient, loss_weights=[0.0])
        node.tops = [Value(value.name, transfer.shape, node, 0, [], transfer.gradient)]
        self.nodes.append(node)
        self._add_value(value, node.tops[0])


def _read(value: Value, reader: Node, i: int) -> None:
    reader.bottoms.append(value)
    value.readers.append((reader, i))


def partial_gradient(value: Value) -> bool:
    """Whether each device of a stage computes a summand of the gradient of a value in a part's graph."""
    node = value.node
    while node.layer_index < 0 and not isinstance(node.layer, PartLayer):  # a copy in another layout or dtype
        node = node.bottoms[0].node
    return isinstance(node.layer, SumGradients) or isinstance(node.layer, AllGather) and node.layer.partial


def _receive_times(transfers: list[Transfer]) -> dict[int, list[Transfer]]:
    """Before which node of the complete graph each transfer is received, in the order of ``transfers``."""
    latest: dict[int, int] = {}  # by sending stage: when the transfers behind are received at the latest
    times: dict[int, list[Transfer]] = {}
    for transfer in reversed(transfers):
        time = min(latest.get(transfer.source, transfer.first_read), transfer.first_read)
        latest[transfer.source] = time
        times.setdefault(time, []).insert(0, transfer)
    return times
