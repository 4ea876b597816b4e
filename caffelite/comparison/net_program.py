"""A net with its weights, as caffelite computes it."""

import functools
import os
from collections.abc import Mapping
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, data, prototxt, weights as caffemodels
from ..deploy.convert import convert
from ..errors import CaffeliteError
from ..export.onnx import pixel_transforms
from ..file_names import DEPLOY_NET, TRAIN_NET
from ..layers import Shape
from ..layers.base import unknown_types
from ..layers.base.feeding import Feeding, is_input
from ..net import graph
from ..net.net import Net
from ..proof.runners import Arrays, NetRunner
from ..runs import folder as runs, snapshots
from ..runs.open_net import load_weights
from ..zoo import named_files
from .programs import Layer, OpenShape


class NetProgram(NetRunner):
    """A deploy net on a device; of a net that reads data its deploy net. files: its caffemodels. transforms: of the
    inputs of pictures."""

    def __init__(self, document: prototxt.Document, files: tuple[str, ...], dev: Any, title: str):
        super().__init__(self._opened)
        self.title, self.document, self._dev, self.files = title, _deploy_net(document), dev, files
        self.pixels: frozenset[str] = frozenset()
        self._first: Net | None = None
        self.graph = graph.build(self.document.message, pb.NetState(phase=pb.TEST), self.document.locate)
        self.inputs: dict[str, OpenShape] = {name: tuple(value.shape) for name, value in self.graph.inputs.items()}
        if not self.inputs:
            raise document.locate.error(f"{title} has no input", remedy="name a deploy net: caffelite deploy makes one")
        self.transforms = pixel_transforms(self.graph)

    def _opened(self, shapes: Mapping[str, Shape]) -> Net:
        message = deepcopy(self.document.message)
        for layer in message.layer:
            if is_input(layer):
                layer.ClearField("input_param")
                for top in layer.top:
                    layer.input_param.shape.add(dim=shapes[top])
        built = graph.build(message, pb.NetState(phase=pb.TEST), self.document.locate)
        net = Net.of(built, self._dev, share=self._first, keep=True)
        if self._first is None:
            self._first = net
            load_weights(net, self.files)
        return net

    def layers(self, fed: Arrays) -> list[Layer]:
        net = self.net(fed)
        self.run(net, fed)
        made, layers = [], {node.name for node in net.graph.nodes}
        for node in net.graph.nodes:
            if node.layer_index < 0 or isinstance(node.layer, Feeding):
                continue
            for value in node.tops:
                names: tuple[str, ...] = (node.name,) if len(node.tops) == 1 else ()
                if net.graph.values.get(value.name) is value and value.name not in layers:
                    names += (value.name,)
                made.append(Layer(names, net.dev.download(net.shown(net.data[value], value))))
        return made


def _deploy_net(document: prototxt.Document) -> prototxt.Document:
    if any(is_input(layer) for layer in document.message.layer):
        return document
    state = graph.net_state(pb.TEST, document.message)
    opened = graph.build(document.message, state, document.locate, functools.partial(data.open_source, seed=0))
    with closing(opened):
        return prototxt.Document(convert(opened).message, document.locate)


def open_net(name: str, dev: Any) -> NetProgram:
    """A net by its name: a prototxt, the folder of a project or of a run, or a net that ships with weights; behind a
    comma its caffemodels, where it names none. Errors: no such net; no weights."""
    path, files = name, tuple[str, ...]()
    if not os.path.exists(name) and "," in name:
        path, *rest = (each.strip() for each in name.split(","))
        files = tuple(rest)
    if os.path.isdir(path) and runs.holds_records(Path(path)):
        best = () if files else _best(Path(path))
        document = prototxt.read_net(Path(path) / runs.NET, tolerate=unknown_types.tolerate)
        return NetProgram(document, files or best, dev, name)
    file = named_files.net((DEPLOY_NET, TRAIN_NET), path)
    document = prototxt.read_net(str(file), tolerate=unknown_types.tolerate)
    if not files:
        named = caffemodels.named_weights(document.message, document.locate.file)
        if named is None:
            what, remedy = f"{file} names no weights", f"name them behind a comma: {file},NET.caffemodel"
            raise CaffeliteError(what, remedy=remedy)
        files = (str(named),)
    return NetProgram(document, files, dev, name)


def _best(folder: Path) -> tuple[str, ...]:
    best = snapshots.best_model(folder)
    if best is None:
        raise CaffeliteError(f"the run {folder} has no weights", remedy="name some behind a comma, or train on")
    return (str(best),)
