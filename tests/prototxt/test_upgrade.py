"""Old dialects give the modern nets written by hand, and their fields keep their places in the file."""

import random
import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from prototxt.test_prototxt_mutations import mutate
from prototxt.upgrading import error, expect, modern

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.layers import batch_norm
from caffelite.prototxt.dialects import LEARNT, V0_FIELDS, V0_TRANSFORM, V1_PARAM, modern_type, v0_message


@pytest.fixture(autouse=True)
def warnings_are_logged_again():
    prototxt.say_once.cache_clear()


# layers { type: CONVOLUTION }


def test_v1_layer():
    word = expect(
        """name: "net"
        layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 3 blobs_lr: 4 weight_decay: 5
          weight_decay: 0
          param: "w" blob_share_mode: PERMISSIVE
          convolution_param { num_output: 4 kernel_size: 3 kernel_size: 7 weight_filler { type: "xavier" } }
          loss_weight: 0.5
          include { phase: TRAIN } include { stage: "a" } }
        layers { name: "r" type: RELU bottom: "c" top: "c" relu_param { negative_slope: 0.1 } exclude { min_level: 2 } }
        """,
        """name: "net"
        layer { name: "c" type: "Convolution" bottom: "x" top: "c" loss_weight: 0.5
          param { name: "w" share_mode: PERMISSIVE lr_mult: 3 decay_mult: 5 } param { lr_mult: 4 decay_mult: 0 }
          convolution_param { num_output: 4 kernel_size: 3 kernel_size: 7 weight_filler { type: "xavier" } }
          include { phase: TRAIN } include { stage: "a" } }
        layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { negative_slope: 0.1 }
          exclude { min_level: 2 } }
        """,
    )
    assert word("layer", 1) == "layers"
    assert word("layer", 0, "type") == "CONVOLUTION"
    assert word("layer", 0, "param", 1, "lr_mult") == "4"
    assert word("layer", 0, "param", 0, "name") == '"w"'
    assert word("layer", 0, "convolution_param", "kernel_size", 1) == "7"
    assert word("layer", 1, "exclude", 0, "min_level") == "2"


def test_every_v1_type_has_a_modern_name():
    """The schema names them next to the enum's values; this program has its own list."""
    schema = (Path(__file__).parent.parent.parent / "proto/caffelite.proto").read_text()
    enum = schema[schema.index("enum LayerType") :]
    message = {int(m[1]): m[2] for m in re.finditer(r'[A-Z0-9_]+ = (\d+);  // "(\w+)"', enum[: enum.index("}")])}
    types = pb.V1LayerParameter.LayerType.items()
    assert message | {0: ""} == {number: modern_type(name) for name, number in types}


@pytest.mark.parametrize("word, name", [("DATA", "data"), ("IMAGE_DATA", "image_data"), ("WINDOW_DATA", "window_data")])
def test_v1_transform_fields(word, name):
    modern_type = "".join(w.capitalize() for w in word.split("_"))
    word = expect(
        f'layers {{ type: {word} {name}_param {{ source: "s" scale: 0.5\n mean_file: "m" crop_size: 7 mirror: true '
        f"}} }}",
        f'layer {{ type: "{modern_type}" {name}_param {{ source: "s" }} '
        'transform_param { scale: 0.5 mean_file: "m" crop_size: 7 mirror: true } }',
    )
    assert word("layer", 0, "transform_param", "mean_file") == '"m"'


def test_both_forms_in_one_net():
    assert error('layer { name: "a" }\nlayers { name: "b" }') == (
        'n:2:1: both "layers" and "layer"; expected the one or the other, found "layer" at n:1:1; write all of them '
        "as layer"
    )


# input: "data"


def test_input_dim():
    word = expect(
        'input: "a" input: "b"\ninput_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\ninput_dim: [5, 6, 7, 8]\nlayer '
        '{ name: "r" }',
        """layer { name: "input" type: "Input" top: "a" top: "b"
          input_param { shape { dim: [1, 2, 3, 4] } shape { dim: [5, 6, 7, 8] } } }
        layer { name: "r" }""",
    )
    assert word("layer", 0) == "input:"
    assert word("layer", 0, "top", 1) == '"b"'
    assert word("layer", 0, "input_param", "shape", 0, "dim", 2) == "3"
    assert word("layer", 1, "name") == '"r"'


