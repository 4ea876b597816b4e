"""Every syntax of prototxt is read as protobuf reads it, and every mistake gives its exact line."""

import os
import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, text_format

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError, Mistakes

ROOT = Path(__file__).parent.parent.parent
SHIPPED = sorted([*ROOT.glob("models/**/*.prototxt"), *ROOT.glob("solvers/*.prototxt")])


def message_type(path):
    return pb.SolverParameter if "solver" in path.name else pb.NetParameter


def mistakes(text, message=pb.NetParameter):
    with pytest.raises(CaffeliteError) as caught:
        prototxt.parse(text, message, "n")
    return str(caught.value).split("\n")


SYNTAX = [
    "",
    "# nothing but a comment",
    'name: "a" # comment\ninput: "b"#another',
    "name: 'single \"quotes\"'",
    r'name: "\a\b\f\n\r\t\v\\\'\""',
    r'name: "\1\12\101\x41\xe2\x82\xac\u20ac\U0001F600"',
    'name: "é€😀"',
    "name: 'joined ' \"of \"\n  'three'",
    'name:"tight"input:"x"input_dim:1',
    'name\n:\n"spread"',
    "input_dim: -5 input_dim: 0x1F input_dim: 017 input_dim: -0x10 input_dim: 0 input_dim: 2147483647 input_dim: "
    "-2147483648",
    "layer { loss_weight: 1 loss_weight: -1.5 loss_weight: 1. loss_weight: .5 loss_weight: 1e3 loss_weight: 1E-3 "
    "loss_weight: 2.5e+2 }",
    "layer { loss_weight: 1f loss_weight: 0.1F loss_weight: inf loss_weight: -inf loss_weight: Infinity loss_weight: "
    "3.4028235e38 }",
    "layer { propagate_down: true propagate_down: false propagate_down: t propagate_down: f propagate_down: 1 "
    "propagate_down: 0 }",
    "layer { propagate_down: True propagate_down: False }",
    "layer { phase: TEST } layer { phase: 1 } layer { phase: TRAIN }",
    "layers { type: CONVOLUTION } layers { type: 39 }",
    "input_dim: [1, 2, 3] input_dim: 4 input_dim: []",
    'input: ["a", "b" "c"]',
    'layer: [{ name: "a" }, < name: "b" >] layer [ { } ]',
    'layer: { name: "a" } layer < name: "b" top: "c" > layer{}',
    'layer { name: "a", top: "b"; top: "c", }; layer { };',
    "input_shape { dim: [1, 2] dim: 3 }",
    "state { } force_backward: 1",
    "layer { blobs { double_data: [1, 1e300, -2] data: 0.1 } }",
    'layer { clip_param { min: -1 max: 1 } name: "required" }',
    'name: "a"\r\ninput: "b"\r\n',
    'name: "tab"\t\f\v input: "b"',
    r'checksum: "\000\377\x00bytes"',
]


@pytest.mark.parametrize("text", SYNTAX)
def test_reads_what_protobuf_reads(text):
    assert prototxt.parse(text, pb.NetParameter).message == text_format.Parse(text, pb.NetParameter())


def test_negative_number_with_a_gap_as_in_caffe():
    assert prototxt.parse("input_dim: - 5", pb.NetParameter).message.input_dim == [-5]


def test_escaped_question_mark():
    assert prototxt.parse(r"name: '\?'", pb.NetParameter).message.name == "?"


def test_nan():
    assert str(prototxt.parse("base_lr: -nan", pb.SolverParameter).message.base_lr) == "nan"


@pytest.mark.parametrize("number", ["0x7fffffffffffffff", "-9223372036854775808"])
def test_64_bit_integers(number):
    assert prototxt.parse(f"random_seed: {number}", pb.SolverParameter).message.random_seed == int(number, 0)


