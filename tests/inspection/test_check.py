"""check: every mistake in one pass, each at its line; and lint."""

import pytest
from findings import IN_EPOCHS, SHAPES, edit, found

from caffelite import prototxt
from caffelite.inspection.check import check


def test_sound_files_have_nothing(data):
    assert check("net.prototxt") == [] and check("solver.prototxt") == []


PLANTED_NET = """name: "planted"
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "labels" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
  convolution_param { num_output: 4 kernel_sise: 3 } }
layer { name: "b" type: "Convolutoin" bottom: "x" top: "b" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "c" type: "Convolution" bottom: "xx" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "d" type: "Convolution" bottom: "x" top: "d" convolution_param { num_output: 4 kernel_size: 30 } }
layer { name: "e" type: "Convolution" bottom: "x" top: "e"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavir" } } }
layer { name: "f" type: "Pooling" bottom: "x" top: "f" pooling_param { pool: MAXX kernel_size: 2 } }
layer { name: "g" type: "InnerProduct" bottom: "a" top: "g" inner_product_param { num_output: "ten" } }
layer { name: "h" type: "Concat" bottom: "x" bottom: "label" top: "h" }
layer { name: "i" type: "ReLU" bottom: "x" top: "x2" relu_param { negative_slope: 0.1 negative_slope: 0.2 } }
layer { name: "j" type: "InnerProduct" bottom: "x" top: "j" inner_product_param { num_output: 0 } }
layer { name: "k" type: "Dropout" bottom: "x" top: "k" dropout_param { dropout_ratio: 1.5 } }
layer { name: "l" type: "InnerProduct" bottom: "x" top: "l" param { lr_mult: 1 } param { } param { }
  inner_product_param { num_output: 3 } }
layer { name: "m" type: "InnerProduct" bottom: "x" top: "m" inner_product_param { num_output: 3 } }
layer { name: "n" type: "SoftmaxWithLoss" bottom: "m" bottom: "label" top: "n" loss_weight: 1 loss_weight: 1 }
layer { name: "o" type: "EuclideanLoss" bottom: "m" bottom: "label" top: "o" }
"""
PLANTED_SOLVER = """net: "net.prototxt"
base_lr: 0.01
lr_policy: "stepp"
momentum: "0.9"
max_iter: -5
tpye: "SGD"
regularization_type: "L3"
snapshot: 10
snapshot_prefix: "absent/run"
average_loss: 0
"""


def test_twenty_mistakes_in_one_pass(folder):
    (folder / "net.prototxt").write_text(PLANTED_NET)
    (folder / "solver.prototxt").write_text(PLANTED_SOLVER)
    reported = [
        (f.error.where.file, f.error.where.line, f.error.what) for f in check("solver.prototxt") if f.kind == "mistake"
    ]
    net = {line: what for file, line, what in reported if file == "net.prototxt"}
    solver = {line: what for file, line, what in reported if file == "solver.prototxt"}
    expected_net = {
        5: 'unknown field "kernel_sise"',
        6: 'unknown type "Convolutoin"',
        7: 'unknown bottom "xx"',
        8: "its kernel [30, 30] does not fit",
        10: 'unknown filler type "xavir"',
        11: 'wrong value for "pool"',
        12: 'wrong value for "num_output"',
        13: 'bottom "label"',
        14: '"negative_slope" is set twice',
        15: "num_output must be positive",
        16: "dropout_ratio",
        17: "3 param messages",
        20: "has 2 loss_weight for 1 tops",
        21: 'bottom "label"',
    }
    expected_solver = {
        3: 'unknown lr_policy "stepp"',
        4: 'wrong value for "momentum"',
        5: "max_iter must be at least 0",
        6: 'unknown field "tpye"',
        7: 'unknown regularization_type "L3"',
        9: "absent, does not exist",
        10: "average_loss must be at least 1",
    }
    assert len(expected_net) + len(expected_solver) >= 20
    for found_there, expected in ((net, expected_net), (solver, expected_solver)):
        assert sorted(found_there) == sorted(expected), found_there
        for line, text in expected.items():
            assert text in found_there[line], (line, found_there[line])
    assert len(reported) == len(expected_net) + len(expected_solver), "each once, and nothing that follows from another"


def test_places_expected_and_nearest_name(folder):
    edit("net.prototxt", ("kernel_size: 3 stride: 2 pad", "kernel_sise: 3 stride: 2 pad"))
    (mistake,) = [f.error for f in check("net.prototxt", SHAPES) if f.kind == "mistake"]
    assert (mistake.where.line, mistake.where.column, mistake.remedy) == (7, 37, 'did you mean "kernel_size"?')


def test_one_typing_error_gives_one_message(folder):
    """What reads the broken layer is still checked, as far as it needs no shape."""
    edit("net.prototxt", ("num_output: 6", 'num_output: "6"'))
    edit("net.prototxt", ('"gaussian" std: 0.01', '"gausian" std: 0.01'))
    edit("net.prototxt", ('"Accuracy"', '"Acuracy"'))
    assert [line for line, _ in found()] == [12, 7]
    edit("net.prototxt", ('num_output: "6"', "num_output: 6"))
    assert [line for line, _ in found()] == [12, 11]