def test_input_shape_and_v1_layers():
    word = expect(
        'input: "a" input_shape { dim: 5\n dim: 2 }\nlayers { type: TANH bottom: "a" top: "t" }',
        'layer { name: "input" type: "Input" top: "a" input_param { shape { dim: [5, 2] } } } layer { type: "TanH" '
        'bottom: "a" top: "t" }',
    )
    assert word("layer", 0, "input_param", "shape", 0, "dim", 1) == "2"
    assert word("layer", 1, "top", 0) == '"t"'


def test_shapes_that_do_not_fit_the_inputs():
    assert error('name: "n"\ninput: "a"').startswith(
        "n:2:1: input_dim does not fit the inputs; expected 4: N, C, H and W of each"
    )
    assert "expected 8: N, C, H and W of each input, found 4" in error('input: "a" input: "b" input_dim: [1, 2, 3, 4]')
    assert error('input: "a"\ninput: "b" input_shape { dim: 1 }').startswith(
        "n:2:12: input_shape does not fit the inputs; expected 2"
    )


def test_input_without_a_shape(caplog):
    """It is ignored where a layer makes the blob."""
    layer = 'layer { name: "data" type: "Input" top: "a" input_param { shape { dim: 2 } } }'
    word = expect(f'name: "n"\ninput: "a"\n{layer}', f'name: "n" {layer}')
    assert caplog.messages == ["n:2:1: an input without a shape is ignored: a layer makes its blob"]
    assert word("layer", 0, "name") == '"data"'
    data = 'layer { name: "d" type: "Data" top: "a" top: "label" }'
    expect(f'input: "a" {data}', data)
    assert error(f'input: "a" input: "b" {layer}').startswith("n:1:1: input_dim does not fit the inputs")


def test_old_caffemodel_with_an_input_and_no_shape(tmp_path):
    content = pb.NetParameter(name="n", input=["a"], layer=[pb.LayerParameter(name="r")]).SerializeToString()
    (tmp_path / "n.caffemodel").write_bytes(content)
    assert prototxt.read_net(tmp_path / "n.caffemodel").message == pb.NetParameter(
        name="n", layer=[pb.LayerParameter(name="r")]
    )


# layers { layer { type: "conv" } }


def test_v0_net_with_padding():
    word = expect(
        """name: "v0" input: "x" input_dim: [2, 3, 8, 8]
        layers { layer { name: "p" type: "padding" pad: 1 } bottom: "x" top: "padded" }
        layers { layer { name: "c" type: "conv" num_output: 4 kernelsize: 5 stride: 2 group: 1 biasterm: false
          weight_filler { type: "gaussian" std: 0.1 } blobs_lr: 3 blobs_lr: 4 weight_decay: 5 } bottom: "padded"
          top: "c" }
        layers { layer { name: "q" type: "pool" pool: AVE kernelsize: 6 stride: 7 pad: 9 } bottom: "c" top: "q" }
        layers { layer { name: "i" type: "innerproduct" num_output: 10 bias_filler { value: 8 } } bottom: "q" top: "i" }
        """,
        """name: "v0"
        layer { name: "input" type: "Input" top: "x" input_param { shape { dim: [2, 3, 8, 8] } } }
        layer { name: "c" type: "Convolution" bottom: "x" top: "c" param { lr_mult: 3 decay_mult: 5 }
          param { lr_mult: 4 }
          convolution_param { num_output: 4 kernel_size: 5 stride: 2 group: 1 bias_term: false pad: 1
            weight_filler { type: "gaussian" std: 0.1 } } }
        layer { name: "q" type: "Pooling" bottom: "c" top: "q"
          pooling_param { pool: AVE kernel_size: 6 stride: 7 pad: 9 } }
        layer { name: "i" type: "InnerProduct" bottom: "q" top: "i"
          inner_product_param { num_output: 10 bias_filler { value: 8 } } }
        """,
    )
    assert word("layer", 1, "convolution_param", "pad", 0) == "1"
    assert word("layer", 1, "convolution_param", "kernel_size", 0) == "5"
    assert word("layer", 1, "param", 1, "lr_mult") == "4"
    assert word("layer", 2, "type") == '"pool"'
    assert word("layer", 3, "inner_product_param", "bias_filler", "value") == "8"


