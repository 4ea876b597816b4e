"""caffelite upgrade: nets, solvers and caffemodels in, their modern form out, and the weights bit for bit."""

import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb, prototxt, weights

V1 = """name: "old" # a comment
input: "x" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4
layers { name: "ip" type: INNER_PRODUCT bottom: "x" top: "ip" blobs_lr: 1 blobs_lr: 2
  inner_product_param { num_output: 2 } }
"""
MODERN = """name: "old"
layer { name: "input" type: "Input" top: "x" input_param { shape { dim: [1, 3, 4, 4] } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" param { lr_mult: 1 } param { lr_mult: 2 }
  inner_product_param { num_output: 2 } }
"""


def blob(*values, **more):
    return pb.BlobProto(data=values, **more)


@pytest.fixture
def upgrade(call, tmp_path):
    def run(content, *options):
        """Upgrades the bytes or the text of a file: the answer, and the bytes that were written."""
        (tmp_path / "in").write_bytes(content if isinstance(content, bytes) else content.encode())
        result = call("upgrade", tmp_path / "in", tmp_path / "out", *options)
        return result, (tmp_path / "out").read_bytes() if (tmp_path / "out").exists() else None

    return run


def test_net(upgrade):
    result, out = upgrade(V1)
    assert result.status == 0 and "V1 layers, input fields" in result.lines[-1]
    assert text_format.Parse(out.decode(), pb.NetParameter()) == text_format.Parse(MODERN, pb.NetParameter())
    assert "old dialect" not in result.err


def test_solver(upgrade):
    result, out = upgrade('net: "a" solver_type: ADAM momentum: 0.1')
    assert result.status == 0 and text_format.Parse(out.decode(), pb.SolverParameter()) == pb.SolverParameter(
        net="a", type="Adam", momentum=0.1
    )


def test_what_is_modern_stays(upgrade):
    result, out = upgrade(MODERN)
    assert "was modern already" in result.lines[-1]
    assert upgrade(out, "--force")[1] == out


OWN = """layer { name: "d" type: "Data" top: "x"
  data_param { source: "s" batch_size: 2 sampler: BALANCED backend: ARRAYS } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" placement { stage: 1 shards: 2 }
  inner_product_param { num_output: 2 } }
"""


def test_plain_leaves_out_what_caffe_does_not_have(upgrade):
    result, out = upgrade(OWN, "--plain")
    net = text_format.Parse(out.decode(), pb.NetParameter())
    assert result.status == 0
    assert not net.layer[1].HasField("placement") and not net.layer[0].data_param.HasField("sampler")
    assert net.layer[1].inner_product_param.num_output == 2
    assert "in:2:" in result.err and "placement left out" in result.err and "sampler left out" in result.err
    assert "backend: ARRAYS stays" in result.err
    assert b"placement" in upgrade(OWN, "--force")[1]


def test_caffemodel_of_v1(upgrade, tmp_path):
    net = pb.NetParameter(name="n", input=["data"])
    old = blob(1, float("nan"), -0.0, 1e-45, num=1, channels=1, height=2, width=2, diff=[5, 6, 7, 8])
    net.layers.add(
        name="c",
        type=pb.V1LayerParameter.CONVOLUTION,
        blobs=[old, blob(3, num=1, channels=1, height=1, width=1)],
        blobs_lr=[1, 2],
    )
    net.layers.add(name="r", type=pb.V1LayerParameter.RELU)
    net.layers.add(name="d", type=pb.V1LayerParameter.DECONVOLUTION, blobs=[pb.BlobProto(double_data=[0.1])])
    result, out = upgrade(net.SerializeToString())
    assert result.status == 0 and weights.check_seal(out, tmp_path / "out")
    new = pb.NetParameter.FromString(out)
    types = {"c": "Convolution", "r": "ReLU", "d": "Deconvolution"}
    assert [(layer.name, layer.type) for layer in new.layer] == list(types.items())
    assert not new.layers and not new.input and new.name == "n" and new.layer[0].param[1].lr_mult == 2
    kept = [b.SerializeToString() for layer in new.layer for b in layer.blobs]
    assert kept == [b.SerializeToString() for layer in net.layers for b in layer.blobs]
    was, now = weights.read_model(tmp_path / "in"), weights.read_model(tmp_path / "out")
    assert list(was) == list(now) == ["c", "d"]
    assert all(
        np.array_equal(a.view(np.uint32), b.view(np.uint32))
        for name in was
        for a, b in zip(was[name], now[name], strict=True)
    )


def test_nvcaffes_bytes_become_floats(upgrade):
    raw = bytes([80, 2]) + weights.field_bytes(12, np.float16([1, -2]).tobytes())  # raw_data_type: FLOAT16, raw_data
    layer = pb.LayerParameter(name="ip", type="InnerProduct").SerializeToString() + weights.field_bytes(7, raw)
    result, out = upgrade(weights.field_bytes(100, layer))
    assert result.status == 0
    assert list(pb.NetParameter.FromString(out).layer[0].blobs[0].data) == [1, -2]


