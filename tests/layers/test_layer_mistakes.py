"""Mistakes in layers: each @ marks the place that the message names."""

from __future__ import annotations

import pytest
from layer_row import BATCH, IMAGE
from textnet import inputs, mistakes, over


def one(kind: str, body: str, *shapes: tuple[int, ...], tops: str = "y") -> str:
    return over(kind, body, " ".join(tops), **{f"x{i}": shape for i, shape in enumerate(shapes)})


def conv(body: str, shape=IMAGE) -> str:
    return one("Convolution", f"convolution_param {{ {body} }}", shape)


def pool(body: str, shape=IMAGE) -> str:
    return one("Pooling", f"pooling_param {{ {body} }}", shape)


def at_bottom(text: str, i: int) -> str:
    return text.replace(f'bottom: "x{i}"', f'bottom: @"x{i}"')


def at_layer(text: str) -> str:
    return text.replace('layer { name: "layer"', '@layer { name: "layer"')


MISTAKES = [
    (
        one("Dropout", "dropout_param { dropout_ratio: @1 }", BATCH),
        "a bad dropout_ratio; expected 0 or more and less than 1, found 1",
    ),
    (one("Dropout", "dropout_param { dropout_ratio: @-0.5 }", BATCH), "a bad dropout_ratio"),
    (one("Dropout", "dropout_param { dropout_ratio: @nan }", BATCH), "a bad dropout_ratio"),
    (one("Clip", "clip_param { min: 1 max: @0 }", BATCH), "max is below min; expected 1 or more, found 0"),
    (one("Exp", "exp_param { base: @0 }", BATCH), "a bad base; expected more than 0, or -1 for e, found 0"),
    (one("Log", "log_param { base: @-2 }", BATCH), "a bad base"),
    (one("Log", "log_param { base: @1 }", BATCH), "no logarithm has base 1"),
    (at_bottom(one("PReLU", "", (2,)), 0), 'bottom "x0" has no channels'),
    (
        inputs(a=BATCH, b=BATCH)
        + 'layer { name: "e" type: "EuclideanLoss" bottom: "a" bottom: "b" top: "e" } '
        + 'layer { name: "layer" type: "BatchNorm" bottom: @"e" top: "y" }',
        'bottom "e" is a single number',
    ),
    (
        one("Softmax", "softmax_param { axis: @2 }", BATCH),
        "axis 2 is outside the bottom's 2 axes; expected -2 to 1, found 2",
    ),
    (one("SoftmaxWithLoss", "softmax_param { axis: @-3 }", BATCH, (2,)), "axis -3 is outside"),
    (at_layer(one("Softmax", "", (2,))), "axis 1 is outside the bottom's 1 axes"),
    (
        one("Flatten", "flatten_param { axis: 2 end_axis: @0 }", IMAGE),
        "end_axis is before axis; expected 2 or more, found 0",
    ),
    (one("Flatten", "flatten_param { end_axis: @4 }", IMAGE), "end_axis 4 is outside the bottom's 4 axes"),
    (one("InnerProduct", "@inner_product_param { }", BATCH), "num_output must be positive; set num_output"),
    (one("InnerProduct", "inner_product_param { num_output: @0 }", BATCH), "num_output must be positive"),
    (
        one("InnerProduct", "inner_product_param { num_output: 2 axis: @3 }", BATCH),
        "axis 3 is outside the bottom's 2 axes; expected -2 to 2",
    ),
    (conv("num_output: @0 kernel_size: 1"), "num_output must be positive"),
    (
        conv("num_output: 2").replace("convolution_param", "@convolution_param"),
        "kernel_size must be at least 1; found none",
    ),
    (conv("num_output: 2 @kernel_size: 3 kernel_size: 0"), "kernel_size must be at least 1; found 0"),
    (conv("num_output: 2 @kernel_size: 7"), "its kernel [7, 7] does not fit; found an image of 6×5"),
    (conv("num_output: 2 kernel_size: 3 @stride: 0"), "stride must be at least 1; found 0"),
    (conv("num_output: 2 kernel_size: 3 @dilation: 0"), "dilation must be at least 1"),
    (
        conv("num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: @3"),
        "has 3 values of kernel_size; expected one, or one for each of the 2",
    ),
    (conv("num_output: 2 @kernel_size: 3 kernel_h: 3"), "gives kernel_size and kernel_h/kernel_w; keep one of the two"),
    (conv("num_output: 3 kernel_size: 1 group: @2"), "group 2 does not divide the 3 num_output"),
    (conv("num_output: 3 kernel_size: 1 group: @3"), "group 3 does not divide the 4 input channels"),
    (conv("num_output: 3 kernel_size: 1 group: @0"), "group 0 does not divide"),
    (
        at_bottom(conv("num_output: 2 kernel_size: 1", (3,)), 0),
        'bottom "x0" has no axis 1; expected N×C×H×W, with channels at axis 1, found shape [3]',
    ),
    (at_bottom(conv("num_output: 2 kernel_size: 1 axis: 4"), 0), 'bottom "x0" has no axis 4'),
    (conv("num_output: 2 kernel_size: 1 axis: @-5"), "axis -5 is outside the bottom's 4 axes"),
    (
        conv("num_output: 2 kernel_h: @1 kernel_w: 1", (2, 3, 4)),
        "kernel_h and kernel_w are for two spatial axes; expected kernel_size for 1",
    ),
    (conv("num_output: 2 kernel_size: 1 kernel_size: @1", (2, 3, 4)), "has 2 values of kernel_size; expected one"),
    (
        conv("num_output: 2 kernel_size: 1 stride: 1 stride: @2", (2, 3, 4, 5, 6)),
        "has 2 values of stride; expected one, or one for each of the 3",
    ),
    (
        one("Deconvolution", "convolution_param { num_output: 2 kernel_size: 2 @pad: 9 }", IMAGE),
        "its pad leaves nothing of the output; found pad [9, 9], output [-11, -12]",
    ),
    (
        one("Im2col", "convolution_param { @kernel_size: 7 }", IMAGE),
        "its kernel [7, 7] does not fit; found an image of 6×5",
    ),
    (at_bottom(one("Im2col", "convolution_param { kernel_size: 1 }", BATCH), 0), "has no spatial axes"),
    (
        at_bottom(one("Crop", "", IMAGE, BATCH), 1),
        'bottom "x1" has another number of axes; expected 4, as the first, found [2, 3]',
    ),
    (
        one("Crop", "crop_param { offset: 1 offset: 1 offset: @1 }", IMAGE, IMAGE),
        "has 3 values of offset; expected one, or one for each of the 2 axes from axis 2",
    ),
    (
        one("Crop", "crop_param { offset: 0 offset: @1 }", IMAGE, IMAGE),
        'its part leaves "x0" [2, 4, 6, 5] along axis 3; expected offset + 5 up to 5, found offset 1',
    ),
    (at_layer(one("Crop", "", IMAGE, (2, 4, 7, 5))), "along axis 2; expected offset + 7 up to 6, found offset 0"),
    (one("Crop", "crop_param { axis: @4 }", IMAGE, IMAGE), "axis 4 is outside"),
    (
        one("Scale", "scale_param { num_axes: @4 }", IMAGE),
        "num_axes 4 from axis 1 leaves the bottom's 4 axes; expected -1 to 3, found 4",
    ),
    (one("Bias", "bias_param { num_axes: @-2 }", IMAGE), "num_axes -2 from axis 1 leaves"),
    (one("Bias", "bias_param { axis: @-5 }", IMAGE), "axis -5 is outside"),
    (at_bottom(one("Scale", "", IMAGE, (4, 5)), 1), 'bottom "x1" does not fit; expected [4, 6], found [4, 5]'),
    (at_bottom(one("Bias", "", IMAGE, (2,)), 1), 'bottom "x1" does not fit; expected [4], found [2]'),
    (one("LRN", "lrn_param { local_size: @4 }", IMAGE), "local_size must be odd; found 4"),
    (at_bottom(one("LRN", "", BATCH), 0), "is no batch of images"),
    (
        one("BatchNorm", "param { lr_mult: 0 } param { lr_mult: @1 }", IMAGE),
        "its blobs are statistics, not parameters to learn; expected lr_mult: 0, or none, found 1",
    ),
    (
        one("BatchNorm", "batch_norm_param { scale_bias: true }" + " param { }" * 5 + " @param { }", IMAGE),
        "6 param messages; expected at most 5",
    ),
    (
        at_bottom(one("Axpy", "", (2, 3), IMAGE, IMAGE), 0),
        'bottom "x0" does not fit; expected [2, 4] or [2, 4, 1, 1], found [2, 3]',
    ),
    (
        at_bottom(one("Axpy", "", (2, 4), IMAGE, (2, 4, 6, 4)), 2),
        'bottom "x2" does not fit; expected [2, 4, 6, 5], found [2, 4, 6, 4]',
    ),
    (at_bottom(one("Axpy", "", (2,), (2,), (2,)), 1), 'bottom "x1" has no channels'),
    (
        one("Permute", "permute_param { order: @4 }", IMAGE),
        "axis 4 is outside the bottom's 4 axes; expected 0 to 3, found 4",
    ),
    (one("Permute", "permute_param { order: 1 order: @1 }", IMAGE), "names axis 1 twice"),
    (at_bottom(one("Normalize", "", (2,)), 0), 'bottom "x0" has no channels'),
    (
        one("SmoothL1Loss", "smooth_l1_loss_param { sigma: @0 }", BATCH, BATCH),
        "a bad sigma; expected a finite number above 0, found 0",
    ),
    (
        one("SoftmaxWithLoss", "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: @-1 }", BATCH, (2,)),
        "a bad pre_fixed_normalizer; expected a finite number above 0, found -1",
    ),
    (one("Embed", "@embed_param { input_dim: 3 }", (2,)), "num_output must be positive; set num_output"),
    (one("Embed", "embed_param { num_output: 3 input_dim: @0 }", (2,)), "input_dim must be positive; set input_dim"),
    (
        one("MemoryData", "memory_data_param { batch_size: 1 channels: 1 height: @0 width: 1 }", tops="yz"),
        "height must be positive",
    ),
    (
        one("MemoryData", "@memory_data_param { }", tops="yz"),
        "batch_size must be positive; set batch_size, channels, height and width",
    ),
    (at_bottom(one("Pooling3D", "pooling3d_param { kernel_size: 2 }", IMAGE), 0), "has no frames"),
    *(
        (one("Pooling3D", f"pooling3d_param {{ {fields} }}", (2, 3, 4, 6, 5)), message)
        for fields, message in [
            ("kernel_size: 2 kernel_depth: @0", "kernel_depth must be at least 1"),
            ("kernel_size: 2 kernel_depth: 2 temporal_stride: @0", "temporal_stride must be at least 1"),
            ("kernel_size: 2 kernel_depth: @9", "its kernel does not fit; expected at most 4, found 4 frames"),
            ("kernel_size: 2 kernel_depth: 1 temporal_stride: @4", "its last window is outside the frames"),
            ("kernel_size: 2 kernel_depth: 1 pad: @1", "MAX has no pad"),
            ("kernel_size: 2 kernel_depth: 1 pool: @STOCHASTIC", "pools frames by MAX or AVE"),
            ("kernel_size: 2 kernel_depth: 1 pool: AVE pad: @2", "pad must be less than the kernel"),
        ]
    ),
    (one("SPP", "@spp_param { }", IMAGE), "a bad pyramid_height; expected 1 level or more, at most 16, found none"),
    (one("SPP", "spp_param { pyramid_height: @0 }", IMAGE), "a bad pyramid_height"),
    (
        one("SPP", "spp_param { pyramid_height: @3 }", IMAGE),
        "level 2 of the pyramid, 4 by 4, is too fine for an image of 6×5; make the pyramid lower, or the image larger",
    ),
    (one("SPP", "spp_param { pyramid_height: 2 pool: @STOCHASTIC }", IMAGE), "stochastic pooling does not support pad"),
    (at_bottom(one("SPP", "spp_param { pyramid_height: 1 }", BATCH), 0), "is no batch of images"),
    (
        at_bottom(
            one("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", IMAGE, (2, 4, 5, 6), tops="yz"), 1
        ),
        'bottom "x1" differs from the first',
    ),
    (
        at_layer(one("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", IMAGE, IMAGE)),
        "has 1 tops for 2 bottoms; expected as many tops as bottoms",
    ),
    (
        pool("pool: STOCHASTIC kernel_size: 2 pad: @1"),
        "stochastic pooling does not support pad; expected pad 0, found pad [1, 1]",
    ),
    (
        one("Pooling", "pooling_param { pool: AVE kernel_size: 2 }", IMAGE, tops="yz").replace('"z"', '@"z"'),
        "a second top, the winners' places, is for MAX pooling; found pool: AVE",
    ),
    (pool("global_pooling: @true kernel_size: 2"), "global_pooling takes its kernel from the bottom; drop kernel_size"),
    (pool("global_pooling: @true pad: 1"), "global_pooling has one window; expected stride 1 and pad 0"),
    (pool("global_pooling: @true stride: 2"), "global_pooling has one window"),
    (pool("kernel_size: @7"), "its kernel [7, 7] does not fit"),
    (pool("kernel_size: @7 stride: 2 round_mode: FLOOR"), "its kernel [7, 7] does not fit; found an image of 6×5"),
    (
        pool("kernel_size: 2 round_mode: CEIL ceil_mode: @false"),
        "ceil_mode and round_mode contradict each other; found round_mode: CEIL, ceil_mode: false; keep one of the two",
    ),
    (pool("kernel_size: 2 pad: @2"), "pad must be less than the kernel; found pad [2, 2], kernel [2, 2]"),
    (pool("kernel_size: 2 stride: @0"), "stride must be at least 1"),
    (at_bottom(pool("kernel_size: 2", BATCH), 0), 'bottom "x0" is no batch of images'),
    (
        at_bottom(one("SoftmaxWithLoss", "", BATCH, (3,)), 1),
        'bottom "x1" does not fit; expected 2 labels, one for each vector of "x0" [2, 3] along axis 1, found 3 [3]',
    ),
    (
        at_bottom(one("SigmoidCrossEntropyLoss", "", BATCH, (2, 2)), 1),
        'bottom "x1" does not fit; expected 6 values, as "x0" [2, 3] has, found 4 [2, 2]',
    ),
    (at_bottom(one("EuclideanLoss", "", BATCH, (2, 2)), 1), 'bottom "x1" does not fit'),
    (at_bottom(one("Accuracy", "", BATCH, BATCH), 1), 'bottom "x1" does not fit; expected 2 labels'),
    (
        one("Accuracy", "accuracy_param { top_k: @4 }", BATCH, (2,)),
        "top_k must be within the number of classes; expected 1 to 3, found 4",
    ),
    (one("Accuracy", "accuracy_param { top_k: @0 }", BATCH, (2,)), "top_k must be within the number of classes"),
    (
        at_bottom(one("HDF5Output", 'hdf5_output_param { file_name: "o.h5" }', BATCH, (3,), tops=""), 1),
        'bottom "x1" differs in batch size',
    ),
    (one("HDF5Output", "@hdf5_output_param { }", BATCH, BATCH, tops=""), "has no file_name"),
    (one("Parameter", "parameter_param { shape { dim: 2 dim: @0 } }"), "a bad dimension; expected 1 or more, found 0"),
    (one("Input", "input_param { @shape { dim: 1 } shape { dim: 1 } }"), "has 2 shapes for 1 tops; expected 1 or 1"),
    (one("DummyData", "@dummy_data_param { }"), "has 0 shapes for 1 tops"),
    (
        one("DummyData", "dummy_data_param { @shape { dim: 1 } num: 1 }"),
        "gives shape and num/channels/height/width; keep shape",
    ),
    (
        one("DummyData", "dummy_data_param { @num: 1 channels: 1 height: 1 }"),
        "num, channels, height and width differ in number",
    ),
    (one("DummyData", "@dummy_data_param { num: 1 channels: 1 height: 1 width: 0 }"), "a bad dimension"),
    (
        one("DummyData", "dummy_data_param { shape { dim: 1 } @data_filler { } data_filler { } }"),
        "has 2 fillers for 1 tops",
    ),
    (one("Data", "", tops="abc").replace('"c"', '@"c"'), "has 3 top blobs"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(text, message):
    mistakes(text, message)
