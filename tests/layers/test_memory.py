"""What backward says that it reads is what it reads: the plan gives all else away."""

import numpy as np
import pytest
from layer_rows import ROWS
from textnet import feed, inputs

from caffelite.layers import REGISTRY


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("row", [r for r in ROWS if r.differentiable and r.bottoms], ids=str)
def test_backward_reads_no_more_than_it_says(row, seed):
    """NaN in every bottom and top that it may not read leaves every gradient as it was."""
    rng = np.random.default_rng(seed)
    blobs = row.bind(row.text()).blobs
    judged = {f"t{i}": blobs[f"y{i}"].shape for i in range(row.tops) if i not in REGISTRY[row.kind].constant_tops}
    judge = 'layer {{ name: "j{0}" type: "EuclideanLoss" bottom: "y{0}" bottom: "t{0}" top: "j{0}" }}\n'
    text = "force_backward: true\n" + inputs(**judged) + row.text() + "".join(judge.format(name[1:]) for name in judged)
    net = row.bind(text, keep=True)
    net.params.data[...] = rng.normal(size=net.params.size)
    feed(net, **row.draw(rng), **{name: rng.normal(size=shape) for name, shape in judged.items()})
    net.forward()
    net.backward()
    layer = next(n for n in net.graph.nodes if n.name == "layer")
    spots = [net.params.diff, *(net.diff[b] for b in layer.bottoms if b in net.diff)]
    expected = [s.copy() for s in spots]
    read = {net.compiled.data[v] for n in net.graph.nodes for v in n.tops if read_backward(v)}
    for value in {*layer.bottoms, *layer.tops}:
        if net.compiled.data[value] not in read:
            net.data[value].fill(np.nan)
    net.backward()
    for spot, before in zip(spots, expected, strict=True):
        np.testing.assert_array_equal(spot, before)


def read_backward(value) -> bool:
    if value.node.backward and value.node.layer.backward_reads_top(value.top):
        return True
    return any(node.backward and node.layer.backward_reads_bottom(i) for node, i in value.readers)
