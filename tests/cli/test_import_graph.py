"""caffelite import of an ONNX file: what the folder holds, that it trains, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from onnx_import import onnx_nets as nets
from onnx_import.onnx_nets import node, weights

import caffelite

NODES = [
    node("Conv", "x", "c.weight", "c.bias", to="a", pads=[1, 1, 1, 1]),
    node("Relu", "a", to="r"),
    node("GlobalAveragePool", "r", to="g"),
    node("Flatten", "g", to="f"),
    node("Gemm", "f", "fc.weight", to="s", transB=1),
    node("Softmax", "s", to="y", axis=1),
]
CONSTANTS = {"c.weight": weights(6, 3, 3, 3), "c.bias": weights(6), "fc.weight": weights(4, 6)}


@pytest.fixture
def net(in_tmp_path):
    nets.write(Path("net.onnx"), NODES, CONSTANTS, (None, 3, None, None))


def test_the_folder_is_whole(net, call):
    result = call("import net.onnx -out made -shape x=3x8x8").ok
    assert '"y" differs by at most' in result.err
    assert sorted(path.name for path in Path("made").iterdir()) == [
        "deploy.prototxt",
        "net.caffemodel",
        "train_val.prototxt",
    ]
    opened = caffelite.Net("made/deploy.prototxt", "made/net.caffemodel", caffelite.TEST)
    assert list(opened.params) == ["c", "fc"]
    assert opened.forward(x=np.ones((1, 3, 8, 8), np.float32))["y"].sum() == pytest.approx(1)
    train = Path("made/train_val.prototxt").read_text()
    assert '"SoftmaxWithLoss"' in train and '"Softmax"' not in train and 'bottom: "fc"' in train
    assert call("summary -model made -phase TRAIN").status == 0
    again = call("import net.onnx -out made -shape x=3x8x8")
    assert again.status == 2 and "exists" in again.err
    assert call("import net.onnx -out made -shape x=3x8x8 -force").status == 0


def test_given_inputs(net, call):
    np.savez("given.npz", x=weights(3, 3, 8, 8))
    assert call("import net.onnx -out made -shape x=3x8x8 -inputs given.npz").status == 0
    result = call("import net.onnx -out other -shape x=3x8x8 -inputs net.onnx")
    assert result.status == 2 and "given" not in result.err and not Path("other").exists()


def test_an_output_that_proves_nothing_is_named(in_tmp_path, call):
    nets.write(Path("net.onnx"), NODES, {**CONSTANTS, "fc.weight": 0 * weights(4, 6)}, (None, 3, None, None))
    assert (
        '"y" is 0.25 everywhere, so that it proves nothing' in call("import net.onnx -out made -shape x=3x8x8").ok.err
    )


def test_refusals_write_nothing(net, call):
    for words, message in (
        ("import net.onnx -out made", "-shape x="),
        ("import net.onnx -out made -map a=b", "-map needs -model"),
        ("import none.onnx -out made", "none.onnx"),
    ):
        result = call(words)
        assert result.status == 2 and message in result.err and not Path("made").exists()
