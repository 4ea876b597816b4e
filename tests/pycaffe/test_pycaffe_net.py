"""Nets of caffelite.pycaffe: their forms, blobs, passes over some layers, new shapes, parameters and files."""

import numpy as np
import pytest
from devices.host.backend import HostBackend

import caffelite.pycaffe as caffe
from caffelite import prototxt
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError
from caffelite.pycaffe import modes

CONV = """
name: "small" force_backward: true
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 5 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3
  weight_filler { type: "xavier" } bias_filler { type: "constant" value: 0.1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip" inner_product_param { num_output: 5
  weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""
RULES = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "a" type: "Power" bottom: "data" top: "a" include { min_level: 1 } }
layer { name: "b" type: "Power" bottom: "data" top: "b" include { stage: "late" } }
layer { name: "c" type: "Power" bottom: "data" top: "c" include { phase: TRAIN } }
"""
LOSS = """
layer { name: "x" type: "DummyData" top: "x" top: "t" dummy_data_param { shape { dim: 3 dim: 2 } shape { dim: 3 }
  data_filler { type: "constant" value: 2 } data_filler { type: "constant" } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 4
  weight_filler { type: "gaussian" std: 1 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "t" top: "loss" loss_weight: 2 }
"""


@pytest.fixture
def net(write) -> caffe.Net:
    caffe.set_random_seed(3)
    return caffe.Net(write(CONV), caffe.TEST)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def test_forms_of_the_constructor(net, write):
    net.save("w.caffemodel")
    made = [
        caffe.Net("net.prototxt", caffe.TEST, weights="w.caffemodel"),
        caffe.Net("net.prototxt", "w.caffemodel", caffe.TEST),
        caffe.Net("net.prototxt", phase=caffe.TEST, weights="w.caffemodel"),
        caffe.Net("net.prototxt", caffe.TEST, 0, None, "w.caffemodel"),
    ]
    for other in made:
        np.testing.assert_array_equal(other.params["conv"][0].data, net.params["conv"][0].data)
    rules = write(RULES, "rules.prototxt")
    assert caffe.Net(rules, caffe.TEST)._layer_names == ["data"]
    assert caffe.Net(rules, caffe.TRAIN, level=1, stages=["late"])._layer_names == ["data", "a", "b", "c"]


@pytest.mark.parametrize("arguments", [(), ("w", "v"), (0, 1, None, None, 5), ("w",)])
def test_wrong_arguments_are_type_errors(write, arguments):
    with pytest.raises(TypeError, match="expected Net\\(file, phase"):
        caffe.Net(write(CONV), *arguments)


def test_names_and_shapes_of_the_parts(net):
    assert list(net.blobs) == ["data", "conv", "pool", "ip", "prob"] == net._blob_names
    assert net._layer_names == ["data", "conv", "relu", "pool", "ip", "prob"] == list(net.layer_dict)
    assert [layer.type for layer in net.layers] == "Input Convolution ReLU Pooling InnerProduct Softmax".split()
    assert net.inputs == ["data"] and net.outputs == ["prob"] and (net._inputs, net._outputs) == ([0], [4])
    assert net.top_names["relu"] == net.bottom_names["relu"] == ["conv"] and net.bottom_names["data"] == []
    assert net._bottom_ids(1) == [0] and net._top_ids(2) == [1]
    assert {name: [b.shape for b in blobs] for name, blobs in net.params.items()} == {
        "conv": [(4, 3, 3, 3), (4,)],
        "ip": [(5, 4), (5,)],
    }
    assert net.layers[1].blobs[0].data is net.params["conv"][0].data
    blob = net.blobs["ip"]
    assert (blob.num, blob.channels, blob.height, blob.width, blob.count) == (2, 5, 1, 1, 10)
    assert blob.diff.shape == (2, 5)


def test_loss_weights_by_blob(write):
    net = caffe.Net(write(LOSS), caffe.TRAIN)
    assert dict(net.blob_loss_weights) == {"x": 0, "t": 0, "ip": 0, "loss": 2}


