"""Every operator that layers compute, with its attributes: the net gives what onnxruntime gives."""

import numpy as np
import onnx
import onnx_nets as nets
import pytest
from onnx_nets import integers, node, weights

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

IMAGE = (1, 4, 9, 7)
W, B, S = weights(6, 4, 3, 3), weights(6), weights(4)
ONE = np.float32(1.0)


def f(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def unary(kind: str, **attributes):
    return [node(kind, "x", **attributes)], {}


# name: (nodes, constants, types of layers that are expected, shape of the input or None for IMAGE)
CASES = {
    "conv": ([node("Conv", "x", "w", "b", pads=[1, 1, 1, 1], strides=[2, 1])], {"w": W, "b": B}, ["Convolution"]),
    "dilated": ([node("Conv", "x", "w", dilations=[2, 2], pads=[2] * 4)], {"w": W}, ["Convolution"]),
    "grouped": ([node("Conv", "x", "w", group=2)], {"w": weights(6, 2, 3, 2)}, ["Convolution"]),
    "depthwise": ([node("Conv", "x", "w", group=4)], {"w": weights(8, 1, 3, 3)}, ["Convolution"]),
    "uneven pads": ([node("Conv", "x", "w", pads=[0, 1, 1, 2])], {"w": W}, ["Padding", "Convolution"]),
    "same": (
        [node("Conv", "x", "w", auto_pad="SAME_UPPER", strides=[2, 2])],
        {"w": weights(6, 4, 2, 4)},
        ["Padding", "Convolution"],
    ),
    "pad before conv": (
        [node("Pad", "x", "p", to="a"), node("Conv", "a", "w")],
        {"p": integers(0, 0, 1, 1, 0, 0, 1, 1), "w": W},
        ["Convolution"],
    ),
    "transposed": (
        [node("ConvTranspose", "x", "w", "b", strides=[2, 2])],
        {"w": weights(4, 3, 3, 3), "b": weights(3)},
        ["Deconvolution"],
    ),
    "transposed, output padding": (
        [node("ConvTranspose", "x", "w", "b", strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])],
        {"w": weights(4, 3, 3, 3), "b": weights(3)},
        ["Deconvolution", "Padding", "Bias"],
    ),
    "max pool": ([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], {}, ["Pooling"]),
    "max pool up": ([node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], {}, ["Pooling"]),
    "max pool, uneven": (
        [node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], pads=[0, 0, 1, 1])],
        {},
        ["Pooling"],
    ),
    "mean pool": ([node("AveragePool", "x", kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])], {}, ["Pooling"]),
    "mean pool with pads": (
        [node("AveragePool", "x", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)],
        {},
        ["Pooling"],
    ),
    "global": ([node("GlobalAveragePool", "x")], {}, ["Pooling"]),
    "norm": (
        [node("BatchNormalization", "x", "s", "b", "m", "v", epsilon=0.01)],
        {"s": S, "b": weights(4), "m": weights(4), "v": np.abs(weights(4))},
        ["BatchNorm", "Scale"],
    ),
    "instance norm": (
        [node("InstanceNormalization", "x", "s", "b")],
        {"s": S, "b": weights(4)},
        ["GroupNorm", "Scale"],
    ),
    "layer norm": (
        [node("LayerNormalization", "x", "s", "b", axis=-1)],
        {"s": weights(7), "b": weights(7)},
        ["Reshape", "GroupNorm", "Scale", "Reshape"],
    ),
    "lrn": ([node("LRN", "x", size=3, alpha=0.3, beta=0.6, bias=2.0)], {}, ["LRN"]),
    "relu": (*unary("Relu"), ["ReLU"]),
    "leaky": (*unary("LeakyRelu", alpha=0.2), ["ReLU"]),
    "sigmoid": (*unary("Sigmoid"), ["Sigmoid"]),
    "tanh": (*unary("Tanh"), ["TanH"]),
    "elu": (*unary("Elu", alpha=0.7), ["ELU"]),
    "selu": (*unary("Selu"), ["SeLu"]),
    "softplus": (*unary("Softplus"), ["BNLL"]),
    "softsign": (*unary("Softsign"), ["AbsVal", "Power", "Eltwise"]),
    "hard sigmoid": (*unary("HardSigmoid", alpha=0.25), ["Power", "Clip"]),
    "hard swish": (*unary("HardSwish"), ["HardSwish"]),
    "hard swish of clip": (
        [
            node("Add", "x", "3", to="a"),
            node("Clip", "a", "0", "6", to="c"),
            node("Mul", "x", "c", to="m"),
            node("Div", "m", "6"),
        ],
        {"3": f(3), "0": f(0), "6": f(6)},
        ["HardSwish"],
    ),
    "swish": ([node("Sigmoid", "x", to="s"), node("Mul", "x", "s")], {}, ["Swish"]),
    "prelu": ([node("PRelu", "x", "s")], {"s": S.reshape(4, 1, 1)}, ["PReLU"]),
    "clip": ([node("Clip", "x", "l", "h")], {"l": f(-0.5), "h": f(0.4)}, ["Clip"]),
    "relu6": ([node("Clip", "x", "l", "h")], {"l": f(0), "h": f(6)}, ["ReLU6"]),
    "exp": (*unary("Exp"), ["Exp"]),
    "power": ([node("Pow", "x", "two")], {"two": f(2)}, ["Power"]),
    "negative": (*unary("Neg"), ["Power"]),
    "from one": ([node("Sub", "one", "x")], {"one": ONE}, ["Power"]),
    "by channel": ([node("Mul", "x", "s")], {"s": S.reshape(1, 4, 1, 1)}, ["Scale"]),
    "less a row": ([node("Sub", "x", "r")], {"r": weights(7)}, ["Bias"]),
    "less, turned": ([node("Sub", "r", "x")], {"r": weights(4, 1, 1)}, ["Power", "Bias"]),
    "over": ([node("Div", "x", "s")], {"s": S.reshape(4, 1, 1)}, ["Scale"]),
    "gate": ([node("GlobalAveragePool", "x", to="g"), node("Mul", "g", "x")], {}, ["Pooling", "Reshape", "Scale"]),
    "less the mean": (
        [node("GlobalAveragePool", "x", to="g"), node("Sub", "x", "g")],
        {},
        ["Pooling", "Power", "Reshape", "Bias"],
    ),
    "mask of one channel": (
        [node("Conv", "x", "w", to="m"), node("Mul", "x", "m")],
        {"w": weights(1, 4, 1, 1)},
        ["Convolution", "Tile", "Scale"],
    ),
    "sum": ([node("Relu", "x", to="a"), node("Add", "x", "a")], {}, ["ReLU", "Eltwise"]),
    "difference": ([node("Relu", "x", to="a"), node("Sub", "x", "a")], {}, ["ReLU", "Eltwise"]),
    "square": ([node("Mul", "x", "x")], {}, ["Power"]),
    "maximum": ([node("Neg", "x", to="a"), node("Max", "x", "a")], {}, ["Power", "Eltwise"]),
    "gemm": (
        [node("Flatten", "x", to="a"), node("Gemm", "a", "w", "b", alpha=0.5, beta=2.0, transB=1)],
        {"w": weights(3, 252), "b": weights(3)},
        ["Flatten", "InnerProduct"],
    ),
    "gemm, one bias": (
        [node("Flatten", "x", to="a"), node("Gemm", "a", "w", "b")],
        {"w": weights(252, 3), "b": weights(1)},
        ["Flatten", "InnerProduct"],
    ),
    "linear": (
        [node("MatMul", "x", "w", to="m"), node("Add", "m", "b")],
        {"w": weights(7, 5), "b": weights(5)},
        ["InnerProduct"],
    ),
    "matrix on the left": ([node("MatMul", "w", "x")], {"w": weights(5, 9)}, ["Permute", "InnerProduct", "Permute"]),
    "one of one": ([node("MatMul", "x", "w")], {"w": weights(1, 1, 7, 5)}, ["InnerProduct"]),
    "concat": ([node("Relu", "x", to="a"), node("Concat", "x", "a", axis=1)], {}, ["ReLU", "Concat"]),
    "token": (
        [node("Concat", "t", "x", axis=1)],
        {"t": weights(1, 1, 9, 7)},
        ["Slice", "Silence", "Power", "Bias", "Concat"],
    ),
    "split": (
        [node("Split", "x", "n", to="a,b", axis=1), node("Concat", "b", "a", axis=1)],
        {"n": integers(1, 3)},
        ["Slice", "Concat"],
    ),
    "split with an empty part": (
        [node("Split", "x", "n", to="a,e,b", axis=1), node("Concat", "b", "a", axis=1)],
        {"n": integers(1, 0, 3)},
        ["Slice", "Concat"],
    ),
    "slice": (
        [node("Slice", "x", "s", "e", "a", "t")],
        {"s": integers(1, -5), "e": integers(3, 9999), "a": integers(1, 3), "t": integers(1, 2)},
        ["Slice", "Silence", "Slice", "Silence", "Pooling"],
    ),
    "reversed": (
        [node("Slice", "x", "s", "e", "a", "t")],
        {"s": integers(-1), "e": integers(-9999), "a": integers(2), "t": integers(-1)},
        ["Reverse"],
    ),
    "gather": ([node("Gather", "x", "i", axis=1)], {"i": np.int64(2)}, ["Slice", "Silence", "Squeeze"]),
    "channels exchanged": (
        [node("Gather", "x", "i", axis=1)],
        {"i": integers(2, 0)},
        ["Slice", "Silence", "Concat"],
    ),
    "reshape": ([node("Reshape", "x", "s")], {"s": integers(1, 2, -1)}, ["Reshape"]),
    "shuffle": (
        [
            node("Reshape", "x", "s", to="a"),
            node("Transpose", "a", to="t", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "t", "r"),
        ],
        {"s": integers(1, 2, 2, 9, 7), "r": integers(1, 4, 9, 7)},
        ["Reshape", "Permute", "Reshape"],
    ),
    "unsqueeze": ([node("Unsqueeze", "x", "a")], {"a": integers(2)}, ["Reshape"]),
    "mean": ([node("ReduceMean", "x", axes=[2, 3], keepdims=0)], {}, ["Pooling", "Flatten"]),
    "mean of channels": ([node("ReduceMean", "x", axes=[1], keepdims=1)], {}, ["Permute", "Reduction", "Reshape"]),
    "norm of rows": ([node("ReduceL2", "x", axes=[-1], keepdims=0)], {}, ["Reduction", "Power"]),
    "repeated": ([node("Expand", "x", "s")], {"s": integers(1, 4, 9, 7)}, None),
    "softmax": (*unary("Softmax", axis=1), ["Softmax"]),
    "log softmax": (*unary("LogSoftmax", axis=-1), ["Softmax", "Log"]),
    "nearest": (
        [
            node(
                "Resize",
                "x",
                "",
                "f",
                mode="nearest",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        ],
        {"f": np.array([1, 1, 2, 2], np.float32)},
        ["Upsample"],
    ),
    "corners": (
        [node("Resize", "x", "", "", "s", mode="linear", coordinate_transformation_mode="align_corners")],
        {"s": integers(1, 4, 12, 20)},
        ["Interp"],
    ),
    "half pixels": (
        [node("Resize", "x", "", "f", mode="linear", coordinate_transformation_mode="half_pixel")],
        {"f": np.array([1, 1, 2, 2], np.float32)},
        ["Resample"],
    ),
    "pixel shuffle": ([node("DepthToSpace", "x", blocksize=2, mode="CRD")], {}, ["PixelShuffle"]),
    "blocks": ([node("DepthToSpace", "x", blocksize=2, mode="DCR")], {}, ["Reshape", "Permute", "Reshape"]),
    "gelu": (
        [
            node("Div", "x", "root", to="d"),
            node("Erf", "d", to="e"),
            node("Add", "e", "one", to="p"),
            node("Mul", "x", "p", to="m"),
            node("Mul", "m", "half"),
        ],
        {"root": f(2**0.5), "one": f(1), "half": f(0.5)},
        ["GELU"],
    ),
    "gelu by tanh": ([node("Gelu", "x", approximate="tanh")], {}, ["Power", "Eltwise", "Power", "Sigmoid", "Eltwise"]),
    "attention": (
        [node("Transpose", "x", perm=[0, 1, 3, 2], to="t"), node("MatMul", "x", "t")],
        {},
        ["Permute", "MatMul"],
    ),
    "dropout": ([node("Dropout", "x", "r")], {"r": f(0.3)}, ["Dropout"]),
    "celu": ([node("Celu", "x", alpha=0.5)], {}, ["Power", "ELU", "Power"]),
    "greatest of channels": (
        [node("ReduceMax", "x", axes=[1], keepdims=0)],
        {},
        ["Permute", "Reshape", "Pooling", "Reshape"],
    ),
    "least of rows and channels": (
        [node("ReduceMin", "x", axes=[1, 2])],
        {},
        ["Power", "Permute", "Reshape", "Pooling", "Power", "Reshape"],
    ),
    "every other channel": (
        [node("Slice", "x", "s", "e", "a", "p")],
        {"s": integers(0), "e": integers(4), "a": integers(1), "p": integers(2)},
        ["Slice", "Silence", "Concat"],
    ),
    "channels from the last": (
        [node("Slice", "x", "s", "e", "a", "p")],
        {"s": integers(-1), "e": integers(-4), "a": integers(1), "p": integers(-1)},
        ["Slice", "Silence", "Concat"],
    ),
    "channels in any order": (
        [node("Gather", "x", "i", axis=1)],
        {"i": integers(2, 3, 0, 2)},
        ["Slice", "Silence", "Concat"],
    ),
    "mirrored border": (
        [node("Pad", "x", "p", mode="reflect")],
        {"p": integers(0, 0, 2, 1, 0, 0, 0, 3)},
        ["Slice", "Concat"] * 2,
    ),
    "border of images whose channels are last": (
        [node("Pad", "x", "p", "v")],
        {"p": integers(0, 1, 2, 0, 0, 0, 1, 0), "v": f(0.5)},
        ["Permute", "Padding", "Permute"],
    ),
    "border of channels": (
        [node("Pad", "x", "p")],
        {"p": integers(0, 1, 0, 0, 0, 0, 0, 0)},
        ["Permute", "Padding", "Permute"],
    ),
    "the same constant for each sample": (
        [
            node("Shape", "x", to="s"),
            node("Expand", "c", "s", to="e"),
            node("Add", "x", "e"),
        ],
        {"c": weights(4, 9, 7)},
        ["Bias"],
    ),
    "border of the edge": (
        [node("Pad", "x", "p", mode="edge")],
        {"p": integers(0, 1, 2, 0, 0, 0, 1, 0)},
        ["Slice", "Concat"] * 2,
    ),
    "sizes by no common factor": (
        [node("Resize", "x", "", "", "n", mode="linear")],
        {"n": integers(1, 4, 13, 20)},
        ["InnerProduct", "Permute", "InnerProduct", "Permute"],
    ),
    "cubic": (
        [node("Resize", "x", "", "f", mode="cubic", cubic_coeff_a=-0.5)],
        {"f": np.array([1, 1, 1, 1.7], np.float32)},
        ["InnerProduct"],
    ),
    "likely nowhere": (
        [node("Conv", "x", "w", "b", to="a"), node("Sigmoid", "a")],
        {"w": W / 9, "b": np.full(6, -30, np.float32)},
        ["Convolution", "Sigmoid"],
    ),
    "a size by shapes": (
        [
            node("Shape", "x", to="s"),
            node("ReduceProd", "s", to="n", keepdims=0),
            node("Cast", "n", to="c", cast=1),
            node("Sign", "c", to="one"),
            node("Add", "x", "one"),
        ],
        {},
        ["Power"],
    ),
    "greatest of the steps of a sequence": (
        [node("Transpose", "x", perm=[2, 0, 1, 3], to="t"), node("ReduceMax", "t", axes=[0], keepdims=0)],
        {},
        ["Permute", "Permute", "Reshape", "Pooling", "Reshape"],
    ),
    "places of the first": ([node("ArgMax", "x", axis=1)], {}, ["Reverse", "ArgMax", "Power"]),
    "places of the last": (
        [node("ArgMax", "x", axis=-1, keepdims=0, select_last_index=1, to="i"), node("Cast", "i", cast=1)],
        {},
        ["ArgMax", "Squeeze"],
    ),
    "places of the least": (
        [node("ArgMin", "x", axis=2, keepdims=0)],
        {},
        ["Power", "Reverse", "ArgMax", "Power", "Squeeze"],
    ),
    "rms norm": (
        [node("RMSNormalization", "x", "s", axis=-1, epsilon=0.01)],
        {"s": weights(7)},
        ["Power", "Reduction", "Reshape", "Power", "Power", "Reshape", "Scale", "Scale"],
    ),
    "a bias that repeats its input": (
        [node("ReduceMean", "x", axes=[2], to="m"), node("Add", "m", "b")],
        {"b": weights(9, 7)},
        ["Permute", "Reduction", "Reshape", "Tile", "Bias"],
    ),
    "one matrix for several": (
        [node("ReduceMax", "x", axes=[1], to="m"), node("Transpose", "m", perm=[0, 1, 3, 2], to="t")]
        + [node("MatMul", "x", "t")],
        {},
        ["Permute", "Reshape", "Pooling", "Reshape", "Permute", "Tile", "MatMul"],
    ),
    "identity": ([node("Identity", "x", to="a"), node("Relu", "a")], {}, ["ReLU"]),
}


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][2] is not None])
def test_operator(tmp_path, name, opened):
    nodes, constants, types = CASES[name]
    by_batch = name in (
        "reshape",
        "shuffle",
        "token",
        "corners",
        "sizes by no common factor",
    )  # whose constants name the batch
    shape = (None if opened and not by_batch else 1, *IMAGE[1:])
    opset = {"Gelu": 20, "RMSNormalization": 23}.get(nodes[0].op_type, 17)
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, shape, opset), {}, None)
    assert [layer.type for layer in made.deploy.layer[1:]] == types
    assert made.proof.any_batch and made.proof.samples == (2 if shape[0] else 3)
    assert max(made.proof.outputs.values()) < 1e-5


