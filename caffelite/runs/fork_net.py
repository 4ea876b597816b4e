"""A net that caffelite and a fork's own Net run on the same batches."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..devices import open_device
from ..errors import CaffeliteError, Locator
from ..fork import build
from ..fork.convert import convert
from ..fork.option import Fork
from ..fork.process import NativeError, RemoteNet
from ..fork.schema import NET
from ..fork.text import NETS
from ..layers import REGISTRY
from ..layers.base.feeding import Feeding
from ..layers.base.fields_read import names_read
from ..layers.base.unknown_types import tolerate
from ..net import graph
from ..net.net import Net
from ..prototxt.dialects import SOLVER_TYPES
from ..training.optim.updates import rule_name
from .open_net import open_net

SEED = 1
MASKED = "Dropout"  # a type that draws, in whose place both multiply by the same mask
Arrays = dict[str, np.ndarray]
log = logging.getLogger("caffelite")


class SharedNet:
    """A net of caffelite's schema as both sides run it: without rules, without layers in place so that each blob stays,
    with inputs in place of data layers and of the masks of dropout.

    message: of caffelite's own layers; specs: its layers, where the fork has their type as the fork's code runs them.
    replaced: types of layers by the name, where another stands in their place. Errors: mistakes in the net.
    """

    def __init__(self, fork: Fork, model: str, phase: int):
        self.fork, self.phase = fork, phase
        documents = []
        for mode in ("missing", "all"):
            with fork.reading(mode):
                documents.append(prototxt.read_net(model, tolerate=tolerate))
        self.locate: Locator = documents[0].locate
        nets = [_kept(document.message, phase) for document in documents]
        self._feeding = pb.NetParameter(layer=[each for each in nets[0].layer if _feeds(each)])
        self._data = _open(self._feeding, self.locate, phase) if self._feeding.layer else None
        self.shapes = {v.name: v.shape for node in self._nodes() for v in node.tops}
        self.replaced: dict[str, str] = {}
        self._random: list[str] = []  # inputs of the net itself
        self._ratios: dict[str, float] = {}  # of masks
        self.message, others = (self._shared(net) for net in nets)
        self.specs = list(others.layer)

    def _nodes(self) -> Sequence[Any]:
        return self._data.graph.nodes if self._data else ()

    def _shared(self, net: pb.NetParameter) -> pb.NetParameter:
        separate = _separated(net)
        made = pb.NetParameter(name=net.name, force_backward=net.force_backward)
        for layer in separate.layer:
            if _feeds(layer):
                for top in layer.top:
                    self._input(made, top, self.shapes[top])
            elif layer.type == MASKED and draws(layer) and self.phase == pb.TRAIN:
                self.replaced[layer.name] = MASKED
                mask = f"mask of {layer.name}"
                self._ratios[mask] = layer.dropout_param.dropout_ratio
                shape = self.shapes.get(mask) or _shape(made, layer.bottom[0], self.phase)
                self._input(made, mask, shape)
                product = made.layer.add(name=layer.name, type="Eltwise", bottom=[layer.bottom[0], mask], top=layer.top)
                product.eltwise_param.operation = pb.EltwiseParameter.PROD
                product.propagate_down.extend([True, False])
            else:
                if layer.type == "Input":
                    self._random += layer.top
                    self.replaced[layer.name] = "Input"
                made.layer.add().CopyFrom(layer)
        return made

    def _input(self, net: pb.NetParameter, top: str, shape: Sequence[int]) -> None:
        self.shapes[top] = tuple(shape)
        net.layer.add(name=f"input {top}", type="Input", top=[top]).input_param.shape.add(dim=shape)
        self.replaced[f"input {top}"] = "data"

    def batch(self, iteration: int) -> Arrays:
        """The inputs of an iteration, by name."""
        draw = np.random.default_rng((SEED, iteration))
        arrays: Arrays = {}
        if self._data:
            self._data.forward(iteration)
            arrays = {v.name: array_of(self._data, self._data.data[v], v) for node in self._nodes() for v in node.tops}
        for name, ratio in self._ratios.items():
            arrays[name] = (draw.random(self.shapes[name]) >= ratio).astype(np.float32) / np.float32(1 - ratio)
        for layer in self.message.layer:
            for top, shape in zip(layer.top, layer.input_param.shape, strict=False):
                if top in self._random:
                    arrays[top] = draw.normal(size=tuple(shape.dim)).astype(np.float32)
        return arrays

    def open(self, dev: Any) -> Net:
        """The net by caffelite."""
        return open_net(prototxt.Document(self.message, self.locate), dev, self.phase, seed=SEED, keep=True)

    def open_forks(self, folder: str, solver: pb.SolverParameter | None = None) -> "ForkNet":
        """The net by the fork's Net; with a solver, as that trains it. Errors: the fork cannot; it does not compile."""
        types, net = self._types(), self._fork_net()
        kind = rule_name(solver, self.locate) if solver else None
        made = compile_ahead(self.fork, types)
        library = made.net_library(types, kind)
        message = net if solver is None else self._fork_solver(solver, net)
        arguments = library, folder, message.SerializeToString(), self.phase, SEED, solver is not None
        return ForkNet(self.fork, arguments)

    def _types(self) -> list[str]:
        """The types of the net as the sources name them, and those that the fork's Net adds."""
        names = []
        for layer in self.message.layer:
            name = self.fork.source_name(layer.type)
            if name is None and layer.type != "Input":
                what = (
                    f'layer "{layer.name}": {self.fork.name} has no type "{layer.type}", so its Net cannot run this net'
                )
                raise CaffeliteError(what, remedy="compare the others by -compare -types")
            names.append(name)
        return sorted({name for name in (*names, self.fork.source_name("Split")) if name})

    def _fork_net(self) -> Any:
        """The net in the fork's schema."""
        fork = self.fork
        net: Any = fork.schema.message_class(NET)(name=self.message.name, force_backward=self.message.force_backward)
        fields = net.DESCRIPTOR.fields_by_name
        if "state" in fields:
            net.state.phase = self.phase
        for layer, spec in zip(self.message.layer, self.specs, strict=True):
            if layer.type != "Input" or fork.source_name("Input"):
                (net.layers if fork.schema.enum else net.layer).add().CopyFrom(fork.text.fork_layer(spec))
                continue
            for top, shape in zip(layer.top, layer.input_param.shape, strict=False):
                net.input.append(top)
                if "input_shape" in fields:
                    net.input_shape.add(dim=shape.dim)
                else:
                    net.input_dim.extend([*shape.dim, 1, 1, 1, 1][:4])
        return net

    def _fork_solver(self, solver: pb.SolverParameter, net: Any) -> Any:
        """The solver in the fork's schema."""
        message: Any = self.fork.schema.message_class("SolverParameter")()
        fields = message.DESCRIPTOR.fields_by_name
        for _ in convert(self.fork.text.text_form(solver), message):
            pass  # a field that only caffelite has
        holder = next((name for name in ("train_net_param", "net_param") if name in fields), None)
        if holder is None:
            what = f"the Solver of {self.fork.name} reads its net from a file alone"
            raise CaffeliteError(what, remedy="compare its Net: -compare -model without -solver")
        for name in (*NETS, "net", "train_net", "type", "solver_type"):
            if name in fields:
                message.ClearField(name)
        getattr(message, holder).CopyFrom(net)
        kind = rule_name(solver, self.locate)
        if "type" in fields:
            message.type = kind
        elif "solver_type" in fields:
            number = next(number for number, name in SOLVER_TYPES.items() if name == kind)
            message.solver_type = number
        return message

    def close(self) -> None:
        if self._data:
            self._data.close()


