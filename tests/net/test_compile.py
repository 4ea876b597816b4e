"""The compile step: pure, immutable and without a device; nets run from what it returns."""

import dataclasses
from collections.abc import Mapping

import engines
import numpy as np
import pytest
from random_plans import random_net
from textnet import build, inputs, run, wired

from caffelite.devices import open_device
from caffelite.devices.traits import DeviceTraits, cpu_traits, cuda_traits
from caffelite.layers import CAFFE_FORMAT, Format, Layer, LayerConfig
from caffelite.net.compile import Options, compile
from caffelite.net.graph import Graph
from caffelite.net.layout import Rounding, Transposition
from caffelite.net.net import Net

FILL = 'weight_filler { type: "gaussian" std: 0.3 }'
TEXT = (
    inputs(data=(2, 8, 6, 6), label=(2,))
    + wired("Convolution", "data", "c1", f"num_output: 16 kernel_size: 1 {FILL}")
    + wired("BatchNorm", "c1", "n1")
    + wired("Scale", "n1", "n1", "bias_term: true", name="s1")
    + wired("ReLU", "n1", "n1", name="r1")
    + wired("Convolution", "n1", "c2", f"num_output: 16 kernel_size: 1 {FILL}")
    + wired("ReLU", "c2", "c2", "negative_slope: 0.5", name="r2")
    + wired("Eltwise", "n1 c2", "e")
    + wired("Concat", "e c1", "cat")
    + wired("Pooling", "cat", "p", "kernel_size: 2 stride: 2")
    + wired("InnerProduct", "p", "ip", f"num_output: 5 {FILL}")
    + wired("SoftmaxWithLoss", "ip label", "loss")
)
TRAITS = {
    "cpu": cpu_traits(),
    "cpu without oneDNN": cpu_traits(onednn=False),
    "cpu bf16": cpu_traits("bf16"),
    "float64": cpu_traits(dtype="float64"),
    "gpu tf32": dataclasses.replace(cuda_traits(), little_work=0),
    "gpu fp32": cuda_traits("fp32"),
    "gpu fp16": cuda_traits("fp16"),
    "gpu bf16": cuda_traits("bf16"),
}


def snapshot(graph: Graph) -> list:
    """All that a graph, its nodes, values, parameters and layers have, by identity where it is one of these."""
    parts = [graph, *graph.parameters]
    for node in graph.nodes:
        parts += [node, *node.tops, *node.params, node.layer]
    known = {id(part): i for i, part in enumerate(parts)}

    def frozen(value: object) -> object:
        if id(value) in known:
            return "part", known[id(value)]
        if isinstance(value, (list, tuple)):
            return type(value).__name__, [frozen(v) for v in value]
        if isinstance(value, Mapping):
            return [(frozen(k), frozen(v)) for k, v in value.items()]
        return repr(value)

    return [{name: frozen(value) for name, value in vars(part).items()} for part in parts]


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_compiling_changes_neither_graph_nor_layers(phase):
    graph = build(TEXT, phase)
    before = snapshot(graph)
    for traits in TRAITS.values():
        for options in (Options(), Options(fuse=False), Options(keep=True)):
            compile(graph, traits, options)
            assert snapshot(graph) == before
    assert all(node.layer.config == LayerConfig() for node in graph.nodes)


def test_random_nets_compile_without_changes():
    for seed in range(20):
        graph = build(random_net(seed))
        before = snapshot(graph)
        for traits in (cpu_traits(), cuda_traits("fp16")):
            compile(graph, traits)
        assert snapshot(graph) == before, seed


def test_compiling_again_gives_the_same():
    graph = build(TEXT)
    for name, traits in TRAITS.items():
        first, second = (compile(graph, traits) for _ in range(2))
        assert snapshot(first.graph) == snapshot(second.graph), name
        assert (first.arena, first.constant_bytes) == (second.arena, second.constant_bytes)
        steps = [[(s.node.name, [n.name for n in s.fused]) for s in (*c.forward, *c.backward)] for c in (first, second)]
        assert steps[0] == steps[1]
        offsets = [[(v.name, s.offset) for v, s in (*c.data.items(), *c.diff.items())] for c in (first, second)]
        assert offsets[0] == offsets[1]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("cpu", Format(True)),
        ("cpu without oneDNN", CAFFE_FORMAT),
        ("cpu bf16", Format(True, "bfloat16")),
        ("gpu tf32", Format(True)),
        ("gpu fp32", CAFFE_FORMAT),
        ("gpu fp16", Format(True, "float16")),
        ("gpu bf16", Format(True, "bfloat16")),
    ],
)
def test_images_have_the_format_that_a_device_prefers(name, form):
    compiled = compile(build(TEXT), TRAITS[name])
    formats = {v.name: v.format for source, v in compiled.values.items() if len(source.shape) == 4}
    assert formats == {"data": CAFFE_FORMAT, **dict.fromkeys(("c1", "n1", "c2", "e", "cat", "p"), form)}
    inserted = {type(node.layer) for node in compiled.graph.nodes if node.layer_index < 0}
    expected = {Transposition} if form.channels_last else set()
    assert inserted == (expected | {Rounding} if form.dtype else expected)
    assert all(node.layer.config.traits == TRAITS[name] for node in compiled.graph.nodes if node.layer_index >= 0)