WRONG_VALUES = [
    ("input_dim: @abc", 'an integer, found "abc"'),
    ("input_dim: @1.5", "an integer, found 1.5"),
    ("input_dim: @5abc", "an integer, found 5abc"),
    ("input_dim: @09", "an integer, found 09; an integer that begins with 0 is octal"),
    ('input_dim: @"5"', 'an integer, found the string "5"; write it without quotes'),
    ('input_dim: @"x"', 'an integer, found the string "x"'),
    ("input_dim: @{ }", 'an integer, found "{"'),
    ("input_dim: @- { }", "an integer, found -"),
    ("input_dim: @2147483648", "an integer from -2147483648 to 2147483647, found 2147483648"),
    ("layer { transform_param { crop_size: @-1 } }", "an integer from 0 to 4294967295, found -1"),
    ("layer { loss_weight: @x }", 'a number, found "x"'),
    ("layer { loss_weight: @0x10 }", "a decimal number, found 0x10"),
    ("layer { loss_weight: @1e39 }", "a number within ±3.4e38, found 1e39"),
    ("layer { blobs { double_data: @1e999 } }", "a number within ±1.8e308, found 1e999"),
    ("force_backward: @2", "true or false, found 2"),
    ("force_backward: @TRUE", 'true or false, found "TRUE"; did you mean "true"?'),
    ('force_backward: @"true"', 'true or false, found the string "true"; write it without quotes'),
    ("layer { phase: @train }", 'one of TRAIN, TEST, found "train"; did you mean "TRAIN"?'),
    ("layer { phase: @7 }", "one of TRAIN, TEST, found 7"),
    ('layer { phase: @"TEST" }', 'one of TRAIN, TEST, found the string "TEST"; write it without quotes'),
    ("layers { type: @CONVOLUTON }", 'a LayerType, found "CONVOLUTON"; did you mean "CONVOLUTION"?'),
    ("name: @LeNet", 'a string in quotes, found "LeNet"; write "LeNet"'),
    ("name: @5", 'a string in quotes, found 5; write "5"'),
    ("input_dim: [1, @x, 3]", 'an integer, found "x"'),
    ("name: @['a']", 'a string in quotes, found "["'),
    (r'name: @"\xff"', r'text in UTF-8, found the string "\xff"'),
]


@pytest.mark.parametrize("text, expected", WRONG_VALUES)
def test_wrong_value(text, expected):
    """@ stands before the value, whose field precedes it."""
    before, _, _ = text.partition("@")
    field, column = re.findall(r"\w+", before.rpartition(":")[0])[-1], len(before) + 1
    assert mistakes(text.replace("@", "")) == [f'n:1:{column}: wrong value for "{field}"; expected {expected}']