class ForkNet:
    """The net by the fork's own Net. Errors: what its code reports, as a CaffeliteError."""

    def __init__(self, fork: Fork, arguments: tuple):
        self._fork = fork
        self._remote = self._native(RemoteNet, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of ``fork.worker.NativeNet`` returns."""
        return self._native(self._remote.call, method, *arguments)

    def _native(self, call: Callable, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except NativeError as mistake:
            text = str(mistake).replace(f"{self._fork.tree.path}/", "")
            raise CaffeliteError(f"the Net of {self._fork.name}: {text}") from None


def compile_ahead(fork: Fork, types: Iterable[str]) -> build.Build:
    """Compiles the files of types side by side, whose libraries will be asked for."""
    made = build.Build(fork.tree, fork.schema.descriptor_set, _progress)
    made.compile_ahead(types)
    return made


def _progress(text: str) -> None:
    log.info("fork: %s", text)


def _feeds(layer: pb.LayerParameter) -> bool:
    kind = REGISTRY.get(layer.type)
    return kind is not None and issubclass(kind, Feeding) and layer.type != "Input"


def _kept(net: pb.NetParameter, phase: int) -> pb.NetParameter:
    """A copy with the layers of a phase alone, without rules."""
    state = graph.net_state(phase, net, None, None, ())
    kept = [each for each in net.layer if graph.keeps(each, state) is None]
    made = pb.NetParameter(name=net.name, layer=kept, force_backward=net.force_backward)
    for layer in made.layer:
        layer.ClearField("include")
        layer.ClearField("exclude")
    return made


def _separated(net: pb.NetParameter) -> pb.NetParameter:
    """A copy without layers in place, so that each blob stays."""
    separate = pb.NetParameter()
    names: dict[str, str] = {}
    separate.CopyFrom(net)
    for layer in separate.layer:
        layer.bottom[:] = [names.get(name, name) for name in layer.bottom]
        for i, name in enumerate(list(layer.top)):
            if name in names or names.get(name, name) in layer.bottom:
                names[name] = f"{name}@{layer.name}"
                layer.top[i] = names[name]
    return separate


def _open(net: pb.NetParameter, locate: Locator, phase: int) -> Net:
    return open_net(prototxt.Document(net, locate), open_device(None), phase, seed=SEED, keep=True)


def _shape(net: pb.NetParameter, blob: str, phase: Any) -> Sequence[int]:
    """The shape of a blob of a net so far."""
    built = graph.build(net, pb.NetState(phase=phase), Locator("<net>"))
    return built.values[blob].shape


def draws(layer: pb.LayerParameter) -> bool:
    """Whether a layer of caffelite's draws random numbers, which are others in the fork."""
    kind: Any = REGISTRY.get(layer.type)
    if kind is None or kind.__module__ == "caffelite.fork.layer":
        return False
    pools = layer.pooling_param.pool, layer.spp_param.pool
    if layer.type in ("Pooling", "SPP"):
        return pb.PoolingParameter.STOCHASTIC in pools
    return "random_key" in names_read(kind)


def array_of(net: Net, array: Any, value: Any = None) -> Any:
    """A copy of an array of the device, in the axes of a blob. value: of the blob."""
    if array is None:
        return None
    shown = array if value is None else net.shown(array, value)
    if not shown.flags.c_contiguous:
        copy = net.dev.empty(shown.shape)
        net.dev.assign(shown, copy)
        shown = copy
    return np.array(net.dev.download(shown))


def parameters(net: Net) -> dict[str, list[np.ndarray]]:
    """Copies of a net's parameters by the layer's name."""
    return {node.name: [array_of(net, net.params.blobs[ref.owner]) for ref in node.params] for node in learned(net)}


def learned(net: Net) -> Iterator[Any]:
    """The layers that have parameters."""
    return (node for node in net.graph.nodes if node.params and node.layer_index >= 0)
