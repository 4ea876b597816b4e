"""Weights from ONNX nets: each attribute of an operator counts, or the net is refused."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import caffelite

CONV = (
    'layer { name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 4 kernel_size: 3 %s } }'
)
DENSE = 'layer { name: "d" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 6 %s } }'
NORM = 'layer { name: "n" type: "BatchNorm" bottom: "x" top: "y" batch_norm_param { %s } }'
DECONV = CONV.replace("Convolution", "Deconvolution")
PICTURE, ROW = (1, 4, 7, 7), (1, 6)
RNG = np.random.default_rng(5)
W, B = RNG.normal(size=(6, 6)).astype("f"), RNG.normal(size=6).astype("f")
K = RNG.normal(size=(4, 4, 3, 3)).astype("f")
STATISTICS = {name: RNG.uniform(0.5, 1.5, 4).astype("f") for name in ("m.running_mean", "m.running_var")}
ONES = {"m.weight": np.ones(4, "f"), "m.bias": np.zeros(4, "f"), **STATISTICS}


def write(nodes: list, constants: dict[str, np.ndarray], shape: tuple[int, ...], layers: str) -> None:
    """net.onnx, from x to y, and net.prototxt."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    dims = " ".join(f"dim: {d}" for d in shape)
    fed = f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ {dims} }} }} }}\n'
    with open("net.prototxt", "w") as file:
        file.write(fed + layers)


def node(kind: str, *inputs: str, output: str = "y", **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], name=f"{kind}_1", **attributes)


ARGUMENTS = ("net.onnx", "-model", "net.prototxt", "-out", "net.caffemodel")
DENSE_CONSTANTS = {"m.weight": W, "m.bias": B}
EQUAL = {
    "Gemm": ([node("Gemm", "x", "m.weight", "m.bias", transB=1)], DENSE_CONSTANTS, ROW, DENSE % ""),
    "Gemm, not transposed": ([node("Gemm", "x", "m.weight", "m.bias")], DENSE_CONSTANTS, ROW, DENSE % ""),
    "Gemm, scaled": (
        [node("Gemm", "x", "m.weight", "m.bias", transB=1, alpha=0.5, beta=3.0)],
        DENSE_CONSTANTS,
        ROW,
        DENSE % "",
    ),
    "transposed twice": ([node("Gemm", "x", "m.weight", "m.bias")], DENSE_CONSTANTS, ROW, DENSE % "transpose: true"),
    "MatMul": ([node("MatMul", "x", "onnx::1")], {"onnx::1": W}, ROW, DENSE % "bias_term: false"),
    "MatMul and Add": (
        [node("MatMul", "x", "onnx::1", output="h"), node("Add", "m.bias", "h")],
        {"onnx::1": W, "m.bias": B},
        ROW,
        DENSE % "",
    ),
    "Transpose": (
        [node("Transpose", "m.weight", output="t"), node("MatMul", "x", "t")],
        {"m.weight": W},
        ROW,
        DENSE % "bias_term: false",
    ),
    "Constant": (
        [node("Constant", output="k", value=numpy_helper.from_array(K)), node("Conv", "x", "k")],
        {},
        PICTURE,
        CONV % "bias_term: false",
    ),
    "attributes as the layer's": (
        [node("Conv", "x", "m.weight", strides=[2, 1], pads=[2, 1, 2, 1], dilations=[2, 1], group=1)],
        {"m.weight": K},
        PICTURE,
        (CONV % "stride: 2 stride: 1 pad: 2 pad: 1 dilation: 2 dilation: 1 bias_term: false"),
    ),
    "auto_pad": (
        [node("Conv", "x", "m.weight", auto_pad="SAME_UPPER", strides=[2, 2])],
        {"m.weight": K},
        PICTURE,
        CONV % "pad: 1 stride: 2 bias_term: false",
    ),
    "groups": (
        [node("ConvTranspose", "x", "m.weight", group=2, strides=[2, 2])],
        {"m.weight": K[:, :2]},
        PICTURE,
        DECONV % "group: 2 stride: 2 bias_term: false",
    ),
    "epsilon": ([node("BatchNormalization", "x", *ONES, epsilon=1e-3)], ONES, PICTURE, NORM % "eps: 0.001"),
    "a picture's mean": (
        [node("Sub", "x", "mean", output="z"), node("Conv", "z", "m.weight")],
        {"m.weight": K, "mean": np.zeros((1, 4, 1, 1), "f")},
        PICTURE,
        CONV % "bias_term: false",
    ),
}
REFUSED = {
    "epsilon": (
        [node("BatchNormalization", "x", *ONES, epsilon=1e-3)],
        ONES,
        NORM % "",
        'layer "n".*"BatchNormalization_1".*another epsilon; expected 0.001, found 1e-05',
    ),
    "stride": ([node("Conv", "x", "m.weight", strides=[2, 2])], {"m.weight": K}, CONV % "bias_term: false", "strides"),
    "pad": (
        [node("Conv", "x", "m.weight", pads=[0, 0, 1, 1])],
        {"m.weight": K},
        CONV % "bias_term: false pad: 1",
        r"another pads; expected \[0, 0, 1, 1\], found \[1, 1, 1, 1\]",
    ),
    "dilation": (
        [node("Conv", "x", "m.weight", dilations=[2, 2])],
        {"m.weight": K},
        CONV % "bias_term: false",
        "dilations",
    ),
    "output_padding": (
        [node("ConvTranspose", "x", "m.weight", output_padding=[1, 1], strides=[2, 2])],
        {"m.weight": K},
        DECONV % "stride: 2 bias_term: false",
        "output_padding",
    ),
    "an unknown attribute": (
        [node("Conv", "x", "m.weight", auto_pad="NOTSET", other=3)],
        {"m.weight": K},
        CONV % "bias_term: false",
        "another other; expected 3",
    ),
    "a product": (
        [node("Conv", "x", "m.weight", output="h"), node("Mul", "h", "factor")],
        {"m.weight": K, "factor": np.full((4, 1, 1), 2, "f")},
        CONV % "bias_term: false",
        'no layer takes the values "factor" of the Mul "Mul_1"',
    ),
    "computed weights": (
        [node("Sqrt", "b", output="s"), node("Conv", "x", "m.weight", "s")],
        {"m.weight": K, "b": np.ones(4, "f")},
        CONV % "",
        'weights that are computed, "s"',
    ),
}


