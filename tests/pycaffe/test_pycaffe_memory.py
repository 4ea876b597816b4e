"""Blobs are as in Caffe, where each has one memory: what programs write and layers compute there, in any order."""

import numpy as np
import pytest

import caffelite.pycaffe as caffe

SHAPE = (2, 3)
FIELDS = {
    "Input": "input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 3 } }",
    "Power": "power_param { scale: 2 shift: -1 }",
    "Scale": 'scale_param { filler { type: "gaussian" } }',
    "InnerProduct": 'inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.7 } }',
}
SOLVER = 'train_net: "net.prototxt" base_lr: 0 lr_policy: "fixed" snapshot_prefix: "s" random_seed: 1'


class RandomNet:
    """A random net of layers in place and out of place, each (kind, bottoms, top), and its blobs as Caffe computes
    them: arrays by name."""

    def __init__(self, rng):
        self.layers, names = [("Input", [], "a")], ["a", "b"]
        for i in range(rng.integers(3, 9)):
            kind = str(rng.choice(["ReLU", "Power", "Scale", "InnerProduct", "Eltwise"]))
            bottoms = [str(rng.choice(names)) for _ in range(1 + (kind == "Eltwise"))]
            in_place = kind in ("Power", "Scale") or kind == "ReLU" and rng.random() < 0.5
            self.layers.append((kind, bottoms, bottoms[0] if in_place else f"y{i}"))
            names += [] if in_place else [f"y{i}"]
        self.layers.append(("EuclideanLoss", [names[-1], "b"], "loss"))
        self.blobs = {name: np.zeros(SHAPE) for name in names}

    def text(self) -> str:
        lines = []
        for i, (kind, bottoms, top) in enumerate(self.layers):
            wiring = [f'bottom: "{name}"' for name in bottoms] + [f'top: "{top}"'] + ['top: "b"'] * (kind == "Input")
            lines.append(f'layer {{ name: "l{i}" type: "{kind}" {" ".join(wiring)} {FIELDS.get(kind, "")} }}')
        return "\n".join(lines)

    def run(self, first: int, last: int, params) -> None:
        for i, (kind, bottoms, top) in enumerate(self.layers[first : last + 1], first):
            x = [self.blobs[name] for name in bottoms]
            weights = [blob.data for blob in params.get(f"l{i}", ())]
            if kind != "Input":
                self.blobs[top] = COMPUTE[kind](x, weights)


COMPUTE = {
    "ReLU": lambda x, _: np.maximum(x[0], 0),
    "Power": lambda x, _: 2 * x[0] - 1,
    "Scale": lambda x, weights: x[0] * weights[0],
    "InnerProduct": lambda x, weights: x[0] @ weights[0].T + weights[1],
    "Eltwise": lambda x, _: x[0] + x[1],
    "EuclideanLoss": lambda x, _: ((x[0] - x[1]) ** 2).sum() / 4,
}


@pytest.mark.parametrize("seed", range(40))
def test_blobs_have_one_memory_as_in_caffe(write, seed):
    rng = np.random.default_rng(seed)
    expected = RandomNet(rng)
    write(expected.text())
    solver = caffe.SGDSolver(write(SOLVER, "solver.prototxt"))
    net, end = solver.net, len(expected.layers) - 1
    arrays = {name: blob.data for name, blob in net.blobs.items()}  # a program may keep them
    for turn in range(6):
        names = ["a", "b"] if turn == 0 else [str(rng.choice(list(expected.blobs))) for _ in range(2)]
        for name in names:
            expected.blobs[name] = rng.normal(size=expected.blobs[name].shape)
            arrays[name][...] = expected.blobs[name]
        first = 0 if turn == 0 else int(rng.integers(0, end + 1))
        last = end if turn == 0 else int(rng.integers(first, end + 1))
        if turn % 2:
            solver.step(1)
            first, last = 0, end
        else:
            net.forward(start=f"l{first}", end=f"l{last}")
        expected.run(first, last, net.params)
        for name, values in expected.blobs.items():
            np.testing.assert_allclose(arrays[name], values, rtol=2e-4, atol=1e-5, err_msg=name)