def test_one_padding_layer_for_two_convolutions():
    expect(
        """layers { layer { type: "padding" pad: 2 } bottom: "x" top: "p" }
        layers { layer { type: "conv" pad: 1 } bottom: "p" top: "a" }
        layers { layer { type: "conv" } bottom: "p" top: "b" }""",
        """layer { type: "Convolution" bottom: "x" top: "a" convolution_param { pad: 2 } }
        layer { type: "Convolution" bottom: "x" top: "b" convolution_param { pad: 2 } }""",
    )


def test_a_padding_layer_leaves_no_places():
    word = expect(
        'layers { layer { type: "padding" pad: 1 } bottom: "x" top: "p" }\nlayers { layer { type: "conv" } bottom: '
        '"p" }',
        'layer { type: "Convolution" bottom: "x" convolution_param { pad: 1 } }',
    )
    assert word("layer", 0, "top", 0) == "layers"  # none was written: the layer's own place


# every V0 field in a type that has it: (old, modern)
V0 = [
    (
        'type: "lrn" local_size: 3 alpha: 2 beta: 0.5 k: 7',
        'type: "LRN" lrn_param { local_size: 3 alpha: 2 beta: 0.5 k: 7 }',
    ),
    ('type: "dropout" dropout_ratio: 0.3', 'type: "Dropout" dropout_param { dropout_ratio: 0.3 }'),
    ('type: "concat" concat_dim: 2', 'type: "Concat" concat_param { concat_dim: 2 }'),
    ('type: "hdf5_data" source: "s" batchsize: 2', 'type: "HDF5Data" hdf5_data_param { source: "s" batch_size: 2 }'),
    ('type: "infogain_loss" source: "s"', 'type: "InfogainLoss" infogain_loss_param { source: "s" }'),
    (
        'type: "hdf5_output" hdf5_output_param { file_name: "f" }',
        'type: "HDF5Output" hdf5_output_param { file_name: "f" }',
    ),
    (
        'type: "data" source: "s" batchsize: 2 rand_skip: 3 scale: 0.5 meanfile: "m" cropsize: 4 mirror: true',
        'type: "Data" data_param { source: "s" batch_size: 2 rand_skip: 3 } '
        'transform_param { scale: 0.5 mean_file: "m" crop_size: 4 mirror: true }',
    ),
    (
        'type: "images" source: "s" shuffle_images: true new_height: 3 new_width: 4',
        'type: "ImageData" image_data_param { source: "s" shuffle: true new_height: 3 new_width: 4 }',
    ),
    (
        'type: "window_data" det_fg_threshold: 0.1 det_bg_threshold: 0.2 det_fg_fraction: 0.3 det_context_pad: 4 '
        'det_crop_mode: "square"',
        'type: "WindowData" window_data_param { fg_threshold: 0.1 bg_threshold: 0.2 fg_fraction: 0.3 context_pad: 4 '
        'crop_mode: "square" }',
    ),
    *(
        (f'type: "{old}"', f'type: "{new}"')
        for old, new in [("relu", "ReLU"), ("softmax_loss", "SoftmaxWithLoss"), ("tanh", "TanH")]
    ),
    ('type: "multinomial_logistic_loss"', 'type: "MultinomialLogisticLoss"'),
]


@pytest.mark.parametrize("old, new", V0)
def test_v0_layer(old, new):
    expect(f'layers {{ layer {{ name: "l" {old} }} bottom: "x" }}', f'layer {{ name: "l" {new} bottom: "x" }}')


