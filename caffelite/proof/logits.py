"""What a softmax or a sigmoid makes an output of: probabilities that are all 0 and 1 hide how far two programs are
apart, their logits do not."""

from collections.abc import Mapping

import numpy as np

from ..net.graph import Value
from ..net.layout import Transposition
from .differences import Differences

KINDS = ("Softmax", "Sigmoid")
LAYOUT = Transposition.type  # what the compiler puts between layers that store images in other ways
SHAPING = ("Reshape", "Flatten", "Permute", LAYOUT)  # layers between them and an output
ONNX_SHAPING = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")


def logits_of(output: Value) -> Value | None:
    """The value of which a softmax or sigmoid makes an output of a net; None where none makes it, or where another
    value has its name at the end."""
    node = output.node
    while node.layer.spec.type in SHAPING and node.bottoms:
        node = node.bottoms[0].node
    if node.layer.spec.type not in KINDS or not node.bottoms:
        return None
    before = node.bottoms[0]
    while before.node.layer.spec.type == LAYOUT:
        before = before.node.bottoms[0]
    return before if before.name != node.tops[0].name else None


def with_logits(model: bytes) -> tuple[bytes, dict[str, str]]:
    """(an ONNX file that gives logits too, by output the tensor with its logits). No tensor for an output that no
    softmax or sigmoid makes, or of an input; none of a file whose weights are in others."""
    import onnx

    proto = onnx.load_from_string(model)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in proto.graph.initializer):
        return model, {}
    makers = {tensor: node for node in proto.graph.node for tensor in node.output}
    logits: dict[str, str] = {}
    for output in proto.graph.output:
        node = makers.get(output.name)
        while node is not None and node.op_type in ONNX_SHAPING:
            node = makers.get(node.input[0])
        if node is not None and node.op_type in KINDS and node.input[0] in makers:
            logits[output.name] = node.input[0]
    given = {output.name for output in proto.graph.output}
    added = [name for name in dict.fromkeys(logits.values()) if name not in given]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
    return proto.SerializeToString(), logits


def paired(
    judged: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The logits of outputs that both have, by what tables call them. Each sample's are in rising order: programs may
    lay out the axes of a blob differently. Logits that the reference masks with infinite values are none."""
    pairs = {}
    for name, values in reference.items():
        if name in judged and judged[name].size == values.size and np.isfinite(values).all():
            pairs[f"logits of {name}"] = _in_order(judged[name]), _in_order(values)
    return pairs


def add_logits(differences: Differences, judged: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> None:
    """Compares the logits of one batch. Errors: those of `Differences.add`."""
    for name, (one, other) in paired(judged, reference).items():
        differences.add(name, one, other)


def _in_order(values: np.ndarray) -> np.ndarray:
    return np.sort(values.reshape(len(values) if values.ndim else 1, -1), 1)
