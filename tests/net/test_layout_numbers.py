"""Nets whose blobs are channels_last give the numbers, shapes and order of Caffe's layout."""

import functools

import engines
import numpy as np
import pytest
from test_layout import CHAIN, DATA, FILL, convolution, pooling
from textnet import bind, build, feed, forward, inputs, run, wired
from turns import in_turns

import caffelite
from caffelite import caffelite_pb2 as pb

# What users see

SHOWN = CHAIN + wired("Softmax", "c2", "prob") + convolution("c2", "c3")


@pytest.fixture(params=engines.ENGINES)
def dev(request):
    return engines.channels_last(request.param)


@pytest.mark.parametrize("keep", [False, True])
def test_outputs_and_blobs_are_in_caffes_order(dev, seed, keep):
    data = np.random.default_rng(seed).normal(size=DATA)
    nets = [bind(SHOWN, "TEST", dev=d, keep=keep) for d in (dev, engines.without_onednn())]
    for net in nets:
        forward(net, data=data)
    last, plain = nets
    names = set(plain.graph.values) if keep else {v.name for v in plain.graph.outputs}
    assert names >= {"c3", "prob"}
    for name in names:
        assert last.blobs[name].shape == plain.blobs[name].shape
        close(last.blobs[name], plain.blobs[name])
    assert [(v.name, v.shape, w) for v, w, _ in last.outputs()] == [(v.name, v.shape, w) for v, w, _ in plain.outputs()]
    for (_, _, actual), (_, _, expected) in zip(last.outputs(), plain.outputs(), strict=True):
        close(actual, expected)


def test_the_notebooks_blobs_are_in_caffes_order(tmp_path, seed):
    """Through caffelite.Net: blobs, what forward and backward return, and gradients, as without oneDNN."""
    rng = np.random.default_rng(seed)
    path = tmp_path / "net.prototxt"
    path.write_text("force_backward: true\n" + SHOWN)
    engines.with_onednn()
    data, actual = rng.normal(size=DATA).astype(np.float32), {}
    for engine in ("onednn", "plain"):
        with engines.chosen("0" if engine == "plain" else None):
            net = caffelite.Net(path, phase=pb.TEST, seed=1)
        tops = net.forward(data=data)
        slopes = net.backward(
            **{name: np.cos(np.arange(top.size)).reshape(top.shape).astype(np.float32) for name, top in tops.items()}
        )
        blobs = {
            name: (b.shape, b.data.copy(), None if b.diff is None else b.diff.copy()) for name, b in net.blobs.items()
        }
        actual[engine] = tops, slopes, blobs
    for mine, plain in zip(actual["onednn"][:2], actual["plain"][:2], strict=True):
        assert list(mine) == list(plain)
        for name, values in plain.items():
            close(mine[name], values)
    mine, plain = actual["onednn"][2], actual["plain"][2]
    assert list(mine) == list(plain)
    for name, (shape, values, slopes) in plain.items():
        assert mine[name][0] == shape == mine[name][1].shape, name
        close(mine[name][1], values)
        close(mine[name][2], slopes)


def test_what_a_notebook_writes_into_a_blob_is_read(tmp_path, seed):
    """An inner blob's array, in Caffe's order, is the net's own memory on a CPU."""
    engines.with_onednn()
    path = tmp_path / "net.prototxt"
    path.write_text(CHAIN)
    net = caffelite.Net(path, phase=pb.TEST, seed=1)
    net.forward(data=np.random.default_rng(seed).normal(size=DATA).astype(np.float32))
    value = net.blobs["c1"].data[1, 2, 3, 4]
    net.blobs["c1"].data[1, 2, 3, 4] = value + 1
    assert net.blobs["c1"].data[1, 2, 3, 4] == value + 1


# The numbers of the plain layout


def close(found, expected):
    """Within 1e-5 of the largest; no NaN hides anything."""
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * max(1, float(np.abs(expected).max())))


