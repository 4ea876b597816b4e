"""SSD's model_libs, and the names of caffe._caffe, for scripts of others."""

import numpy as np
import pytest

import caffelite.pycaffe as caffe
from caffelite.pycaffe import _caffe, layers as L, model_libs


def spec(size: int = 300) -> caffe.NetSpec:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 3, size, size]})
    return n


def test_update_and_vals():
    n = spec()
    n.conv = L.Convolution(n.data, num_output=2, kernel_size=3)
    n.update("conv", {"dilation": 2, "param": {"lr_mult": 0}})
    conv = n.to_proto().layer[1]
    assert n.vals() == [n.data, n.conv] and list(conv.convolution_param.dilation) == [2] and conv.param[0].lr_mult == 0


def test_a_detector_of_ssd(write):
    n = spec()
    model_libs.VGGNetBody(
        n, "data", fully_conv=True, reduced=True, dilated=True, dropout=False, freeze_layers=["conv1_1"]
    )
    model_libs.ConvBNLayer(n, n.keys()[-1], "conv6_1", False, True, 256, 1, 0, 1)
    tops = model_libs.CreateMultiBoxHead(
        n,
        num_classes=21,
        from_layers=["conv4_3", "fc7", "conv6_1"],
        normalizations=[20, -1, -1],
        use_batchnorm=False,
        min_sizes=[30.0, 60.0, [100.0, 110.0]],
        max_sizes=[[], 111.0, [150.0, 160.0]],
        aspect_ratios=[[2], [2, 3], [2]],
        steps=[8, 16, 16],
        kernel_size=3,
        pad=1,
    )
    assert tops == [n.mbox_loc, n.mbox_conf, n.mbox_priorbox]
    net = caffe.Net(write(str(n.to_proto())), caffe.TEST)
    boxes = 38 * 38 * 3 + 19 * 19 * 6 + 19 * 19 * 8
    assert net.blobs["mbox_loc"].data.shape == (1, 4 * boxes) and net.blobs["mbox_conf"].count == 21 * boxes
    assert net.blobs["mbox_priorbox"].data.shape == (1, 2, 4 * boxes)
    frozen = next(layer for layer in n.to_proto().layer if layer.name == "conv1_1")
    assert [p.lr_mult for p in frozen.param] == [0, 0]


@pytest.mark.parametrize(("body", "blocks"), [("ResNet101Body", 33), ("ResNet152Body", 50)])
def test_residual_nets(body, blocks):
    n = spec()
    getattr(model_libs, body)(n, "data", use_dilation_conv5=True, use_global_stats=True)
    layers = n.to_proto().layer
    assert sum(layer.type == "Eltwise" for layer in layers) == blocks and layers[-1].name == "pool5"
    spread = next(layer for layer in layers if layer.name == "res5b_branch2b")
    assert list(spread.convolution_param.pad) == list(spread.convolution_param.dilation) == [2]


def test_a_zf_net_that_classifies(write):
    n = spec(224)
    model_libs.ZFNetBody(n, "data", fully_conv=True, reduced=True, need_fc8=True)
    assert caffe.Net(write(str(n.to_proto())), caffe.TEST).blobs["prob"].data.shape == (1, 1000, 8, 8)


@pytest.mark.parametrize("fields", [{"num_classes": 0}, {"min_sizes": []}, {"max_sizes": [[1.0, 2.0]]}])
def test_lists_that_do_not_fit(fields):
    n = spec()
    with pytest.raises(ValueError, match="num_classes|min_sizes|max_sizes"):
        model_libs.CreateMultiBoxHead(n, **({"num_classes": 2, "from_layers": ["data"], "min_sizes": [3.0]} | fields))


def test_parameters_are_a_blob_vec(write):
    n = spec(8)
    n.conv = L.Convolution(n.data, num_output=2, kernel_size=3)
    net = caffe.Net(write(str(n.to_proto())), caffe.TEST)
    assert type(net.params["conv"]) is caffe._caffe.BlobVec is _caffe.RawBlobVec
    assert isinstance(np.asarray(net.params["conv"][0].data), np.ndarray) and _caffe.Layer is caffe.Layer
