"""What a GPU's plan makes of sums: gradients that are aliased, or summed at once, and batch norms that take a sum
along. Each net gives the numbers of the plan that fuses nothing."""

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend
from textnet import bind, feed, forward, inputs, run, wired

from caffelite.devices.cuda import GPU

pytestmark = pytest.mark.host

SHAPE = (3, 8, 6, 5)


def conv(name: str, bottom: str, kernel: int = 1) -> str:
    body = f'num_output: 8 bias_term: false kernel_size: {kernel} pad: {kernel // 2} weight_filler {{ type: "xavier" }}'
    return wired("Convolution", bottom, name, body)


def norm(blob: str, relu: bool = False, body: str = "", scale: str = "bias_term: true") -> str:
    """A BatchNorm with its Scale, in place; scale: of the Scale layer, or nothing for a BatchNorm that learns by
    itself."""
    body += "" if scale else " scale_bias: true"
    text = wired("BatchNorm", blob, blob, f"batch_norm_param {{ {body} }}", f"bn {blob}")
    if scale:
        fields = f'filler {{ type: "uniform" min: -1 max: 1 }} {scale}'
        text += wired("Scale", blob, blob, f"scale_param {{ {fields} }}", f"scale {blob}")
    return text + (rectified(blob) if relu else "")


def rectified(blob: str, slope: float = 0) -> str:
    return wired("ReLU", blob, blob, f"negative_slope: {slope}", f"relu {blob}")


def join(name: str, *bottoms: str) -> str:
    return wired("Eltwise", " ".join(bottoms), name)


def loss(blob: str) -> str:
    return wired("EuclideanLoss", f"{blob} t", "loss")


HEAD = inputs(x=SHAPE, t=SHAPE) + conv("a", "x")
PAIR = HEAD + conv("b", "a")
SUM, ENDING = join("s", "b", "a"), rectified("s") + loss("s")
JOINED = PAIR + norm("b")
PLAIN = JOINED + SUM
SECOND = (
    conv("c", "s") + norm("c", True) + conv("d", "c", 3) + norm("d") + join("u", "d", "s") + rectified("u") + loss("u")
)
THREE = conv("c", "s") + conv("d", "s") + conv("e", "s") + norm("e") + join("u", "c", "d", "e") + loss("u")
OWN = wired("BatchNorm", "a", "m", "scale_bias: true", "bn m")
PROJECTION = HEAD + conv("p", "a") + norm("p") + conv("b", "a") + norm("b") + join("s", "p", "b") + rectified("s")
TWO_RELUS = conv("b", "x") + rectified("b") + conv("c", "x") + rectified("c")
BOTH = HEAD + conv("b", "x", 3) + conv("c", "a") + wired("Concat", "b c", "s")
FOUR, NINE = [f"c{i}" for i in range(4)], [f"d{i}" for i in range(9)]
FLAT = wired("Flatten", "b", "f") + wired("Flatten", "a", "g") + join("s", "f", "g") + join("u", "s", "g")
WEIGHTED = PLAIN.replace('top: "s" ', 'top: "s" loss_weight: 0.125 ')
NETS = {  # text, how many steps take a sum along, how many sums of gradients there are besides
    "a block": (PLAIN + ENDING, 1, 1),
    "without relu": (PLAIN + loss("s"), 1, 1),
    "a leaky relu": (PLAIN + rectified("s", 0.25) + loss("s"), 1, 1),
    "the other order": (JOINED + join("s", "a", "b") + ENDING, 1, 1),
    "a norm that learns": (PAIR + norm("b", scale="") + SUM + ENDING, 1, 1),
    "a scale without bias": (PAIR + norm("b", scale="bias_term: false") + SUM + loss("s"), 1, 1),
    "stored moments": (PAIR + norm("b", body="use_global_stats: true") + SUM + loss("s"), 1, 1),
    "two blocks": (PLAIN + rectified("s") + SECOND, 2, 1),
    "a projection": (PROJECTION + THREE, 1, 1),
    "many readers": (HEAD + "".join(conv(c, "a") for c in FOUR) + join("s", *FOUR) + loss("s"), 0, 1),
    "a blob twice": (HEAD + join("s", "a", "a") + loss("s"), 0, 1),
    "its own input": (HEAD + OWN + join("s", "m", "a") + ENDING, 1, 1),
    "coefficients": (PLAIN.replace('top: "s" ', 'top: "s" eltwise_param { coeff: 2 coeff: 1 } ') + loss("s"), 0, 1),
    "three summands": (JOINED + conv("c", "x") + join("s", "b", "a", "c") + ENDING, 0, 1),
    "a rectified summand": (HEAD + TWO_RELUS + join("s", "b", "c") + join("u", "s", "a") + loss("u"), 0, 0),
    "a flattened summand": (HEAD + conv("b", "x") + rectified("b") + FLAT + loss("u"), 0, 1),
    "parts of a concatenation": (
        BOTH + "".join(conv(d, "s") for d in NINE[:3]) + join("u", *NINE[:3]) + loss("u"),
        0,
        0,
    ),
    "many parts of one": (BOTH + "".join(conv(d, "s") for d in NINE) + join("u", *NINE) + loss("u"), 0, 1),
    "a weight on a summand": (PLAIN.replace('top: "a"', 'top: "a" loss_weight: 0.5', 1) + ENDING, 1, 1),
    "a loss on the sum": (WEIGHTED + conv("z", "s") + loss("z"), 1, 1),
}


