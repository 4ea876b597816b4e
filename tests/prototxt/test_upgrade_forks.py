"""Old layers of Caffe's forks give the modern ones, and their fields keep their places in the file."""

import pytest
from prototxt.upgrading import error, expect, modern


def test_v1_layers_of_forks():
    expect(
        "layers { type: ELTWISE_ACCURACY eltwise_accuracy_param { ignore_label: 255 } } "
        "layers { type: PADDING padding_param { pad_beg: 1 } } "
        "layers { type: SOFTMAX_LOSS softmaxloss_param { ignore_label: 255 } }",
        'layer { type: "Accuracy" accuracy_param { ignore_label: 255 } } '
        'layer { type: "Padding" padding_param { pad_beg: 1 } } '
        'layer { type: "SoftmaxWithLoss" loss_param { ignore_label: 255 } }',
    )


def test_fields_of_deeplab():
    word = expect(
        'layer { type: "Convolution" convolution_param { hole: 2 } } '
        'layer { type: "HoleConvolution" convolution_param { hole_w: 4 } }'
        'layer { type: "ImageSegData" image_data_param { has_label: false } }'
        'layer { type: "ImageSegData" image_data_param { has_label: true label_type: PIXEL } }',
        'layer { type: "Convolution" convolution_param { dilation: 2 } } '
        'layer { type: "Convolution" convolution_param { dilation: 1 dilation: 4 } } '
        'layer { type: "ImageSegData" image_data_param { label_type: NONE } }'
        'layer { type: "ImageSegData" image_data_param { label_type: PIXEL } }',
    )
    assert word("layer", 0, "convolution_param", "dilation", 0) == "2"
    assert word("layer", 1, "convolution_param", "dilation", 1) == "4"
    text = 'layer { type: "Convolution" convolution_param { hole: 2 dilation: 3 } }'
    assert "dilation together with hole; keep one of them" in error(text)
    assert "hole together with hole_w" in error(text.replace("dilation", "hole_w"))


def test_rates_of_caffe_con_troll():
    word = expect(
        'layer { type: "Convolution" blobs_lr: 1 blobs_lr: 2 weight_decay: 3 param { name: "w" } }',
        'layer { type: "Convolution" param { name: "w" lr_mult: 1 decay_mult: 3 } param { lr_mult: 2 } }',
    )
    assert word("layer", 0, "param", 1, "lr_mult") == "2"


def test_pads_by_side_of_synopsys():
    word = expect(
        'layer { name: "c" type: "Convolution" bottom: "x" top: "c" include { phase: TEST } convolution_param { '
        "kernel_size: 3 stride: 2 pad_r: 1 pad_b: 2 } }"
        'layer { name: "m" type: "Pooling" bottom: "c" top: "m" pooling_param { kernel_size: 3 pad_l: 1 } }'
        'layer { name: "a" type: "Pooling" bottom: "m" pooling_param { pool: AVE_EXC_PAD kernel_size: 3 pad_t: 1 '
        "pad_b: 1 } }",
        """layer { name: "c/pad" type: "Padding" bottom: "x" top: "c/pad" include { phase: TEST }
            padding_param { pad_l: 0 pad_r: 1 pad_t: 0 pad_b: 2 } }
        layer { name: "c" type: "Convolution" bottom: "c/pad" top: "c" include { phase: TEST }
            convolution_param { kernel_size: 3 stride: 2 } }
        layer { name: "m" type: "Pooling" bottom: "c" top: "m" pooling_param { kernel_size: 3 pad_l: 1 } }
        layer { name: "a" type: "Pooling" bottom: "m" pooling_param { pool: AVE_EXC_PAD kernel_size: 3 pad_h: 1
            pad_w: 0 } }""",
    )
    assert word("layer", 1, "convolution_param", "stride", 0) == "2"
    assert word("layer", 3, "pooling_param", "kernel_size") == "3"
    expect(
        'layer { name: "d" type: "Deconvolution" bottom: "x" top: "d" convolution_param { kernel_size: 3 pad_r: 1 } }',
        """layer { name: "d" type: "Deconvolution" bottom: "x" top: "d/pad" convolution_param { kernel_size: 3 } }
        layer { name: "d/pad" type: "Padding" bottom: "d/pad" top: "d"
            padding_param { pad_l: 0 pad_r: -1 pad_t: 0 pad_b: 0 } }""",
    )