def test_the_mean_of_the_steps_of_a_sequence(tmp_path):
    """Over the first axis, where the batch is the second one."""
    nodes = [node("Transpose", "x", perm=[2, 0, 1, 3], to="t"), node("ReduceMean", "t", axes=[0, 2], to="m")]
    nodes.append(node("Transpose", "m", perm=[1, 0, 2, 3]))
    made = convert(nets.write(tmp_path / "net.onnx", nodes, {}, (None, *IMAGE[1:])), {}, None)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_places_of_equal_numbers(tmp_path, kind, last):
    """Half of the numbers behind the ReLU are 0, and all behind the second."""
    nodes = [
        node("Relu", "x", to="a"),
        node("Neg", "a", to="b"),
        node("Relu", "b", to="c"),
        node("Concat", "a", "c", axis=1, to="d"),
    ]
    nodes.append(node(kind, "d", axis=1, select_last_index=last))
    made = convert(nets.write(tmp_path / "net.onnx", nodes, {}, (None, *IMAGE[1:])), {}, None)
    assert made.proof.outputs["y"] == 0


@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64])
def test_a_table_whose_rows_are_chosen(tmp_path, kind):
    """As Keras's Embedding is exported: a Cast of its input, then Gather."""
    nodes = [node("Cast", "x", cast=onnx.TensorProto.INT32, to="i"), node("Gather", "t", "i")]
    made = nets.model(nodes, {"t": weights(5, 3)}, (None, 7))
    made.graph.input[0].type.tensor_type.elem_type = kind
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    made = convert(tmp_path / "net.onnx", {}, None)
    assert [layer.type for layer in made.deploy.layer] == ["Input", "Embed"] and made.proof.outputs["y"] == 0


