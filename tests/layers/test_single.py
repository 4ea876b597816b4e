"""Capsules, heat maps and single layers: PyTorch's discrepancies, dropped channels, mistakes."""

import numpy as np
import pytest
from textnet import bind, inputs, layer, mistaken, mistakes, run, slopes


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
    text = layer("JMMDLoss", *fed, body="jmmd_param { sigma: 1.5 label_kernel_num: 2 }")
    net = bind("force_backward: true\n" + inputs(**shapes) + text, keep=True)
    assert run(net, **fed) == pytest.approx(loss.item(), rel=1e-10)
    for name, blob in blobs.items():
        np.testing.assert_allclose(slopes(net, name), blob.grad.numpy(), rtol=1e-8, atol=1e-14)


def test_several_samples_are_a_bag(rng):
    text = "force_backward: true\n" + inputs(x=(6, 4), t=(2, 4, 1, 1))
    text += layer("MIL", "x", body="mil_param { context_per_roi: 3 }")
    net = bind(text + 'layer { name: "j" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "l" }', keep=True)
    x = rng.permutation(24).reshape(6, 4) / 24.0
    run(net, x=x, t=np.zeros((2, 4, 1, 1)))
    largest = x.reshape(2, 3, 4).max(1)
    np.testing.assert_array_equal(net.dev.download(net.blobs["y"])[..., 0, 0], largest)
    expected = np.where(x.reshape(2, 3, 4) == largest[:, None], x.reshape(2, 3, 4) / 2, 0)
    np.testing.assert_allclose(slopes(net, "x"), expected.reshape(6, 4))
    wrong = layer("MIL", "@x", body="mil_param { context_per_roi: 4 }")
    mistakes(inputs(x=(6, 4)) + wrong, "does not fit; expected a multiple of 4 samples")


def test_whole_channels_are_dropped():
    text = "force_backward: true\n" + inputs(x=(20, 30, 2, 3), t=(20, 30, 2, 3))
    text += layer("SpatialDropout", "x", body="spatial_dropout_param { dropout_ratio: 0.25 }")
    net = bind(text + 'layer { name: "j" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "l" }', keep=True)
    run(net, x=np.ones((20, 30, 2, 3)), t=np.zeros((20, 30, 2, 3)))
    tops = net.dev.download(net.blobs["y"]).reshape(600, 6)
    assert (tops == tops[:, :1]).all() and set(np.unique(np.round(tops, 6))) == {0, 1.333333}
    assert 0.15 < (tops[:, 0] == 0).mean() < 0.35
    np.testing.assert_allclose(slopes(net, "x").reshape(600, 6), tops * 4 / 3 / 20, rtol=1e-5)
    first = tops[:, 0]
    run(net, 1)
    assert (net.dev.download(net.blobs["y"]).reshape(600, 6)[:, 0] != first).any()


X = inputs(x=(4, 6), z=(4, 5), s=(3, 6), i=(2, 3, 4, 5), l=(4,))


test_mistakes = mistaken(
    (layer("Squash", "@x", body="squash_param { capsule_dim: 4 }"), "does not fit"),
    (layer("CapsuleLen", "@x", body="capsule_len_param { num_class: 4 }"), "does not fit"),
    (layer("CapsuleReshape", "@z", body="capsule_reshape_param { capsule_dim: 2 }"), "does not fit"),
    (
        layer(
            "CapsuleRouting",
            "@x",
            body="capsule_routing_param { input_capsule_num: 2 output_capsule_num: 2 output_capsule_dim: 2 }",
        ),
        "does not fit",
    ),
    (layer("MarginLoss", "x", "@s", body="margin_param { num_class: 3 }"), "does not fit"),
    (layer("GRN", "x", body="grn_param { bias: @-1 }"), "a bad bias"),
    (layer("Sum", "x", "@z"), "does not fit"),
    (layer("Sum", "@x", body="sum_param { num_component: 4 }"), "does not fit"),
    (layer("SpatialDropout", "x", body="spatial_dropout_param { dropout_ratio: @1 }"), "a bad dropout_ratio"),
    (layer("ConvLSTM", "i", body="convolution_param { num_output: 2 @kernel_size: 2 }"), "a bad kernel_size"),
    (layer("MMDLoss", "x", "@z"), "does not fit"),
    (layer("JMMDLoss", "x", "x", "l", "l", body="jmmd_param { sigma: @0 }"), "a bad sigma"),
    (layer("MMDLoss", "x", "x", body="mmd_param { kernel_mul: @0 }"), "a bad kernel_mul"),
    (layer("MMDLoss", "x", "x", body="mmd_param { kernel_num: @4000000000 }"), "a bad kernel_num"),
    (layer("ImResize", "i", body="imresize_param { factor: @nan }"), "a bad factor"),
    (layer("ImResize", "i", body="imresize_param { start_scale: @inf }"), "a bad start_scale"),
    (layer("OuterProduct", "x", "@s"), "does not fit"),
    (layer("Nms", "@i"), "does not fit"),
    (layer("ImResize", "i", body="imresize_param { scale_gap: @3 }"), "a bad start_scale or scale_gap"),
    (layer("EuclideanLossHeatmap", "i", "@x"), "does not fit"),
    before=X,
)