@pytest.mark.parametrize("nodes, constants, shape, layers", EQUAL.values(), ids=EQUAL)
def test_the_net_computes_what_onnxruntime_computes(nodes, constants, shape, layers, in_tmp_path, call):
    runtime = pytest.importorskip("onnxruntime")
    write(nodes, constants, shape, layers)
    assert call("import", *ARGUMENTS).status == 0
    x = np.random.default_rng(1).normal(size=shape).astype("f")
    expected = runtime.InferenceSession("net.onnx").run(None, {"x": x})[0]
    actual = caffelite.Net("net.prototxt", "net.caffemodel").forward(x=x)["y"]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes, constants, layers, message", REFUSED.values(), ids=REFUSED)
def test_other_operators_than_the_layers_are_refused(nodes, constants, layers, message, in_tmp_path, call):
    write(nodes, constants, PICTURE, layers)
    answer = call("import", *ARGUMENTS)
    assert answer.status == 2 and re.search(message, answer.err), answer.err


def test_a_name_that_is_no_text(in_tmp_path, call):
    write([node("Gemm", "x", "m.weight", "m.bias")], {"m.weight": W, "m.bias": B}, ROW, DENSE % "")
    with open("net.onnx", "rb") as file:
        data = file.read()
    for old, new in ((b"m.bias", b"m\xab.bia"), (b"Gemm_1", b"Gem\xff_1")):
        with open("damaged.onnx", "wb") as file:
            file.write(data.replace(old, new))
        answer = call("import", "damaged.onnx", *ARGUMENTS[1:])
        assert answer.status == 2 and "cannot read weights from damaged.onnx" in answer.err
        assert "not in UTF-8" in answer.err
