"""Concatenations without copies: their bottoms are made in slices of their tops, and so are the gradients. The numbers
are those of the plan that fuses nothing."""

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from textnet import bind, feed, forward, inputs, run, wired

from caffelite.devices import open_device
from caffelite.devices.cuda import GPU, memory

pytestmark = pytest.mark.host

SHAPE = (2, 8, 5, 4)
FILL = 'weight_filler { type: "xavier" } bias_filler { type: "uniform" min: -0.5 max: 0.5 }'


def conv(name: str, bottom: str, outputs: int = 8, kernel: int = 1, relu: float | None = 0, more: str = "") -> str:
    body = f"num_output: {outputs} kernel_size: {kernel} pad: {kernel // 2} {more} {FILL}"
    text = wired("Convolution", bottom, name, body)
    return text if relu is None else text + wired("ReLU", name, name, f"negative_slope: {relu}", f"relu {name}")


def concat(name: str, *bottoms: str, axis: int = 1) -> str:
    return wired("Concat", " ".join(bottoms), name, f"axis: {axis}")


def loss(blob: str, channels: int, shape: tuple[int, ...] = SHAPE) -> str:
    return inputs(t=(shape[0], channels, *shape[2:])) + wired("EuclideanLoss", f"{blob} t", "loss")


HEAD = inputs(x=SHAPE) + conv("a", "x")
POOL = wired("Pooling", "a", "pool", "kernel_size: 3 stride: 1 pad: 1")
BLOCK = HEAD + conv("b", "a", 16) + conv("c", "a", 8) + conv("d", "c", 24, 3) + POOL + conv("e", "pool")
BLOCK += concat("s", "b", "d", "e")
ENDING = conv("f", "s", 8) + loss("f", 8)
PAIR = concat("s", "b", "c") + ENDING
RECTIFIED = wired("ReLU", "s", "s", name="relu s")
TWO = HEAD + conv("b", "a") + conv("c", "a")
READERS = BLOCK + conv("g", "s", 8, 3) + conv("h", "s") + wired("Eltwise", "g h", "u") + loss("u", 8)
UNBIASED = conv("b", "a", more="bias_term: false") + conv("c", "a", more="bias_term: false", relu=None)
SUM = concat("s", "b", "c") + wired("Eltwise", "s p", "u") + loss("u", 16)
NETS = {  # text, bottoms of concatenations that are made in place, those whose gradients are
    "a block": (BLOCK + ENDING, 3, 3),
    "several readers": (READERS, 3, 0),
    "two blocks": (BLOCK + conv("m", "s", 8) + conv("n", "s", 16, 3) + concat("v", "m", "n") + loss("v", 24), 5, 2),
    "no relu": (HEAD + conv("b", "a", relu=None) + conv("c", "a", relu=None) + PAIR, 2, 2),
    "no bias": (HEAD + UNBIASED + PAIR, 2, 2),
    "a leaky relu": (HEAD + conv("b", "a", relu=0.25) + conv("c", "a") + PAIR, 2, 2),
    "groups": (HEAD + conv("b", "a", 16, 3, more="group: 2") + conv("c", "a") + PAIR, 2, 2),
    "a pooling beside": (HEAD + POOL + conv("b", "a") + concat("s", "pool", "b") + ENDING, 1, 1),
    "few channels": (HEAD + conv("b", "a", 4) + conv("c", "a", 12) + PAIR, 0, 0),
    "a blob twice": (HEAD + conv("b", "a") + concat("s", "b", "b") + ENDING, 0, 0),
    "another reader": (HEAD + conv("b", "a") + conv("c", "b") + PAIR, 1, 1),
    "a relu behind": (
        HEAD + conv("b", "a") + conv("c", "a", relu=None) + concat("s", "b", "c") + RECTIFIED + ENDING,
        1,
        1,
    ),
    "a weight on a bottom": (TWO.replace('top: "b"', 'top: "b" loss_weight: 0.5', 1) + PAIR, 1, 1),
    "a weight on the top": (TWO + PAIR.replace('top: "s"', 'top: "s" loss_weight: 0.5'), 2, 0),
    "the loss on the top": (TWO + concat("s", "b", "c") + loss("s", 16), 2, 2),
    "a sum of it": (TWO + conv("p", "a", 16) + SUM, 2, 0),
    "one inside another": (TWO + concat("i", "b", "c") + conv("d", "a") + concat("s", "i", "d") + ENDING, 3, 3),
}
TOLERANCES = {"tf32": 1e-5, "fp16": 0.01, "bf16": 0.08}


def numbers(text: str, dev, passes: int = 2, **options):
    """Losses and gradients of a net after some passes; and the net."""
    net = bind(text, seed=3, dev=dev, **options)
    rng = np.random.default_rng(3)
    fed = {value.name: rng.normal(size=value.shape) for node in net.graph.feeds for value in node.tops}
    feed(net, **fed)
    losses = [run(net) for _ in range(passes)]
    actual = {f"{p.node.name} {p.index}": net.params.diffs[i].copy() for i, p in enumerate(net.graph.parameters)}
    return {"losses": np.array(losses), **actual}, net