SILENT = {
    "places": wired("Silence", "places", "", name="silence"),
    "rest": wired("Silence", "rest", "", name="silence"),
}
LEARN = f"bias_term: true {FILL.replace('weight_filler', 'filler')}"
MORE = convolution("data", "d1")  # another of c1's shape
BETWEEN = {  # what stands between two convolutions: it reads c1 (8 channels, of data) and makes m
    "grouped": convolution("c1", "m", "kernel_size: 3 pad: 1 group: 2"),
    "depthwise": convolution("c1", "m", "kernel_size: 3 pad: 1 group: 8"),
    "dilated": convolution("c1", "m", "kernel_size: 3 pad: 2 dilation: 2", 5),
    "strided": convolution("c1", "m", "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 3 pad_h: 1 pad_w: 0", 5),
    "unbiased": convolution("c1", "m", "kernel_size: 1 bias_term: false", 17),
    "of two bottoms": MORE + convolution("c1 d1", "a b", "kernel_size: 2", 3) + wired("Eltwise", "a b", "m"),
    "shared": convolution("c1", "a").replace("{ name", '{ param { name: "w" } param { name: "b" } name')
    + convolution("a", "m").replace("{ name", '{ param { name: "w" } param { name: "b" } name'),
    "ReLU fused": convolution("c1", "c") + wired("ReLU", "c", "m"),
    "ReLU in place": wired("ReLU", "c1", "c1", name="relu") + convolution("c1", "m"),
    "leaky ReLU fused": convolution("c1", "c", "kernel_size: 2") + wired("ReLU", "c", "m", "negative_slope: 0.1"),
    "ReLU by itself": wired("AbsVal", "c1", "p") + wired("ReLU", "p", "m"),
    "MAX": pooling("c1", "m", "kernel_size: 3 stride: 2 pad: 1"),
    "MAX beyond the image": pooling("c1", "m", "kernel_size: 2 stride: 2"),
    "MAX of all": pooling("c1", "m", "global_pooling: true"),
    "MAX with places": pooling("c1", "m places", "kernel_size: 2 stride: 2") + SILENT["places"],
    "MAX of whole windows": pooling("c1", "m", "kernel_size: 2 stride: 2 round_mode: FLOOR"),
    "AVE of whole windows": pooling("c1", "m", "pool: AVE kernel_size: 2 stride: 2 round_mode: FLOOR"),
    "AVE beyond the pad": pooling("c1", "m", "pool: AVE kernel_size: 3 stride: 3 pad: 1"),
    "AVE": pooling("c1", "m", "pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    "AVE beyond the image": pooling("c1", "m", "pool: AVE kernel_h: 4 kernel_w: 2 stride: 3"),
    "MAX of a kernel larger than the image": pooling("c1", "g", "global_pooling: true")
    + pooling("g", "m", "kernel_size: 2 stride: 2"),
    "AVE of a kernel larger than the image": pooling("c1", "g", "pool: AVE global_pooling: true")
    + pooling("g", "m", "pool: AVE kernel_size: 3 stride: 2 pad: 1"),
    "AVE of all": pooling("c1", "m", "pool: AVE global_pooling: true"),
    "STOCHASTIC": wired("Sigmoid", "c1", "s") + pooling("s", "m", "pool: STOCHASTIC kernel_size: 2 stride: 2"),
    "LRN": wired("LRN", "c1", "m", "local_size: 5 alpha: 0.5 beta: 0.75"),
    "LRN to another power": wired("LRN", "c1", "m", "local_size: 3 alpha: 0.5 beta: 0.6 k: 2"),
    "LRN within channels": wired("LRN", "c1", "m", "local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL"),
    "BatchNorm": wired("BatchNorm", "c1", "m"),
    "BatchNorm, Scale, ReLU in place": wired("BatchNorm", "c1", "c1", name="norm")
    + wired("Scale", "c1", "c1", f"{LEARN}", name="scale")
    + wired("ReLU", "c1", "m"),
    "BatchNorm by stored moments": wired("BatchNorm", "c1", "m", "use_global_stats: true"),
    "BatchNorm by stored moments, ReLU": wired("BatchNorm", "c1", "b", "use_global_stats: true")
    + wired("ReLU", "b", "m"),
    "BatchNorm that learns, leaky ReLU": wired("BatchNorm", "c1", "b", "scale_bias: true")
    + wired("ReLU", "b", "m", "negative_slope: 0.3"),
    "BatchNorm that learns": wired("BatchNorm", "c1", "m", "scale_bias: true"),
    "BatchNorm that learns, stored": wired("BatchNorm", "c1", "m", "scale_bias: true use_global_stats: true"),
    "BatchNorm that learns a scale": wired("BatchNorm", "c1", "m", "scale_bias: true bias_term: false"),
    "Scale": wired("Scale", "c1", "m"),
    "Scale with bias": wired("Scale", "c1", "m", f"{LEARN}"),
    "Scale of two axes": wired("Scale", "c1", "m", "num_axes: 2"),
    "Scale by a blob": MORE + wired("Scale", "c1 d1", "m", "axis: 0"),
    "Bias": wired("Bias", "c1", "m"),
    "Bias by a blob": MORE + wired("Bias", "c1 d1", "m", "axis: 0"),
    "PReLU": wired("PReLU", "c1", "m"),
    "PReLU of one slope": wired("PReLU", "c1", "m", "channel_shared: true"),
    "SUM": MORE + wired("Eltwise", "c1 d1", "m", "coeff: 0.5 coeff: -2"),
    "PROD": MORE + wired("Eltwise", "c1 d1", "m", "operation: PROD"),
    "MAX of blobs": MORE + wired("Eltwise", "c1 d1", "m", "operation: MAX"),
    "SUM with a plain blob": convolution("c1", "d6", outputs=6)
    + wired("AbsVal", "data", "p")
    + wired("Eltwise", "p d6", "m"),
    "Concat": MORE + pooling("c1", "p", "kernel_size: 3 stride: 1 pad: 1") + wired("Concat", "c1 d1 p data", "m"),
    "Concat of images": MORE + wired("Concat", "c1 d1", "m4", "axis: 0") + wired("Slice", "m4", "m m5", "axis: 0"),
    "Slice": wired("Slice", "c1", "a b c", "slice_point: 1 slice_point: 4")
    + wired("Sigmoid", "a", "d")
    + wired("Concat", "c d b", "m"),
    "Slice, half unread": wired("Slice", "c1", "m rest") + SILENT["rest"],
    "Softmax": wired("Softmax", "c1", "m"),
    "MVN": wired("MVN", "c1", "m"),
    "Deconvolution": wired("Deconvolution", "c1", "m", f"num_output: 4 kernel_size: 2 stride: 2 {FILL}"),
    "Dropout": wired("Dropout", "c1", "m"),
    "Dropout of nothing": wired("Dropout", "c1", "m", "dropout_ratio: 0"),
    "Reshape": wired("Reshape", "c1", "m", "shape { dim: 0 dim: 4 dim: -1 dim: 7 }"),
    "fan-out to both layouts": convolution("c1", "a", "kernel_size: 1")
    + wired("Softmax", "c1", "b")
    + pooling("c1", "c", "kernel_size: 3 stride: 1 pad: 1")
    + wired("MVN", "c1", "d")
    + wired("Eltwise", "a b c d c1", "m"),
    **{
        k: wired(k, "c1", "m") for k in ("Sigmoid", "TanH", "ELU", "AbsVal", "BNLL", "Log", "Power", "Exp", "Threshold")
    },
}
BETWEEN["Log"] = BETWEEN["Log"].replace('"Log"', '"Log" log_param { scale: 0.001 shift: 3 }')


def open_engine(engine: str):
    if engine == "plain":
        return engines.without_onednn()
    if engine == "bf16":
        return engines.with_onednn("bf16")
    return engines.Host(engine.split()[1]) if " " in engine else engines.channels_last(engine)


def sandwich(between: str) -> str:
    text = "force_backward: true\n" + inputs(data=DATA) + convolution("data", "c1") + between
    text += convolution("m", "c2", "kernel_size: 1", 3)
    shape = build(text).values["c2"].shape
    return text + inputs(target=shape) + wired("EuclideanLoss", "c2 target", "loss")


@functools.cache  # several tests compare with the same net
def numbers(text: str, engine: str, phase: str, seed: int, **options) -> dict[str, np.ndarray]:
    """Loss, outputs, gradients of parameters and of the data after two passes, with random parameters. engine: one of
    ENGINES, "plain" (Caffe's layout), "bf16" (oneDNN's), or "host fp16", "host bf16"."""
    dev = open_engine(engine)
    rng = np.random.default_rng(seed)
    net = bind(text, phase, dev=dev, **options)
    for parameter, blob in zip(net.graph.parameters, net.params.blobs, strict=True):
        values = rng.normal(size=blob.shape) * 0.5
        moments = parameter.node.layer.spec.type == "BatchNorm" and parameter.index < 3
        dev.upload(blob, abs(values) + 0.5 if moments else values)
    feed(net, data=rng.normal(size=DATA), target=rng.normal(size=net.graph.values["target"].shape))
    actual = {"loss": sum(run(net, i) for i in range(2))}
    if (data := net.graph.values["data"]) in net.diff:
        actual["data'"] = net.diff[data].copy()
    actual |= {f"output {v.name}": a for v, _, a in net.outputs()}
    for parameter, data, diff in zip(net.graph.parameters, net.params.blobs, net.params.diffs, strict=True):
        actual |= {f"{parameter.label}": data.copy(), f"{parameter.label}'": diff.copy()}
    if options.get("keep"):
        actual |= {f"blob {name}": array.copy() for name, array in net.blobs.items()}
    return actual


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "engine"), [*((case, "onednn") for case in BETWEEN), *in_turns(BETWEEN, ("stand-in", "host"))]
)
def test_numbers_are_those_of_the_plain_layout(seed, engine, case):
    text = sandwich(BETWEEN[case])
    for phase in ("TRAIN", "TEST") if case in ("BatchNorm", "Dropout") else ("TRAIN",):
        kept = numbers(text, "plain", phase, seed, keep=True)
        expected = {name: array for name, array in kept.items() if not name.startswith("blob ")}
        compare(numbers(text, engine, phase, seed), expected)
        compare(numbers(text, engine, phase, seed, fuse=False), expected)
        compare(numbers(text, engine, phase, seed, keep=True), kept)