def numbers(text: str, dev, passes: int = 2, **options) -> dict[str, np.ndarray]:
    """Loss and gradients of a net after some passes."""
    rng = np.random.default_rng(3)
    net = bind(text, seed=3, dev=dev, **options)
    feed(net, **{name: rng.normal(size=SHAPE) for name in ("x", "t")})
    losses = [run(net) for _ in range(passes)]
    actual = {f"{p.node.name} {p.index}": net.params.diffs[i].copy() for i, p in enumerate(net.graph.parameters)}
    return {"losses": np.array(losses), **actual, "statistics": net.params.data.copy()}


def fusions(text: str, dev) -> tuple[int, int]:
    made = bind(text, dev=dev).compiled
    return sum(step.summand is not None for step in made.backward), sum(len(step.sums) for step in made.backward)


@pytest.mark.parametrize("name", NETS)
def test_numbers_are_those_of_the_plan_without_fusion(name):
    text, joined, sums = NETS[name]
    assert fusions(text, GPU(0, "float32", HostBackend())) == (joined, sums)
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-13)):
        fused, plain = (numbers(text, GPU(0, dtype, HostBackend()), fuse=fuse) for fuse in (True, False))
        for what, expected in plain.items():
            scale = np.abs(expected).max()
            assert scale > 0 or "bn" in what, what
            np.testing.assert_allclose(fused[what], expected, rtol=0, atol=tolerance * max(1e-3, scale), err_msg=what)


@pytest.mark.parametrize("name", ["two blocks", "a projection", "many readers", "parts of a concatenation"])
@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
def test_numbers_of_blobs_channels_last(name, precision):
    """Of 16-bit numbers, too: near those of the plan without fusion, which rounds more often."""
    actual = [numbers(NETS[name][0], plans.device(precision), fuse=fuse) for fuse in (True, False)]
    for what, expected in actual[1].items():
        tolerance = {"tf32": 1e-5, "fp16": 0.01, "bf16": 0.08}[precision] * max(0.01, np.abs(expected).max())
        np.testing.assert_allclose(actual[0][what], expected, rtol=0, atol=tolerance, err_msg=what)


@pytest.mark.parametrize("body", ["", "use_global_stats: true"])
def test_a_net_that_only_tests_takes_sums_along(body):
    text = PLAIN.replace("batch_norm_param {", f"batch_norm_param {{ {body}") + rectified("s")
    actual = []
    for fuse in (True, False):
        net = bind(text, "TEST", dev=GPU(0, "float32", HostBackend()), fuse=fuse)
        for blob in net.params.blobs:
            blob[...] = abs(blob) + 0.5
        forward(net, x=np.random.default_rng(1).normal(size=SHAPE))
        actual.append(net.blobs["s"].copy())
        assert sum(step.summand is not None for step in net.compiled.forward) == fuse
    np.testing.assert_allclose(*actual, rtol=1e-6, atol=1e-6)


def test_debug_reports_the_gradient_of_each_reader():
    """A gradient that is stored in parts is reported part by part, none before it was written."""
    net = bind(NETS["two blocks"][0], dev=GPU(0, "float32", HostBackend()))
    forward(net, **{name: np.random.default_rng(3).normal(size=SHAPE) for name in ("x", "t")})
    seen = {}

    def observe(node):
        for i in range(len(node.bottoms)):
            if (array := net.gradient(node, i)) is not None:
                seen.setdefault(node.name, array.copy())

    net.backward(observe=observe)
    assert {"c", "b", "d"} <= seen.keys()
    assert all(np.isfinite(array).all() and np.abs(array).max() > 0 for array in seen.values())


SCORES = inputs(x=(4, 5, 2, 1), label=(4, 2, 1))
SCORES += wired("Convolution", "x", "ip", 'num_output: 3 kernel_size: 1 weight_filler { type: "xavier" }')


def losses(dev, more: str, fuse: bool) -> tuple[np.ndarray, bool]:
    """Loss and gradients, and whether forward brought the scores'."""
    net = bind(SCORES + wired("SoftmaxWithLoss", "ip label", "loss", more), dev=dev, fuse=fuse)
    rng = np.random.default_rng(2)
    total = run(net, x=rng.normal(size=(4, 5, 2, 1)), label=rng.integers(0, 3, size=(4, 2, 1)))
    layer = next(node.layer for node in net.graph.nodes if node.name == "loss")
    return np.array([total, *net.params.diff]), "gradient" in layer.saved


@pytest.mark.parametrize(
    ("more", "ahead"),
    [
        ("", True),
        ("loss_weight: 0.25", True),
        ("loss_param { ignore_label: 1 normalization: BATCH_SIZE }", True),
        ("loss_param { ignore_label: 1 }", False),
        ('} layer { name: "p" type: "Power" bottom: "loss" top: "p" power_param { power: 2 } loss_weight: 1', False),
    ],
)
def test_a_softmaxs_gradient_comes_with_its_loss(more, ahead):
    """Where what the loss is multiplied by is known by then."""
    dev = GPU(0, "float32", HostBackend())
    (fused, brought), (plain, never) = (losses(dev, more, fuse) for fuse in (True, False))
    np.testing.assert_array_equal(fused, plain)
    assert (brought, never) == (ahead, False) and np.abs(plain[1:]).max() > 0.01


def test_in_fp16_the_losss_factor_is_not_known_in_forward():
    assert not losses(plans.device("fp16"), "", True)[1]
