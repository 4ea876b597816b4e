"""Layers whose images may lie channels last, as in float32 they do by default: against the same in float64, where they
never do."""

import functools

import numpy as np
import pytest
from layers.layer_rows import ROWS
from textnet import feed, run

from caffelite.devices import open_device
from caffelite.layers import REGISTRY
from caffelite.layers.base.image_layout import ImageLayout

opened = functools.cache(lambda dtype: open_device(None, dtype))
LAID_OUT = [row for row in ROWS if row.differentiable and issubclass(REGISTRY[row.kind], ImageLayout)]
FOLLOWING = [r for r in LAID_OUT if REGISTRY[r.kind].follows_layout and len(r.bottoms) and len(r.bottoms[0][0]) == 4]
CONVOLUTION = """layer {{ name: "c{i}" type: "Convolution" bottom: "x{i}" top: "c{i}"
  convolution_param {{ num_output: {channels} kernel_size: 1 }} }}
"""


def first_of_each_file(rows: list) -> list:
    """The rows as parameters of a test; all but the first of the layers that a file defines are in the second tier."""
    firsts = {REGISTRY[row.kind].__module__: row for row in reversed(rows)}
    return [row if row in firsts.values() else pytest.param(row, marks=pytest.mark.slow) for row in rows]


def behind_convolutions(row, text: str) -> str:
    """The text with each image behind a convolution, whose layout the layer follows."""
    images = {i: shape[1] for i, (shape, _) in enumerate(row.bottoms) if len(shape) == 4}
    for i in images:
        text = text.replace(f'bottom: "x{i}"', f'bottom: "c{i}"')
    head, layer = text.split('layer { name: "layer"')
    convolutions = (CONVOLUTION.format(i=i, channels=channels) for i, channels in images.items())
    return head + "".join(convolutions) + 'layer { name: "layer"' + layer


def results(row, dtype: str, seed: int, arrange=lambda row, text: text) -> list[np.ndarray]:
    """The tops, and the gradients of all bottoms and parameters, for a random gradient from above."""
    dev, rng = opened(dtype), np.random.default_rng(seed)
    text, targets = row.under_losses(arrange(row, row.text()))
    net, fed = row.bind(text, keep=True, dev=dev), row.draw(rng)
    for blob in net.params.blobs:
        dev.upload(blob, rng.normal(size=blob.shape))
    feed(net, **fed, **{name: rng.normal(size=shape) for name, shape in targets.items()})
    run(net)
    moved = [value for value in net.graph.values.values() if value.name in fed and value in net.diff]
    tops = [dev.download(net.blobs[f"y{i}"]) for i in range(row.tops)]
    return [*tops, *(dev.download(net.diff[value]) for value in moved), dev.download(net.params.diff)]


def assert_equal_in_both(row, seed, *arrange) -> None:
    for computed, exact in zip(*(results(row, dtype, seed, *arrange) for dtype in ("float32", "float64")), strict=True):
        scale = max(1.0, float(np.abs(exact).max(initial=0)))
        np.testing.assert_allclose(computed, exact, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("row", first_of_each_file(LAID_OUT), ids=str)
def test_float32_gives_what_float64_gives(row, seed):
    assert_equal_in_both(row, seed)


@pytest.mark.parametrize("row", first_of_each_file(FOLLOWING), ids=str)
def test_the_same_behind_a_convolution(row, seed):
    assert_equal_in_both(row, seed, behind_convolutions)