def compare(found: dict, expected: dict) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.shape(found[name]) == np.shape(array), name
        close(found[name], array)


@pytest.mark.parametrize(
    "case", ["grouped", "of two bottoms", "shared", "ReLU in place", "ReLU fused", "Concat", "fan-out to both layouts"]
)
def test_numbers_of_bf16_are_those_of_every_plan(seed, case):
    """Where memory is shared, no number is corrupted."""
    text = sandwich(BETWEEN[case])
    packed, kept = (numbers(text, "bf16", "TRAIN", seed, **options) for options in ({"fuse": False}, {"keep": True}))
    compare(packed, {name: kept[name] for name in packed})


ROUGH = ("MAX", "ReLU", "Threshold", "AbsVal", "LRN")  # a rounded number may lie on the other side of a kink
FOLLOWING = [
    k for k in BETWEEN if k not in ("Softmax", "MVN", "Deconvolution", "Reshape", "PReLU of one slope", "STOCHASTIC")
]


# In turns, because each compiles kernels of its own.
@pytest.mark.slow
@pytest.mark.parametrize(("case", "engine"), in_turns(FOLLOWING, ("bf16", "host fp16", "host bf16")))
def test_numbers_of_16_bits_are_near_those_of_float32(seed, case, engine):
    """Each gradient points where float32's does."""
    if (engine, case) == ("host fp16", "Exp"):
        pytest.skip("beyond what fp16 holds")
    text = sandwich(BETWEEN[case])
    full = numbers(text, "onednn" if engine == "bf16" else "host", "TRAIN", seed)
    for options in ({}, {"fuse": False}):
        actual = numbers(text, engine, "TRAIN", seed, **options)
        assert list(actual) == list(full) and actual["loss"] != full["loss"]
        for name, expected in full.items():
            a, b = np.ravel(actual[name]).astype(np.float64), np.ravel(expected).astype(np.float64)
            if (size := np.linalg.norm(b)) > 1e-4:
                assert np.linalg.norm(a - b) < (0.2 if any(word in case for word in ROUGH) else 0.05) * size, name
