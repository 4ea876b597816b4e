"""Imports nets of torchvision and timm with random weights, trains them for ten iterations here and in PyTorch on the
same numbers, and prints how far the losses are apart, also from those of PyTorch in float64: rounding alone may move
them so far. Deep nets with batch norms and random weights magnify rounding, the more the faster they learn: the rate is
the greatest of RATES at which PyTorch's own losses agree. How far training moves the losses from those of the untrained
net is printed too: where that is little, equal losses prove little. python tools/train_onnx_imports.py [NAME..]"""

import argparse
import copy
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
from check_onnx_imports import NAMES, make, row

import caffelite
from caffelite import caffelite_pb2 as pb, prototxt, weights as caffemodels
from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

BATCH, ITERATIONS, MOMENTUM = 4, 10, 0.9
RATES, AGREE = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7), 1e-4
SIDES = {"inception_v3": 96, "alexnet": 224, "vgg11": 224, "vit_b_32": 224, "timm/vit_tiny_patch16_224": 224}
SIDE = 64  # of the others: no net needs more, and ten iterations are done in seconds


def at_start(net):
    """The net as training starts: batch norms without the random values of `make`, and nothing is drawn, neither
    dropout nor stochastic depth."""
    import torch

    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_parameters()
        for name in ("p", "drop_prob", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return net


def export(net, side: int, path: Path) -> None:
    """With its batch norms, which the usual export folds into convolutions."""
    import torch

    torch.onnx.export(
        net.eval(),
        (torch.randn(1, 3, side, side),),
        path,
        dynamo=False,
        opset_version=17,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=["x"],
        dynamic_axes={"x": {0: "n"}},
    )


def draw(side: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    pictures = rng.standard_normal((ITERATIONS, BATCH, 3, side, side)).astype(np.float32)
    return pictures, rng.integers(0, classes, (ITERATIONS, BATCH))


def losses_of_torch(net, pictures: np.ndarray, labels: np.ndarray, rate: float) -> list[float]:
    import torch

    optimizer = torch.optim.SGD(net.train().parameters(), rate, MOMENTUM)
    losses = []
    for x, y in zip(pictures, labels, strict=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def losses_here(path: Path, pictures: np.ndarray, labels: np.ndarray, rate: float) -> list[float]:
    """Trains the imported net with its data layers replaced by inputs."""
    made = convert(path, {"": pictures.shape[2:]}, None)
    if made.train is None:
        raise CaffeliteError("the imported net is no classifier of any batch")
    folder, net = path.parent, pb.NetParameter(name=made.train.name)
    top = made.deploy.layer[0].top[0]
    layer = net.layer.add(name="data", type="Input", top=[top, "label"])
    layer.input_param.shape.add(dim=pictures.shape[1:])
    layer.input_param.shape.add(dim=[BATCH])
    net.layer.extend(each for each in made.train.layer if each.type not in ("ImageData", "HDF5Data", "Accuracy"))
    (folder / "net.prototxt").write_text(prototxt.write(net))
    stored = [(each, made.blobs[each.name]) for each in made.deploy.layer if each.name in made.blobs]
    (folder / "net.caffemodel").write_bytes(caffemodels.sealed(caffemodels.encode_net(made.deploy, stored)))
    (folder / "solver.prototxt").write_text(
        f'net: "net.prototxt" base_lr: {rate} momentum: {MOMENTUM} lr_policy: "fixed" max_iter: {ITERATIONS} '
        'snapshot_after_train: false snapshot_prefix: "run"'
    )
    solver = caffelite.Solver(folder / "solver.prototxt")
    solver.net.copy_from(folder / "net.caffemodel")
    losses = []
    for x, y in zip(pictures, labels, strict=True):
        solver.net.blobs[top].data[...] = x
        solver.net.blobs["label"].data[...] = y
        solver.step(1)
        losses.append(float(solver.net.blobs["loss"].data))
    solver.close()
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names or NAMES
    logging.disable(logging.WARNING)
    of = ("here to PyTorch", "here to float64", "PyTorch to float64")
    titles = ("net", "side", "rate", "first loss", "last loss", "moved by training", *of, "s")
    print(row(titles), row(["---"] * len(titles)), sep="\n", flush=True)
    for name in names:
        begin, side = time.perf_counter(), SIDES.get(name, SIDE)
        net = at_start(make(name))
        pictures, labels = draw(side, 1000)
        still = losses_of_torch(copy.deepcopy(net), pictures, labels, 0.0)
        for rate in RATES:
            theirs = losses_of_torch(copy.deepcopy(net), pictures, labels, rate)
            exact = losses_of_torch(copy.deepcopy(net).double(), pictures.astype(float), labels, rate)
            if _apart(theirs, exact) < AGREE:
                break
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.onnx"
            export(net, side, path)
            try:
                mine = losses_here(path, pictures, labels, rate)
            except CaffeliteError as mistake:
                print(row([name, side, rate, str(mistake).splitlines()[0], *[""] * 6]), flush=True)
                continue
        seconds = time.perf_counter() - begin
        losses = [f"{loss:.4f}" for loss in (theirs[0], theirs[-1])]
        pairs = ((theirs, still), (mine, theirs), (mine, exact), (theirs, exact))
        differences = [f"{_apart(*pair):.1e}" for pair in pairs]
        print(row([name, side, f"{rate:g}", *losses, *differences, f"{seconds:.0f}"]), flush=True)


def _apart(some: list[float], others: list[float]) -> float:
    """The greatest difference of two runs' losses, as a share."""
    return max(abs(one - other) / other for one, other in zip(some, others, strict=True))


if __name__ == "__main__":
    main()