def test_a_layer_with_two_mistakes(folder):
    edit("net.prototxt", ("kernel_size: 3 stride: 2 pad", "kernel_sise: 3 stride: 2 pad"))
    edit("net.prototxt", ('bottom: "data"', 'bottom: "dta"'))
    assert [line for line, _ in found()] == [6, 7]


def test_an_impossible_gradient_is_found_among_mistakes(folder):
    """Gradients are decided when all is wired; so they are for what is right."""
    bad = 'layer { name: "bad" type: "ArgMax" bottom: "score" top: "bad" loss_weight: 1 }\n'
    other = 'layer { name: "other" type: "Acuracy" bottom: "score" bottom: "label" top: "other" }\n'
    path = folder / "net.prototxt"
    path.write_text(path.read_text() + bad + other)
    assert [(line, what.split('"')[1]) for line, what in found(phases=[0])] == [(15, "other"), (14, "bad")]


def test_two_files_wrong_in_one_run(folder):
    edit("net.prototxt", ('"ReLU"', '"RELU"'))
    edit("solver.prototxt", ("base_lr: 0.01", "base_rl: 0.01"))
    reported = [
        (f.error.where.file, f.error.where.line) for f in check("solver.prototxt", SHAPES) if f.kind == "mistake"
    ]
    assert reported == [("solver.prototxt", 4), ("net.prototxt", 8)], "no word of base_lr, which the typing error lacks"


def test_missing_data_is_one_note_per_source(folder):
    reported = [(f.kind, f.error.where.line) for f in check("net.prototxt", SHAPES)]
    assert reported == []  # the shape was given, so nobody asks for the data
    reported = [(f.kind, f.error.what) for f in check("net.prototxt")]
    assert [kind for kind, _ in reported] == ["note"] * 4
    for name in ("train", "test"):
        assert f'source "{name}_lmdb" does not exist' in [what for _, what in reported]


def test_layers_on_unknown_data_are_still_checked(folder):
    edit("net.prototxt", ('bottom: "pool"', 'bottom: "pol"'), ('"Pooling"', '"Poling"'))
    assert [line for line, _ in found(shapes=None)] == [9, 10]


def test_missing_files(folder):
    assert [f.error.what for f in check("absent.prototxt")] == ["cannot read absent.prototxt: no such file"]
    edit("solver.prototxt", ('"net.prototxt"', '"nett.prototxt"'))
    (mistake,) = [f for f in check("solver.prototxt") if f.kind == "mistake"]
    assert mistake.error.where.line == 1 and mistake.error.remedy == 'did you mean "net.prototxt"?'


def test_forks_are_named(folder):
    edit("net.prototxt", ('type: "ReLU"', 'type: "ReLU" forward_type: FLOAT quantization_param { bw_params: 8 }'))
    reported = [(f.kind, f.error.what) for f in check("net.prototxt", SHAPES)]
    assert [kind for kind, _ in reported] == ["note", "lint"]
    assert "NVCaffe" in reported[0][1] and "Intel's Caffe and CHaiDNN" in reported[1][1]


def test_a_caffemodel_is_checked_as_a_net(folder):
    message = prototxt.read_net("net.prototxt").message
    message.layer[2].convolution_param.num_output = 0
    (folder / "net.caffemodel").write_bytes(message.SerializeToString())
    assert [f.error.what for f in check("net.caffemodel", SHAPES)] == [
        'layer "conv" (Convolution): num_output must be positive'
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}",
        "layer {",
        "layer { name: 3 }",
        'name: "x',
        "\x01\x02",
        "net: 5",
        "layer { include { phase: TRAIN } exclude { } }",
    ],
)
def test_unusual_files_get_findings(folder, text):
    (folder / "odd.prototxt").write_text(text)
    assert [f for f in check("odd.prototxt") if f.kind == "mistake"]


def test_epoch_fields_are_checked_with_and_without_data(data):
    edit("solver.prototxt", *IN_EPOCHS)
    assert [str(f.error) for f in check("solver.prototxt")] == []
    edit("net.prototxt", ('source: "train_lmdb"', 'source: "absent_lmdb"'))
    assert {f.kind for f in check("solver.prototxt", SHAPES)} <= {"note"}
    edit("solver.prototxt", ("step_epoch: 3", "step_epoch: 12"))
    assert [(f.error.where.line, f.error.what) for f in check("solver.prototxt", SHAPES) if f.kind == "lint"] == [
        (7, "stepsize 12000 is never reached")
    ]


def test_mistakes_in_epoch_fields_are_reported_once(data):
    edit("solver.prototxt", *IN_EPOCHS[1:], ("max_iter: 50", "max_iter: 50 max_epoch: 10"))
    (mistake,) = [f.error for f in check("solver.prototxt") if f.kind == "mistake"]
    assert mistake.what == "both max_epoch and max_iter (solver.prototxt:10:11) are set" and mistake.where.line == 10


