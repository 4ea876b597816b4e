"""The attributes of an ONNX operator as Python's values."""

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
        attributes[attribute.name] = list(value) if type(value).__name__.startswith("Repeated") else value
    return attributes
