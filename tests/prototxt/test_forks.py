"""Fields and words of Caffe's forks are read, ignored and reported once."""

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.prototxt import forks


@pytest.fixture(autouse=True)
def warnings_are_logged_again():
    prototxt.say_once.cache_clear()


def test_fields_of_forks_are_ignored(caplog):
    text = """name: "n" default_forward_math: FLOAT16 default_conv_algos_override: "0,1" ",2"
    multinode { kept: < x: [1, -2] y { z: "}" } >, more: 3 }
    layer { forward_type: FLOAT name: "a" mn_activation_param { a [{ }, { }] }
      quantization_param { scale_in: [1, 2] } top: "t"
      transform_param { flow: false mirror: true, forward_packing: NHWC } }
    layer { forward_type: FLOAT }
    """
    document = prototxt.parse(text, pb.NetParameter, "n")
    assert document.message == text_format.Parse(
        'name: "n" layer { name: "a" top: "t" transform_param { mirror: true } } layer { }', pb.NetParameter()
    )
    assert [m.split(" is of ")[0] for m in caplog.messages] == [
        'n:1:11: "default_forward_math" in NetParameter',
        'n:1:41: "default_conv_algos_override" in NetParameter',
        'n:2:5: "multinode" in NetParameter',
        'n:3:13: "forward_type" in LayerParameter',
        'n:3:43: "mn_activation_param" in LayerParameter',
        'n:4:7: "quantization_param" in LayerParameter',
        'n:5:25: "flow" in TransformationParameter',
        'n:5:51: "forward_packing" in TransformationParameter',
    ]
    assert caplog.messages[0].endswith("is of NVCaffe, unknown here and ignored")
    assert caplog.messages[3].endswith("ignored (2 times in this file)")
    assert caplog.messages[5].endswith(
        "is of Intel's Caffe and CHaiDNN, unknown here and ignored: values are not rounded here"
    )


@pytest.mark.parametrize("field", ["convolution_param", "pooling_param", "lrn_param", "relu_param"])
def test_engines_of_forks_are_ignored(field, caplog):
    document = prototxt.parse(f"layer {{ {field} {{ engine: MKLDNN }} }}", pb.NetParameter, "n")
    assert document.message == text_format.Parse(f"layer {{ {field} {{ }} }}", pb.NetParameter())
    assert '"engine: MKLDNN"' in caplog.text


def test_a_default_may_be_written_in_float32():
    """As programs print 1.2."""
    assert not forks.changes_results("TransformationParameter", "max_contrast", "1.20000004768")
    assert forks.changes_results("TransformationParameter", "max_contrast", "1.2001")


GO_ON = "remove it to go on with a net that does without"
MISTAKES = {
    "layer { forward_type }": 'n:1:9: "forward_type" has no value; expected a value, found "}"',
    "layer { forward_type: }": 'n:1:9: "forward_type" has no value; expected a value, found "}"',
    "layer { forward_typ: 1 }": 'n:1:9: unknown field "forward_typ" in LayerParameter; did you mean "forward_type"?',
    "layer { relu_parm { } }": 'n:1:9: unknown field "relu_parm" in LayerParameter; did you mean "relu_param"?',
    "per_fla_fuse: true": 'n:1:1: unknown field "per_fla_fuse" in NetParameter; it belongs in ConcatParameter '
    "(Intel's Caffe)",
    "layer { convolution_param { engine: MKL } "
    "}": 'n:1:37: wrong value for "engine"; expected one of DEFAULT, CAFFE, CUDNN, found "MKL"',
    "layer { concat_param { per_fla_fuse: true } }": 'n:1:24: "per_fla_fuse" in ConcatParameter is of Intel\'s Caffe '
    f"and not supported; expected false, its default, found true; {GO_ON}",
    "layer { elu_param { lambda: 1.05 } }": 'n:1:21: "lambda" in ELUParameter is of NVCaffe and not supported; '
    f"expected 1, its default, found 1.05; {GO_ON}",
    "layer { convolution_param { coeff: [1, -1] } }": 'n:1:29: "coeff" in ConvolutionParameter is of Intel\'s Caffe '
    f"and not supported; {GO_ON}",
    "layer { forward_type: FLOAT16 FLOAT }": 'n:1:31: unknown field "FLOAT" in LayerParameter',
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_next_to_fields_of_forks(text):
    with pytest.raises(CaffeliteError) as caught:
        prototxt.parse(text, pb.NetParameter, "n")
    assert str(caught.value) == MISTAKES[text]


# fields of the forks that change results, each with a value that does, and with one that does not
CHANGES = {
    "SolverParameter": ("larc_turbo: true", "larc_turbo: false momentum_policy: 'fixed' max_momentum: 0.990"),
    "TransformationParameter": ("smooth_filtering: true", "smooth_filtering: false max_smooth: 6.0 max_contrast: 1.2"),
    "PoolingParameter": ("pad_type: 1", "pad_type: 0 torch_pooling: true"),
    "ConvolutionParameter": ("fusion_type: SUM_FUSION", "fusion_type: NONE_FUSION"),
    "DropoutParameter": ("sqrt_scale: true", "sqrt_scale: false random_seed: 7"),
    "BatchNormParameter": ("update_global_stats: true", "update_global_stats: false engine: MKLDNN"),
}


def test_a_field_is_replaced_by_what_does_the_same():
    with pytest.raises(CaffeliteError, match=r"found 20; write perturb_param \{ max_rotate_degree"):
        prototxt.parse("max_rotation_angle: 20", pb.TransformationParameter, "n")
    assert set(forks.remedies()) <= {
        field for _, messages in forks.tables() for message in messages for field in forks.fields(message)
    }


@pytest.mark.parametrize("message", CHANGES)
def test_a_field_that_changes_results_must_have_its_default(message, caplog):
    changes, keeps = CHANGES[message]
    kind = getattr(pb, message)
    with pytest.raises(CaffeliteError, match="is of .* and not supported"):
        prototxt.parse(changes, kind, "n")
    assert prototxt.parse(keeps, kind, "n").message == kind()
    assert all(line.endswith("unknown here and ignored") for line in caplog.messages)


def test_no_field_with_an_effect_is_called_harmless():
    """Each harmless one is of some fork, and has one reason."""
    every = {field for _, messages in forks.tables() for message in messages for field in forks.fields(message)}
    names = [name for _, group in forks.reasons() for name in group.split()] + sorted(forks.ROUNDS)
    assert set(names) <= every and len(set(names)) == len(names)


def test_fork_tables_name_messages_of_the_schema():
    for _, messages in forks.tables():
        for message, names in messages.items():
            known = pb.DESCRIPTOR.message_types_by_name[message].fields_by_name
            added = [entry.partition("=")[0] for entry in names.split()]
            assert added == sorted(added) and not set(known) & set(added)
