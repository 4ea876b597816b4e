"""tools/check_nets.py: which texts are nets, templates and pieces of nets."""

import json
import logging

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb, user_modules
from caffelite.fork import option

LAYER = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }\n'
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'
PYTHON = 'layer { name: "p" type: "Python" bottom: "x" top: "p" python_param { module: "none_such" layer: "None" } }'


@pytest.fixture(scope="module")
def tool():
    import check_nets

    yield check_nets
    logging.disable(logging.NOTSET)  # the tool disables it


@pytest.mark.parametrize(
    "text, found",
    [
        (INPUT + LAYER, ""),
        (LAYER, "piece"),
        ('layer { name: "noted" type: "Split" }\n' + LAYER, "piece"),
        (INPUT + LAYER.replace("num_output: 2", "num_output: cls3x"), "template"),
        (INPUT.replace("dim: 3", "dim: WIDTH") + LAYER, "template"),
        (INPUT + LAYER.replace('"x" top', '"{{ bottom }}" top'), "template"),
        (INPUT + LAYER.replace("2 }", "${classes} }"), "template"),
        (INPUT + LAYER + "# num_output: classes", ""),
        (INPUT + "# Head {{{\n" + LAYER + "# }}}", ""),
        (INPUT + LAYER.replace('"ip"', '"num_output: classes"'), ""),
        (INPUT + LAYER.replace("num_output: 2", "num_output: 2 bias_term: maybe"), ""),
    ],
)
def test_templates_and_pieces_are_no_nets(tool, text, found):
    try:
        message = text_format.Parse(text, pb.NetParameter())
    except text_format.ParseError:
        message = None
    assert tool.unfinished(text, message) == found


@pytest.mark.parametrize(
    "text, state",
    [
        (INPUT + LAYER, "builds"),
        (LAYER, "piece"),
        (INPUT + LAYER.replace("num_output: 2", "num_output: cls3x"), "template"),
        (INPUT + LAYER.replace("num_output: 2", "num_output: 0"), "fails"),
        (INPUT + PYTHON, "needs Python"),
        (
            INPUT
            + LAYER.replace(' type: "I', ' include { stage: "a" } type: "I')
            + LAYER.replace('"ip"', '"b"', 1).replace('"x"', '"ip"').replace('top: "ip"', 'top: "b"'),
            "builds",
        ),
        (
            'layer { name: "d" type: "HDF5Data" top: "c" hdf5_data_param { source: "none.txt" batch_size: 2 } }\n'
            'layer { name: "r" type: "Reshape" bottom: "c" top: "r" reshape_param { shape { dim: 2 dim: 1009 } } }',
            "needs shapes",
        ),
        (
            'layer { name: "d" type: "Data" top: "x" top: "label" data_param { source: "none" batch_size: 2 } }\n'
            'layer { name: "s" type: "Slice" bottom: "label" top: "a" top: "b" slice_param { slice_point: 3 } }',
            "needs shapes",
        ),
    ],
)
def test_state_of_a_net(tool, tmp_path, monkeypatch, text, state):
    monkeypatch.setattr(user_modules, "_given", ())  # imports are permitted, as after a training
    (tmp_path / "net.prototxt").write_text(text)
    assert tool.is_net(text)
    assert tool.outcome((str(tmp_path / "net.prototxt"), 1)).state == state


def test_solvers_are_no_nets(tool):
    assert not tool.is_net('net: "train_val.prototxt"\nbase_lr: 0.1\n')


def test_nets_are_checked_with_a_fork(tool, tmp_path, monkeypatch, capsys):
    """A type that reads data compiles nothing."""
    files = {
        "src/caffe/proto/caffe.proto": "message LayerParameter { optional string own_word = 901; }",
        "src/caffe/layers/own_data_layer.cpp": "REGISTER_LAYER_CLASS(OwnData);",
        "net.prototxt": 'layer { name: "d" type: "OwnData" top: "x" own_word: "w" }\n' + LAYER,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    counts = []
    for options in ([], ["--fork", str(tmp_path)]):
        monkeypatch.setattr("sys.argv", ["check_nets.py", str(tmp_path), "--json", *options])
        assert tool.main() == 0
        counts.append(json.loads(capsys.readouterr().out)["counts"])
        option.leave()
    assert counts == [{"nets": 1, "fails": 1}, {"nets": 1, "builds": 1}]
