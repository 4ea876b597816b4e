"""The Python API: nets and solvers as a notebook uses them."""

import h5py
import numpy as np
import pytest
from devices.host.backend import HostBackend

import caffelite
from caffelite import devices
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError

DEPLOY = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "act" type: "TanH" bottom: "ip" top: "ip" }
layer { name: "out" type: "InnerProduct" bottom: "ip" top: "out"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
"""
TRAIN = """
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 } data_filler { type: "gaussian" } data_filler { value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture(params=["cpu", pytest.param("host", marks=pytest.mark.host)])
def gpu(request, monkeypatch):
    """None for the CPU; a number where the GPU's code runs on the host."""
    if request.param == "cpu":
        return None
    monkeypatch.setattr(devices, "open_device", lambda number: GPU(number, "float32", HostBackend()))
    return 0


@pytest.fixture
def folder(tmp_path, in_tmp_path):
    (tmp_path / "deploy.prototxt").write_text(DEPLOY)
    (tmp_path / "train.prototxt").write_text(TRAIN)
    text = 'net: "train.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 20 snapshot_prefix: "run" random_seed: 1'
    (tmp_path / "solver.prototxt").write_text(text)
    return tmp_path


def test_forward_and_backward_of_a_net_without_loss(folder, gpu, seed):
    net = caffelite.Net("deploy.prototxt", gpu=gpu, force_backward=True)
    assert net.inputs == ["data"] and net.outputs == ["out"]
    rng = np.random.default_rng(seed)
    for blobs in net.params.values():
        for blob in blobs:
            blob.data[...] = rng.normal(size=blob.shape)
    x, dy = rng.normal(size=(2, 3)).astype("f4"), rng.normal(size=(2, 2)).astype("f4")
    out = net.forward(data=x)["out"]
    (w, b), (v, c) = ([blob.data.astype("f8") for blob in net.params[name]] for name in ("ip", "out"))
    hidden = np.tanh(x @ w.T + b)
    np.testing.assert_allclose(out, hidden @ v.T + c, rtol=1e-5)
    np.testing.assert_allclose(net.blobs["ip"].data, hidden, rtol=1e-5)
    dx = net.backward(out=dy)["data"]
    np.testing.assert_allclose(dx, ((dy @ v) * (1 - hidden**2)) @ w, rtol=1e-4)
    np.testing.assert_allclose(net.params["out"][0].diff, dy.T @ hidden, rtol=1e-4, atol=1e-6)
    data = net.blobs["data"]
    assert (data.num, data.channels, data.height, data.count) == (2, 3, 1, 6)


def test_inputs_need_not_be_contiguous(folder, gpu, seed):
    net = caffelite.Net("deploy.prototxt", gpu=gpu)
    x = np.random.default_rng(seed).normal(size=(3, 4))
    strided = x[:, ::2].T
    assert not strided.flags.c_contiguous
    np.testing.assert_array_equal(
        net.forward(data=strided)["out"], net.forward(data=np.ascontiguousarray(strided, "f4"))["out"]
    )


@pytest.mark.parametrize("name", ["net.caffemodel", "net.caffemodel.h5"])
def test_weights_are_saved_and_copied(folder, name):
    one, other = caffelite.Net("deploy.prototxt", seed=1), caffelite.Net("deploy.prototxt", seed=2)
    one.save(name)
    assert h5py.is_hdf5(name) == name.endswith(".h5")
    assert not np.array_equal(one.params["ip"][0].data, other.params["ip"][0].data)
    assert other.copy_from(name).matched == ["ip", "out"]
    x = np.ones((2, 3), "f4")
    np.testing.assert_array_equal(one.forward(data=x)["out"], other.forward(data=x)["out"])


def test_weights_that_do_not_match_are_reported(folder, caplog):
    one = caffelite.Net("deploy.prototxt", seed=1)
    one.save("net.caffemodel")
    assert one.loaded is None
    text = (folder / "deploy.prototxt").read_text().replace('name: "out"', 'name: "other"')
    (folder / "renamed.prototxt").write_text(text)
    with caplog.at_level("INFO", "caffelite"):
        actual = caffelite.Net("renamed.prototxt", "net.caffemodel").loaded
    assert (actual.matched, actual.missing) == (["ip"], ["other"]) and "out" in actual.skipped
    assert "Ignoring source layer out" in caplog.messages
    missing = "net.caffemodel has no weights for other, which keep the values of their fillers"
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == [missing]


def test_a_solver_steps_and_snapshots(folder):
    solver = caffelite.Solver("solver.prototxt")
    first = solver.step(1)
    assert solver.step(19) < first and solver.iter == 20
    solver.snapshot()
    again = caffelite.Solver("solver.prototxt", resume="run_iter_20.solverstate")
    assert again.iter == 20
    np.testing.assert_array_equal(again.net.params["ip"][0].data, solver.net.params["ip"][0].data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.forward(dat=np.ones((2, 3))), "the inputs of the net; expected data, found dat"),
        (lambda n: n.forward(data=np.ones((3, 3))), r"expected \[2, 3\], found \[3, 3\]"),
        (lambda n: n.backward(), "force_backward=True"),
    ],
)
def test_mistakes(folder, call, message):
    with pytest.raises(CaffeliteError, match=message):
        call(caffelite.Net("deploy.prototxt"))


