"""Losses that read no labels ignore none: an ignore_label changes no number, and a word says so."""

import numpy as np
import pytest
from textnet import bind, inputs, layer

NETS = {
    "SmoothL1LossOHEM": (("a", "b"), "loss each"),
    "EntropyLoss": (("a",), "loss"),
    "SmoothL1Loss": (("a", "b"), "loss"),
}


@pytest.mark.parametrize("kind", NETS)
def test_an_ignored_label_changes_no_loss(kind, rng):
    bottoms, tops = NETS[kind]
    shape = (3, 4, 2, 2)
    arrays = {name: rng.standard_normal(shape) for name in bottoms}
    losses = []
    for more in ("", "loss_param { ignore_label: 255 }"):
        text = inputs(**dict.fromkeys(bottoms, shape)) + layer(kind, *bottoms, tops=tops, body=more)
        net = bind(text)
        net.set_inputs(**arrays)
        net.forward()
        losses.append(float(net.blobs["loss"]))
    assert losses[0] == losses[1] > 0
    assert np.isfinite(losses).all()