def test_forward_returns_outputs_and_named_blobs(net):
    x = random(2, 3, 6, 5)
    out = net.forward(blobs=["conv", "prob"], data=x)
    assert list(out) == ["prob", "conv"] and out["conv"].shape == (2, 4, 4, 3) and (out["conv"] >= 0).all()
    np.testing.assert_array_equal(net.blobs["data"].data, x)
    for wrong in ({"prob": x}, {"data": x[:1]}, {"data": x[:, :, 1:]}):
        with pytest.raises(CaffeliteError, match="expected"):
            net.forward(**wrong)
    with pytest.raises(CaffeliteError, match='no layer "pol"; did you mean "pool"'):
        net.forward(start="pol")
    with pytest.raises(CaffeliteError, match='no blob "convv"'):
        net.forward(blobs=["convv"])


def test_layers_from_start_to_end(net):
    full = {name: blob.data.copy() for name, blob in net.blobs.items() if net.forward(data=random(2, 3, 6, 5))}
    first = net.forward(end="conv")["conv"]
    assert first.min() < 0, "the layer in place has not run"
    np.testing.assert_array_equal(np.maximum(first, 0), full["conv"])
    net.forward(start="relu", end="relu")
    np.testing.assert_array_equal(net.blobs["conv"].data, full["conv"])
    net.blobs["conv"].data[...] *= 2
    out = net.forward(start="pool")
    np.testing.assert_allclose(net.blobs["pool"].data, 2 * full["pool"], rtol=1e-6)
    ip = net.blobs["pool"].data[..., 0, 0] @ net.params["ip"][0].data.T
    np.testing.assert_allclose(net.blobs["ip"].data, ip, rtol=1e-5, atol=1e-6)
    assert out["prob"].shape == (2, 5)


