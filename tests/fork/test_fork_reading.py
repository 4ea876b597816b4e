"""Prototxts of a fork: read by its schema, kept by name, and written back."""

import pytest
from forks import FRAGMENT, V1, make
from google.protobuf import text_format

from caffelite import prototxt, weights
from caffelite.errors import CaffeliteError
from caffelite.fork import option

HEAD = 'layer { name: "d" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }\n'
RATE = "param { lr_mult: 3 } }"
LOSS = 'layer { name: "l" type: "ScaledLoss" bottom: "x" top: "s" scaled_loss_param { form: ROUND sizes: [1, 2] } }\n'


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()


@pytest.fixture
def fork(tmp_path):
    option.use(make(tmp_path / "own-caffe"))
    return option.current()


def net(text, tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    return prototxt.read_net(path).message


def of_fork(fork, layer):
    return fork.schema.message_class("LayerParameter").FromString(layer.fork.message)


def test_a_layer_that_only_the_fork_has_keeps_its_message(fork, tmp_path):
    layer = net(HEAD + LOSS, tmp_path).layer[1]
    assert (layer.type, layer.fork.type, layer.fork.v1) == ("ScaledLoss", "ScaledLoss", False)
    theirs = of_fork(fork, layer)
    assert (theirs.scaled_loss_param.form, list(theirs.scaled_loss_param.sizes), theirs.scaled_loss_param.scale) == (
        *(1, [1, 2]),
        2,
    )
    assert list(theirs.bottom) == ["x"]


def test_names_that_are_of_another_kind_here_are_the_forks(tmp_path):
    """Sampler is an enum here, and RunOrigin a message."""
    own = """
message LayerParameter { optional SampledParameter sampled_param = 8099; }
message SampledParameter { optional Sampler sampler = 1; optional RunOrigin origin = 2; }
message Sampler { optional float min_scale = 1 [default = 1]; }
enum RunOrigin { HERE = 0; THERE = 1; }
"""
    option.use(make(tmp_path / "own-caffe", own, ("Sampled",)))
    text = HEAD + 'layer { name: "s" type: "Sampled" bottom: "x" top: "s" sampled_param { %s origin: THERE } }'
    theirs = of_fork(option.current(), net(text % "sampler { min_scale: 0.5 }", tmp_path).layer[1]).sampled_param
    assert (theirs.sampler.min_scale, theirs.origin) == (0.5, 1)
    with pytest.raises(CaffeliteError, match='unknown field "max_scale" in Sampler'):
        net(text % "sampler { max_scale: 0.5 }", tmp_path)
    data = 'layer { name: "d" type: "Data" top: "x" data_param { source: "d" batch_size: 2 sampler: BALANCED } }'
    assert net(data, tmp_path).layer[0].data_param.sampler == 1


def test_a_layer_without_fields_is_the_forks_in_every_net(fork, tmp_path):
    text = HEAD + 'layer { name: "l" type: "ScaledLoss" bottom: "x" top: "s" }'
    first = net(text, tmp_path)
    assert first.layer[1].fork.type == "ScaledLoss" and net(text, tmp_path) == first


def test_text_is_written_as_it_was_read(fork, tmp_path):
    message = net(HEAD + LOSS, tmp_path)
    text = prototxt.write(message)
    assert "form: ROUND" in text and "fork {" not in text
    assert net(text, tmp_path) == message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            "form: ROUNT",
            r'prototxt:2:\d+: wrong value for "form"; expected one of FLAT, ROUND.*mean "ROUND"',
        ),
        ("sized: 3", r'net\.prototxt:2:\d+: unknown field "sized" in ScaledLossParameter; did you mean "sizes"'),
        ('scale: "a"', r'net\.prototxt:2:\d+: wrong value for "scale"; expected a number'),
    ],
)
def test_mistakes_in_messages_of_the_fork_have_places(fork, tmp_path, field, message):
    with pytest.raises(CaffeliteError, match=message):
        net(HEAD + LOSS.replace("form: ROUND", field), tmp_path)