def test_a_choice_along_the_first_axis_that_is_not_the_batch(tmp_path):
    """As attention has its queries, keys and values in one tensor."""
    nodes = [node("Transpose", "x", perm=[1, 0, 2, 3], to="t"), node("Gather", "t", "i", axis=0)]
    shape = (None, *IMAGE[1:])
    made = convert(nets.write(tmp_path / "net.onnx", nodes, {"i": np.int64(2)}, shape), {}, None)
    assert [layer.type for layer in made.deploy.layer[1:]] == ["Permute", "Slice", "Silence", "Squeeze"]
    with pytest.raises(CaffeliteError, match="chooses samples"):
        nodes = [node("Gather", "x", "i", axis=0)]
        convert(nets.write(tmp_path / "net.onnx", nodes, {"i": np.int64(0)}, shape), {}, None)


@pytest.mark.parametrize("name", ["s", "named", "shaped"])
def test_a_scale_of_equal_numbers_learns_too(tmp_path, name):
    """PyTorch's exporter writes equal weights once, and Identity for the others; timm's scales have another shape."""
    nodes = [node("Relu", "x", to="a"), node("Identity", "s", to="named"), node("Reshape", "s", "n", to="shaped")]
    nodes.append(node("Mul", "a", name))
    constants = {"s": weights(4, 1, 1), "n": integers(1, 4, 1, 1)}
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, *IMAGE[1:])), {}, None)
    assert made.deploy.layer[-1].type == "Scale" and not made.deploy.layer[-1].param