def test_files_of_2014():
    word = expect(
        'version: 1 layers { type: DATA data_param { source: "s" transform_param { scale: 0.5 } } }',
        'layer { type: "Data" data_param { source: "s" } transform_param { scale: 0.5 } }',
    )
    assert word("layer", 0, "transform_param", "scale") == "0.5"
    expect(
        'layer { type: "Pooling" pooling_param { round_below: true } } layer { pooling_param { round_below: false } }',
        'layer { type: "Pooling" pooling_param { round_mode: FLOOR } } layer { pooling_param { } }',
    )


def test_bn_stats_batch_size_of_intel():
    expect(
        'bn_stats_batch_size: 8 layer { type: "BatchNorm" } layer { type: "ReLU" }',
        'layer { type: "BatchNorm" batch_norm_param { stats_batch_size: 8 } } layer { type: "ReLU" }',
    )


def test_types_and_bounds_of_synopsys():
    expect(
        'layer { type: "SeLU" } layer { type: "SeLUDropout" selu_dropout_param { dropout_ratio: 0.2 } }',
        'layer { type: "SeLu" } layer { type: "SeLuDropout" selu_dropout_param { dropout_ratio: 0.2 } }',
    )
    word = expect(
        'layer { type: "ReLU" relu_param { maximum: 4 } } layer { type: "ReLU" relu_param { minimum: 1 relu6: true } }'
        'layer { type: "ReLU" relu_param { minimum: -1 negative_slope: 0.5 } }',
        """layer { type: "Clip" clip_param { min: 0 max: 4 } } layer { type: "Clip" clip_param { min: 1 max: 6 } }
        layer { type: "ReLU" relu_param { negative_slope: 0.5 } }""",
    )
    assert word("layer", 0, "clip_param", "max") == "4"
    leaky = 'layer { name: "r" type: "ReLU" relu_param { maximum: 4 negative_slope: 0.5 } }'
    assert 'layer "r" (ReLU): bounds and negative_slope' in error(leaky)


def test_mistakes_of_pads_by_side():
    """A type without them does not pass over them either."""
    fields = "convolution_param { kernel_size: 3 pad_l: 1 }"
    fields3d = "pooling3d_param { kernel_size: 3 pad_b: 1 }"
    other = error(f'layer {{ name: "d" type: "Pooling3D" bottom: "x" {fields3d} }}')
    assert 'layer "d" (Pooling3D) has pads by side; expected a Convolution' in other
    both = error('layer { type: "Convolution" bottom: "x" top: "y" convolution_param { pad: 1 pad_l: 1 } }')
    assert "both pad and pads by side" in both
    two = error(f'layer {{ type: "Convolution" bottom: "x" bottom: "y" top: "x" top: "z" {fields} }}')
    assert "pads that differ by side need one bottom and one top" in two


def test_layers_over_frames_of_c3d():
    word = expect(
        """layers { type: CONVOLUTION3D convolution_param { num_output: 2 kernel_size: 7 kernel_depth: 3
            pad: 4 temporal_pad: 1 temporal_stride: 5 } }
        layers { type: DECONVOLUTION3D convolution_param { kernel_size: 2 kernel_depth: 1 stride: 6 } }
        layers { type: POOLING3D pooling_param { pool: AVE kernel_size: 2 kernel_depth: 8 } }""",
        """layer { type: "Convolution" convolution_param { num_output: 2 kernel_size: [3, 7, 7] pad: [1, 4, 4]
            stride: [5, 1, 1] } }
        layer { type: "Deconvolution" convolution_param { kernel_size: [1, 2, 2] stride: [1, 6, 6] pad: [0, 0, 0] } }
        layer { type: "Pooling3D" pooling3d_param { pool: AVE kernel_size: 2 kernel_depth: 8 } }""",
    )
    assert [word("layer", 0, "convolution_param", "kernel_size", i) for i in (0, 1)] == ["3", "7"]
    assert word("layer", 1, "convolution_param", "stride", 1) == "6"
    assert word("layer", 2, "pooling3d_param", "kernel_depth") == "8"