def test_caffemodel_of_v0(upgrade, tmp_path):
    net = pb.NetParameter(name="n")
    net.layers.add(layer=pb.V0LayerParameter(name="p", type="padding", pad=1), bottom=["x"], top=["p"])
    net.layers.add(
        layer=pb.V0LayerParameter(name="c", type="conv", blobs=[blob(1, 2), blob(3)]), bottom=["p"], top=["c"]
    )
    net.layers.add(layer=pb.V0LayerParameter(name="i", type="innerproduct", blobs=[blob(4)]), bottom=["c"], top=["i"])
    upgrade(net.SerializeToString())
    for file in ("in", "out"):
        actual = weights.read_model(tmp_path / file)
        assert {name: [b.tolist() for b in blobs] for name, blobs in actual.items()} == {"c": [[1, 2], [3]], "i": [[4]]}
    assert pb.NetParameter.FromString((tmp_path / "out").read_bytes()).layer[0].convolution_param.pad == [1]


def test_binary_net_keeps_its_state(upgrade):
    net = prototxt.parse(V1 + "force_backward: true state { level: 3 }", pb.NetParameter).message
    new = pb.NetParameter.FromString(upgrade(net.SerializeToString())[1])
    assert new.force_backward and new.state.level == 3 and new.layer[0].input_param.shape[0].dim == [1, 3, 4, 4]


def test_modern_caffemodel_twice_is_the_same(upgrade):
    body = weights.sealed(
        pb.NetParameter(layer=[pb.LayerParameter(name="a", type="ReLU", blobs=[blob(1)])]).SerializeToString()
    )
    once = upgrade(body)[1]
    assert once == upgrade(once, "--force")[1]


def test_nothing_is_replaced_without_force(upgrade, tmp_path):
    (tmp_path / "out").write_text("mine")
    result, out = upgrade(V1)
    assert result.status == 2 and out == b"mine" and "--force" in result.err
    result, out = upgrade(V1, "--force")
    assert result.status == 0 and b"InnerProduct" in out


def test_over_itself(call, tmp_path):
    (tmp_path / "n").write_text(V1)
    assert call("upgrade", tmp_path / "n", tmp_path / "n", "--force").status == 0
    assert text_format.Parse((tmp_path / "n").read_text(), pb.NetParameter()) == text_format.Parse(
        MODERN, pb.NetParameter()
    )
    assert [p.name for p in tmp_path.iterdir()] == ["n"]


SEALED = weights.sealed(pb.NetParameter(layer=[pb.LayerParameter(name="a", blobs=[blob(1, 2)])]).SerializeToString())
BAD = {
    "mixed": (b"layer { }\nlayers { }", 'in:2:1: both "layers" and "layer"'),
    "misspelt": (
        b'layers { name: "a" blob_lr: 1 }',
        'in:1:20: unknown field "blob_lr" in V1LayerParameter; did you mean "blobs_lr"?',
    ),
    "a solver's mistake": (
        b"base_lr: 0.1\nmax_iter: 3\nmomentun: 0.5",
        'in:3:1: unknown field "momentun" in SolverParameter',
    ),
    "hdf5": (b"\x89HDF\r\n\x1a\n", "is HDF5"),
    "noise": (b"\x00\x01\x02\x03", "no net and no solver"),
    "a state": (pb.SolverState(iter=3, learned_net="n").SerializeToString(), "no net and no solver"),
    "a changed byte": (SEALED.replace(b"\x00\x00\x80?", b"\x00\x00\x81?"), "damaged"),
    "a lost end": (SEALED[:-3], "damaged"),
    "a binary mixture": (
        pb.NetParameter(layer=[pb.LayerParameter()], layers=[pb.V1LayerParameter()]).SerializeToString(),
        "both",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes(name, upgrade, tmp_path):
    content, expected = BAD[name]
    result, out = upgrade(content)
    assert result.status == 2 and expected in result.err and len(result.err.splitlines()) == 1
    assert out is None and [p.name for p in tmp_path.iterdir()] == ["in"]


def test_files_that_are_not_there(call, tmp_path):
    assert "no such file" in call("upgrade", tmp_path / "in", tmp_path / "out").err
    (tmp_path / "in").write_text(V1)
    assert "cannot write" in call("upgrade", tmp_path / "in", tmp_path / "no folder" / "out").err


@pytest.mark.parametrize("old", [False, True], ids=["modern", "V1"])
def test_the_text_of_a_caffemodel(call, in_tmp_path, old):
    """Its net, without the weights, as the text that it was trained with."""
    net = text_format.Parse(V1 if old else MODERN, pb.NetParameter())
    layer = net.layers[0] if old else net.layer[1]
    layer.blobs.append(blob(*range(96), shape={"dim": [2, 48]}))
    body = net.SerializeToString()
    (in_tmp_path / "x.caffemodel").write_bytes(body if old else weights.sealed(body))
    assert call("upgrade", "x.caffemodel", "x.prototxt").status == 0
    text = (in_tmp_path / "x.prototxt").read_text()
    assert text_format.Parse(text, pb.NetParameter()) == text_format.Parse(MODERN, pb.NetParameter())


def test_a_net_has_no_weights_for_a_caffemodel(call, in_tmp_path):
    (in_tmp_path / "x.prototxt").write_text(MODERN)
    assert "x.prototxt has no weights" in call("upgrade", "x.prototxt", "x.caffemodel").refused.err
    assert not (in_tmp_path / "x.caffemodel").exists()


def test_blobs_in_the_text_of_a_net_stay(upgrade):
    """They are what its weights start from."""
    _, out = upgrade(MODERN.replace("num_output: 2 }", "num_output: 2 } blobs { data: [1, 2] shape { dim: 2 } }"))
    assert text_format.Parse(out.decode(), pb.NetParameter()).layer[1].blobs[0].data == [1, 2]
