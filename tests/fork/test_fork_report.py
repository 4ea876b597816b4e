"""What `caffelite fork DIR` says, without a compiler."""

import json

import pytest
from click.testing import CliRunner
from forks import make

from caffelite.cli import caffelite
from caffelite.fork import history, option

RELU = "/* a comment */ void  relu( ) { }"


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()


def report(folder, *options):
    result = CliRunner().invoke(caffelite, ["fork", str(folder), "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_types_and_fields_that_bvlc_lacks_are_named(tmp_path):
    said = report(make(tmp_path, types=("ScaledLoss", "Convolution", "Interp")), "--quick")
    computed = {one["name"]: one["computed_by"] for one in said["types"]}
    assert computed == {"ScaledLoss": "the fork's", "Interp": "caffelite's"}
    assert said["fields"]["LayerParameter"] == {"scaled_loss_param": False, "note": False}
    assert said["fields"]["PoolingParameter"] == {"MEDIAN": False}
    assert "ScaledLossParameter" not in said["fields"]


def test_a_source_counts_as_changed_by_its_text_alone(tmp_path, monkeypatch):
    known = dict(history._lines())
    monkeypatch.setattr(history, "_lines", lambda: known)
    folder = make(tmp_path, types=())
    source = folder / "src/caffe/layers/relu_layer.cpp"
    source.parent.mkdir(parents=True)
    head = "INSTANTIATE_CLASS(ReLULayer);\nREGISTER_LAYER_CLASS(ReLU);"
    known["relu_layer.cpp"] = frozenset({history.digest(f"{head}{RELU}")})
    source.write_text(f"{head} // BVLC's\n{RELU}")
    assert report(folder, "--quick")["changed"] == {}
    option.leave()
    source.write_text(f"{head}{RELU.replace('{ }', '{ int i; }')}")
    assert report(folder, "--quick")["changed"] == {"ReLU": ["src/caffe/layers/relu_layer.cpp"]}


def test_a_net_of_a_changed_type_says_so(tmp_path, caplog):
    from caffelite import prototxt

    folder = make(tmp_path / "own", types=())
    source = folder / "src/caffe/layers/relu_layer.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("INSTANTIATE_CLASS(ReLULayer);\nREGISTER_LAYER_CLASS(ReLU);")
    text = 'layer { name: "r" type: "ReLU" bottom: "x" top: "x" }'
    (tmp_path / "n.prototxt").write_text(text)
    option.use(folder)
    assert not prototxt.read_net(tmp_path / "n.prototxt").message.layer[0].HasField("fork")
    assert 'own has changed the type "ReLU"' in caplog.text
    option.leave()
    option.use(folder, "changed")
    assert prototxt.read_net(tmp_path / "n.prototxt").message.layer[0].HasField("fork")


INTERP = """
message LayerParameter { optional InterpParameter interp_param = 8261; }
message InterpParameter { optional int32 height = 1 [default = 0]; optional int32 width = 2 [default = 0];
  optional bool corners = 71 [default = true]; }
"""


@pytest.mark.parametrize("proto, says", [(INTERP, True), (INTERP.replace("corners", "zoom_factor"), False)])
def test_a_type_of_a_family_with_more_fields_says_so(tmp_path, caplog, proto, says):
    """The default of a field that the net does not set may mean something else than what caffelite computes."""
    from caffelite import prototxt

    folder, net = make(tmp_path / "own", proto, types=("Interp",)), tmp_path / "n.prototxt"
    net.write_text('layer { name: "r" type: "Interp" bottom: "x" top: "y" interp_param { height: 4 width: 4 } }')
    option.use(folder)
    assert not prototxt.read_net(net).message.layer[0].HasField("fork")
    text = 'own has fields of the type "Interp" that are not caffelite\'s (corners)'
    assert (text in caplog.text) == says == ("Interp" in caplog.text)
    option.leave()
    option.use(folder, "changed")
    assert prototxt.read_net(net).message.layer[0].HasField("fork") == says


def test_digests_of_bvlc_are_there():
    assert history.is_of_bvlc("relu_layer.cpp") and not history.is_of_bvlc("scaled_loss_layer.cpp")
    assert {"ReLU", "LSTM"} <= history.types() and "alpha" not in (history.words("FillerParameter") or ())