def test_layers_over_frames_of_c3d_v1_1():
    word = expect(
        'layer { type: "Convolution3D" convolution3d_param { kernel_size: 7 kernel_depth: 3 stride: 2 } }',
        'layer { type: "Convolution" convolution_param { kernel_size: [3, 7, 7] stride: [1, 2, 2] pad: [0, 0, 0] } }',
    )
    assert word("layer", 0, "convolution_param", "kernel_size", 0) == "3"


def test_layers_over_axes_of_video_caffe():
    word = expect(
        'layer { type: "NdConvolution" convolution_param { num_output: 2 kernel_shape { dim: 3 dim: 5 dim: 7 } '
        "stride_shape { dim: 1 dim: 2 dim: 3 } pad_shape { dim: 0 dim: 1 dim: 4 } } }"
        'layer { type: "NdPooling" pooling_param { kernel_shape { dim: 1 dim: 2 dim: 2 } stride_shape { dim: 1 dim: 2 '
        'dim: 2 } } } layer { type: "NdPooling" pooling_param { global_pooling: true kernel_shape { dim: 1 } } }',
        """layer { type: "Convolution" convolution_param { num_output: 2 kernel_size: [3, 5, 7] stride: [1, 2, 3]
            pad: [0, 1, 4] } }
        layer { type: "Pooling" pooling_param { kernel_size: 1 more_kernel_size: [2, 2] stride: 1
            more_stride: [2, 2] } }
        layer { type: "Pooling" pooling_param { global_pooling: true } }""",
    )
    assert [word("layer", 0, "convolution_param", name, 2) for name in ("kernel_size", "stride", "pad")] == [*"734"]
    assert word("layer", 1, "pooling_param", "more_kernel_size", 1) == "2"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('type: "NdConvolution" convolution_param { kernel_size: 3 }', "has no kernel_shape"),
        ('type: "Pooling" pooling_param { kernel_shape { dim: 3 } }', "does not read kernel_shape"),
        ('type: "Convolution" convolution_param { kernel_depth: 3 }', "does not read kernel_depth"),
        ('type: "ImageData" image_data_param { new_length: 3 }', "does not read new_length"),
        ('type: "Convolution3D" convolution_param { kernel_size: 3 }', "has no kernel_depth"),
        ('type: "Convolution3D" convolution_param { kernel_depth: 3 }', "has no kernel_size"),
        ('type: "Convolution3D" convolution_param { kernel_size: [3, 3] kernel_depth: 3 }', "has 2 values"),
    ],
)
def test_mistakes_in_layers_over_frames(text, what):
    actual = error(f'layer {{ name: "l"\n{text} }}')
    assert what in actual and actual.startswith("n:2:")


def test_a_v1_type_of_a_fork_without_a_layer_names_the_fork():
    assert "C3D" in error("layers { type: VOXEL_SOFTMAX }")


def scores(fields):
    """An old net of FCN: a padded image, its half, that enlarged, and a Crop of it. fields: of the Deconvolution."""
    return f"""input: "x" input_shape {{ dim: [1, 3, 40, 30] }}
        layers {{ type: CONVOLUTION name: "c" bottom: "x" top: "c" convolution_param {{ kernel_size: 3 pad: 100 }} }}
        layers {{ type: RELU name: "r" bottom: "c" top: "c" }}
        layers {{ type: POOLING name: "p" bottom: "c" top: "p" pooling_param {{ kernel_size: 2 stride: 2 }} }}
        layers {{ type: CONVOLUTION name: "s" bottom: "p" top: "s" convolution_param {{ kernel_h: 7 kernel_w: 5 }} }}
        layers {{ type: DECONVOLUTION name: "d" bottom: "s" top: "d" convolution_param {{ {fields} }} }}
        layers {{ type: CROP name: "crop" bottom: "d" bottom: "x" top: "y" }}"""