def test_every_v0_field_is_known():
    known = {*V0_FIELDS, *V0_TRANSFORM, *V1_PARAM, "name", "type", "blobs", "hdf5_output_param"}
    lost = {"new_num", "new_channels"}  # of a layer that Caffe itself gave up
    assert set(pb.V0LayerParameter.DESCRIPTOR.fields_by_name) == known - {"param", "blob_share_mode"} | lost
    fields = pb.LayerParameter.DESCRIPTOR.fields_by_name
    for field, (now, words) in V0_FIELDS.items():
        for word in words:
            assert (now or field) in fields[v0_message(word)].message_type.fields_by_name


def test_v0_mistakes(caplog):
    assert error('layers { layer { type: "konv" } }') == 'n:1:24: unknown V0 layer type "konv"; did you mean "conv"?'
    padded = (
        'layers { layer { type: "padding" } bottom: "x" top: "p" }\nlayers { layer { name: "r" type: "relu" } '
        'bottom: "p" top: "r" }'
    )
    expected = 'expected a conv or pool layer with one bottom, found "relu" with 1'
    assert error(padded) == f'n:2:51: layer "r" reads a padding layer; {expected}'
    expect('layers { layer { type: "relu"\n group: 3 } }', 'layer { type: "ReLU" }')
    assert 'n:2:9: "group" means nothing in a V0 layer of type "relu" and is ignored' in caplog.messages


# odds and ends


def test_batch_norm_with_rates():
    text = 'layer {{ type: "BatchNorm" param {{ {0} name: "m" }} param {{ {0} }} param {{ {0} }} }}'
    expect(text.format("lr_mult: 1 decay_mult: 1"), text.format("lr_mult: 0 decay_mult: 0"))
    one = 'layer {{ type: "BatchNorm" param {{ {} }} }}'
    expect(one.format("lr_mult: 1 decay_mult: 0"), one.format("lr_mult: 0 decay_mult: 0"))
    same = text.format("lr_mult: 0")
    assert modern(same).message == text_format.Parse(same, pb.NetParameter())


def test_batch_norm_that_learns():
    """NVCaffe: three blobs of statistics, then those that learn."""
    text = (
        'layer {{ type: "BatchNorm" batch_norm_param {{ scale_bias: true }} {} param {{ lr_mult: 2 decay_mult: 3 }} }}'
    )
    expect(text.format("param { lr_mult: 1 } " * 3), text.format("param { lr_mult: 0 decay_mult: 0 } " * 3))
    assert LEARNT == batch_norm.LEARNT


def test_relu_within_a_layer():
    word = expect(
        """layer { type: "Input" name: "in" top: "x" }
        layer { name: "c" type: "Convolution" bottom: "x" top: "c" include { phase: TEST }
          convolution_param { num_output: 1 relu: true negative_slope: 0.5 } }
        layer { name: "b" type: "BatchNorm" bottom: "c" top: "b" batch_norm_param { relu: true eps: 1 } }
        layer { name: "i" type: "InnerProduct" bottom: "b" top: "i" inner_product_param { relu: false } }
        layer { name: "f" type: "Deconvolution" bottom: "i" top: "f"
          convolution_param { fuse_type: FUSED_CONV_RELU } }""",
        """layer { type: "Input" name: "in" top: "x" }
        layer { name: "c" type: "Convolution" bottom: "x" top: "c" include { phase: TEST }
          convolution_param { num_output: 1 } }
        layer { name: "c/relu" type: "ReLU" bottom: "c" top: "c" include { phase: TEST }
          relu_param { negative_slope: 0.5 } }
        layer { name: "b" type: "BatchNorm" bottom: "c" top: "b" batch_norm_param { eps: 1 } }
        layer { name: "b/relu" type: "ReLU" bottom: "b" top: "b" }
        layer { name: "i" type: "InnerProduct" bottom: "b" top: "i" inner_product_param { relu: false } }
        layer { name: "f" type: "Deconvolution" bottom: "i" top: "f" convolution_param { } }
        layer { name: "f/relu" type: "ReLU" bottom: "f" top: "f" }""",
    )
    assert word("layer", 7) == "FUSED_CONV_RELU"
    assert word("layer", 2) == word("layer", 4) == "true"
    assert word("layer", 2, "relu_param", "negative_slope") == "0.5"
    assert word("layer", 5, "top", 0) == '"i"'


