"""Memory of compiled nets: packed memory gives the numbers that separate memory gives, storages in use never overlap,
and unsafe in-place requests are refused."""

from collections import Counter

import numpy as np
import pytest
from devices.host.backend import HostBackend
from random_plans import SHAPE, SUMMING, arrays, assert_same, assert_sound, layer, planned, random_net, results
from textnet import bind, build, feed, forward, inputs, run, wired

from caffelite import caffelite_pb2 as pb
from caffelite.devices.cuda import GPU
from caffelite.devices.traits import cuda_traits


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 6))])
def test_random_nets_give_equal_numbers_packed_and_roomy(block):
    for seed in range(block * 25, block * 25 + 25):
        text = random_net(seed)
        try:
            assert_same(text)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}:\n{text}\n{error}") from None


@pytest.mark.host
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_random_nets_give_equal_numbers_on_a_gpus_plan(seed):
    """There a ReLU's gradient changes that of its top in place."""
    text = random_net(seed)
    fused, plain = (results(text, dev=GPU(0, "float64", HostBackend()), fuse=fuse) for fuse in (True, False))
    for name, values in plain.items():
        np.testing.assert_allclose(fused[name], values, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("seed", range(200, 220))
def test_random_nets_have_the_gradient_of_their_loss(seed):
    net, way = bind(random_net(seed, stops=False), seed=3), np.random.default_rng(seed)
    run(net, **arrays(5))
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


def loss(blob: str = "y", target: str = "t4", more: str = "") -> str:
    return layer("loss", "EuclideanLoss", [blob, target], "loss", more)


def request(kind: str, blob: str = "c") -> str:
    """A layer that asks to work in place."""
    return layer("request", kind, [blob], blob)


HEAD = inputs(data=SHAPE, t4=SHAPE, t2=(2, 48)) + layer("conv", "Convolution", ["data"], "c")
FLAT = layer("f", "Flatten", ["c"], "f")


# The request is for a value that a backward step still reads.
UNSAFE = {
    "sigmoid": layer("s", "Sigmoid", ["c"], "s") + request("TanH", "s") + loss("s"),
    "tanh": layer("s", "TanH", ["c"], "s") + request("ReLU", "s") + loss("s"),
    "relu": layer("s", "ReLU", ["c"], "s") + request("Sigmoid", "s") + loss("s"),
    "softmax": layer("s", "Softmax", ["c"], "s") + request("TanH", "s") + loss("s"),
    "contrary": request("contrary") + loss("c"),
    "below a convolution": layer("next", "Convolution", ["c"], "y") + request("ReLU") + loss(),
    "read later": FLAT + request("ReLU") + loss("f", "t2"),
    "view read later": FLAT + request("ReLU", "f") + loss("c"),
    "weighted": layer("s", "Pooling", ["c"], "s", "loss_weight: 0.5") + request("TanH", "s") + loss("s"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_unsafe_in_place_requests_are_refused(case):
    text = HEAD + UNSAFE[case]
    assert planned(build(text)).refused_in_place == ("request",)
    assert_same(text)
    assert planned(build(text), keep=True).refused_in_place == ()


RECTIFIED = layer("r", "ReLU", ["c"], "r") + layer("p", "Pooling", ["r"], "y")
SAFE = {
    "after a convolution": request("Sigmoid") + loss("c"),
    "dropout on a relu": RECTIFIED + request("Dropout", "y") + loss(),
    "a view": FLAT + request("TanH", "f") + loss("f", "t2"),
}


@pytest.mark.parametrize("case", SAFE)
def test_safe_in_place_requests_are_granted(case):
    text = HEAD + SAFE[case]
    made = planned(build(text), fuse=False)
    request = next(n for n in made.graph.nodes if n.name == "request")
    assert made.refused_in_place == ()
    assert made.data[request.tops[0]] is made.data[request.bottoms[0]]
    assert_same(text)


@pytest.mark.parametrize("kind", ["LabelSpecificAdd", "LabelSpecificRescale"])
def test_a_second_top_overwrites_no_bottom(kind):
    """A batch of one has a label, which is as large as the second top."""
    text = inputs(x=(1, 3), t=(1,), t3=(1, 3)) + layer("copy", "Power", ["t"], "label")
    factors = "label_specific_add_param { bias: 1.5 } label_specific_rescale_param { positive_weight: 1.5 }"
    text += wired(kind, "x label", "y number", factors)
    net = bind(text + loss("y", "t3"))
    forward(net, x=np.full((1, 3), 2.0), t=np.array([2.0]), t3=np.zeros((1, 3)))
    net.check_faults()
    assert net.blobs["number"] == 1.5 and net.blobs["loss"] != 6  # of scores that are as they were


def test_what_is_fed_is_never_overwritten():
    text = inputs(data=SHAPE, t4=SHAPE) + request("ReLU", "data")
    text += layer("conv", "Convolution", ["data"], "y") + loss()
    assert planned(build(text)).refused_in_place == ("request",)
    assert_same(text)


def test_what_is_filled_once_stands_while_earlier_layers_run():
    dummy = wired("DummyData", "", "t", "num: 2 channels: 3 height: 4 width: 4 data_filler { value: 2 }")
    pools = "".join(layer(f"p{i}", "Pooling", [f"p{i - 1}"], f"p{i}") for i in range(1, 4))
    text = HEAD + layer("p0", "Pooling", ["c"], "p0") + pools + dummy + loss("p3", "t")
    assert_same(text)
    for phase in ("TRAIN", "TEST"):
        net = bind(text, phase)
        losses = [run(net, **arrays(5)) for _ in range(3)]
        assert losses[0] == losses[1] == losses[2]
        offsets = {value.name: storage.offset for value, storage in net.compiled.data.items()}
        assert offsets.pop("t") not in offsets.values()


def test_a_relu_fuses_where_it_alone_reads_a_layer_that_can():
    def fused(text: str) -> list[str]:
        return [node.name for step in planned(build(HEAD + text)).forward for node in step.fused]

    assert fused(layer("r", "ReLU", ["c"], "c") + loss("c")) == ["r"]
    assert fused(layer("r", "leaky", ["c"], "y") + loss()) == ["r"]
    assert fused(layer("r", "contrary", ["c"], "y") + loss()) == []
    assert fused(layer("r", "ReLU", ["c"], "y") + layer("s", "Pooling", ["c"], "p") + loss()) == []
    assert fused(layer("p", "Pooling", ["c"], "p") + layer("r", "ReLU", ["p"], "y") + loss()) == []


def test_views_with_fan_out():
    flats = layer("f", "Flatten", ["c"], "f") + layer("g", "Flatten", ["c"], "g") + layer("h", "Flatten", ["f"], "h")
    text = HEAD + flats
    for blob, weight in (("f", 1), ("g", 2), ("h", 4)):
        text += wired("EuclideanLoss", f"{blob} t2", f"loss_{blob}", f"loss_weight: {weight}")
    made = planned(build(text))
    assert len({id(made.data[v]) for v in made.data if v.name in "cfgh"}) == 1
    assert_same(text)
    single = HEAD + FLAT + loss("f", "t2", "loss_weight: 7")
    np.testing.assert_allclose(results(text)["diff"], results(single)["diff"], rtol=1e-12)


def test_a_view_with_a_loss_weight():
    assert_same(HEAD + layer("f", "Flatten", ["c"], "f", "loss_weight: 0.5"))


def test_weighted_tops_count_when_read_and_when_not():
    alone = results(HEAD + layer("s", "Sigmoid", ["c"], "s", "loss_weight: 2"))
    assert alone["loss"] == pytest.approx(2 * alone["output s"].sum())
    both = results(HEAD + layer("s", "Sigmoid", ["c"], "s", "loss_weight: 2") + loss("s"))
    rest = results(HEAD + layer("s", "Sigmoid", ["c"], "s") + loss("s"))
    assert both["loss"] == pytest.approx(alone["loss"] + rest["loss"])
    np.testing.assert_allclose(both["diff"], alone["diff"] + rest["diff"], rtol=1e-11)


def test_a_weighted_top_outlives_what_comes_after_it():
    pools = "".join(layer(f"p{i}", "Pooling", [f"p{i - 1}"], f"p{i}") for i in range(1, 6))
    text = HEAD + layer("p0", "Pooling", ["c"], "p0", "loss_weight: 1") + pools
    assert_same(text)
    roomy = bind(text, keep=True)
    run(roomy, **arrays(5))
    assert run(bind(text), **arrays(5)) == pytest.approx(float(roomy.blobs["p0"].sum()))


def test_several_tops_where_one_has_no_loss_above():
    """The bottom of a convolution whose second top nobody learns from gets a gradient of 0, not what lay there."""
    pair = layer("pair", "Convolution", ["c", "d"], "y").replace('top: "y"', 'top: "y" top: "z"')
    text = HEAD + layer("other", "Convolution", ["data"], "d") + pair + loss()
    assert_same(text)
    net = bind(text)
    net._binding.arena[...] = 0x40
    run(net, **arrays(5))
    other = next(n for n in net.graph.nodes if n.name == "other")
    assert not any(p.diff.any() for p in other.layer.params)


def test_shared_parameters_add_their_gradients():
    shared = 'param { name: "w" } param { name: "b" }'
    first = layer("conv", "Convolution", ["data"], "c", shared)
    text = inputs(data=SHAPE, t4=SHAPE) + first + layer("again", "Convolution", ["c"], "y", shared) + loss()
    own = inputs(data=SHAPE, t4=SHAPE) + layer("conv", "Convolution", ["data"], "c")
    own += layer("again", "Convolution", ["c"], "y") + loss()
    net, apart = bind(text), bind(own)
    assert len(net.params.blobs) == 2 and len(apart.params.blobs) == 4
    for i, blob in enumerate(net.params.blobs):
        apart.params.blobs[i][...] = apart.params.blobs[i + 2][...] = blob
    for each in (net, apart):
        run(each, **arrays(5))
    for i in (0, 1):
        np.testing.assert_allclose(net.params.diffs[i], apart.params.diffs[i] + apart.params.diffs[i + 2], rtol=1e-12)


def test_micro_batches_add_their_gradients():
    shared = 'param { name: "w" } param { name: "b" }'
    text = inputs(data=SHAPE, t4=SHAPE) + layer("conv", "Convolution", ["data"], "c", shared)
    text += layer("again", "Convolution", ["c"], "y", shared)
    net = bind(text + loss() + layer("ip", "InnerProduct", ["y"], "z", "loss_weight: 1"))
    total = 0
    for seed in (1, 2, 3):
        run(net, **arrays(seed))
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
    text = inputs(b0=SHAPE, t4=SHAPE) + chain + loss("b6")
    train, test = planned(build(text)), planned(build(text, "TEST"))
    assert not test.backward and not test.diff
    assert test.arena < train.arena / 2
    assert_sound(train)
    assert_sound(test)


def test_packing_shares_memory():
    chain = "".join(layer(f"p{i}", "Pooling", [f"b{i}"], f"b{i + 1}") for i in range(9))
    made = planned(build(inputs(b0=SHAPE) + chain, "TEST"))
    one = made.data[made.graph.values["b1"]].bytes
    index = made.saved[made.graph.nodes[1]]["index 0"].bytes
    assert made.arena <= 4 * one + 2 * index
    roomy = planned(build(inputs(b0=SHAPE) + chain, "TEST"), keep=True)
    assert roomy.arena >= 10 * one


def test_gradients_of_what_is_fed_stay_to_be_read():
    text = "force_backward: true\n" + HEAD + layer("again", "Convolution", ["c"], "y") + loss()
    actual = results(text)
    assert {"gradient of data", "gradient of t4"} <= set(actual)
    assert_same(text)


def test_phase_of_the_graph_decides_what_is_trained():
    net = bind(HEAD + loss("c"), "TEST")
    assert net.graph.phase == pb.TEST and net.params.diff is None


def test_a_summands_gradient_lies_in_that_of_the_sum():
    """Where a batch norm's step has taken the sum along."""
    text = inputs(x=SHAPE, t=SHAPE) + layer("a", "Convolution", ["x"], "a") + layer("b", "Convolution", ["x"], "b")
    text += layer("norm", "BatchNorm", ["b"], "m", "batch_norm_param { scale_bias: true }")
    text += layer("sum", "Eltwise", ["m", "a"], "s") + loss("s", "t")
    made = planned(build(text), cuda_traits("fp32"))
    (step,) = [step for step in made.backward if step.summand]
    assert step.summand.name == "a" and made.diff[step.summand] is made.diff[step.tops[0]]
