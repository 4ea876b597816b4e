"""ONNX nets of a few nodes, written for tests."""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

RNG = np.random.default_rng(7)


def node(kind: str, *inputs: str, to: str = "", cast: int = 0, **attributes):
    """An operator whose output is named after it unless ``to`` names it; several by commas. cast: the type of a
    Cast."""
    outputs = to.split(",") if to else ["y"]
    attributes |= {"to": cast} if cast else {}
    return helper.make_node(kind, list(inputs), outputs, name=f"/{outputs[0]}/{kind}", **attributes)


def weights(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 1.2, shape).astype(np.float32) * RNG.choice([-1, 1], shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model(nodes, constants, shape, opset: int = 17, output: str = "y"):
    """A net with the input "x" of this shape; None is an open axis. output: several by commas."""
    made = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.ValueInfoProto(name=name) for name in output.split(",")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    whole = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(whole)


def write(path: Path, *arguments, **options) -> Path:
    path.write_bytes(model(*arguments, **options).SerializeToString())
    return path