def test_a_required_field_that_is_missing_stays_so_in_files(fork, tmp_path):
    """Of a net that a program made; in a prototxt it is a mistake."""
    text = HEAD + 'layer { name: "clip" type: "Clip" bottom: "x" top: "y" clip_param { max: 1 %s } }'
    made = net(text % "min: 0", tmp_path)
    made.layer[1].clip_param.ClearField("min")
    assert b"clip" in weights.encode_net(made, [(made.layer[1], [])])
    with pytest.raises(CaffeliteError, match='net.prototxt:2:.*the required field "min"'):
        net(text % "", tmp_path)


def test_a_field_of_the_forks_makes_its_code_run_the_layer(fork, tmp_path):
    text = HEAD + 'layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 2 %s } }'
    assert not net(text % "", tmp_path).layer[1].HasField("fork")
    assert not net(text % "rings: 0", tmp_path).layer[1].HasField("fork")  # the default means nothing
    layer = net(text % "rings: 3", tmp_path).layer[1]
    assert of_fork(fork, layer).convolution_param.rings == 3
    assert layer.convolution_param.num_output == 2


def test_a_type_that_becomes_another_here_is_not_the_forks(tmp_path):
    """NdConvolution, of which caffelite makes a Convolution."""
    option.use(make(tmp_path / "own-caffe", types=("NdConvolution",)))
    text = 'layer { name: "c" type: "NdConvolution" bottom: "x" top: "y" convolution_param { num_output: 2 FIELD } }'
    layer = net(HEAD + text.replace("FIELD", "kernel_shape { dim: 3 dim: 3 }"), tmp_path).layer[1]
    assert layer.type == "Convolution" and not layer.HasField("fork")
    assert net(HEAD + text.replace("FIELD", "rings: 3"), tmp_path).layer[1].HasField("fork")


def test_a_field_of_a_type_without_sources_is_a_mistake(fork, tmp_path):
    text = (
        HEAD + 'layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { pool: MEDIAN kernel_size: 2 } }'
    )
    with pytest.raises(CaffeliteError, match=r'prototxt:2:\d+: "pool" in PoolingParameter is of own-caffe'):
        net(text, tmp_path)


BN = """message LayerParameter { optional BNParameter bn_param = 901; }
message BNParameter { enum BNMode { LEARN = 0; INFERENCE = 1; }
  FIELD optional BNMode bn_mode = 3 [default = LEARN]; optional FillerParameter scale_filler = 1; }"""


@pytest.mark.parametrize(
    ("field", "segnet"), [("", True), ("optional float decay = 7;", False), ("optional float slope_filler = 7;", False)]
)
def test_a_bn_without_fields_is_the_one_that_the_fork_has(tmp_path, field, segnet):
    option.use(make(tmp_path / "own-caffe", BN.replace("FIELD", field), types=("BN",)))
    bn = net(HEAD + 'layer { name: "bn" type: "BN" bottom: "x" top: "y" }', tmp_path).layer[1]
    assert bn.bn_param.HasField("bn_mode") == segnet and not bn.HasField("fork")
    assert net(HEAD + bn_of("INFERENCE"), tmp_path).layer[1].bn_param.bn_mode == 1


def bn_of(mode):
    return f'layer {{ name: "bn" type: "BN" bottom: "x" top: "y" bn_param {{ bn_mode: {mode} }} }}'


def test_defaults_are_those_of_the_fork(fork, tmp_path):
    text = HEAD + 'layer { name: "d" type: "Dropout" bottom: "x" top: "x" %s }'
    assert net(text % "", tmp_path).layer[1].dropout_param.dropout_ratio == 0.25
    assert net(text % "dropout_param { dropout_ratio: 0.5 }", tmp_path).layer[1].dropout_param.dropout_ratio == 0.5


def test_the_default_of_one_side_of_a_size_counts_for_nothing(tmp_path):
    own = """
message PoolingParameter { optional uint32 stride_h = 7 [default = 2]; optional uint32 stride = 3 [default = 2]; }
"""
    option.use(make(tmp_path / "own-caffe", own, ()))
    layer = net(
        HEAD + 'layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { pad: 1 } }', tmp_path
    ).layer[1]
    assert layer.pooling_param.stride == 2 and not layer.pooling_param.HasField("stride_h")


