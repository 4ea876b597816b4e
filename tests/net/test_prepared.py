"""Nets that only test: layers folded into convolutions, weights that are prepared when they change, threads by work."""

import engines
import numpy as np
import pytest
from textnet import bind, build, inputs, layer, over

from caffelite.devices.cpu import CPU
from caffelite.devices.cpu.prepared import ColumnsConvolution
from caffelite.devices.traits import cpu_traits
from caffelite.layers.convolution import PreparedConvolution
from caffelite.net.compile import Options, compile


def convolution(name: str, bottom: str, outputs: int, more: str = "kernel_size: 3 pad: 1") -> str:
    filler = 'weight_filler { type: "gaussian" std: 0.3 } bias_filler { type: "uniform" min: -1 max: 1 }'
    body = f"convolution_param {{ num_output: {outputs} {more} {filler} }}"
    return layer("Convolution", bottom, body=body, tops=name, name=name)


def behind(kind: str, name: str, blob: str, more: str = "", top: str = "") -> str:
    return layer(kind, blob, body=more, tops=top or blob, name=name)


SCALE = 'scale_param { bias_term: true filler { type: "uniform" min: -2 max: 2 } bias_filler { type: "uniform" } }'
NET = (
    inputs(data=(2, 3, 13, 11))
    + convolution("plain", "data", 24, "kernel_size: 3 stride: 2")
    + behind("ReLU", "relu0", "plain")
    + convolution("normal", "plain", 32)
    + behind("BatchNorm", "moments", "normal")
    + behind("Scale", "scale", "normal", SCALE)
    + behind("ReLU", "relu1", "normal", "relu_param { negative_slope: 0.1 }")
    + convolution("deep", "normal", 32, "kernel_size: 3 pad: 1 group: 32 bias_term: false")
    + behind("BatchNorm", "moments2", "deep", top="deep2")
    + behind("PReLU", "bent", "deep2", 'prelu_param { filler { type: "uniform" min: -1 max: 1 } }')
    + convolution("point", "deep2", 70, "kernel_size: 1 bias_term: false")
    + behind("Scale", "scale2", "point", SCALE)
    + convolution("grouped", "point", 14, "kernel_size: 3 group: 7 dilation: 2 pad: 2")
    + behind("BatchNorm", "moments3", "grouped", "batch_norm_param { scale_bias: true }")
    + convolution("wide", "grouped", 5, "kernel_h: 3 kernel_w: 1 pad_h: 2 pad_w: 0 stride_h: 2 stride_w: 1")
    + behind("PReLU", "shared", "wide", "prelu_param { channel_shared: true }")
    + behind("ReLU", "last", "wide")
)


def filled(dev, **options):
    """The net with moments and inputs that are drawn, the same for all options."""
    net, rng = bind(NET, "TEST", dev=dev, **options), np.random.default_rng(3)
    for node in net.graph.nodes:
        if node.layer.spec.type == "BatchNorm":
            for param, low in zip(node.layer.params[:2], (-1, 0.5), strict=True):
                param.data[...] = rng.uniform(low, 2, param.data.shape)
            node.layer.params[2].data[...] = 2
    net.set_inputs(data=rng.standard_normal((2, 3, 13, 11)).astype(np.float32))
    return net


def output(net) -> np.ndarray:
    net.forward()
    return np.array(net.blobs["wide"])


def params(net) -> dict:
    return {node.name: node.layer.params for node in net.graph.nodes if node.layer.params}


def is_prepared(node) -> bool:
    return isinstance(node.layer, PreparedConvolution)


def of_columns(node) -> bool:
    return is_prepared(node) and isinstance(node.layer.operation.chosen, ColumnsConvolution)


