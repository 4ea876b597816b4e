"""Every whole number that a layer's message may hold, at its limits: a net that can be planned, or one clear error;
never a traceback."""

import re

import numpy as np
import pytest
import textnet

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.devices.traits import cpu_traits
from caffelite.errors import CaffeliteError
from caffelite.inspection.feeds import Feeds
from caffelite.net import graph
from caffelite.net.compile import compile

IMAGE, ROWS, SERIES = (2, 4, 6, 5), (2, 4), (3, 2, 4)
NUMBERS = {"uint32": (0, 1, 1000, 60000, 2**31 - 1, 2**31, 2**32 - 1), "int32": (-(2**31), -1, 0, 60000, 2**31 - 1)}
KINDS = {
    "Convolution": ("convolution_param", "num_output: 2 kernel_size: 1", [IMAGE]),
    "Deconvolution": ("convolution_param", "num_output: 2 kernel_size: 1", [IMAGE]),
    "Im2col": ("convolution_param", "kernel_size: 1", [IMAGE]),
    "Pooling": ("pooling_param", "kernel_size: 2", [IMAGE]),
    "SPP": ("spp_param", "pyramid_height: 2", [IMAGE]),
    "Crop": ("crop_param", "", [IMAGE, (2, 4, 3, 3)]),
    "LRN": ("lrn_param", "", [IMAGE]),
    "InnerProduct": ("inner_product_param", "num_output: 2", [ROWS]),
    "Embed": ("embed_param", "num_output: 2 input_dim: 4", [(2,)]),
    "RNN": ("recurrent_param", "num_output: 2", [SERIES, (3, 2)]),
    "LSTM": ("recurrent_param", "num_output: 2", [SERIES, (3, 2)]),
    "Concat": ("concat_param", "", [ROWS, ROWS]),
    "Slice": ("slice_param", "", [ROWS]),
    "Reshape": ("reshape_param", "shape { dim: -1 }", [ROWS]),
    "Flatten": ("flatten_param", "", [ROWS]),
    "Tile": ("tile_param", "tiles: 2", [ROWS]),
    "Reduction": ("reduction_param", "", [ROWS]),
    "ArgMax": ("argmax_param", "", [ROWS]),
    "Softmax": ("softmax_param", "", [ROWS]),
    "Accuracy": ("accuracy_param", "", [ROWS, (2,)]),
    "Scale": ("scale_param", "", [ROWS]),
    "Bias": ("bias_param", "", [ROWS]),
    "Permute": ("permute_param", "order: 0 order: 1", [ROWS]),
    "SoftmaxWithLoss": ("loss_param", "", [ROWS, (2,)]),
    "InfogainLoss": ("infogain_loss_param", "", [ROWS, (2,), (4, 4)]),
    "DummyData": ("dummy_data_param", "num: 1 channels: 1 height: 1 width: 1", []),
    "MemoryData": ("memory_data_param", "batch_size: 1 channels: 1 height: 1 width: 1", []),
    "Data": ("data_param", 'source: "x" batch_size: 1', []),
    "ImageData": ("image_data_param", 'source: "x" batch_size: 1', []),
    "WindowData": ("window_data_param", 'source: "x" batch_size: 1 crop_size: 3', []),
    "HDF5Data": ("hdf5_data_param", 'source: "x" batch_size: 1', []),
}


def net(kind: str, body: str) -> str:
    field, _, shapes = KINDS[kind]
    names = {f"x{i}": shape for i, shape in enumerate(shapes)}
    tops = "y z" if kind in ("MemoryData", "Slice") else "y"
    return textnet.over(kind, f"{field} {{ {body} }}", tops, **names)


def bodies(kind: str):
    """The layer's message with one number at a time set to each value."""
    field, base, _ = KINDS[kind]
    for actual in pb.LayerParameter.DESCRIPTOR.fields_by_name[field].message_type.fields:
        limits = {actual.CPPTYPE_UINT32: NUMBERS["uint32"], actual.CPPTYPE_INT32: NUMBERS["int32"]}
        stem, _, side = actual.name.rpartition("_")
        pair = side in ("h", "w") and stem
        rest = re.sub(rf"\b({'kernel_size' if stem == 'kernel' else stem}): \S+", "", base) if pair else base
        rest = rest if actual.is_repeated and kind != "DummyData" else re.sub(rf"\b{actual.name}: \S+", "", rest)
        for value in limits.get(actual.cpp_type, ()):
            yield f"{rest} {actual.name}: {value}" + (f" {stem}_{'w' if side == 'h' else 'h'}: 1" if pair else "")
    if field in ("convolution_param", "pooling_param"):
        for value in NUMBERS["uint32"]:
            rest = re.sub(r"kernel_size: .*", "", base)
            yield f"{rest} kernel_size: 1 stride: {value} pad: {value}"
            yield f"{rest} kernel_size: {value} stride: {value} pad: {max(0, value - 1)}"


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_at_their_limits_are_planned_or_refused(kind):
    refused = 0
    for body in bodies(kind):
        document = prototxt.parse(net(kind, body), pb.NetParameter, "net")
        state = pb.NetState(phase=pb.TRAIN)
        try:
            compile(graph.build(document.message, state, document.locate, Feeds({})), cpu_traits())
        except CaffeliteError as mistake:
            refused += 1
            assert len(str(mistake)) < 500
    assert refused or kind in ("SoftmaxWithLoss",)


FIELDS = ("stride", "pad", "kernel_size", "dilation")


@pytest.mark.parametrize(
    ("kind", "field"),
    [(k, f) for k in ("Convolution", "Deconvolution") for f in FIELDS] + [("Pooling", f) for f in FIELDS[:3]],
)
def test_windows_beyond_32_bits_are_refused(kind, field):
    base = re.sub(r"kernel_size: \S+", "", KINDS[kind][1]) + ("" if field == "kernel_size" else "kernel_size: 1")
    with pytest.raises(CaffeliteError, match=f"{field} is too large; expected at most 2147483647, found 4294967295"):
        textnet.build(net(kind, f"{base} {field}: 4294967295"))


@pytest.mark.parametrize("kind", ["Convolution", "Pooling"])
def test_the_largest_stride_runs(kind):
    body = KINDS[kind][1].replace("kernel_size: 2", "kernel_size: 6")
    bound = textnet.bind(net(kind, f"{body} stride: 2147483647"), dtype="float32")
    bound.set_inputs(x0=np.ones(IMAGE))
    bound.forward()
    assert bound.blobs["y"].shape[2:] == (1, 1)


@pytest.mark.parametrize("axes", [33, 10_000])
def test_a_blob_of_too_many_axes_is_refused(axes):
    text = f'top "x" has too many axes; expected at most 32, as in Caffe, found {axes}$'
    with pytest.raises(CaffeliteError, match=text):
        textnet.build(f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ {"dim: 1 " * axes} }} }} }}')
