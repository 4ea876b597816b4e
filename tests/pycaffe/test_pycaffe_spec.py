"""Nets written in Python, coordinates between their layers, drawings."""

import numpy as np
import pytest
from google.protobuf import text_format

import caffelite.pycaffe as caffe
from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError
from caffelite.pycaffe import coord_map, draw, layers as L, params as P


def small() -> caffe.NetSpec:
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[{"dim": [2, 1, 8, 8]}, {"dim": [2]}], transform_param={"scale": 0.5}, ntop=2)
    n.conv = L.Convolution(n.data, kernel_size=[3, 3], num_output=4, param=[{"lr_mult": 2}, {"lr_mult": 0}])
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, pool=P.Pooling.AVE, kernel_size=2, stride=2)
    n["score/all"] = L.InnerProduct(n.pool, num_output=3, inner_product_param={"axis": 1})
    n.loss = L.SoftmaxWithLoss(n["score/all"], n.label, loss_weight=2)
    n.silence = L.Silence(n.pool, ntop=0)
    return n


def test_messages_of_a_net():
    net = small().to_proto()
    assert [(layer.name, layer.type) for layer in net.layer] == [
        *(("data", "DummyData"), ("conv", "Convolution"), ("relu", "ReLU"), ("pool", "Pooling")),
        *(("score/all", "InnerProduct"), ("loss", "SoftmaxWithLoss"), ("silence", "Silence")),
    ]
    data, conv, relu, pool, score, loss, silence = net.layer
    assert list(data.top) == ["data", "label"] and data.transform_param.scale == 0.5
    assert list(conv.convolution_param.kernel_size) == [3, 3] and [p.lr_mult for p in conv.param] == [2, 0]
    assert list(relu.bottom) == list(relu.top) == ["conv"] == list(pool.bottom)
    assert pool.pooling_param.pool == pb.PoolingParameter.AVE
    assert (score.inner_product_param.num_output, score.inner_product_param.axis) == (3, 1)
    assert list(loss.bottom) == ["score/all", "label"] and list(loss.loss_weight) == [2] and not silence.top
    assert text_format.Parse(str(net), pb.NetParameter()) == net


def test_net_of_a_spec_runs(write):
    net = caffe.Net(write(str(small().to_proto())), caffe.TRAIN)
    assert net.forward()["loss"] == pytest.approx(np.log(3), rel=1e-6) and len(net.layers) == 7


def test_names_are_made_from_types():
    data = L.Input(shape={"dim": [1, 2]})
    one = L.InnerProduct(data, num_output=3)
    net = caffe.to_proto(L.Eltwise(one, L.InnerProduct(data, num_output=3)), L.Silence(one, ntop=1))
    assert [layer.name for layer in net.layer] == ["Input1", "InnerProduct1", "InnerProduct2", "Eltwise1", "Silence1"]
    assert one.to_proto() == pb.NetParameter(layer=net.layer[:2])


def test_deep_nets_need_no_deep_stack():
    top = L.Input(shape={"dim": 1})
    for _ in range(3000):
        top = L.Power(top)
    assert len(top.to_proto().layer) == 3001


def test_mistakes_in_specs():
    data = L.DummyData(ntop=2)
    with pytest.raises(TypeError, match="^Silence input 0 is not a Top \\(type is <class 'tuple'>\\)$"):
        L.Silence(data, ntop=0)
    with pytest.raises(CaffeliteError, match='Convolution has no field "kernel_siz"; did you mean "kernel_size"'):
        L.Convolution(data[0], kernel_siz=3).to_proto()
    with pytest.raises(CaffeliteError, match="Pooling: field \"kernel_size\" cannot be 'a'"):
        L.Pooling(data[0], kernel_size="a").to_proto()
    with pytest.raises(AttributeError, match="NothingParameter"):
        P.Nothing  # noqa: B018
    n = caffe.NetSpec()
    with pytest.raises(AttributeError, match="no top 'data'"):
        n.data  # noqa: B018
    n.data = data[0]
    assert n.keys() == ["data"]
    del n.data
    assert n.keys() == []


def windows(kernel=3, stride=1, pad=0, pool=2, up=2, up_pad=0) -> caffe.NetSpec:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 1, 40, 40]})
    n.conv = L.Convolution(n.data, num_output=2, kernel_size=kernel, stride=stride, pad=pad)
    n.pool = L.Pooling(n.conv, pool=P.Pooling.MAX, kernel_size=pool, stride=pool)
    n.up = L.Deconvolution(n.pool, num_output=2, kernel_size=2 * up, stride=up, pad=up_pad)
    return n


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (1, 1, 0)),
        ({"pool": 4, "up": 4}, (1, 1, -1)),
        ({"pad": 3}, (1, 1, -3)),
        ({"up_pad": 3}, (1, 1, 3)),
        ({"pool": 3, "up": 2}, (1, 1.5, -0.25)),
    ],
)
def test_map_from_top_to_input(spec, expected):
    n = windows(**spec)
    axis, scale, shift = coord_map.coord_map_from_to(n.up, n.data)
    assert (axis, *np.ravel(scale), *np.ravel(shift)) == pytest.approx(expected)


def test_maps_pass_pointwise_layers_and_crops():
    n = windows()
    n.relu = L.ReLU(n.up)
    n.crop = L.Crop(n.relu, n.data, axis=2, offset=5)
    assert coord_map.coord_map_from_to(n.crop, n.data)[2] == 5
    assert list(coord_map.inverse((1, 2.0, 4.0))) == [1, 0.5, -2]
    with pytest.raises(coord_map.AxisMismatchException):
        coord_map.compose((1, 1, 0), (2, 1, 0))


def test_crop_aligns_tops():
    n = windows(pad=4)
    n.crop = coord_map.crop(n.up, n.data)
    layer = n.to_proto().layer[-1]
    assert (layer.type, layer.crop_param.axis, list(layer.crop_param.offset)) == ("Crop", 2, [4])
    for wrong, what in (({"pool": 3}, "scale"), ({"up_pad": 4}, "0 or more"), ({"kernel": 4, "pad": 4}, "whole")):
        n = windows(**wrong)
        with pytest.raises(AssertionError, match=what):
            coord_map.crop(n.up, n.data)
    n.ip = L.InnerProduct(n.up, num_output=1)
    with pytest.raises(RuntimeError, match="no map"):
        coord_map.coord_map_from_to(n.ip, n.data)


def test_drawings_show_all_layers(tmp_path):
    net = small().to_proto()
    net.layer.add(name="own", type="NobodyKnows", bottom=["pool"], top=["own"]).include.add(phase=pb.TEST)
    picture = draw.draw_net(net, "LR", "svg").decode()
    assert all(f">{layer.name}<" in picture for layer in net.layer) and "Ave pooling 2" in picture
    assert ">own<" not in draw.draw_net(net, "TB", "svg", phase=caffe.TRAIN).decode()
    assert "lr 2, 0" in draw.draw_net(net, "TB", "svg", display_lrm=True).decode()
    draw.draw_net_to_file(net, tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_bytes().startswith(b"<svg")
    for wrong in ({"ext": "gif"}, {"rankdir": "up"}):
        with pytest.raises(CaffeliteError, match="expected|PNG or SVG"):
            draw.draw_net(net, **{"rankdir": "TB", **wrong})
    assert draw.draw_net(pb.NetParameter(), "TB", "svg").startswith(b"<svg")
