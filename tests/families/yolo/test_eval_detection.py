"""EvalDetection's mean average precision."""

import numpy as np
import pytest
from textnet import bind, forward, mistaken, over, wrong

from caffelite.training.scores import Judged


def grid(boxes):
    """Predictions (1, 2 · 8, 3, 3) of one sure box of 2 × 2 cells in each of some cells: (class, row, column)."""
    x = np.full((1, 2, 8, 3, 3), -20.0)
    for label, row, column in boxes:
        x[0, 0, :5, row, column] = (0, 0, 0, 0, 20)
        x[0, 0, 5 + label, row, column] = 20
    return x.reshape(1, 16, 3, 3)


def test_eval_detection_gives_the_mean_average_precision():
    p = "side: 3 num_class: 3 num_object: 2 nms: 0.5 biases: 2 biases: 2 biases: 1 biases: 1"
    net = bind(over("EvalDetection", p, x=(1, 16, 3, 3), b=(1, 1, 2, 8)), "TEST")
    corners = [1 / 6 - 1 / 3, 1 / 6 - 1 / 3, 1 / 6 + 1 / 3, 1 / 6 + 1 / 3]
    known = np.array([[0, 1, 0, *corners, 0], [0, 2, 0, 0.1, 0.1, 0.2, 0.2, 0]])
    forward(net, x=grid([(0, 0, 0), (2, 2, 2)]), b=known[None, None])
    assert net.blobs["y"][0, :3].tolist() == [1, 1, 0]
    judged = Judged(net.graph.outputs)
    ((_, _, actual),) = judged.collected(net.outputs())
    # class 0 is found, class 1 is not, class 2 has no objects
    assert actual == pytest.approx([1 / 3])


test_mistakes_of_eval_detection = mistaken(
    wrong("EvalDetection", "", "bad biases", (1, 16, 3, 3), (1, 1, 2, 8), at="layer")
)
