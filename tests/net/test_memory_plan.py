"""Memory of compiled nets: packed memory gives the numbers that separate memory gives, storages in use never overlap,
and unsafe in-place requests are refused."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, build, feed, inputs, run

from caffelite import caffelite_pb2 as pb
from caffelite.devices.cpu import CPU
from caffelite.devices.cuda import GPU
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
    below = " ".join(f'bottom: "{b}"' for b in bottoms)
    return f'layer {{ name: "{name}" type: "{"ReLU" if slope else kind}" {below} top: "{top}" {body} {more} }}\n'


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
        kinds = ["InnerProduct", "Flatten", *ACTIVATIONS, *ACTIVATIONS] + (
            ["Convolution", "Convolution", "Pooling"] if blobs[bottom] == 4 else []
        )
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
            text += layer(
                f"loss{i}", "EuclideanLoss", [name, f"t{blobs[name]}"], f"loss{i}", rng.choice(["", "loss_weight: 3"])
            )
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
    found = {"loss": np.array(loss), "diff": net.params.diff.copy() if net.params.diff is not None else np.zeros(0)}
    found |= {f"output {v.name}": values for v, _, values in net.outputs()}
    return found | {f"gradient of {v.name}": net.diff[v].copy() for v in feeds if v in net.diff}


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


@pytest.mark.parametrize("block", range(6))
def test_random_nets_give_equal_numbers_packed_and_roomy(block):
    for seed in range(block * 25, block * 25 + 25):
        text = random_net(seed)
        try:
            assert_same(text)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}:\n{text}\n{error}") from None


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_random_nets_give_equal_numbers_on_a_gpus_plan(seed):
    """There a ReLU's gradient changes that of its top where it lies."""
    text = random_net(seed)
    fused, plain = (results(text, dev=GPU(0, "float64", HostBackend()), fuse=fuse) for fuse in (True, False))
    for name, values in plain.items():
        np.testing.assert_allclose(fused[name], values, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("seed", range(200, 220))
def test_random_nets_have_the_gradient_of_their_loss(seed):
    net, way = bind(random_net(seed, stops=False), seed=3), np.random.default_rng(seed)
    feed(net, **arrays(5))
    run(net)
    step = way.normal(size=net.params.size) * 1e-6
    slope, losses = 0.0 if net.params.diff is None else float(net.params.diff @ step), []
    for sign in (1, -1):
        net.params.data += sign * step
        losses.append(run(net))
        net.params.data -= sign * step
    assert (losses[0] - losses[1]) / 2 == pytest.approx(slope, rel=1e-4, abs=1e-11)


def test_random_nets_try_everything():
    plans = [planned(build(random_net(seed))) for seed in range(150)]
    assert sum(bool(p.refused_in_place) for p in plans) > 10
    assert sum(any(s.fused for s in p.forward) for p in plans) > 10
    shared = [Counter(map(id, p.diff.values())).most_common(1) for p in plans]
    assert sum(bool(most) and most[0][1] > 1 for most in shared) > 10
    assert sum(bool(s.sums) for seed in range(50) for s in planned(build(random_net(seed)), SUMMING).backward) > 10
    assert sum(any(s.partial for s in p.backward) for p in plans) > 10
    assert sum(bool(p.starts) for p in plans) > 10
    assert sum(len(p.constants) > 1 for p in plans) > 10


LOSS = layer("loss", "EuclideanLoss", ["y", "t4"], "loss")
HEAD = inputs(data=SHAPE, t4=SHAPE, t2=(2, 48)) + layer("conv", "Convolution", ["data"], "c")


# The request is for a value that a backward step still reads.
UNSAFE = {
    "sigmoid": layer("s", "Sigmoid", ["c"], "s") + layer("request", "TanH", ["s"], "s") + LOSS.replace('"y"', '"s"'),
    "tanh": layer("s", "TanH", ["c"], "s") + layer("request", "ReLU", ["s"], "s") + LOSS.replace('"y"', '"s"'),
    "relu": layer("s", "ReLU", ["c"], "s") + layer("request", "Sigmoid", ["s"], "s") + LOSS.replace('"y"', '"s"'),
    "softmax": layer("s", "Softmax", ["c"], "s") + layer("request", "TanH", ["s"], "s") + LOSS.replace('"y"', '"s"'),
    "contrary": layer("request", "contrary", ["c"], "c") + LOSS.replace('"y"', '"c"'),
    "below a convolution": layer("next", "Convolution", ["c"], "y") + layer("request", "ReLU", ["c"], "c") + LOSS,
    "read later": layer("f", "Flatten", ["c"], "f")
    + layer("request", "ReLU", ["c"], "c")
    + layer("l", "EuclideanLoss", ["f", "t2"], "l"),
    "view read later": layer("f", "Flatten", ["c"], "f")
    + layer("request", "ReLU", ["f"], "f")
    + LOSS.replace('"y"', '"c"'),
    "weighted": layer("s", "Pooling", ["c"], "s", "loss_weight: 0.5")
    + layer("request", "TanH", ["s"], "s")
    + LOSS.replace('"y"', '"s"'),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_unsafe_in_place_requests_are_refused(case):
    text = HEAD + UNSAFE[case]
    assert planned(build(text)).refused_in_place == ("request",)
    assert_same(text)
    assert planned(build(text), keep=True).refused_in_place == ()


SAFE = {
    "after a convolution": layer("request", "Sigmoid", ["c"], "c") + LOSS.replace('"y"', '"c"'),
    "dropout on a relu": layer("r", "ReLU", ["c"], "r")
    + layer("p", "Pooling", ["r"], "y")
    + layer("request", "Dropout", ["y"], "y")
    + LOSS,
    "a view": layer("f", "Flatten", ["c"], "f")
    + layer("request", "TanH", ["f"], "f")
    + layer("loss", "EuclideanLoss", ["f", "t2"], "loss"),
}


@pytest.mark.parametrize("case", SAFE)
def test_safe_in_place_requests_are_granted(case):
    text = HEAD + SAFE[case]
    made = planned(build(text), fuse=False)
    request = next(n for n in made.graph.nodes if n.name == "request")
    assert made.refused_in_place == ()
    assert made.data[request.tops[0]] is made.data[request.bottoms[0]]
    assert_same(text)


def test_what_is_fed_is_never_overwritten():
    text = (
        inputs(data=SHAPE, t4=SHAPE)
        + layer("request", "ReLU", ["data"], "data")
        + layer("conv", "Convolution", ["data"], "y")
        + LOSS
    )
    assert planned(build(text)).refused_in_place == ("request",)
    assert_same(text)


def test_what_is_filled_once_stands_while_earlier_layers_run():
    param = "dummy_data_param { num: 2 channels: 3 height: 4 width: 4 data_filler { value: 2 } }"
    dummy = f'layer {{ name: "d" type: "DummyData" top: "t" {param} }}\n'
    pools = "".join(layer(f"p{i}", "Pooling", [f"p{i - 1}"], f"p{i}") for i in range(1, 4))
    text = (
        HEAD + layer("p0", "Pooling", ["c"], "p0") + pools + dummy + layer("loss", "EuclideanLoss", ["p3", "t"], "loss")
    )
    assert_same(text)
    for phase in ("TRAIN", "TEST"):
        net = bind(text, phase)
        feed(net, **arrays(5))
        losses = [run(net) for _ in range(3)]
        assert losses[0] == losses[1] == losses[2]
        made = net.compiled
        assert not any(
            made.data[made.graph.values["t"]].offset == s.offset for v, s in made.data.items() if v.name != "t"
        )


def test_a_relu_fuses_where_it_alone_reads_a_layer_that_can():
    def fused(text: str) -> list[str]:
        return [node.name for step in planned(build(HEAD + text)).forward for node in step.fused]

    assert fused(layer("r", "ReLU", ["c"], "c") + LOSS.replace('"y"', '"c"')) == ["r"]
    assert fused(layer("r", "leaky", ["c"], "y") + LOSS) == ["r"]
    assert fused(layer("r", "contrary", ["c"], "y") + LOSS) == []
    assert fused(layer("r", "ReLU", ["c"], "y") + layer("s", "Pooling", ["c"], "p") + LOSS) == []
    assert fused(layer("p", "Pooling", ["c"], "p") + layer("r", "ReLU", ["p"], "y") + LOSS) == []


def test_views_with_fan_out():
    flats = layer("f", "Flatten", ["c"], "f") + layer("g", "Flatten", ["c"], "g") + layer("h", "Flatten", ["f"], "h")
    loss = "".join(
        layer(f"loss_{b}", "EuclideanLoss", [b, "t2"], f"loss_{b}", f"loss_weight: {w}")
        for b, w in (("f", 1), ("g", 2), ("h", 4))
    )
    text = HEAD + flats + loss
    made = planned(build(text))
    assert len({id(made.data[v]) for v in made.data if v.name in "cfgh"}) == 1
    assert_same(text)
    single = (
        HEAD + layer("f", "Flatten", ["c"], "f") + layer("loss", "EuclideanLoss", ["f", "t2"], "loss", "loss_weight: 7")
    )
    np.testing.assert_allclose(results(text)["diff"], results(single)["diff"], rtol=1e-12)


def test_a_view_with_a_loss_weight():
    assert_same(HEAD + layer("f", "Flatten", ["c"], "f", "loss_weight: 0.5"))


def test_weighted_tops_count_when_read_and_when_not():
    alone = results(HEAD + layer("s", "Sigmoid", ["c"], "s", "loss_weight: 2"))
    assert alone["loss"] == pytest.approx(2 * alone["output s"].sum())
    both = results(
        HEAD + layer("s", "Sigmoid", ["c"], "s", "loss_weight: 2") + layer("l", "EuclideanLoss", ["s", "t4"], "l")
    )
    rest = results(HEAD + layer("s", "Sigmoid", ["c"], "s") + layer("l", "EuclideanLoss", ["s", "t4"], "l"))
    assert both["loss"] == pytest.approx(alone["loss"] + rest["loss"])
    np.testing.assert_allclose(both["diff"], alone["diff"] + rest["diff"], rtol=1e-11)


def test_a_weighted_top_outlives_what_comes_after_it():
    pools = "".join(layer(f"p{i}", "Pooling", [f"p{i - 1}"], f"p{i}") for i in range(1, 6))
    text = HEAD + layer("p0", "Pooling", ["c"], "p0", "loss_weight: 1") + pools
    assert_same(text)
    net = bind(text)
    feed(net, **arrays(5))
    assert run(net) == pytest.approx(float(bind_sum(text)))


def bind_sum(text: str) -> float:
    net = bind(text, keep=True)
    feed(net, **arrays(5))
    run(net)
    return net.blobs["p0"].sum()


def test_several_tops_where_one_has_no_loss_above():
    """The bottom of a convolution whose second top nobody learns from gets a gradient of 0, not what lay there."""
    pair = layer("pair", "Convolution", ["c", "d"], "y").replace('top: "y"', 'top: "y" top: "z"')
    text = HEAD + layer("other", "Convolution", ["data"], "d") + pair + LOSS
    assert_same(text)
    net = bind(text)
    net._binding.arena[...] = 0x40
    feed(net, **arrays(5))
    run(net)
    other = next(n for n in net.graph.nodes if n.name == "other")
    assert not any(p.diff.any() for p in other.layer.params)


def test_shared_parameters_add_their_gradients():
    shared = 'param { name: "w" } param { name: "b" }'
    first = layer("conv", "Convolution", ["data"], "c", shared)
    text = inputs(data=SHAPE, t4=SHAPE) + first + layer("again", "Convolution", ["c"], "y", shared) + LOSS
    own = (
        inputs(data=SHAPE, t4=SHAPE)
        + layer("conv", "Convolution", ["data"], "c")
        + layer("again", "Convolution", ["c"], "y")
        + LOSS
    )
    net, apart = bind(text), bind(own)
    assert len(net.params.blobs) == 2 and len(apart.params.blobs) == 4
    for i, blob in enumerate(net.params.blobs):
        apart.params.blobs[i][...] = apart.params.blobs[i + 2][...] = blob
    for each in (net, apart):
        feed(each, **arrays(5))
        run(each)
    for i in (0, 1):
        np.testing.assert_allclose(net.params.diffs[i], apart.params.diffs[i] + apart.params.diffs[i + 2], rtol=1e-12)


def test_micro_batches_add_their_gradients():
    shared = 'param { name: "w" } param { name: "b" }'
    text = (
        inputs(data=SHAPE, t4=SHAPE)
        + layer("conv", "Convolution", ["data"], "c", shared)
        + layer("again", "Convolution", ["c"], "y", shared)
    )
    net = bind(text + LOSS + layer("ip", "InnerProduct", ["y"], "z", "loss_weight: 1"))
    total = 0
    for seed in (1, 2, 3):
        feed(net, **arrays(seed))
        run(net)
        total += net.params.diff.copy()
    for seed in (1, 2, 3):
        feed(net, **arrays(seed))
        net.forward(0)
        net.backward(add=seed > 1)
    np.testing.assert_allclose(net.params.diff, total, rtol=1e-12)
    run(net)
    feed(net, **arrays(1))
    once = net.params.diff.copy()
    run(net)
    run(net)
    assert not np.array_equal(net.params.diff, once) and not np.array_equal(net.params.diff, total)


def test_a_test_plan_is_smaller():
    chain = "".join(layer(f"c{i}", "Convolution", [f"b{i}"], f"b{i + 1}") for i in range(6))
    text = inputs(b0=SHAPE, t4=SHAPE) + chain + LOSS.replace('"y"', '"b6"')
    train, test = planned(build(text)), planned(build(text, "TEST"))
    assert not test.backward and not test.diff
    assert test.arena < train.arena / 2
    assert_sound(train)
    assert_sound(test)


def test_packing_shares_memory():
    chain = "".join(layer(f"p{i}", "Pooling", [f"b{i}"], f"b{i + 1}") for i in range(9))
    made = planned(build(inputs(b0=SHAPE) + chain, "TEST"))
    one = made.data[made.graph.values["b1"]].bytes
    index = made.saved[made.graph.nodes[1]]["index"].bytes
    assert made.arena <= 4 * one + 2 * index
    roomy = planned(build(inputs(b0=SHAPE) + chain, "TEST"), keep=True)
    assert roomy.arena >= 10 * one


@pytest.mark.parametrize("seed", range(30))
def test_pack_never_overlaps(seed):
    rng = random.Random(seed)
    storages = []
    for _ in range(60):
        first = rng.randrange(40)
        storages.append(packing.Storage(64 * rng.randint(1, 9), first, first + rng.randrange(12)))
    total = packing.pack(storages)
    for i, a in enumerate(storages):
        assert 0 <= a.offset and a.offset + a.bytes <= total
        for b in storages[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
    busiest = max(sum(s.bytes for s in storages if s.first <= t <= s.last) for t in range(60))
    assert busiest <= total < 1.5 * busiest


def packed_one_by_one(storages):
    """What `pack` promises, in the plainest form: each storage is compared with all that have an offset."""
    placed = []
    for storage in sorted(storages, key=lambda s: -s.bytes):
        alive = [s for s in placed if s.first <= storage.last and storage.first <= s.last]
        starts = [0, *sorted(s.offset + s.bytes for s in alive)]
        free = (o for o in starts if all(o + storage.bytes <= s.offset or s.offset + s.bytes <= o for s in alive))
        storage.offset = next(free)
        placed.append(storage)
    return [s.offset for s in storages]


def life(kind, i, many, rng):
    """(first, last) time of the storage number i of ``many``."""
    if kind == "short":
        return i, i + rng.randrange(3)
    if kind == "nested":
        return (i, 2 * many - i) if rng.random() < 0.7 else (2 * many - i, 2 * many - i + rng.randrange(4))
    return sorted((rng.randrange(2 * many), rng.randrange(2 * many))) if kind == "mixed" else (i // 7, i // 7 + 1)


@pytest.mark.parametrize("kind", ["short", "nested", "mixed", "equal"])
def test_pack_takes_the_lowest_free_offset(kind, seed):
    for many in (1, 2, 70, 300):
        rng = random.Random(f"{seed} {kind} {many}")
        sizes = [64] if kind == "equal" else [64 * rng.randint(1, 40) for _ in range(9)]
        storages = [packing.Storage(rng.choice(sizes), *life(kind, i, many, rng)) for i in range(many)]
        total = packing.pack(storages)
        offsets = [s.offset for s in storages]
        assert offsets == packed_one_by_one(storages) and total == max(s.offset + s.bytes for s in storages)


def test_gradients_of_what_is_fed_stay_to_be_read():
    text = "force_backward: true\n" + HEAD + layer("again", "Convolution", ["c"], "y") + LOSS
    found = results(text)
    assert {"gradient of data", "gradient of t4"} <= set(found)
    assert_same(text)


def test_phase_of_the_graph_decides_what_is_trained():
    net = bind(HEAD + LOSS.replace('"y"', '"c"'), "TEST")
    assert net.graph.phase == pb.TEST and net.params.diff is None