WRONG = [
    (
        "layer {\n  convolution_param { kernal_size: 5 }\n}",
        'n:2:23: unknown field "kernal_size" in ConvolutionParameter; did you mean "kernel_size"?',
    ),
    ("zzz: 5", 'n:1:1: unknown field "zzz" in NetParameter'),
    ("base_lr: 0.1", 'n:1:1: unknown field "base_lr" in NetParameter; it belongs in a solver'),
    (
        "layer { dropout_ratio: 0.5 }",
        'n:1:9: unknown field "dropout_ratio" in LayerParameter; '
        "it belongs in dropout_param or selu_dropout_param or spatial_dropout_param",
    ),
    (
        "layer { num_output: 5 }",
        'n:1:9: unknown field "num_output" in LayerParameter; '
        "it belongs in convolution_param or embed_param or inner_product_param or others",
    ),
    (
        "layer { lrn_param { bottom: 'a' } }",
        'n:1:21: unknown field "bottom" in LRNParameter; LayerParameter has it: close "lrn_param" first',
    ),
    (
        "zzz: { a: [1, {b: 2}] } input_dim: x",
        [
            'n:1:1: unknown field "zzz" in NetParameter',
            'n:1:36: wrong value for "input_dim"; expected an integer, found "x"',
        ],
    ),
    (
        f"input_dim: {'9' * 5000}",
        f'n:1:12: wrong value for "input_dim"; expected an integer from -2147483648 to 2147483647, found {"9" * 57}...',
    ),
    (
        "name: }",
        [
            'n:1:1: "name" has no value; expected a string in quotes, found "}"',
            'n:1:7: unexpected "}"; expected a field or the end of the file',
        ],
    ),
    ("input_dim:\nname: 'a'", 'n:1:1: "input_dim" has no value; expected an integer, found "name"'),
    ("name:", 'n:1:1: "name" has no value; expected a string in quotes, found the end of the file'),
    ("name", 'n:1:1: "name" has no value; expected ":" and a string in quotes, found the end of the file'),
    ("input_dim 5\ninput_dim: 6", 'n:1:11: missing ":" after "input_dim"'),
    ("force_backward true", 'n:1:16: missing ":" after "force_backward"'),
    ("layer: 5", 'n:1:8: "layer" is a block; expected "{", found 5'),
    ("layer name", 'n:1:7: "layer" is a block; expected "{", found "name"'),
    ("name: 'a'\nname: 'b'", 'n:2:1: "name" is set twice; first at line 1, column 1'),
    ("state { } state { }", 'n:1:11: "state" is set twice; first at line 1, column 1'),
    ("layer { clip_param { max: 1 } }", 'n:1:9: the required field "min" of ClipParameter is missing'),
    (
        "layer {",
        'n:1:8: missing "}"; expected the end of "layer", opened at line 1, column 1, found the end of the file',
    ),
    (
        "layer {\n  param {\n    lr_mult: 1\n  top: 'x'\n}\nlayer { }",
        'n:4:3: missing "}"; expected the end of "param", opened at line 2, column 3, found "top"',
    ),
    (
        "layer {\n  name: 'x'\nlayer {\n  name: 'y'\n}",
        'n:3:1: missing "}"; expected the end of "layer", opened at line 1, column 1, found "layer"',
    ),
    (
        "layer {\n  zzz {\n    a: 1\n  top: 'x'\n}",
        [
            'n:2:3: unknown field "zzz" in LayerParameter',
            'n:4:3: missing "}"; expected the end of "zzz", opened at line 2, column 3, found "top"',
        ],
    ),
    (
        "layer { zzz [ 1, 2 }\nforce_backward: 5",
        [
            'n:1:9: unknown field "zzz" in LayerParameter',
            'n:2:17: wrong value for "force_backward"; expected true or false, found 5',
        ],
    ),
    (
        "layer { } }\nlayer {",
        [
            'n:1:11: unexpected "}"; expected a field or the end of the file',
            'n:2:8: missing "}"; expected the end of "layer", opened at line 2, column 1, found the end of the file',
        ],
    ),
    (
        "layer { clip_param { max: 1 zzz: 1 } }",
        ['n:1:9: the required field "min" of ClipParameter is missing', 'n:1:29: unknown field "zzz" in ClipParameter'],
    ),
    (
        "layer {\n  lrn_param {\n    k: 1\nforce_backward: true\n}",
        [
            'n:4:1: unknown field "force_backward" in LRNParameter; NetParameter has it: close "layer" first',
            'n:5:2: missing "}"; expected the end of "layer", opened at line 1, column 1, found the end of the file',
        ],
    ),
    (
        "layer {\n  lrn_param {\n    top: 'a'\n  }\n",
        [
            'n:3:5: unknown field "top" in LRNParameter; LayerParameter has it: close "lrn_param" first',
            'n:5:1: missing "}"; expected the end of "layer", opened at line 1, column 1, found the end of the file',
        ],
    ),
    ("layer { } } } }", 'n:1:11: unexpected "}"; expected a field or the end of the file'),
    ("layer { } }", 'n:1:11: unexpected "}"; expected a field or the end of the file'),
    ("layer { >", 'n:1:9: wrong bracket for "layer"; expected "}", found ">"'),
    ("5", "n:1:1: unexpected 5; expected a field"),
    ("{ name: 'x' }", 'n:1:1: unexpected "{"; expected a field'),
    ("name: 'a';;", 'n:1:11: unexpected ";"; expected a field'),
    ("input_dim: [1 2]", 'n:1:15: the list of "input_dim" breaks off; expected "," or "]", found 2'),
    ("input_dim: [1; 2]", 'n:1:14: the list of "input_dim" breaks off; expected "," or "]", found ";"'),
    ("input_dim: [1, ]", 'n:1:1: "input_dim" has no value; expected an integer, found "]"'),
    ("input_dim: [1,\nname: 'a'", 'n:1:1: "input_dim" has no value; expected an integer, found "name"'),
    ("layer [ { }, 5 ]", 'n:1:14: "layer" is a block; expected "{", found 5'),
    ('name: "abc', 'n:1:7: unterminated string; expected a closing " on the same line, found "abc'),
    (
        "layer { name: 'abc }\nlayer { name: 'b' }",
        "n:1:15: unterminated string; expected a closing ' on the same line, found 'abc }",
    ),
    (r'name: "a\qb"', r"n:1:9: unknown escape \q in a string; write / instead of \ in paths"),
    (r'name: "\777"', r"n:1:8: unknown escape \777 in a string"),
    (r'name: "\ud800"', r"n:1:8: unknown escape \ud800 in a string"),
    ("name: “LeNet”", 'n:1:7: unexpected character "“"; strings have straight quotes'),
    ("name: 'a'\n\x00", 'n:2:1: unexpected character "U+0000"'),
    ("name: 'a' \ud800", 'n:1:11: unexpected character "U+D800"'),
    ("// a remark\nname: 'a'", 'n:1:1: unexpected "//"; comments begin with "#"'),
    ("/* a\n remark */ name: 'a'", 'n:1:1: unexpected "/*"; comments begin with "#"'),
]


