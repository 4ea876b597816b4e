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
    them: arrays by name. strict: a layer works in place only where Caffe computes its gradient right."""

    def __init__(self, rng, strict=False):
        self.layers, self.blobs = [("Input", [], "a")], {"a": np.zeros(SHAPE), "b": np.zeros(SHAPE)}
        taken = set()  # blobs that are read, or whose sign ReLU's gradient uses
        for i in range(rng.integers(3, 9)):
            kind = str(rng.choice(["ReLU", "Power", "Scale", "InnerProduct", "Eltwise"]))
            bottoms = [str(rng.choice(list(self.blobs))) for _ in range(1 + (kind == "Eltwise"))]
            in_place = kind in ("Power", "Scale") or kind == "ReLU" and rng.random() < 0.5
            if strict and (bottoms[0] in taken or kind == "InnerProduct"):
                in_place = False
            if not in_place or kind == "ReLU":
                taken.update(bottoms)
            self.layers.append((kind, bottoms, bottoms[0] if in_place else f"y{i}"))
            self.blobs.setdefault(self.layers[-1][2], np.zeros(SHAPE))
        self.layers.append(("EuclideanLoss", [list(self.blobs)[-1], "b"], "loss"))
        self.diffs = {name: np.zeros(SHAPE) for name in self.blobs} | {"loss": np.ones(())}

    def text(self) -> str:
        lines = ["force_backward: true"]
        for i, (kind, bottoms, top) in enumerate(self.layers):
            wiring = [f'bottom: "{name}"' for name in bottoms] + [f'top: "{top}"'] + ['top: "b"'] * (kind == "Input")
            lines.append(f'layer {{ name: "l{i}" type: "{kind}" {" ".join(wiring)} {FIELDS.get(kind, "")} }}')
        return "\n".join(lines)

    def _values(self, i: int, params):
        kind, bottoms, _ = self.layers[i]
        return kind, [self.blobs[name] for name in bottoms], [blob.data for blob in params.get(f"l{i}", ())]

    def run(self, first: int, last: int, params) -> None:
        for i in range(max(first, 1), last + 1):
            kind, x, weights = self._values(i, params)
            self.blobs[self.layers[i][2]] = COMPUTE[kind](x, weights)

    def run_backward(self, last: int, first: int, params) -> None:
        begun = set()  # blobs to whose gradient a reader has contributed
        for i in range(last, max(first, 1) - 1, -1):
            kind, x, weights = self._values(i, params)
            _, bottoms, top = self.layers[i]
            for name, diff in zip(bottoms, DERIVE[kind](self.diffs[top], x, weights), strict=True):
                self.diffs[name] = self.diffs[name] + diff if name in begun and name != top else diff
                begun.add(name)


COMPUTE = {
    "ReLU": lambda x, _: np.maximum(x[0], 0),
    "Power": lambda x, _: 2 * x[0] - 1,
    "Scale": lambda x, weights: x[0] * weights[0],
    "InnerProduct": lambda x, weights: x[0] @ weights[0].T + weights[1],
    "Eltwise": lambda x, _: x[0] + x[1],
    "EuclideanLoss": lambda x, _: ((x[0] - x[1]) ** 2).sum() / 4,
}
DERIVE = {
    "ReLU": lambda diff, x, _: [diff * (x[0] > 0)],
    "Power": lambda diff, x, _: [2 * diff],
    "Scale": lambda diff, x, weights: [diff * weights[0]],
    "InnerProduct": lambda diff, x, weights: [diff @ weights[0]],
    "Eltwise": lambda diff, x, _: [diff, diff],
    "EuclideanLoss": lambda diff, x, _: [diff * (x[0] - x[1]) / 2, diff * (x[1] - x[0]) / 2],
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


@pytest.mark.parametrize("seed", range(40))
def test_gradients_have_one_memory_as_in_caffe(write, seed):
    """From losses, from outputs that no loss reads, and from what a program writes between."""
    rng = np.random.default_rng(seed)
    expected = RandomNet(rng, strict=True)
    net, end = caffe.Net(write(expected.text()), caffe.TRAIN), len(expected.layers) - 1
    for name in ("a", "b"):
        net.blobs[name].data[...] = expected.blobs[name] = rng.normal(size=SHAPE)
    net.forward()
    expected.run(0, end, net.params)
    arrays = {name: blob.diff for name, blob in net.blobs.items()}  # a program may keep them
    for turn in range(6):
        for name in rng.choice(list(arrays), size=2 * (turn > 0)):
            arrays[name][...] = expected.diffs[name] = rng.normal(size=expected.diffs[name].shape)
        last = int(rng.integers(0, end + 1)) if turn % 2 else end
        first = int(rng.integers(0, last + 1)) if turn % 2 else 0
        net.backward(start=f"l{last}", end=f"l{first}")
        expected.run_backward(last, first, net.params)
        for name, values in expected.diffs.items():
            np.testing.assert_allclose(arrays[name], values, rtol=2e-4, atol=1e-5, err_msg=name)