def test_the_offset_of_an_old_crop_aligns_its_bottoms():
    crop = modern(scores("kernel_size: 4 stride: 2")).message.layer[-1]
    # pixel i of x is i + 99 in c, i / 2 + 49.25 in p, i / 2 + 46.25 (or 47.25) in s, i + 92.5 (or 94.5) + 1.5 in d
    assert crop.type == "Crop" and list(crop.crop_param.offset) == [94, 96]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("kernel_size: 4", "its bottoms differ in scale, by 1/2"),
        ("kernel_size: 3 stride: 2", "its offset would be 93.5, and must be a whole number"),
    ],
)
def test_an_old_crop_that_cannot_align_is_an_error(fields, what):
    text = scores(fields)
    actual = error(text)
    assert f'layer "crop" (CROP): {what}' in actual and actual.startswith(f"n:{text.count(chr(10)) + 1}:")


def test_an_old_crop_needs_a_common_blob():
    text = scores("kernel_size: 4 stride: 2").replace('bottom: "d" bottom: "x"', 'bottom: "d" bottom: "z"')
    assert "its bottoms do not depend on a common blob" in error(text)


MODERN = """layer { type: "Convolution" name: "c" bottom: "x" top: "c" convolution_param { pad: 35 kernel_size: 3 } }
    layer { type: "Pooling" name: "p" bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2 } }
    layer { type: "Deconvolution" name: "d" bottom: "p" top: "d" convolution_param { kernel_size: 4 stride: 2 } }
    layer { type: "AutoCrop" name: "crop" bottom: "d" bottom: "x" top: "y" }"""


def test_an_auto_crop_is_a_crop_with_its_offset():
    crop = modern(MODERN).message.layer[-1]
    # pixel i of x is i + 34 in c, (i + 34) / 2 - 1/4 in p, i + 33.5 + 1.5 in d
    assert crop.type == "Crop" and list(crop.crop_param.offset) == [35, 35]
    actual = error(MODERN.replace('stride: 2 } }\n    layer { type: "Auto', 'stride: 1 } }\n    layer { type: "Auto'))
    assert actual.startswith("n:4:") and 'layer "crop" (AutoCrop): its bottoms differ in scale' in actual


SPARK = """layer { name: "d" type: "CoSData" top: "data" top: "words" source_class: "S" cos_data_param { batch_size: 4
    top { name: "data" type: ENCODED_IMAGE_WITH_DIM channels: 3 height: 9 width: 8 out_height: 7 out_width: 6 }
    top { name: "words" type: INT_ARRAY channels: 21 sample_num_axes: 1 transpose: true } } }"""


def test_data_of_spark_are_an_input():
    expect(
        SPARK,
        'layer { name: "d" type: "Input" top: "data" top: "words" input_param { shape { dim: [4, 3, 7, 6] } '
        "shape { dim: [21, 4] } } }",
    )


@pytest.mark.parametrize(
    "old, new, what",
    [
        ('top: "words" source', "source", "cos_data_param has 2 tops for 1 of the layer"),
        ("axes: 1", "axes: 2", '"words" has 2 axes a sample; expected 1'),
        ("height: 9", "sample_num_axes: 4", '"data" has 4 axes a sample; expected 0 to 3'),
    ],
)
def test_bad_data_of_spark(old, new, what):
    actual = error(SPARK.replace(old, new))
    assert actual.startswith("n:1:") and f'layer "d" (CoSData): {what}' in actual


def test_a_scalar_is_a_scale_from_the_first_axis():
    word = expect(
        'layer { type: "Scalar" bottom: "x" bottom: "s" } layer { type: "Scalar" scalar_param { axis: 2 } }',
        'layer { type: "Scale" bottom: "x" bottom: "s" scale_param { axis: 0 } } '
        'layer { type: "Scale" scale_param { axis: 2 } }',
    )
    assert word("layer", 1, "scale_param", "axis") == "2"
