"""New shapes in caffelite.pycaffe with passes over some layers: the layers that run follow, and no others."""

import numpy as np
import pytest

import caffelite.pycaffe as caffe
from caffelite.errors import CaffeliteError

CONVOLUTION = """layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}" convolution_param {{
  num_output: {outputs} kernel_size: {size} pad: {pad} stride: {stride} weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "{name}/relu" type: "ReLU" bottom: "{name}" top: "{name}" }}
"""


def convolution(name: str, bottom: str, outputs: int, size: int, stride: int = 1) -> str:
    return CONVOLUTION.format(name=name, bottom=bottom, outputs=outputs, size=size, pad=size // 2, stride=stride)


BEFORE = (
    """force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 20 dim: 20 } } }
"""
    + convolution("conv1", "data", 8, 5, 2)
    + """layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" pooling_param { kernel_size: 3 stride: 2 } }
layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1" }
"""
    + convolution("mix/1x1", "norm1", 4, 1)
    + convolution("mix/reduce", "norm1", 4, 1)
    + convolution("mix/3x3", "mix/reduce", 6, 3)
    + """layer { name: "mix/output" type: "Concat" bottom: "mix/1x1" bottom: "mix/3x3" top: "mix/output" }
"""
)
AFTER = (
    convolution("next/1x1", "mix/output", 4, 1)
    + """layer { name: "next/pool" type: "Pooling" bottom: "mix/output" top: "next/pool" pooling_param { kernel_size: 3
  stride: 1 pad: 1 } }
layer { name: "next/output" type: "Concat" bottom: "next/1x1" bottom: "next/pool" top: "next/output" }
layer { name: "drop" type: "Dropout" bottom: "next/output" top: "next/output" }
layer { name: "classifier" type: "InnerProduct" bottom: "next/output" top: "classifier" inner_product_param {
  num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "classifier" top: "prob" }
"""
)
ENDS = ("conv1", "norm1", "mix/3x3", "mix/output")
REFUSED = 'layer "classifier".*its parameters change their shape'


@pytest.fixture
def net(write) -> caffe.Net:
    caffe.set_random_seed(3)
    return caffe.Net(write(BEFORE + AFTER), caffe.TEST)


def picture(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


def dream(net: caffe.Net, end: str, octaves: list[tuple[int, int]]) -> list[np.ndarray]:
    """The steps of a program that makes a picture excite a layer, over several sizes."""
    data, layer, dreamt = net.blobs["data"], net.blobs[end], []
    for height, width in octaves:
        data.reshape(1, 3, height, width)
        data.data[...] = picture(1, 3, height, width)
        for _ in range(2):
            net.forward(end=end)
            layer.diff[:] = layer.data
            net.backward(start=end)
            gradient = data.diff[0]
            data.data[:] += 0.1 / np.abs(gradient).mean() * gradient
        dreamt += [data.data.copy(), layer.data.copy()]
    return dreamt


@pytest.mark.parametrize("end", ENDS)
def test_layers_up_to_an_end_follow_and_those_after_it_stay(net, write, end):
    alone = caffe.Net(write(BEFORE, "before.prototxt"), caffe.TEST)
    alone.share_with(net)
    octaves = [(16, 18), (24, 20), (16, 18)]
    for expected, actual in zip(dream(alone, end, octaves), dream(net, end, octaves), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert net.blobs["next/pool"].shape == (1, 10, 5, 5) and net.blobs["classifier"].shape == (1, 5)
    assert net.blobs["norm1"].shape == ((1, 8, 5, 5) if end == "conv1" else (1, 8, 4, 4))


def test_all_layers_follow_in_the_next_pass_over_all(net):
    before = net.forward(data=picture(1, 3, 20, 20))["prob"].copy()
    net.blobs["data"].reshape(1, 3, 24, 20)
    net.forward(end="mix/output")
    for _ in range(2):
        with pytest.raises(CaffeliteError, match=REFUSED):
            net.forward()
        with pytest.raises(CaffeliteError, match=REFUSED):
            net.reshape()
    assert net.blobs["data"].shape == (1, 3, 24, 20), "it was there before the pass"
    assert net.forward(end="mix/output")["mix/output"].shape == (1, 10, 6, 5)
    net.blobs["data"].reshape(1, 3, 32, 20)
    with pytest.raises(CaffeliteError, match=REFUSED):
        net.forward()
    assert net.blobs["mix/output"].shape == (1, 10, 6, 5), "the shapes before the refused one"
    for batch in (2, 1):
        net.blobs["data"].reshape(batch, 3, 20, 20)
        net.forward(end="conv1", data=np.repeat(picture(1, 3, 20, 20), batch, 0))
        prob = net.forward(start="pool1")["prob"]
        assert prob.shape == (batch, 5)
        np.testing.assert_allclose(net.forward()["prob"], prob, rtol=1e-6)
    np.testing.assert_allclose(net.forward()["prob"], before, rtol=1e-5)


def test_layers_from_a_start_read_the_shapes_that_are_there(net):
    before = net.forward(data=picture(1, 3, 20, 20))["prob"].copy()
    net.blobs["data"].reshape(1, 3, 24, 20)
    np.testing.assert_allclose(net.forward(start="mix/1x1")["prob"], before, rtol=1e-6)
    gradient = net.backward(end="mix/1x1", prob=picture(1, 5))["norm1"]
    assert gradient.shape == (1, 8, 5, 5) and gradient.any()
    net.forward(start="conv1", end="conv1")
    assert net.blobs["conv1"].shape == (1, 8, 12, 10) and net.blobs["pool1"].shape == (1, 8, 5, 5)
    # The next layer reads the blob as it is, though the layer in place between them has not run.
    assert net.forward(start="pool1", end="pool1")["pool1"].shape == (1, 8, 6, 5)


def test_a_partial_pass_makes_nothing_again(net, monkeypatch):
    net.blobs["data"].reshape(1, 3, 16, 16)
    net.forward(end="mix/output")
    calls = net._net.steps[0][:]
    net.forward(end="mix/output")
    net.backward(start="mix/output")
    assert all(now is before for now, before in zip(net._net.steps[0], calls, strict=True))


def test_only_layers_that_run_follow_a_changing_top(write, tmp_path):
    (tmp_path / "growing.py").write_text(
        "import caffelite.pycaffe as caffe\n"
        "class Rows(caffe.Layer):\n"
        "    count = 2\n"
        "    def setup(self, bottom, top): pass\n"
        "    def reshape(self, bottom, top): top[0].reshape(self.count, 3)\n"
        "    def forward(self, bottom, top):\n"
        "        top[0].reshape(self.count, 3)\n"
        "        top[0].data[...] = bottom[0].data[0]\n"
    )
    net = caffe.Net(
        write("""layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "rows" type: "Python" bottom: "data" top: "rows" python_param { module: "growing" layer: "Rows" } }
layer { name: "twice" type: "Power" bottom: "rows" top: "twice" power_param { scale: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "twice" top: "ip" inner_product_param { num_output: 1 axis: 0 } }"""),
        caffe.TEST,
    )
    net.forward()
    net.layer_dict["rows"].count = 4
    assert net.forward(end="twice", data=np.ones((1, 3)))["twice"].tolist() == [[2.0] * 3] * 4
    with pytest.raises(CaffeliteError, match='layer "ip".*its parameters change their shape'):
        net.forward()
    net.layer_dict["rows"].count = 2
    net.forward(end="rows")
    assert net.forward(blobs=["twice"])["twice"].shape == (2, 3)


def test_gradients_do_not_overwrite_what_layers_saved(net):
    net.forward(data=picture(1, 3, 20, 20))
    start = picture(1, 5)
    expected = net.backward(prob=start)["data"].copy()
    np.testing.assert_array_equal(net.backward(prob=start)["data"], expected)
    for blob in net.blobs.values():
        blob.diff[...] = 0
    np.testing.assert_array_equal(net.backward(prob=start)["data"], expected)
    net.forward(start="norm1", end="norm1")
    np.testing.assert_array_equal(net.backward(prob=start)["data"], expected)
