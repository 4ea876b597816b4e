"""Every net and recipe that ships stands in models/README.md, is read, is built and trains, here on random data of the
right shape."""

import logging
import math
import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.cli.dataset import dataset
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.devices import open_device
from caffelite.devices.traits import cpu_traits
from caffelite.drawn import motions, shapes, words
from caffelite.layers.base.detection_base import DetectionJudge
from caffelite.net import graph
from caffelite.net.compile import compile
from caffelite.training import build_trainer, nets

ROOT = Path(__file__).parent.parent.parent
NETS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "models").rglob("*.prototxt"))
SOLVERS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "solvers").rglob("*.prototxt"))
# The others are written by tools/make_models.py, and tests/test_models.py trains them at a small size.
BY_HAND = [path for path in NETS if "tools/make_models.py" not in (ROOT / path).read_text()]
BY_HAND_SOLVERS = [path for path in SOLVERS if prototxt.read_solver(ROOT / path).message.net in BY_HAND]


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    """A folder with a small random stand-in for every data set that the shipped nets name."""
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(1)
    for name in ("mnist_train", "mnist_test", "digits_train", "digits_test"):
        images = rng.integers(0, 256, (12, 1, 28, 28), np.uint8)
        write_lmdb(folder / f"{name}_lmdb", ((image, i % 10) for i, image in enumerate(images)))
    shapes.write(folder / "shapes", {"train": 3, "test": 3}, 128, seed=0)
    for drawing in (words, motions):
        name = drawing.__name__.rpartition(".")[2]
        for split in drawing.SPLITS:
            write_hdf5(folder / f"{name}_{split}.h5", drawing.datasets(0, split, 3))
    for part in ("train", "test"):
        arguments = ["detection", f"{folder}/shapes/{part}.json", "--name", f"shapes_{part}", "--out", str(folder)]
        CliRunner().invoke(dataset, arguments, catch_exceptions=False, standalone_mode=False)
    for name in ("logreg_train", "logreg_test"):
        write_hdf5(folder / f"{name}.h5", {"data": rng.standard_normal((12, 4)), "label": np.arange(12) % 2})
    return folder


@pytest.fixture
def in_sets(sets, monkeypatch) -> Path:
    monkeypatch.chdir(sets)
    return sets


def states(net: pb.NetParameter) -> list[pb.NetState]:
    """Each phase, alone and with each stage that some rule asks for; a net that names no phase has only TEST."""
    rules = [rule for layer in net.layer for rule in layer.include]
    stages = sorted({stage for rule in rules for stage in rule.stage})
    phases = sorted({rule.phase for rule in rules if rule.HasField("phase")}) or [pb.TEST]
    both = [pb.NetState(phase=p, stage=[s]) for p in phases for s in stages]
    return both or [pb.NetState(phase=p) for p in phases]


@pytest.mark.parametrize("path", BY_HAND)
def test_net_is_built(path, in_sets):
    document = prototxt.read_net(ROOT / path)
    actual = states(document.message)
    assert actual
    for state in actual:
        built = graph.build(document.message, state, document.locate, lambda *args: data.open_source(*args, seed=1))
        try:
            assert built.outputs
            assert compile(built, cpu_traits()).arena > 0
            tests_detection = any(isinstance(node.layer, DetectionJudge) for node in built.nodes)
            assert bool(built.losses) == (Path(path).stem != "deploy" and not tests_detection)
        finally:
            for node in built.feeds:
                if getattr(node.layer, "source", None):
                    node.layer.source.close()


@pytest.mark.slow
@pytest.mark.parametrize("path", BY_HAND_SOLVERS)
def test_recipe_trains(path, in_sets, tmp_path, caplog):
    """Two iterations and a test of two batches, through the solver itself; the loss is finite and the weights move."""
    caplog.set_level(logging.INFO, "caffelite")
    document = prototxt.read_solver(ROOT / path)
    p = document.message
    p.max_iter, p.display, p.test_interval, p.test_initialization = 2, 1, 2, False
    p.test_iter[:] = [2] * len(p.test_iter)
    p.snapshot_prefix, p.random_seed = str(tmp_path / "run"), 1
    p.net = str(ROOT / p.net)
    with closing(build_trainer(p, document.locate, str(ROOT / path), open_device())) as solver:
        before = solver.dev.download(solver.net.params.data)
        solver.solve()
        after = solver.dev.download(solver.net.params.data)
    losses = [float(m[1]) for m in re.finditer(r"loss = (\S+)", caplog.text)]
    assert losses and all(math.isfinite(loss) for loss in losses)
    assert np.isfinite(after).all() and (after != before).any()
    assert solver.iteration == 2
    assert caplog.text.count("Testing net (#") == len(p.test_iter) >= 1
    assert (tmp_path / "run_iter_2.caffemodel").is_file() and (tmp_path / "run_iter_2.solverstate").is_file()


@pytest.mark.parametrize("path", SOLVERS)
def test_recipe_names_a_shipped_net(path, monkeypatch):
    monkeypatch.chdir(ROOT)  # the solvers name nets from there
    document = prototxt.read_solver(ROOT / path)
    assert document.message.net in NETS
    nets.train_net(document.message, document.locate)


def test_deploy_net_has_the_trained_layers():
    """A deploy net takes the weights of the training net: the same layers with the same parameters."""
    deploy, train = (
        prototxt.read_net(ROOT / f"models/lenet/{name}.prototxt").message for name in ("deploy", "train_val")
    )
    actual = [{layer.name: parameters(layer) for layer in net.layer if parameters(layer)} for net in (deploy, train)]
    assert actual[0] and actual[0] == actual[1]


def parameters(layer: pb.LayerParameter) -> tuple | None:
    """What decides the shapes of a layer's weights."""
    for p in (layer.convolution_param, layer.inner_product_param):
        if p.num_output:
            return layer.type, p.num_output, str(getattr(p, "kernel_size", None)), p.bias_term
    return None


@pytest.mark.parametrize("path", NETS + SOLVERS)
def test_is_named_in_the_list_of_nets(path):
    text = (ROOT / "models/README.md").read_text()
    assert path.removeprefix("models/") in text if path.startswith("models/") else path in text


def test_list_of_nets_names_only_files_that_exist():
    text = (ROOT / "models/README.md").read_text()
    linked = [ROOT / "models" / name for name in re.findall(r"\]\(([^)#]+)\)", text)]
    named = [ROOT / name for name in re.findall(r"(?<![\w/])solvers/\w+\.prototxt", text)]
    assert linked and named
    assert not [str(p) for p in linked + named if not p.exists()]