def test_epochs_of_data_without_a_length_are_a_mistake(data):
    edit("solver.prototxt", *IN_EPOCHS)
    dummy = 'type: "DummyData" top: "data" top: "label" include { phase: TRAIN }\n  dummy_data_param { shape { dim: 4 '
    dummy += "dim: 2 dim: 9 dim: 9 } shape { dim: 4 } }"
    old = (data / "net.prototxt").read_text().split("\n")
    edit("net.prototxt", ("\n".join(old[1:3]), f'layer {{ name: "data" {dummy} }}'))
    (mistake,) = [f.error for f in check("solver.prototxt") if f.kind == "mistake"]
    assert "max_epoch needs the size of the training set" in mistake.what and "max_iter" in mistake.remedy


def test_a_deploy_net_is_checked_in_test_alone(folder):
    (folder / "deploy.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } }\n'
        'layer { name: "d" type: "Dropout" bottom: "x" top: "x" dropout_param { dropout_ratio: 1 } }\n'
        'layer { name: "l" type: "EuclideanLoss" bottom: "x" bottom: "x" top: "l" }\n'
    )
    assert found("deploy.prototxt") == []
    assert [line for line, _ in found("deploy.prototxt", phases=[0])] == [2]


def test_comments_of_another_encoding(folder):
    net = (folder / "net.prototxt").read_bytes()
    (folder / "net.prototxt").write_bytes(b"# \xd6\xd0\xce\xc4\n" + net)
    assert found() == []


def test_a_loss_without_a_top_is_no_second_top(folder):
    """Losses behind a layer with a mistake: each has a top of its own."""
    layers = 'layer { name: "x" type: "NoSuch" bottom: "ip" top: "x" }\n' + "".join(
        f'layer {{ name: "l{i}" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" }}\n' for i in (1, 2)
    )
    with open("net.prototxt", "a") as file:
        file.write(layers)
    assert [what for _, what in found()] == ['layer "x": unknown type "NoSuch"']


ABSENT = """layer { name: "d" type: "%s" top: "data" top: "label" transform_param { crop_size: 8 }
  %s { source: "none" batch_size: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 9 } }
"""
DIVIDED = """layer { name: "s" type: "Slice" bottom: "label" top: "a" top: "b" slice_param { axis: 1 slice_point: 4 } }
layer { name: "l" type: "HingeLoss" bottom: "ip" bottom: "a" top: "l" }
layer { name: "e" type: "HingeLoss" bottom: "b" bottom: "b" top: "e" hinge_loss_param { norm: L3 } }
"""


@pytest.mark.parametrize("kind, field", [("Data", "data_param"), ("ImageData", "image_data_param")])
def test_labels_of_absent_data(folder, kind, field):
    """A record has one label, so a loss of nine values is a mistake; one that is divided is of other data, whose shape
    nobody knows."""
    text = ABSENT % (kind, field)
    (folder / "net.prototxt").write_text(
        text + 'layer { name: "l" type: "EuclideanLoss" bottom: "ip" bottom: "label" }'
    )
    ((line, what),) = found(shapes=None)
    assert (line, what) == (4, 'layer "l" (EuclideanLoss): bottom "label" does not fit')
    (folder / "net.prototxt").write_text(text + DIVIDED)
    assert [line for line, _ in found(shapes=None)] == [6], "a misspelt word, and nothing by a guess"
    notes = [f.error for f in check("net.prototxt") if f.kind == "note"]
    assert any(
        'the shape of "label" is not known' in e.what and "-shape label=4" in e.remedy for e in notes if e.remedy
    )


def test_a_data_layer_of_training_beside_one_of_both_phases(folder):
    """The net is one of TRAIN; a TEST with data of its own is checked too."""
    train = """layer { name: "d" type: "DummyData" top: "a" top: "l" include { phase: TRAIN }
      dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
    layer { name: "z" type: "DummyData" top: "z" dummy_data_param { shape { dim: 2 dim: 3 } } }
    layer { name: "s" type: "Eltwise" bottom: "a" bottom: "z" top: "s" }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "l" top: "loss" }
    """
    (folder / "net.prototxt").write_text(train)
    assert found() == []
    other = (
        'layer { name: "t" type: "DummyData" top: "l" include { phase: TEST } dummy_data_param { shape { dim: 2 } } }'
    )
    (folder / "net.prototxt").write_text(other + train)
    assert [what for _, what in found()] == ['layer "s" (Eltwise): unknown bottom "a"']


def test_unknown_types_come_first(folder):
    with open("net.prototxt", "a") as file:
        file.write('layer { name: "n" type: "NoSuch" bottom: "ip" top: "n" }\n')
    edit("net.prototxt", ('bottom: "pool"', 'bottom: "pol"'))
    first, second = (what for _, what in found())
    assert first == 'layer "n": unknown type "NoSuch"' and 'unknown bottom "pol"' in second