def test_a_field_of_a_solver_counts_only_with_its_default(fork, tmp_path):
    path = tmp_path / "solver.prototxt"
    path.write_text('net: "net.prototxt" warmth: 1')
    assert prototxt.read_solver(path).message.net == "net.prototxt"
    path.write_text('net: "net.prototxt"\nwarmth: 2')
    with pytest.raises(CaffeliteError, match=r'solver\.prototxt:2:\d+: "warmth" in SolverParameter is of own-caffe'):
        prototxt.read_solver(path)


def test_settings_of_the_command_line_reach_the_forks_fields(fork, tmp_path):
    from caffelite.prototxt.overrides import Overrides

    (tmp_path / "net.prototxt").write_text(HEAD + LOSS)
    document = prototxt.read_net(tmp_path / "net.prototxt")
    changed = Overrides(["l.scaled_loss_param.scale=7"]).net(document).message
    assert of_fork(fork, changed.layer[1]).scaled_loss_param.scale == 7


def test_v1_layers_of_a_modern_fork_become_modern_ones(tmp_path):
    proto = (
        FRAGMENT + "message V1LayerParameter { enum LayerType { NONE = 0; SCALED = 90; } optional LayerType type = 5;"
    )
    proto += " optional ScaledLossParameter scaled_loss_param = 60; repeated float blobs_lr = 7; }"
    folder = make(tmp_path / "own-caffe", proto)
    (folder / "src/caffe/util").mkdir()
    case = 'case V1LayerParameter_LayerType_SCALED:\n return "ScaledLoss";'
    (folder / "src/caffe/util/upgrade_proto.cpp").write_text(case)
    option.use(folder)
    text = 'layers { name: "l" type: SCALED bottom: "x" top: "s" blobs_lr: 3 scaled_loss_param { sizes: 4 } }'
    layer = net(text, tmp_path).layer[0]
    assert (layer.type, layer.param[0].lr_mult) == ("ScaledLoss", 3)
    theirs = of_fork(option.current(), layer)
    assert (theirs.type, theirs.param[0].lr_mult, list(theirs.scaled_loss_param.sizes)) == ("ScaledLoss", 3, [4])


@pytest.fixture
def old_fork(tmp_path):
    option.use(make(tmp_path / "old-caffe", V1, ("SCALED_LOSS", "INNER_PRODUCT")))
    return option.current()


@pytest.mark.parametrize(
    "text",
    [
        'layers { name: "l" type: SCALED_LOSS bottom: "x" top: "s" blobs_lr: 3 scaled_loss_param { scale: 4 } }',
        LOSS.replace("ScaledLoss", "SCALED_LOSS").replace(
            "form: ROUND sizes: [1, 2] }", "scale: 4 } param { lr_mult: 3 }"
        ),
    ],
)
def test_a_fork_of_2014_gets_v1_layers(old_fork, tmp_path, text):
    layer = net(text, tmp_path).layer[0]
    assert (layer.type, layer.fork.type, layer.param[0].lr_mult) == ("SCALED_LOSS", "SCALED_LOSS", 3)
    assert layer.fork.v1
    theirs = of_fork(old_fork, layer)
    assert (theirs.type, list(theirs.blobs_lr), theirs.scaled_loss_param.scale) == (90, [3], 4)
    again = net(prototxt.write(net(text, tmp_path)), tmp_path)
    assert of_fork(old_fork, again.layer[0]) == theirs, text_format.MessageToString(again)


def test_mistakes_of_a_schema_have_places(tmp_path):
    with pytest.raises(CaffeliteError, match=r"caffe\.proto:3:\d+: .*Floot"):
        option.use(make(tmp_path, FRAGMENT.replace("optional ScaledLossParameter", "optional Floot")))


def test_one_process_has_one_fork(fork, tmp_path):
    option.use(fork.path)
    with pytest.raises(CaffeliteError, match="one process reads nets of one fork"):
        option.use(make(tmp_path / "another"))
