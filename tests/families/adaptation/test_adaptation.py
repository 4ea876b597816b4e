"""Domain adaptation: schedules, PyTorch's discrepancies, mistakes."""

import numpy as np
import pytest
from textnet import bind, feed, inputs, judged, layer, mistaken, over, run, slopes


@pytest.mark.parametrize(
    ("body", "factors"),
    [
        ("lower_bound: 0.5 upper_bound: 2 max_iter: 4 alpha: 3", {0: 0.5, 2: 1.452723, 4: 1.857722, 9: 1.857722}),
        ("max_iter: 10 threshold_iter: 5", {0: 0, 5: 0, 6: 0.321513, 20: 0.999909}),
    ],
)
def test_gradients_are_reversed_more_and_more(body, factors, caplog):
    net = bind(judged(over("GradientScaler", body, x=(2, 3))), keep=True)
    said = any("threshold_iter delays λ, as in MADA" in line for line in caplog.messages)
    assert said == ("threshold_iter" in body), "two forks have two schedules"
    x = np.arange(6.0).reshape(2, 3)
    feed(net, x=x, t=0)
    for iteration, factor in factors.items():
        run(net, iteration)
        np.testing.assert_allclose(slopes(net, "x"), -factor * x / 2, rtol=1e-5)


X = inputs(x=(4, 3), z=(4, 2), l=(3,), s=(2, 6), v=())


test_mistakes = mistaken(
    (layer("GradientScaler", "x", body="lower_bound: @2"), "a bad lower_bound"),
    (layer("GradientScaler", "x", body="alpha: @-1"), "a bad alpha"),
    (layer("GradientScaler", "x", body="max_iter: @0"), "a bad max_iter"),
    (layer("CORALLoss", "x", "@z"), "does not fit"),
    (layer("CORALLoss", "x", "@v"), "has no channels"),
    before=X,
)


def kernels(torch, a, b, rates):
    rows = torch.cat([a, b])
    d = ((rows[:, None] - rows) ** 2).sum(2)
    return sum(torch.exp(-rate * d) for rate in rates(d.detach()))


def test_pytorch_has_the_same_discrepancy(rng):
    """The kernels' width is a constant."""
    torch = pytest.importorskip("torch", exc_type=ImportError)
    fed = {"s": rng.normal(size=(5, 3)), "t": rng.normal(size=(4, 3)), "p": rng.random((5, 2)), "q": rng.random((4, 2))}
    blobs = {name: torch.tensor(array, requires_grad=True) for name, array in fed.items()}
    kernel = kernels(torch, blobs["s"], blobs["t"], lambda d: [(72 / d.sum()) * 2.0**i for i in range(-2, 3)])
    kernel = kernel * kernels(torch, blobs["p"], blobs["q"], lambda d: [2 / 1.5, 1 / 1.5])
    source, target = kernel[:5, :5], kernel[5:, 5:]
    loss = (source.sum() - source.trace()) / 20 + (target.sum() - target.trace()) / 12 - 2 * kernel[:5, 5:].mean()
    loss.backward()
    shapes = {name: array.shape for name, array in fed.items()}
    text = layer("JMMDLoss", *fed, body="sigma: 1.5 label_kernel_num: 2")
    net = bind("force_backward: true\n" + inputs(**shapes) + text, keep=True)
    assert run(net, **fed) == pytest.approx(loss.item(), rel=1e-10)
    for name, blob in blobs.items():
        np.testing.assert_allclose(slopes(net, name), blob.grad.numpy(), rtol=1e-8, atol=1e-14)


SAMPLES = inputs(x=(4, 6), z=(4, 5), s=(3, 6), i=(2, 3, 4, 5), l=(4,))


test_mistakes_of_discrepancies = mistaken(
    (layer("MMDLoss", "x", "@z"), "does not fit"),
    (layer("JMMDLoss", "x", "x", "l", "l", body="sigma: @0"), "a bad sigma"),
    (layer("EntropyLoss", "x", body="iterations_num: @5"), "a bad iterations_num; expected 0, found 5"),
    (layer("MMDLoss", "x", "x", body="kernel_mul: @0"), "a bad kernel_mul"),
    (layer("MMDLoss", "x", "x", body="kernel_num: @4000000000"), "a bad kernel_num"),
    (layer("OuterProduct", "x", "@s"), "does not fit"),
    before=SAMPLES,
)
