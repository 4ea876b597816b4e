"""Scores are exact over what was tested, batch by batch however uneven."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import build

from caffelite.devices import open_device
from caffelite.devices.cuda import GPU
from caffelite.net.net import Net
from caffelite.parallel import alone
from caffelite.training import mean_scores
from caffelite.training.whole_net import WholeNet

TEXT = """
layer { name: "in" type: "Input" top: "x" top: "t" input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }
layer { name: "acc" type: "Accuracy" bottom: "x" bottom: "t" top: "acc" top: "each" accuracy_param { ignore_label: 9 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "t" top: "loss" loss_param { ignore_label: 9 } }
"""


ON_HOST = pytest.param(lambda: GPU(0, "float32", HostBackend()), marks=pytest.mark.host, id="host")


@pytest.mark.parametrize("open_it", [pytest.param(open_device, id="cpu"), ON_HOST])
def test_batches_are_weighted_by_their_labels(open_it, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, 4, 3)).astype("f4")
    t = np.array([[0, 1, 2, 0], [1, 9, 9, 9], [2, 2, 9, 9]], "f4")
    net = Net.of(build(TEXT, "TEST"), open_it())
    batches = iter(zip(x, t, strict=True))
    forward = net.forward

    def feed(iteration, *rest):
        for name, values in zip("xt", next(batches), strict=True):
            net.dev.upload(net.blobs[name], values)
        forward(iteration, *rest)

    net.forward = feed
    actual = {name: values for name, _, values in mean_scores(net, 3).outputs}
    rows, labels = x.reshape(-1, 3)[t.ravel() != 9], t[t != 9].astype(int)
    right = rows.argmax(axis=1) == labels
    loss = np.log(np.exp(rows).sum(axis=1)) - rows[np.arange(len(rows)), labels]
    np.testing.assert_allclose(actual["acc"], right.mean(), rtol=1e-6)
    np.testing.assert_allclose(actual["each"], [right[labels == c].mean() for c in range(3)], rtol=1e-6)
    np.testing.assert_allclose(actual["loss"], loss.mean(), rtol=1e-5)


def test_a_divided_net_checks_for_a_stop_now_and_then():
    """Each check lets the stages wait for each other."""
    net, parts, checks = Net.of(build(TEXT, "TEST"), open_device()), WholeNet(alone()), []
    parts.divided = True
    mean_scores(net, 20, lambda: checks.append(1), division=parts)
    assert len(checks) == 3
    assert mean_scores(net, 20, lambda: True, division=parts) is None
