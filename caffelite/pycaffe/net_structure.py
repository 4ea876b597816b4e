"""The layers, blobs and parameters of a net by name, as pycaffe has them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from ..errors import CaffeliteError, did_you_mean
from ..layers.data import DummyData
from ..layers.python import Python, UserLayer
from ..net import net as nets
from ..net.nodes import AUTOMATIC, Node, Value
from ..net.partial import PartialPasses
from .blob import Blob, BlobVec, Copies, NetBlob, parameter_blob

Names = OrderedDict[str, list[str]]


class LayerView:
    """A layer of a net: its ``type`` and its parameters, ``blobs``."""

    def __init__(self, kind: str, blobs: list[Blob]):
        self.type, self.blobs = kind, blobs

    def __repr__(self) -> str:
        return f"<{self.type} layer>"


class NetStructure:
    """The layers, blobs and parameters of a net by name, in the order of the layers. Layers and blobs that the compiler
    inserts do not appear."""

    def _adopt(self, net: nets.Net, copies: Copies | None = None) -> None:
        self._net, self._copies, self.iteration = net, copies or Copies(net.dev), 0
        self.lock, self._has_inputs = net.dev.lock, bool(net.graph.inputs)
        self._owned = copies is None
        if self._owned:
            weakref.finalize(self, net.close)
        self._passes = PartialPasses(net)
        self._nodes: list[Node] = self._passes.layers
        self._layer_names: list[str] = [node.name for node in self._nodes]
        self._fill_sources()
        self._blobs_by_name: OrderedDict[str, Blob] = OrderedDict(self._make_blobs())
        self.layers: list[LayerView | UserLayer] = [self._layer(node) for node in self._nodes]
        self._callbacks: dict[str, list[Callable[[int], object]]] = {}

    def _make_blobs(self) -> Iterator[tuple[str, Blob]]:
        net, at = self._net, {node: i for i, node in enumerate(self._nodes)}
        self._versioned: list[NetBlob] = []
        versions: dict[str, list[Value]] = {name: [] for name in net.graph.values}
        for node in self._nodes:
            for value in node.tops:
                if value.name != AUTOMATIC:
                    versions[value.name].append(value)
        for name, last in net.graph.values.items():
            values = versions[name]
            makers = [at[value.node] for value in values]
            values[-1] = last  # an output may be a copy in Caffe's layout
            blob = NetBlob(name, net, values, makers, self._copies)
            if len(values) > 1:
                self._versioned.append(blob)
            yield name, blob

    def _layer(self, node: Node) -> LayerView | UserLayer:
        """What ``layers`` shows of a layer: of a Python layer the user's object."""
        user = getattr(node.layer, "user", None)
        if user is not None:
            return user
        return LayerView(
            node.layer.spec.type, BlobVec(parameter_blob(view, self._copies) for view in node.layer.params)
        )

    def _fill_sources(self) -> None:
        """Fills what constants and Python layers without bottoms have from their setup. What a program then writes
        there stays, as in Caffe, where the layer does not write it."""
        for i, node in enumerate(self._nodes):
            if isinstance(node.layer, DummyData):
                self._passes.forward(i, i, 0)
            elif isinstance(node.layer, Python) and not node.bottoms:
                node.layer.keep_tops([self._net.data[value] for value in node.tops])

    # names

    @property
    def blobs(self) -> OrderedDict[str, Blob]:
        """The blobs by name, in the order of the layers that make them."""
        return self._blobs_by_name

    @property
    def params(self) -> OrderedDict[str, list[Blob]]:
        """The parameters by layer name: weights, bias and so on."""
        if not hasattr(self, "_params_by_name"):
            self._params_by_name: OrderedDict[str, list[Blob]] = OrderedDict(
                (node.name, BlobVec(parameter_blob(view, self._copies) for view in node.layer.params))
                for node in self._nodes
                if node.layer.params
            )
        return self._params_by_name

    @property
    def layer_dict(self) -> OrderedDict[str, LayerView | UserLayer]:
        """The layers by name."""
        return OrderedDict(zip(self._layer_names, self.layers, strict=True))

    @property
    def inputs(self) -> list[str]:
        """The names of the blobs of Input layers."""
        return list(self._net.graph.inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of the blobs that no layer reads."""
        names = {value.name for value in self._net.graph.outputs}
        return [name for name in self.blobs if name in names]

    @property
    def top_names(self) -> Names:
        """The names of each layer's tops, by layer."""
        return self._wiring(lambda node: node.layer.spec.top)

    @property
    def bottom_names(self) -> Names:
        """The names of each layer's bottoms, by layer."""
        return self._wiring(lambda node: node.layer.spec.bottom)

    def _wiring(self, names: Callable[[Node], Iterable[str]]) -> Names:
        return OrderedDict((node.name, [n for n in names(node) if n != AUTOMATIC]) for node in self._nodes)

    @property
    def blob_loss_weights(self) -> OrderedDict[str, float]:
        """The loss weight of each blob, 0 for all that are no losses."""
        weighed = {value.name: float(weight) for value, weight in self._net.graph.losses}
        return OrderedDict((name, weighed.get(name, 0.0)) for name in self.blobs)

    _blob_names = property(lambda self: list(self.blobs))
    _blobs = property(lambda self: list(self.blobs.values()))
    _blob_loss_weights = property(lambda self: list(self.blob_loss_weights.values()))
    _inputs = property(lambda self: [self._blob_names.index(name) for name in self.inputs])
    _outputs = property(lambda self: [self._blob_names.index(name) for name in self.outputs])

    def _top_ids(self, layer: int) -> list[int]:
        return [self._blob_names.index(name) for name in self.top_names[self._layer_names[layer]]]

    def _bottom_ids(self, layer: int) -> list[int]:
        return [self._blob_names.index(name) for name in self.bottom_names[self._layer_names[layer]]]

    def _index(self, name: str) -> int:
        """The index of a layer. Errors: there is none of this name."""
        if name not in self._layer_names:
            raise CaffeliteError(f'the net has no layer "{name}"', remedy=did_you_mean(name, self._layer_names))
        return self._layer_names.index(name)