def compiled_layer(traits: DeviceTraits, name: str) -> Layer:
    compiled = compile(build(TEXT), traits)
    return next(node.layer for node in compiled.graph.nodes if node.name == name)


def saved(traits: DeviceTraits, name: str) -> set[str]:
    compiled = compile(build(TEXT), traits)
    return next({*blobs} for node, blobs in compiled.saved.items() if node.name == name)


def test_a_gpu_is_predicted_without_one():
    """What a GPU decides otherwise than a CPU: scales fused, slices of concatenations, early gradients."""
    gpu, cpu = TRAITS["gpu bf16"], TRAITS["cpu"]
    norm, convolution = (compiled_layer(gpu, name) for name in ("n1", "c2"))
    assert norm.with_scale and not norm.with_sum and norm.slope == 0
    assert convolution.slope == 0.5 and convolution.fuses_backward()
    assert saved(gpu, "loss") == {"prob", "gradient"} and saved(cpu, "loss") == {"prob"}
    for traits in (gpu, cpu):  # both sum gradients where they are read
        compiled = compile(build(TEXT), traits)
        assert not compiled.adds_gradients and any(step.parts or step.sums for step in compiled.backward)


def test_half_images_take_less_memory():
    full, half = (compile(build(TEXT), TRAITS[name], Options(keep=True)).arena for name in ("gpu tf32", "gpu fp16"))
    assert half < 0.8 * full


def test_a_compiled_net_cannot_change():
    compiled = compile(build(TEXT), cuda_traits("fp16"))
    node = compiled.graph.nodes[0]
    for part, name in (
        (compiled.graph, "nodes"),
        (node, "layer"),
        (node.tops[0], "shape"),
        (compiled.graph.parameters[0], "lr_mult"),
        (compiled.forward[0], "fused"),
        (compiled.backward[0], "partial"),
        (compiled.data[node.tops[0]], "offset"),
        (compiled, "arena"),
        (compiled.traits, "kind"),
        (node.layer.config, "format"),
    ):
        with pytest.raises(AttributeError):
            setattr(part, name, None)
    for table in (compiled.data, compiled.diff, compiled.saved, compiled.nodes, compiled.graph.values):
        with pytest.raises(TypeError):
            table[None] = None
    for sequence in (compiled.graph.nodes, node.tops, node.tops[0].readers, compiled.forward, compiled.starts):
        assert isinstance(sequence, tuple)


def outputs(net: Net) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    loss = run(net, data=rng.normal(size=(2, 8, 6, 6)), label=np.array([1, 4]))
    return [np.array(loss), *(np.array(d) for d in net.params.diffs)]


def test_two_nets_of_one_compiled_net_share_nothing():
    compiled, dev = compile(build(TEXT), open_device().traits), open_device()
    before = snapshot(compiled.graph)
    first, second = (Net(compiled, dev, seed=3) for _ in range(2))
    expected = outputs(first)
    second.params.data[...] = 0
    for array in second.data.values():
        array[...] = 0
    np.testing.assert_equal(outputs(first), expected)
    assert snapshot(compiled.graph) == before
    layers = [{id(node.layer) for node in graph.nodes} for graph in (first.graph, second.graph, compiled.graph)]
    assert len(set.union(*layers)) == sum(map(len, layers))


@pytest.mark.host
def test_one_graph_runs_on_several_devices():
    """In the layout and dtype of each."""
    graph, actual = build(TEXT), []
    before = snapshot(graph)
    for dev in (engines.without_onednn(), engines.with_onednn(), engines.Host(), open_device(None, "float64")):
        actual.append(outputs(Net(compile(graph, dev.traits), dev, seed=3)))
    assert snapshot(graph) == before
    for others in actual[1:]:
        for one, other in zip(actual[0], others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("operation", ["SUM", "PROD", "MAX"])
def test_a_fused_relu_changes_no_result(operation):
    text = inputs(a=(3, 4), b=(3, 4)) + wired("Eltwise", "a b", "c", f"operation: {operation}")
    graph = build(text + wired("ReLU", "c", "c", name="relu") + wired("EuclideanLoss", "c b", "loss"))
    arrays = dict(zip("ab", np.random.default_rng(1).normal(size=(2, 3, 4)), strict=True))
    dev, results = open_device(), []
    for fuse in (True, False):
        net = Net(compile(graph, dev.traits, Options(fuse=fuse)), dev)
        results.append(run(net, **arrays))
    assert results[0] == pytest.approx(results[1], rel=1e-6)


@pytest.mark.host
def test_mean_of_a_chunk_of_a_concatenation():
    """Whose numbers do not follow each other in memory."""
    text = inputs(data=(2, 16, 6, 6))
    for name in ("a", "b"):
        text += wired("Convolution", "data", name, f"num_output: 16 kernel_size: 1 {FILL}")
    dev = engines.Host()
    net = Net(compile(build(text + wired("Concat", "a b", "c"), "TEST"), dev.traits), dev, seed=3)
    net.set_inputs(data=np.random.default_rng(1).normal(size=(2, 16, 6, 6)))
    net.forward()
    chunk = next(array for value, array in net.data.items() if value.name == "b")
    assert not chunk.flags.c_contiguous
    assert net.mean_abs(chunk) == pytest.approx(np.abs(net.blobs["b"]).mean(), rel=1e-6)
