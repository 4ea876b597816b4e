"""Random nets, and the comparison of their numbers with and without shared memory."""

import random
from dataclasses import replace

import numpy as np
import textnet
from textnet import bind, feed, inputs, run

from caffelite.devices.cpu import CPU
from caffelite.devices.traits import cpu_traits
from caffelite.net import packing
from caffelite.net.compile import CompiledNet, Options, compile
from caffelite.net.graph import Graph

FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'
SHAPE = (2, 3, 4, 4)
SUMMING = replace(cpu_traits(dtype="float64", onednn=False), sums_gradients=True)
ACTIVATIONS = ("ReLU", "Sigmoid", "TanH", "Dropout", "leaky", "contrary")


def planned(graph: Graph, traits=cpu_traits(onednn=False), **options) -> CompiledNet:  # noqa: B008
    return compile(graph, traits, Options(**options))


def layer(name: str, kind: str, bottoms: list[str], top: str, more: str = "") -> str:
    """A layer's text; "leaky" and "contrary" are ReLUs with a slope above and below 0."""
    slope = {"leaky": "0.25", "contrary": "-0.5"}.get(kind)
    body = {
        "Convolution": f"convolution_param {{ num_output: 3 kernel_size: 3 pad: 1 {FILL} }}",
        "InnerProduct": f"inner_product_param {{ num_output: 48 {FILL} }}",
        "Pooling": "pooling_param { kernel_size: 3 stride: 1 pad: 1 }",
    }.get(kind, f"relu_param {{ negative_slope: {slope} }}" if slope else "")
    return textnet.layer("ReLU" if slope else kind, *bottoms, body=f"{body} {more}", tops=top, name=name)


def random_net(seed: int, stops: bool = True) -> str:
    """A net of up to a dozen layers: chains, fan-outs, in-place requests, views, shared weights, several losses,
    weights on inner tops."""
    rng = random.Random(seed)
    text = inputs(data=SHAPE, t4=SHAPE, t2=(2, 48), label=(2,))
    blobs = {"data": 4}  # name → axes
    shared = 'param { name: "shared" } param { name: "shared_bias" }'
    for i in range(rng.randint(4, 12)):
        bottom = rng.choice(list(blobs)[-4:])
        alike = [name for name in list(blobs)[-6:] if blobs[name] == blobs[bottom]]
        if i and rng.random() < 0.25:  # a sum, perhaps of a blob with itself
            bottoms = [bottom, *rng.choices(alike, k=rng.randint(1, 2))]
            coeff = "" if rng.random() < 0.7 else "eltwise_param { " + "coeff: 0.5 " * (len(bottoms) - 1) + "coeff: 1 }"
            text += layer(f"l{i}", "Eltwise", bottoms, f"b{i}", coeff)
            blobs[f"b{i}"] = blobs[bottom]
            continue
        kinds = ["InnerProduct", "Flatten", *ACTIVATIONS, *ACTIVATIONS]
        kinds += ["Convolution", "Convolution", "Pooling"] if blobs[bottom] == 4 else []
        kind = rng.choice(kinds) if i else "Convolution"
        in_place = kind in ACTIVATIONS and bottom != "data" and rng.random() < 0.6
        top = bottom if in_place else f"b{i}"
        more = shared if kind == "Convolution" and rng.random() < 0.4 else ""
        more += " loss_weight: 0.125" if rng.random() < 0.15 else ""
        more += " propagate_down: false" if rng.random() < 0.06 and stops else ""
        text += layer(f"l{i}", kind, [bottom], top, more)
        blobs[top] = 2 if kind in ("InnerProduct", "Flatten") else blobs[bottom]
    names = [b for b in blobs if b != "data"]
    for i, name in enumerate(rng.sample(names, min(len(names), rng.randint(1, 3)))):
        if blobs[name] == 2 and rng.random() < 0.5:
            text += layer(f"loss{i}", "SoftmaxWithLoss", [name, "label"], f"loss{i}", "loss_weight: 0.5")
        else:
            weight = rng.choice(["", "loss_weight: 3"])
            text += layer(f"loss{i}", "EuclideanLoss", [name, f"t{blobs[name]}"], f"loss{i}", weight)
    return ("force_backward: true\n" if rng.random() < 0.2 else "") + text


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "data": rng.normal(size=SHAPE),
        "t4": rng.normal(size=SHAPE),
        "t2": rng.normal(size=(2, 48)),
        "label": rng.integers(0, 48, 2),
    }


def results(text: str, rounds: int = 2, **options) -> dict[str, np.ndarray]:
    """Loss, outputs, parameter gradients and the gradients of fed blobs after some passes, with memory that starts as
    garbage."""
    net = bind(text, seed=3, **options)
    feeds = {v for n in net.graph.feeds for v in n.tops}
    for value, array in net.data.items():
        if value not in feeds and not any(
            value is v or net.compiled.data[value] is net.compiled.data[v] for v in feeds
        ):
            array[...] = np.nan
    feed(net, **arrays(5))
    for iteration in range(rounds):
        loss = run(net, iteration)
    actual = {"loss": np.array(loss), "diff": net.params.diff.copy() if net.params.diff is not None else np.zeros(0)}
    actual |= {f"output {v.name}": values for v, _, values in net.outputs()}
    return actual | {f"gradient of {v.name}": net.diff[v].copy() for v in feeds if v in net.diff}


def assert_sound(made: CompiledNet) -> None:
    """No two storages that are alive at one time share a byte, and every value and gradient has one."""
    storages = {id(s): s for table in (made.data, made.diff) for s in table.values()}
    storages |= {id(s): s for names in made.saved.values() for s in names.values()}
    storages |= {id(s): s for step in made.backward for s in step.partial.values()}
    storages |= {id(s): s for step in made.backward for parts in step.sums.values() for s in parts}
    placed = [s for s in storages.values() if not s.constant]
    assert all(s.offset >= 0 and s.offset % packing.ALIGN == 0 and s.offset + s.bytes <= made.arena for s in placed)
    for i, a in enumerate(placed):
        for b in placed[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert not (together and a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes)
    for node in made.graph.nodes:
        assert all(v in made.data for v in node.tops)
        assert all(v in made.diff for v in node.tops if v.gradient)


class Summing(CPU):
    """A CPU for which gradients are summed as for a GPU."""

    def __init__(self, dtype: str):
        super().__init__(dtype)
        self.traits = replace(self.traits, sums_gradients=True)


def assert_same(text: str) -> None:
    roomy = results(text, keep=True, fuse=False)
    for dev in (None, Summing("float64")):
        packed = results(text, dev=dev)
        assert packed.keys() == roomy.keys()
        for name, values in roomy.items():
            assert np.isfinite(values).all(), name
            np.testing.assert_allclose(
                packed[name], values, rtol=1e-13 if dev else 0, atol=1e-14 if dev else 0, err_msg=name
            )
        assert_sound(bind(text, dev=dev).compiled)