def test_old_transform_fields_of_a_modern_layer_are_ignored(caplog):
    modern('layer { type: "Data" data_param { source: "s"\nscale: 2 } }')
    assert caplog.messages == ["n:2:8: scale in data_param is ignored, as in Caffe; it belongs in transform_param"]


def test_solver():
    word = expect(
        'base_lr: 1\nsolver_type: NESTEROV net_param { layers { type: RELU\ntop: "t" } }\n'
        'test_net_param { input: "a" input_dim: [1, 2, 3, 4] }',
        """base_lr: 1 type: "Nesterov" net_param { layer { type: "ReLU" top: "t" } }
        test_net_param { layer { name: "input" type: "Input" top: "a"
          input_param { shape { dim: [1, 2, 3, 4] } } } }""",
        pb.SolverParameter,
    )
    assert word("type") == "NESTEROV"
    assert word("net_param", "layer", 0, "top", 0) == '"t"'
    assert word("test_net_param", 0, "layer", 0, "top", 0) == '"a"'
    assert word("base_lr") == "1"


@pytest.mark.parametrize("word", pb.SolverParameter.SolverType.keys())
def test_solver_types(word):
    assert modern(f"solver_type: {word}", pb.SolverParameter).message.type.upper() == word


def test_solver_with_both_types():
    text = 'type: "SGD"\nsolver_type: SGD'
    assert error(text, pb.SolverParameter).startswith(
        'n:2:14: both solver_type and type; expected one of them, found "type" at n:1:7'
    )


def test_modern_files_stay_as_they_are():
    for text, message in [('layer { type: "ReLU" }', pb.NetParameter), ('type: "Adam"', pb.SolverParameter)]:
        document = prototxt.parse(text, message)
        assert prototxt.modern(document).message is document.message


def test_an_old_dialect_is_logged_once(caplog, tmp_path):
    (tmp_path / "n").write_text('input: "a" input_dim: [1, 2, 3, 4] layers { type: RELU }')
    for _ in range(2):
        prototxt.read_net(tmp_path / "n")
    message = "is in an old dialect (V1 layers, input fields); this writes it in the modern form: caffelite upgrade"
    assert caplog.messages == [f"{tmp_path}/n {message} {tmp_path}/n NEW"]


OLD = [
    """layers { layer { name: "p" type: "padding" pad: 1 } bottom: "x" top: "p" }
layers { layer { name: "c" type: "conv" num_output: 4 kernelsize: 5 weight_filler { std: 0.1 } blobs_lr: 3 } bottom: "p"
  top: "c" }
layers { layer { name: "q" type: "pool" pool: AVE kernelsize: 6 } bottom: "c" top: "q" }""",
    """input: "a" input: "b"\ninput_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\ninput_dim: [5, 6, 7, 8]
layers { type: DATA data_param { scale: 2 } blobs_lr: 1 param: "w" } layers { type: RELU loss_weight: 1 }""",
    """input: "a" input_shape { dim: 2 } layer { type: "BatchNorm" param { } param { } param { } forward_type: FLOAT16
mn_activation_param { a: [1] b { } } convolution_param { engine: MKLDNN } }""",
]


@pytest.mark.parametrize("text", OLD)
def test_damaged_files_are_modernised_or_mistakes(text):
    modern(text)
    for seed in range(300):
        damaged = mutate(text, random.Random(seed))
        try:
            document = modern(damaged)
        except CaffeliteError:
            continue
        assert not document.message.layers and not document.message.input
        assert prototxt.modern(document).message is document.message
        for i in range(len(document.message.layer)):
            assert document.locate("layer", i).line


def test_string_that_is_no_text_for_a_number():
    assert error('input_dim: "\\xff"').startswith('n:1:12: wrong value for "input_dim"; expected an integer')