def near(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.fixture(scope="module")
def dev():
    return engines.with_onednn()


def test_folded_layers_give_the_numbers_of_separate_ones(dev):
    net, separate = filled(dev), filled(dev, fuse=False)
    assert [len(step.fused) for step in net.compiled.forward if is_prepared(step.node)] == [1, 3, 2, 1, 1, 1]
    near(output(net), output(separate))


def test_a_deterministic_device_folds_and_stays_direct():
    net = filled(CPU(deterministic=True))
    near(output(net), output(filled(engines.with_onednn(), fuse=False)))
    taken = [node.layer.operation.taken for node in net.graph.nodes if is_prepared(node)]
    assert taken == [{"forward": "direct"}] * 6


@pytest.mark.parametrize("name, index", [("plain", 0), ("moments", 1), ("scale", 0), ("bent", 0), ("scale2", 1)])
def test_changed_weights_change_the_next_pass(dev, name, index):
    net, separate = filled(dev), filled(dev, fuse=False)
    before = output(net)
    for each in (net, separate):
        data = params(each)[name][index].data
        data[...] = data[::-1].copy()  # the same numbers, in another order
    after = output(net)
    assert np.abs(after - before).max() > 1e-3
    near(after, output(separate))


def test_parameters_that_are_kept_are_not_compared(dev):
    net = filled(dev)
    before = output(net)
    net.keep_parameters()
    params(net)["plain"][0].data[...] = 0
    assert (output(net) == before).all()


def test_weights_are_prepared_once_while_they_stay(dev, monkeypatch):
    net, prepared = filled(dev), []
    output(net)
    for node in net.graph.nodes:
        if is_prepared(node):
            monkeypatch.setattr(node.layer, "prepare", lambda: prepared.append(1))
    output(net)
    assert prepared == []


def test_nan_passes_a_folded_relu(dev):
    net = filled(dev)
    params(net)["normal"][1].data[3] = np.nan
    assert np.isnan(output(net)).any()


def test_only_nets_without_backward_are_prepared():
    def prepared(text, phase="TEST", **options):
        compiled = compile(build(text, phase), cpu_traits(), Options(inference=True, **options))
        return any(is_prepared(node) for node in compiled.graph.nodes)

    assert prepared(NET) and not prepared(NET, keep=True) and not prepared(NET, fuse=False)
    assert not prepared("force_backward: true\n" + NET)


@pytest.mark.parametrize("binary", [False, True])
def test_a_convolution_that_makes_its_weights_is_not_prepared(binary):
    body = "convolution_param { num_output: 8 kernel_size: 3 } "
    body += f"binary_convolution_param {{ use_binarization: {str(binary).lower()} }}"
    text = over("BinaryConvolution", body, data=(1, 3, 9, 9))
    compiled = compile(build(text, "TEST"), cpu_traits(), Options(inference=True))
    assert any(is_prepared(node) for node in compiled.graph.nodes) is not binary


def test_a_test_net_that_shares_weights_is_not_prepared(dev):
    net = bind(NET, "TEST", dev=dev, share=bind(NET, "TRAIN", dev=dev))
    assert not any(is_prepared(node) for node in net.graph.nodes)


def test_nets_of_other_batches_share_packed_weights(dev):
    text = NET.replace("dim: 2 ", "dim: 4 ")
    assert text != NET
    first = filled(dev)
    nets = first, bind(text, "TEST", dev=dev, share=first)
    for net in nets:
        net.forward()
    packed = [[node.layer.operation.chosen.packed for node in net.graph.nodes if of_columns(node)] for net in nets]
    assert len(packed[0]) == len(packed[1]) > 2
    assert all(one is other for one, other in zip(*packed, strict=True))
    params(nets[0])["plain"][0].data[...] = 1
    nets[0].forward()
    assert next(n for n in nets[0].graph.nodes if of_columns(n)).layer.operation.chosen.packed is not packed[1][0]


def test_a_test_net_has_no_memory_for_gradients(dev):
    net = filled(dev)
    assert net.params.diff is None and not net.compiled.backward and not net.compiled.diff


def test_threads_follow_from_the_work(dev):
    threads, every = dev.inference.threads, dev.threads
    assert threads(1000, 1000, 1000) == threads(1000, 1000, 400_000) == 1 < every
    assert threads(1 << 30, 1000, 1000) == threads(1000, 1 << 26, 1000) == threads(1000, 1000, 1 << 26) == every


def test_all_threads_are_active_after_a_pass(dev, monkeypatch):
    net, active = filled(dev), []
    monkeypatch.setattr(dev.inference, "limit", lambda threads: active.append(threads))
    output(net)
    assert set(active[:-1]) == {1} and active[-1] == dev.threads


def test_a_net_that_only_tests_measures_smaller_work(dev, monkeypatch):
    """As its weights are transformed once: of 3×3 convolutions of 16 to 64 channels all but those of small images."""
    met = []
    monkeypatch.setattr(dev.algorithms, "choose", lambda problem, runs: met.append(problem) or "winograd4")
    for side, times in ((8, 0), (40, 1)):
        text = inputs(data=(1, 16, side, side)) + convolution("deep", "data", 64)
        fused, separate = (bind(text, "TEST", dev=dev, fuse=fuse) for fuse in (True, False))
        for net in (fused, separate):
            net.set_inputs(data=np.random.default_rng(1).standard_normal((1, 16, side, side)).astype(np.float32))
            net.forward()
        near(fused.blobs["deep"], separate.blobs["deep"])
        assert len(met) == times


def test_small_convolutions_become_one_call(dev, monkeypatch):
    """From the second pass on, a depthwise one with a ReLU too."""
    text, joined = inputs(data=(2, 24, 9, 8)), []
    for name, below, outputs, more in (("a", "data", 32, ""), ("b", "a", 32, "group: 32"), ("c", "b", 16, "")):
        text += convolution(name, below, outputs, f"kernel_size: 3 pad: 1 {more}") + behind("ReLU", f"r{name}", name)
    build_call = dev.inference.joined
    monkeypatch.setattr(
        dev.inference, "joined", lambda calls, arena: joined.append(len(calls)) or build_call(calls, arena)
    )
    net = bind(text, "TEST", dev=dev)
    net.set_inputs(data=np.random.default_rng(1).standard_normal((2, 24, 9, 8)).astype(np.float32))
    results = []
    for _ in range(2):
        net.blobs["c"][...] = 7
        net.forward()
        results.append(net.blobs["c"].copy())
    assert 3 in joined
    np.testing.assert_array_equal(*results)
