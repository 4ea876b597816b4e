"""Weakly supervised detection: bags of samples."""

import numpy as np
from textnet import bind, inputs, judged, layer, mistakes, over, run, slopes


def test_several_samples_are_a_bag(rng):
    net = bind(judged(over("MIL", "context_per_roi: 3", x=(6, 4))), keep=True)
    x = rng.permutation(24).reshape(6, 4) / 24.0
    run(net, x=x, t=0)
    largest = x.reshape(2, 3, 4).max(1)
    np.testing.assert_array_equal(net.dev.download(net.blobs["y"])[..., 0, 0], largest)
    expected = np.where(x.reshape(2, 3, 4) == largest[:, None], x.reshape(2, 3, 4) / 2, 0)
    np.testing.assert_allclose(slopes(net, "x"), expected.reshape(6, 4))
    wrong = layer("MIL", "@x", body="context_per_roi: 4")
    mistakes(inputs(x=(6, 4)) + wrong, "does not fit; expected a multiple of 4 samples")