def test_no_such_name():
    with pytest.raises(AttributeError, match="Nett"):
        caffelite.Nett  # noqa: B018


IN_PLACE = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 1 dim: 2 } } }
layer { name: "scale" type: "Scale" bottom: "data" top: "data" scale_param { filler { value: 3 } } }
layer { name: "y" type: "Convolution" bottom: "data" top: "y"
  convolution_param { num_output: 1 kernel_size: 1 bias_term: false
  weight_filler { value: 1 } } }
"""
PIXELS = [[[[1, 2]], [[3, 4]]]]


def test_input_with_an_in_place_layer_is_read(folder, gpu):
    (folder / "in_place.prototxt").write_text(IN_PLACE)
    net = caffelite.Net("in_place.prototxt", gpu=gpu, force_backward=True)
    for _ in range(2):
        np.testing.assert_array_equal(net.forward(data=PIXELS)["y"].ravel(), [12, 18])
    np.testing.assert_array_equal(net.blobs["data"].data, np.multiply(PIXELS, 3))  # as in Caffe, which has one memory
    np.testing.assert_array_equal(net.backward(y=np.ones((1, 1, 1, 2)))["data"], np.full((1, 2, 1, 2), 3))
    net.blobs["data"].data[...] = np.multiply(PIXELS, 2)
    np.testing.assert_array_equal(net.forward()["y"].ravel(), [24, 36])


@pytest.mark.parametrize(
    "layer",
    [
        'type: "Scale" scale_param { filler { value: 2 } }',
        'type: "Power" power_param { scale: 2 }',
        'type: "ReLU"',
        'type: "BatchNorm"',
        'type: "AbsVal"',
        'type: "Dropout"',
        'type: "Sigmoid"',
    ],
)
def test_in_place_equals_a_top_of_another_name(folder, gpu, layer, seed):
    head, x = IN_PLACE.splitlines()[1], np.random.default_rng(seed).normal(size=(1, 2, 1, 2))
    (folder / "in_place.prototxt").write_text(f'{head}\nlayer {{ name: "l" {layer} bottom: "data" top: "data" }}')
    (folder / "apart.prototxt").write_text(f'{head}\nlayer {{ name: "l" {layer} bottom: "data" top: "y" }}')
    (here,), (apart,) = (
        caffelite.Net(f"{name}.prototxt", gpu=gpu).forward(data=x).values() for name in ("in_place", "apart")
    )
    np.testing.assert_array_equal(here, apart)
    assert here.any()


def test_gradient_of_an_output_that_an_in_place_layer_makes(folder, gpu):
    (folder / "in_place.prototxt").write_text("\n".join(IN_PLACE.splitlines()[:3]))
    net = caffelite.Net("in_place.prototxt", gpu=gpu, force_backward=True)
    np.testing.assert_array_equal(net.forward(data=PIXELS)["data"], np.multiply(PIXELS, 3))
    np.testing.assert_array_equal(net.backward(data=PIXELS)["data"], np.multiply(PIXELS, 3))


def test_gradient_of_an_output_that_is_a_view(folder, gpu, seed):
    text = f'{DEPLOY}\nlayer {{ name: "flat" type: "Flatten" bottom: "out" top: "flat" }}'
    (folder / "view.prototxt").write_text(text)
    net = caffelite.Net("view.prototxt", gpu=gpu, force_backward=True, seed=seed)
    plain = caffelite.Net("deploy.prototxt", gpu=gpu, force_backward=True, seed=seed)
    x, dy = np.ones((2, 3)), np.ones((2, 2))
    for each, name in ((net, "flat"), (plain, "out")):
        each.forward(data=x)
        assert each.backward(**{name: dy})["data"].any()
    np.testing.assert_array_equal(net.blobs["data"].diff, plain.blobs["data"].diff)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.forward(ip=np.ones((2, 4))), "the inputs of the net; expected data, found ip"),
        (lambda n: n.backward(ip=np.ones((2, 4))), "the outputs of the net; expected out, found ip"),
    ],
)
def test_only_inputs_and_outputs_are_set_by_name(folder, call, message):
    with pytest.raises(CaffeliteError, match=message):
        call(caffelite.Net("deploy.prototxt", force_backward=True))


def test_every_pass_draws_new_random_numbers(folder, gpu):
    text = TRAIN.replace(
        'layer { name: "loss"', 'layer { name: "drop" type: "Dropout" bottom: "ip" top: "drop" }\nlayer { name: "loss"'
    )
    (folder / "train.prototxt").write_text(text)

    def passes(net, count):
        actual = []
        for _ in range(count):
            net.forward()
            actual.append([net.blobs["data"].data.copy(), net.blobs["drop"].data != 0])
        return actual

    net = caffelite.Net("train.prototxt", caffelite.TRAIN, gpu=gpu, seed=3)
    first = passes(net, 3)
    assert not any(np.array_equal(a, b) for i in (0, 1) for a, b in zip(first[i], first[i + 1], strict=True))
    again = passes(caffelite.Net("train.prototxt", caffelite.TRAIN, gpu=gpu, seed=3), 3)
    net.iteration = 0
    for other in (again, passes(net, 3)):
        for x, y in zip(first, other, strict=True):
            np.testing.assert_array_equal(x[0], y[0])
            np.testing.assert_array_equal(x[1], y[1])


FILTER = """
layer { name: "x" type: "Input" top: "x" top: "take" input_param { shape { dim: 4 dim: 2 } shape { dim: 4 dim: 1 } } }
layer { name: "filter" type: "Filter" bottom: "x" bottom: "take" top: "kept" }
layer { name: "twice" type: "Power" bottom: "kept" top: "twice" power_param { scale: 2 } }
"""


def test_shapes_behind_a_filter_follow_the_data(folder, gpu):
    (folder / "filter.prototxt").write_text(FILTER)
    net, x = caffelite.Net("filter.prototxt", gpu=gpu), np.arange(8.0).reshape(4, 2)
    for take in ([0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]):
        kept = x[np.array(take, bool)]
        np.testing.assert_array_equal(net.forward(x=x, take=np.reshape(take, (4, 1)))["twice"], 2 * kept)
        assert net.blobs["kept"].shape == kept.shape and net.blobs["twice"].num == len(kept)


SOLVED = """
layer { name: "data" type: "MemoryData" top: "data" top: "label"
  memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 1
  weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def test_a_solver_s_nets_keep_every_blob(folder, gpu, seed):
    (folder / "train.prototxt").write_text(SOLVED)
    text = (folder / "solver.prototxt").read_text() + " test_iter: 1 test_interval: 100 test_initialization: false"
    (folder / "solver.prototxt").write_text(text)
    solver = caffelite.Solver("solver.prototxt", gpu=gpu)
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(2, 1, 2, 2)).astype("f4"), np.array([1, 0], "f4")
    for net in (solver.net, *solver.test_nets):
        net.set_input_arrays(x, labels)
    test = solver.test_nets[0]
    test.forward()
    solver.step(1)
    for net in (solver.net, test):
        np.testing.assert_array_equal(net.blobs["data"].data, x)
        np.testing.assert_array_equal(net.blobs["label"].data, labels)
        assert net.blobs["conv"].data.min() == 0 and net.blobs["ip"].shape == (2, 2)
    test.forward()
    (w, b), (v, c) = ([blob.data.astype("f8") for blob in solver.net.params[name]] for name in ("conv", "ip"))
    conv = np.maximum(np.einsum("mcij,nchw->nmhw", w, x) + b.reshape(-1, 1, 1), 0)
    np.testing.assert_allclose(test.blobs["conv"].data, conv, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(test.blobs["ip"].data, conv.reshape(2, -1) @ v.T + c, rtol=1e-5, atol=1e-6)


def test_weights_that_were_looked_at_do_not_come_back(folder, gpu):
    """On a GPU what was looked at is a copy, which no later pass may take for a change."""
    caffelite.Net("deploy.prototxt", seed=2).save("other.caffemodel")
    net = caffelite.Net("deploy.prototxt", gpu=gpu, seed=1)
    first = net.params["ip"][0].data.copy()
    net.copy_from("other.caffemodel")
    net.forward()
    other = net.params["ip"][0].data
    assert not np.array_equal(other, first)
    np.testing.assert_array_equal(other, caffelite.Net("deploy.prototxt", seed=2).params["ip"][0].data)
    other[...] = 7
    net.save("changed.caffemodel")
    assert (caffelite.Net("deploy.prototxt", "changed.caffemodel").params["ip"][0].data == 7).all()


def test_a_solver_trains_on_from_weights_set_by_hand(folder, gpu):
    text = (folder / "solver.prototxt").read_text() + " test_iter: 1 test_interval: 100 test_initialization: false"
    (folder / "solver.prototxt").write_text(text)
    solver = caffelite.Solver("solver.prototxt", gpu=gpu)
    test = solver.test_nets[0]
    before = test.params["ip"][0].data.copy()
    solver.step(2)
    test.forward()
    after = solver.net.params["ip"][0].data
    assert not np.array_equal(after, before)
    np.testing.assert_array_equal(test.params["ip"][0].data, after)
    test.params["ip"][0].data[...] = 0.5
    solver.snapshot()
    assert (caffelite.Net("train.prototxt", "run_iter_2.caffemodel").params["ip"][0].data == 0.5).all()


@pytest.mark.parametrize(
    ("arguments", "weights", "phase"),
    [
        ((caffelite.TEST,), False, "TEST"),
        ((caffelite.TRAIN,), False, "TRAIN"),
        (("w.caffemodel", caffelite.TRAIN), True, "TRAIN"),
        ((caffelite.TRAIN, "w.caffemodel"), True, "TRAIN"),
        (("w.caffemodel",), True, "TEST"),
        ((None, caffelite.TRAIN), False, "TRAIN"),
    ],
)
def test_phase_and_weights_may_be_positional(folder, arguments, weights, phase):
    caffelite.Net("deploy.prototxt", seed=9).save("w.caffemodel")
    (folder / "phases.prototxt").write_text(
        DEPLOY
        + """
      layer { name: "d" type: "Silence" bottom: "out" include { phase: TRAIN } }"""
    )
    net = caffelite.Net("phases.prototxt", *arguments)
    assert net.outputs == ([] if phase == "TRAIN" else ["out"])
    stored = caffelite.Net("deploy.prototxt", seed=9).params["ip"][0].data
    assert np.array_equal(net.params["ip"][0].data, stored) == weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("w", "x"), "Net: a wrong argument; expected the path of a caffemodel and a phase"),
        ((1, 0), "a wrong argument"),
        ((5,), "Net: a wrong phase; expected caffelite.TRAIN or caffelite.TEST, found 5"),
        ((3.5,), "a wrong argument"),
    ],
)
def test_wrong_arguments(folder, arguments, message):
    with pytest.raises(CaffeliteError, match=message):
        caffelite.Net("deploy.prototxt", *arguments)
