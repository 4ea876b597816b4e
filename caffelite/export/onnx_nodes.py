"""The attributes of an ONNX operator as Python's values."""

from collections.abc import Sequence
from typing import Any


def attributes_of(onnx: Any, node: Any) -> dict[str, Any]:
    """The attributes of a node by name: tensors as arrays, text as str, lists as lists. Errors: those of the package
    for a damaged tensor."""
    attributes = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif not isinstance(value, int | float | str) and isinstance(value, Sequence):
            value = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in value]
        attributes[attribute.name] = value
    return attributes
