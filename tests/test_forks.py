"""Fields and words of Caffe's forks are read, ignored and reported once."""

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError
from caffelite.prototxt import forks


@pytest.fixture(autouse=True)
def warnings_are_logged_again():
    prototxt.say_once.cache_clear()


def test_fields_of_forks_are_ignored(caplog):
    text = """name: "n" default_forward_math: FLOAT16 default_conv_algos_override: "0,1" ",2"
    compile_net_state { kept: < x: [1, -2] y { z: "}" } >, more: 3 }
    layer { forward_type: FLOAT name: "a" trt_param { a [{ }, { }] }
      quantization_param { scale_in: [1, 2] } top: "t"
      transform_param { flow: -3 mirror: true, bgr2rgb: { } } loss_param { label_smoothing: 0 } }
    layer { forward_type: FLOAT }
    """
    document = prototxt.parse(text, pb.NetParameter, "n")
    assert document.message == text_format.Parse(
        'name: "n" layer { name: "a" top: "t" transform_param { mirror: true } loss_param { } } layer { }',
        pb.NetParameter(),
    )
    assert [m.split(" is of ")[0] for m in caplog.messages] == [
        'n:1:11: "default_forward_math" in NetParameter',
        'n:1:41: "default_conv_algos_override" in NetParameter',
        'n:2:5: "compile_net_state" in NetParameter',
        'n:3:13: "forward_type" in LayerParameter',
        'n:3:43: "trt_param" in LayerParameter',
        'n:4:7: "quantization_param" in LayerParameter',
        'n:5:25: "flow" in TransformationParameter',
        'n:5:48: "bgr2rgb" in TransformationParameter',
        'n:5:76: "label_smoothing" in LossParameter',
    ]
    assert caplog.messages[0].endswith("is of NVCaffe, unknown here and ignored")
    assert caplog.messages[3].endswith("ignored (2 times in this file)")
    assert "is of NVCaffe and Intel's Caffe, unknown here and ignored: it has no effect" in caplog.messages[8]


@pytest.mark.parametrize("field", ["convolution_param", "pooling_param", "lrn_param", "relu_param"])
def test_engines_of_forks_are_ignored(field, caplog):
    document = prototxt.parse(f"layer {{ {field} {{ engine: MKLDNN }} }}", pb.NetParameter, "n")
    assert document.message == text_format.Parse(f"layer {{ {field} {{ }} }}", pb.NetParameter())
    assert '"engine: MKLDNN"' in caplog.text


MISTAKES = {
    "layer { forward_type }": 'n:1:9: "forward_type" has no value; expected a value, found "}"',
    "layer { forward_type: }": 'n:1:9: "forward_type" has no value; expected a value, found "}"',
    "layer { forward_typ: 1 }": 'n:1:9: unknown field "forward_typ" in LayerParameter; did you mean "forward_type"?',
    "layer { relu_parm { } }": 'n:1:9: unknown field "relu_parm" in LayerParameter; did you mean "relu_param"?',
    "pixelshuffler: 2": 'n:1:1: unknown field "pixelshuffler" in NetParameter; it belongs in ReshapeParameter '
    "(Intel's Caffe)",
    "layer { convolution_param { engine: MKL } "
    "}": 'n:1:37: wrong value for "engine"; expected one of DEFAULT, CAFFE, CUDNN, found "MKL"',
    "layer { concat_param { per_fla_fuse: true } }": 'n:1:24: "per_fla_fuse" in ConcatParameter is of Intel\'s Caffe '
    "and changes shapes: it is not supported",
    "layer { forward_type: FLOAT16 FLOAT }": 'n:1:31: unknown field "FLOAT" in LayerParameter',
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_next_to_fields_of_forks(text):
    with pytest.raises(CaffeliteError) as caught:
        prototxt.parse(text, pb.NetParameter, "n")
    assert str(caught.value) == MISTAKES[text]


def test_a_field_that_changes_shapes_may_be_false(caplog):
    text = "layer { concat_param { per_fla_fuse: false } param { force_mult: 1 } type: 'x' }"
    assert prototxt.parse(text, pb.NetParameter, "n").message.layer[0].type == "x"
    assert [line.rpartition(" is of ")[2] for line in caplog.messages] == [
        "Intel's Caffe, unknown here and ignored: it has no effect",
        "SkimCaffe, unknown here and ignored: it has no effect",
    ]


def test_fields_that_change_shapes_are_of_forks():
    assert all(field in forks.fields(message) for message, field in (name.split(".") for name in forks.SHAPES))


def test_fork_tables_name_messages_of_the_schema():
    for messages in forks._FIELDS.values():
        for message, names in messages.items():
            assert message in pb.DESCRIPTOR.message_types_by_name and names.split() == sorted(names.split())
