"""Old dialects beside the modern nets that they mean, written by hand, and where their fields stand afterwards."""

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError
from caffelite.upgrade import V1_TYPES


@pytest.fixture(autouse=True)
def told_anew():
    prototxt.say_once.cache_clear()


def modern(text, message=pb.NetParameter):
    return prototxt.modern(prototxt.parse(text, message, "n"))


def expect(old, new, message=pb.NetParameter):
    """The old text means the new one; gives a function from a path of the new message to the word there in the old text."""
    document = modern(old, message)
    assert document.message == text_format.Parse(new, message())

    def word(*path):
        where = document.locate(*path)
        return old.split("\n")[where.line - 1][where.column - 1 :].split()[0]

    return word


def error(text, message=pb.NetParameter):
    with pytest.raises(CaffeliteError) as caught:
        modern(text, message)
    return str(caught.value)


# layers { type: CONVOLUTION }


def test_v1_layer():
    word = expect(
        """name: "net"
        layers { name: "c" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 3 blobs_lr: 4 weight_decay: 5 weight_decay: 0
          param: "w" blob_share_mode: PERMISSIVE
          convolution_param { num_output: 4 kernel_size: 3 kernel_size: 7 weight_filler { type: "xavier" } } loss_weight: 0.5
          include { phase: TRAIN } include { stage: "a" } }
        layers { name: "r" type: RELU bottom: "c" top: "c" relu_param { negative_slope: 0.1 } exclude { min_level: 2 } }
        """,
        """name: "net"
        layer { name: "c" type: "Convolution" bottom: "x" top: "c" loss_weight: 0.5
          param { name: "w" share_mode: PERMISSIVE lr_mult: 3 decay_mult: 5 } param { lr_mult: 4 decay_mult: 0 }
          convolution_param { num_output: 4 kernel_size: 3 kernel_size: 7 weight_filler { type: "xavier" } }
          include { phase: TRAIN } include { stage: "a" } }
        layer { name: "r" type: "ReLU" bottom: "c" top: "c" relu_param { negative_slope: 0.1 } exclude { min_level: 2 } }
        """,
    )
    assert word("layer", 1) == "layers"
    assert word("layer", 0, "type") == "CONVOLUTION"
    assert word("layer", 0, "param", 1, "lr_mult") == "4"
    assert word("layer", 0, "param", 0, "name") == '"w"'
    assert word("layer", 0, "convolution_param", "kernel_size", 1) == "7"
    assert word("layer", 1, "exclude", 0, "min_level") == "2"


def test_every_v1_type_has_a_modern_name():
    """The names stand beside the enum's words in the schema, where this program did not take them from."""
    import re
    from pathlib import Path

    schema = (Path(__file__).parent.parent / "proto/caffelite.proto").read_text()
    enum = schema[schema.index("enum LayerType") :]
    said = {int(m[1]): m[2] for m in re.finditer(r'[A-Z0-9_]+ = (\d+);  // "(\w+)"', enum[: enum.index("}")])}
    assert said | {0: ""} == V1_TYPES


@pytest.mark.parametrize("word, name", [("DATA", "data"), ("IMAGE_DATA", "image_data"), ("WINDOW_DATA", "window_data")])
def test_v1_transform_fields(word, name):
    modern_type = "".join(w.capitalize() for w in word.split("_"))
    word = expect(
        f'layers {{ type: {word} {name}_param {{ source: "s" scale: 0.5\n mean_file: "m" crop_size: 7 mirror: true }} }}',
        f'layer {{ type: "{modern_type}" {name}_param {{ source: "s" }} '
        'transform_param { scale: 0.5 mean_file: "m" crop_size: 7 mirror: true } }',
    )
    assert word("layer", 0, "transform_param", "mean_file") == '"m"'


def test_both_forms_in_one_net():
    assert error('layer { name: "a" }\nlayers { name: "b" }') == (
        'n:2:1: both "layers" and "layer"; expected the one or the other, found "layer" at n:1:1; write all of them as layer'
    )


# input: "data"


def test_input_dim():
    word = expect(
        'input: "a" input: "b"\ninput_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4\ninput_dim: [5, 6, 7, 8]\nlayer { name: "r" }',
        """layer { name: "input" type: "Input" top: "a" top: "b" input_param { shape { dim: [1, 2, 3, 4] } shape { dim: [5, 6, 7, 8] } } }
        layer { name: "r" }""",
    )
    assert word("layer", 0) == "input:"
    assert word("layer", 0, "top", 1) == '"b"'
    assert word("layer", 0, "input_param", "shape", 0, "dim", 2) == "3"
    assert word("layer", 1, "name") == '"r"'


def test_input_shape_and_v1_layers():
    word = expect(
        'input: "a" input_shape { dim: 5\n dim: 2 }\nlayers { type: TANH bottom: "a" top: "t" }',
        'layer { name: "input" type: "Input" top: "a" input_param { shape { dim: [5, 2] } } } layer { type: "TanH" bottom: "a" top: "t" }',
    )
    assert word("layer", 0, "input_param", "shape", 0, "dim", 1) == "2"
    assert word("layer", 1, "top", 0) == '"t"'


def test_shapes_that_do_not_fit_the_inputs():
    assert error('name: "n"\ninput: "a"').startswith("n:2:1: input_dim does not fit the inputs; expected 4: N, C, H and W of each")
    assert "expected 8: N, C, H and W of each input, found 4" in error('input: "a" input: "b" input_dim: [1, 2, 3, 4]')
    assert error('input: "a"\ninput: "b" input_shape { dim: 1 }').startswith("n:2:12: input_shape does not fit the inputs; expected 2")


def test_old_caffemodel_with_an_input_and_no_shape(tmp_path):
    (tmp_path / "n.caffemodel").write_bytes(pb.NetParameter(name="n", input=["a"], layer=[pb.LayerParameter(name="r")]).SerializeToString())
    assert prototxt.read_net(tmp_path / "n.caffemodel").message == pb.NetParameter(name="n", layer=[pb.LayerParameter(name="r")])