def test_backward_of_some_layers(net):
    net.forward(data=random(2, 3, 6, 5))
    gradient = random(2, 5)
    net.blobs["ip"].diff[...] = gradient
    out = net.backward(start="ip", end="ip")
    np.testing.assert_allclose(out["pool"][..., 0, 0], gradient @ net.params["ip"][0].data, rtol=1e-5, atol=1e-6)
    actual = net.backward(start="pool", end="conv", diffs=["conv"])
    conv = net.blobs["conv"].data
    expected = np.where(conv > 0, out["pool"] / 12, 0)
    np.testing.assert_allclose(actual["conv"], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(net.params["conv"][1].diff, expected.sum((0, 2, 3)), rtol=1e-4)
    # Set between the two layers, the gradient skips the ReLU.
    net.blobs["conv"].diff[...] = 1
    net.clear_param_diffs()
    net.backward(start="conv", end="conv")
    np.testing.assert_allclose(net.params["conv"][1].diff, [24] * 4, rtol=1e-6)


def test_fan_out_sums_only_the_layers_that_run(write):
    text = "force_backward: true\n" + "".join(
        f'layer {{ name: "{name}" type: "{kind}" {wiring} }}\n'
        for name, kind, wiring in (
            ("data", "Input", 'top: "data" input_param { shape { dim: 3 } }'),
            ("a", "Power", 'bottom: "data" top: "a" power_param { scale: 2 }'),
            ("b", "Power", 'bottom: "a" top: "b" power_param { scale: 3 }'),
            ("c", "Power", 'bottom: "a" top: "c" power_param { scale: 5 }'),
        )
    )
    net = caffe.Net(write(text), caffe.TRAIN)
    net.backward(b=np.ones(3), c=np.ones(3))
    assert net.blobs["data"].diff.tolist() == [16] * 3
    net.backward(start="b")
    assert net.blobs["data"].diff.tolist() == [6] * 3


def test_backward_adds_to_parameter_gradients(write):
    net = caffe.Net(write(LOSS), caffe.TRAIN)
    net.forward()
    net.backward()
    once = net.params["ip"][0].diff.copy()
    net.backward()
    np.testing.assert_allclose(net.params["ip"][0].diff, 2 * once, rtol=1e-6)
    diff = net.params["ip"][0].diff
    net.clear_param_diffs()
    assert once.any() and not diff.any()


def test_gradients_below_a_loss_in_test(write):
    nets = [caffe.Net(write(LOSS), phase) for phase in (caffe.TRAIN, caffe.TEST)]
    nets[1].share_with(nets[0])
    for net in nets:
        net.forward()
        net.backward()
    assert nets[0].params["ip"][0].diff.any()
    np.testing.assert_array_equal(nets[0].params["ip"][0].diff, nets[1].params["ip"][0].diff)


def test_dummy_constants_stay_as_the_program_sets_them(write):
    net = caffe.Net(write(LOSS), caffe.TRAIN)
    assert (net.blobs["x"].data == 2).all()
    net.blobs["t"].data[...] = [1, 2, 3]
    net.forward()
    assert net.blobs["t"].data.tolist() == [1, 2, 3]


def test_reshaped_net_equals_a_new_one(net, write):
    for shape in ((1, 3, 6, 5), (4, 3, 9, 8), (2, 3, 6, 5), (1, 3, 3, 3), (4, 3, 9, 8)):
        dims = " ".join(f"dim: {d}" for d in shape)
        text = CONV.replace("dim: 2 dim: 3 dim: 6 dim: 5", dims)
        other = caffe.Net(write(text, "other.prototxt"), caffe.TEST)
        other.share_with(net)
        net.blobs["data"].reshape(*shape)
        assert net.blobs["data"].data.shape == shape
        x, dy = random(*shape), random(shape[0], 5)
        results = []
        for each in (net, other):
            each.clear_param_diffs()
            each.blobs["data"].data[...] = x
            actual = each.forward(blobs=["conv"])
            actual |= {f"d {k}": v for k, v in each.backward(diffs=["pool"], prob=dy).items()}
            results.append({**actual, "dw": each.params["conv"][0].diff})
        for name, expected in results[1].items():
            np.testing.assert_allclose(results[0][name], expected, rtol=1e-4, atol=1e-6, err_msg=f"{name} {shape}")


def test_reshape_uses_operations_and_memory_again(net, monkeypatch):
    node = net._nodes[1]
    built = []
    build = type(node.layer).build
    monkeypatch.setattr(type(node.layer), "build", lambda self, dev: (built.append(1), build(self, dev)))
    first = None
    for shape in ((3, 3, 6, 5), (1, 3, 6, 5), (3, 3, 6, 5), (1, 3, 6, 5)):
        net.blobs["data"].reshape(*shape)
        net.reshape()
        if shape[0] == 3:
            first = first or net.blobs["conv"].data.ctypes.data
            assert net.blobs["conv"].data.ctypes.data == first
    assert len(built) == 2


def test_refused_shape_restores_the_old_one(net):
    x = random(2, 3, 6, 5)
    before = net.forward(data=x)["prob"].copy()
    net.blobs["data"].reshape(2, 4, 6, 5)
    with pytest.raises(CaffeliteError, match="its parameters change their shape"):
        net.reshape()
    assert net.blobs["data"].shape == (2, 3, 6, 5)
    np.testing.assert_array_equal(net.forward(data=x)["prob"], before)
    for name in ("conv", "prob"):
        with pytest.raises(CaffeliteError, match=f'shape of blob "{name}" cannot be set; expected data'):
            net.blobs[name].reshape(1)
    with pytest.raises(CaffeliteError, match="dimensions of 1 or more"):
        net.blobs["data"].reshape(0, 3, 6, 5)
    with pytest.raises(CaffeliteError, match="cannot be reshaped"):
        net.params["ip"][0].reshape(1)


def test_forward_all_fills_the_last_batch(net):
    x = random(5, 3, 6, 5)
    out = net.forward_all(blobs=["ip"], data=x)
    assert out["prob"].shape == (5, 5) and out["ip"].shape == (5, 5)
    np.testing.assert_allclose(out["prob"][2:4], net.forward(data=x[2:4])["prob"], rtol=1e-6)
    data, gradients = net.forward_backward_all(diffs=["ip"], data=x, prob=random(5, 5))
    assert data["prob"].shape == (5, 5) and gradients["data"].shape == x.shape and gradients["ip"].shape == (5, 5)
    with pytest.raises(ValueError, match="the same number of samples"):
        net.forward_all()


def test_files_keep_parameters(net, tmp_path):
    net.save("a.caffemodel")
    net.save_hdf5("b.without_suffix")
    weights = net.params["ip"][0].data.copy()
    for load in (lambda: net.copy_from("a.caffemodel"), lambda: net.load_hdf5("b.without_suffix")):
        net.params["ip"][0].data[...] = 0
        load()
        np.testing.assert_array_equal(net.params["ip"][0].data, weights)
    assert (tmp_path / "b.without_suffix").read_bytes()[1:4] == b"HDF"


def test_sharing_uses_one_memory(net):
    other = caffe.Net("net.prototxt", caffe.TEST)
    other.share_with(net)
    net.params["ip"][1].data[...] = 7
    assert (other.params["ip"][1].data == 7).all() and other.layers[4].blobs[1].data is net.layers[4].blobs[1].data
    x = random(2, 3, 6, 5)
    np.testing.assert_array_equal(other.forward(data=x)["prob"], net.forward(data=x)["prob"])


def test_seed_repeats_fillers(write):
    actual = []
    for seed in (1, 1, 2):
        caffe.set_random_seed(seed)
        nets = [caffe.Net(write(CONV), caffe.TEST) for _ in range(2)]
        actual.append([net.params["ip"][0].data.copy() for net in nets])
    np.testing.assert_array_equal(actual[0], actual[1])
    assert not np.array_equal(actual[0], actual[2]) and not np.array_equal(*actual[0])


def test_memory_data_reads_arrays(write):
    param = "memory_data_param { batch_size: 2 channels: 1 height: 2 width: 1 }"
    text = f'layer {{ name: "m" type: "MemoryData" top: "d" top: "l" {param} }}'
    net = caffe.Net(write(text), caffe.TRAIN)
    net.set_input_arrays(np.arange(8, dtype=np.float32).reshape(4, 1, 2, 1), np.arange(4, dtype=np.float32))
    assert [net.forward()["l"].tolist() for _ in range(3)] == [[0, 1], [2, 3], [0, 1]]
    with pytest.raises(CaffeliteError, match="0 in this net"):
        caffe.Net(write(RULES), caffe.TEST).set_input_arrays(np.zeros(1), np.zeros(1))


def test_callbacks_get_the_index_of_each_layer(net):
    seen = []
    for event in ("before_forward", "after_forward", "before_backward", "after_backward"):
        getattr(net, event)(lambda i, event=event: seen.append((event, i)))
    net.forward(start="pool", end="ip")
    net.backward(start="ip", end="pool")
    assert seen == [
        *[(f"{when}_forward", i) for i in (3, 4) for when in ("before", "after")],
        *[(f"{when}_backward", i) for i in (4, 3) for when in ("before", "after")],
    ]


def test_blobs_outlive_their_net(net):
    blobs, params = list(net.blobs.values()), net.params["conv"]
    del net
    assert np.isfinite([b.data.sum() + b.diff.sum() for b in (*blobs, *params)]).all()


@pytest.mark.host
def test_same_numbers_on_a_gpu(net, monkeypatch):
    net.save("w.caffemodel")
    device = GPU(0, "float32", HostBackend())
    monkeypatch.setattr(modes, "open_device", lambda: device)
    other = caffe.Net("net.prototxt", "w.caffemodel", caffe.TEST)
    for shape in ((2, 3, 6, 5), (3, 3, 7, 6)):
        results = []
        for each in (net, other):
            each.blobs["data"].reshape(*shape)
            each.blobs["data"].data[...] = random(*shape)
            prob = each.forward()["prob"].copy()
            each.blobs["conv"].data[...] += 1
            again = each.forward(start="pool")["prob"].copy()
            each.blobs["ip"].diff[...] = 1
            each.clear_param_diffs()
            back = each.backward(start="ip")["data"].copy()
            results.append((prob, again, back, each.params["ip"][0].diff.copy()))
        for mine, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=1e-3, atol=1e-5)


def test_backward_that_computes_nothing_warns(write, caplog):
    """As Caffe it gives zeros, but not without a word: a deploy net has no loss, and its gradients need
    force_backward."""
    text = """name: "no loss" layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 3] } } }
        layer { name: "y" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 2 } }"""
    prototxt.say_once.cache_clear()
    net = caffe.Net(write(text), caffe.TEST)
    for _ in range(2):
        net.forward(x=np.ones((1, 3)))
        net.blobs["y"].diff[...] = 1
        assert not net.backward()["x"].any() and not net.params["y"][0].diff.any()
    assert len(caplog.messages) == 1 and 'net "no loss"' in caplog.text and '"force_backward: true"' in caplog.text
    forced = caffe.Net(write("force_backward: true " + text), caffe.TEST)
    forced.params["y"][0].data[...] = 1
    forced.blobs["y"].diff[...] = 1
    assert (forced.backward()["x"] == 2).all() and len(caplog.messages) == 1