@pytest.mark.parametrize("text, expected", WRONG)
def test_mistake(text, expected):
    assert mistakes(text) == ([expected] if isinstance(expected, str) else expected)


def test_several_mistakes_in_one_pass_in_their_order():
    text = """name: LeNet
layer {
  name: "conv1"
  nmae: "conv1"
  convolution_param { num_output: many kernel_size: -3 bias_trm: false }
  phase: TRIAN
}
layer { clip_param { } }
layer {
  name: "a" name: "b"
"""
    with pytest.raises(Mistakes) as caught:
        prototxt.parse(text, pb.NetParameter, "n")
    assert [str(m).split(";")[0] for m in caught.value.mistakes] == [
        'n:1:7: wrong value for "name"',
        'n:4:3: unknown field "nmae" in LayerParameter',
        'n:5:35: wrong value for "num_output"',
        'n:5:53: wrong value for "kernel_size"',
        'n:5:56: unknown field "bias_trm" in ConvolutionParameter',
        'n:6:10: wrong value for "phase"',
        'n:8:9: the required field "min" of ClipParameter is missing',
        'n:8:9: the required field "max" of ClipParameter is missing',
        'n:10:13: "name" is set twice',
        'n:11:1: missing "}"',
    ]


def test_a_hundred_mistakes_are_spelt_out_and_the_rest_counted():
    actual = mistakes("\n".join(f"word{i}: 1" for i in range(150)))
    assert len(actual) == 101
    assert actual[99:] == ['n:100:1: unknown field "word99" in NetParameter', "n:101:1: and 50 more"]


def test_a_list_of_a_field_that_forks_repeat():
    text = "layer { pooling_param { kernel_size: [1, 2, 3] stride: [2] pad: [] } }"
    document = prototxt.parse(text, pb.NetParameter, "n")
    expected = "layer { pooling_param { kernel_size: 1 more_kernel_size: 2 more_kernel_size: 3 stride: 2 } }"
    assert document.message == text_format.Parse(expected, pb.NetParameter())
    at = "layer", 0, "pooling_param"
    places = [document.locate(*at, *path).column for path in (("kernel_size",), ("more_kernel_size", 1), ("stride",))]
    assert [text[column - 1] for column in places] == ["1", "3", "2"]