def counts(net) -> tuple[int, int]:
    concats = [node.layer for node in net.graph.nodes if node.layer.spec.type == "Concat"]
    return sum(len(c.stored) for c in concats), sum(len(c.stored_gradients) for c in concats)


def assert_near(found: dict, expected: dict, tolerance: float) -> None:
    for what, values in expected.items():
        assert np.abs(values).max() > 0, what
        atol = tolerance * max(0.01, np.abs(values).max())
        np.testing.assert_allclose(found[what], values, rtol=0, atol=atol, err_msg=what)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("precision", TOLERANCES)
def test_numbers_are_those_of_the_plan_without_fusion(name, precision):
    text, in_top, gradients = NETS[name]
    actual, net = numbers(text, plans.device(precision))
    assert counts(net) == (in_top, gradients)
    assert_near(actual, numbers(text, plans.device(precision), fuse=False)[0], TOLERANCES[precision])


@pytest.mark.parametrize("refused", ["slices", ("forward", True, True), ("forward", True, False)])
@pytest.mark.parametrize("name", ["a block", "no relu"])
def test_what_cudnn_has_no_plans_for_is_copied(name, refused):
    text, *expected = NETS[name]
    actual, net = numbers(text, plans.device(refused=["slices", refused]))
    assert list(counts(net)) == expected
    assert_near(actual, numbers(text, plans.device(), fuse=False)[0], 1e-5)


# In one row of a concatenation's top, a slice is contiguous, and any layer can write there.

ONE = (1, *SHAPE[1:])
HALVES = wired("Slice", "a", "h k", name="cut")
POOLED = wired("Pooling", "a", "p", "kernel_size: 3 stride: 1 pad: 1") + wired("Sigmoid", "p", "p", name="sigmoid")
MANY = concat("s", "b", "p", "c") + ENDING
FLAT = wired("InnerProduct", "a", "b", f"num_output: 16 {FILL}") + conv("c", "a") + wired("Flatten", "c", "q")
FLAT += concat("s", "b", "q") + wired("InnerProduct", "s", "f", f"num_output: 16 {FILL}")
FLAT += inputs(t=(1, 16)) + wired("EuclideanLoss", "f t", "loss")
SAMPLES = conv("b", "a") + conv("c", "a", relu=None) + concat("s", "b", "c", axis=0) + loss("s", 8, (4, *SHAPE[1:]))


def alone(text: str) -> str:
    """The net for one sample."""
    return text.replace("dim: 2 ", "dim: 1 ")


ROWS = {  # text, bottoms of concatenations that are made in place, those whose gradients are
    "one image": (alone(HEAD + conv("b", "a") + POOLED + conv("c", "a", 3) + MANY), 3, 3),
    "an input": (alone(HEAD + conv("b", "a") + concat("s", "b", "x") + ENDING), 1, 1),
    "in-place layers": (
        alone(HEAD + wired("TanH", "a", "b") + wired("Sigmoid", "a", "p") + wired("AbsVal", "a", "c") + MANY),
        3,
        3,
    ),
    "parts of a blob": (alone(HEAD + HALVES + conv("b", "a") + concat("s", "b", "k", "h") + ENDING), 3, 3),
    "samples": (HEAD + SAMPLES, 2, 2),
    "flat ones": (alone(HEAD + FLAT), 1, 1),
    "not aligned": (alone(HEAD + conv("b", "a", 3) + conv("c", "a") + PAIR).replace("dim: 5", "dim: 3"), 1, 1),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_slices_in_one_piece(name, device):
    text, *expected = ROWS[name]

    def dev():
        return open_device(None, "float64") if device == "cpu" else GPU(0, "float32", HostBackend())

    actual, net = numbers(text, dev())
    assert list(counts(net)) == expected
    roomy, other = numbers(text, dev(), keep=True)
    assert counts(other) == (0, 0)
    assert_near(actual, roomy, 1e-5)


def test_a_net_that_only_tests_makes_bottoms_in_the_top():
    arrays = []
    for fuse in (True, False):
        net = bind(BLOCK, "TEST", seed=3, dev=plans.device("fp16"), fuse=fuse)
        forward(net, x=np.random.default_rng(1).normal(size=SHAPE))
        assert counts(net) == ((3, 0) if fuse else (0, 0))
        arrays.append(net.blobs["s"].copy())
    np.testing.assert_allclose(*arrays, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("precision", ["tf32", "fp16"])
def test_slices_can_be_looked_at(precision):
    """As the blobs that they are: what others look at does not lie in one piece."""
    text = NETS["a block"][0]
    nets = [numbers(text, plans.device(precision), 1, fuse=fuse)[1] for fuse in (True, False)]
    for name in "bde":
        value, other = (net.graph.values[name] for net in nets)
        assert memory.pitch(nets[0].data[value]) == 48 and memory.pitch(nets[1].data[other]) == 0
        actual, expected = (net.dev.download(net.blobs[name]) for net in nets)
        assert actual.shape == value.shape
        np.testing.assert_allclose(actual, expected, rtol=0.01, atol=0.01)
        assert nets[0].mean_abs(nets[0].data[value]) == pytest.approx(np.abs(expected).mean(), rel=0.01)