def test_all_numbers_in_their_order(tmp_path):
    """As dynamo writes the strides of a mean over pixels."""
    nodes = [
        node("ReduceMean", "x", axes=[2, 3], to="m"),
        node("Reshape", "m", "flat", to="f"),
        node("Shape", "x", to="s"),
        node("Gather", "s", "zero", axis=0, to="n"),
        node("Range", "zero", "n", "one", to="r"),
        node("Mul", "r", "four", to="o"),
        node("Unsqueeze", "o", "axes", to="u"),
        node("Add", "u", "channels", to="i"),
        node("Gather", "f", "i", axis=0),
    ]
    constants = {"flat": integers(-1), "zero": np.int64(0), "one": np.int64(1), "four": np.int64(4)}
    constants |= {"axes": integers(1, 2, 3), "channels": np.arange(4).reshape(1, 4, 1, 1)}
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, *IMAGE[1:])), {}, None)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6
    constants["channels"] = constants["channels"][:, ::-1].copy()
    with pytest.raises(CaffeliteError, match="chooses samples"):
        convert(nets.write(tmp_path / "net.onnx", nodes, constants, (None, *IMAGE[1:])), {}, None)


def test_a_fixed_batch_whose_axis_moves(tmp_path):
    """As where attention divides its input in three: the first axis is no batch any more."""
    nodes = [
        node("Reshape", "x", "s", to="a"),
        node("Transpose", "a", perm=[2, 0, 1, 3], to="t"),
        node("Gather", "t", "one", axis=0),
    ]
    constants = {"s": integers(1, 6, 3, 4), "one": np.array(1)}
    made = convert(nets.write(tmp_path / "net.onnx", nodes, constants, (1, 6, 12)), {}, None)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