def test_places():
    text = """name: "net"
input_dim: [1,
  2]
layer { name: "a" }
layer {
  bottom: "x" bottom: "y"
  convolution_param: { pad: 1 engine: CAFFE }
}
layer: [{ }, { phase:
  TEST }]
"""
    locate = prototxt.parse(text, pb.NetParameter, "n").locate
    assert str(locate("name")) == "n:1:7"
    assert str(locate("input_dim", 1)) == "n:3:3"
    assert str(locate("input_dim")) == "n:2:1"
    assert str(locate("layer", 0)) == "n:4:1"
    assert str(locate("layer", 1)) == "n:5:1"
    assert str(locate("layer", 1, "bottom", 1)) == "n:6:23"
    assert str(locate("layer", 1, "convolution_param")) == "n:7:3"
    assert str(locate.at("layer", 1, "convolution_param")("pad", 0)) == "n:7:29"
    assert str(locate("layer", 1, "convolution_param", "stride", 0)) == "n:7:3"
    assert str(locate("layer", 3)) == "n:9:14"
    assert str(locate("layer", 3, "phase")) == "n:10:3"
    assert str(locate("state")) == "n"


def test_depth_is_limited_and_never_ends_in_recursion():
    def nested(depth):
        return "nested_type { " * depth + "}" * depth

    assert prototxt.parse(nested(100), descriptor_pb2.DescriptorProto).message.nested_type
    assert mistakes(nested(5000), descriptor_pb2.DescriptorProto) == ["n:1:1401: blocks are nested more than 100 deep"]
    assert mistakes("zzz " + "{" * 50_000 + "}" * 50_000) == ['n:1:1: unknown field "zzz" in NetParameter']
    assert len(mistakes("layer " + "{" * 50_000)) >= 1
    assert len(mistakes("input_dim: " + "[" * 50_000)) >= 1


@pytest.mark.parametrize("text", ["name: 'a' ", "{", '"', "word ", "a:", "/*", "e", "0", "“", "[", "}", "- ", "\\"])
def test_work_grows_with_the_length_only(text):
    assert len(mistakes(text * 20_000)) <= 101  # would take hours if it grew with the square
    assert mistakes(f"name: {text * 20_001}")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_prototxt_reads_as_protobuf_reads_it(path):
    message = prototxt.read_message(path, message_type(path)).message
    assert message == text_format.Parse(path.read_text(), message_type(path)())
    assert prototxt.parse(prototxt.write(message), message_type(path)).message == message


def test_shipped_solvers_name_shipped_nets():
    solvers = [path for path in SHIPPED if message_type(path) is pb.SolverParameter]
    assert len(solvers) >= 17
    for path in solvers:
        solver = prototxt.read_solver(path).message
        assert ROOT / solver.net in SHIPPED
        assert len(solver.test_iter) == max(1, len(solver.test_state))
        assert not solver.HasField("solver_mode")  # left to -gpu


def test_lenet_twins_have_the_same_layers():
    nets = [
        prototxt.read_net(ROOT / "models/lenet" / name).message
        for name in ("train_val.prototxt", "digits_train_val.prototxt")
    ]
    layers = [[layer for layer in net.layer if layer.type != "Data"] for net in nets]
    assert layers[0] == layers[1] and len(layers[0]) == 9
    deploy = prototxt.read_net(ROOT / "models/lenet/deploy.prototxt").message
    assert list(deploy.layer[1:-1]) == layers[0][:-2]


def golden():
    folder = os.environ.get("CAFFELITE_GOLDEN")
    return sorted(Path(folder).glob("**/*.prototxt")) if folder else []


@pytest.mark.data
def test_golden_prototxts_read_as_protobuf_reads_them():
    if not golden():
        pytest.skip("CAFFELITE_GOLDEN is not set")
    for path in golden():
        message = prototxt.read_message(path, message_type(path)).message
        assert message == text_format.Parse(path.read_text(), message_type(path)()), path
        assert prototxt.parse(prototxt.write(message), message_type(path)).message == message, path
