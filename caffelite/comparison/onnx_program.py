"""An ONNX file, as onnxruntime computes it."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from .. import caffelite_pb2 as pb, file_types, inputs, prototxt
from ..errors import NOWHERE, CaffeliteError, reporting
from ..export.writer import import_onnx
from ..onnx_import import reader
from ..onnx_import.trace import trace
from ..onnx_import.translate import refuse_unknown, translate
from ..proof.onnx_runner import OnnxRunner
from ..proof.runners import Arrays
from .programs import Layer

OURS = "caffelite"  # the producer of files that `caffelite export` writes
USE = "comparing ONNX files"
SKIPPED = ("Constant", "Identity")  # operators that compute nothing


def read_model(path: Path) -> Any:
    """The message of an ONNX file. Errors: it is none."""
    with reporting(f"read {path}"):
        data = inputs.read(path, inputs.MESSAGE)
    file_types.refuse(data, path)
    return reader.parse(path, data)


class OnnxProgram(OnnxRunner):
    """A file that `caffelite export` wrote tells its preprocessing; the layers of others are named as `caffelite
    import` names them, else by their tensors."""

    def __init__(self, path: Path, title: str):
        self._path, self._proto = path, read_model(path)
        super().__init__(self._proto.SerializeToString(), USE)
        self.title = title
        entries = {each.key: each.value for each in self._proto.metadata_props}
        self.pixels = frozenset(name for name in self.inputs if f"input {name}" in entries)
        self.document = self._described(entries) if self.pixels else None

    def _described(self, entries: dict[str, str]) -> prototxt.Document | None:
        """The inputs with what the metadata say of pictures; None where they cannot be read."""
        made = pb.NetParameter()
        try:
            text_format.Parse(entries.get("deploy_param", ""), made.deploy_param)
            for name, shape in self.inputs.items():
                layer = made.layer.add(name=name, type="Input", top=[name])
                layer.input_param.shape.add(dim=[dim or 1 for dim in shape])
            transforms = [text for key, text in entries.items() if key.startswith("transform_param ")]
            if len(transforms) == 1 == len(self.pixels):
                of = next(layer for layer in made.layer if layer.name in self.pixels)
                text_format.Parse(transforms[0], of.transform_param)
        except text_format.ParseError:
            return None
        return prototxt.Document(made, NOWHERE)

    def layers(self, fed: Arrays) -> list[Layer]:
        onnx, proto = import_onnx(USE), deepcopy(self._proto)
        nodes = [node for node in proto.graph.node if node.op_type not in SKIPPED]
        names = self._names(fed, nodes)
        del proto.graph.value_info[:], proto.graph.output[:]
        proto.graph.output.extend(onnx.ValueInfoProto(name=each) for n in nodes for each in n.output if each)
        values = OnnxRunner(proto.SerializeToString(), USE, optimized=False).outputs(fed)
        return [Layer(names.get(tensor, (tensor,)), values[tensor]) for tensor in values]

    def _names(self, fed: Arrays, nodes: list[Any]) -> dict[str, tuple[str, ...]]:
        """The names of the layers, by tensor."""
        if self._proto.producer_name == OURS:
            last = {node.name.rpartition("/")[0]: node.output[0] for node in nodes if len(node.output) == 1}
            return {tensor: (layer,) for layer, tensor in last.items() if layer}
        try:
            model = reader.read(self._path, self._proto.SerializeToString())
            refuse_unknown(model)
            traced = trace(model, model.operators, {name: values.shape[1:] for name, values in fed.items()})
            blobs = translate(traced, self._path.stem).names
        except CaffeliteError:
            return {}
        return {tensor: (blob,) for tensor, blob in blobs.items()}