def test_all_unknown_operators_are_named(tmp_path):
    nodes = [node("Det", "x", to="a"), node("TopK", "x", "k", to="y,i")]
    with pytest.raises(CaffeliteError, match=r'(?s)Det "/a/Det".*TopK "/y/TopK"'):
        convert(nets.write(tmp_path / "net.onnx", nodes, {"k": integers(1)}, (6, 3, 3)), {}, None)


@pytest.mark.parametrize(
    "nodes, constants, message",
    [
        ([node("Pad", "x", "p", mode="edge")], {"p": integers(1, 0, 1, 1, 0, 0, 1, 1)}, 'Pad "/y/Pad".*batch'),
        ([node("ReduceMean", "x", axes=[0])], {}, "over the batch"),
        ([node("Slice", "x", "s", "e")], {"s": integers(0), "e": integers(0)}, "chooses nothing"),
        (
            [node("Resize", "x", "r", "f", mode="cubic", coordinate_transformation_mode="tf_crop_and_resize")],
            {"f": np.array([1, 1, 2, 2], np.float32), "r": np.array([0, 0, 0, 0, 1, 1, 0.5, 1], np.float32)},
            "cubic with tf_crop_and_resize",
        ),
        (
            [
                node("ReduceMax", "x", axes=[1, 2, 3], keepdims=0, to="m"),
                node("Cast", "m", to="i", cast=7),
                node("Expand", "i", "eight", to="p"),
                node("Pad", "x", "p"),
            ],
            {"eight": integers(8)},
            '"p" is computed',
        ),
    ],
)
def test_what_cannot_be_expressed_is_named(tmp_path, nodes, constants, message):
    with pytest.raises(CaffeliteError, match=message):
        convert(nets.write(tmp_path / "net.onnx", nodes, constants, IMAGE), {}, None)
