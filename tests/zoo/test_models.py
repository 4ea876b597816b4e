"""The nets that tools/make_models.py writes: as committed, of the published sizes, and each trains for two iterations
at a small size.

Names and shapes are read from the files; data layers make way for random data. tests/test_shipped.py trains the other
nets on their data.
"""

import logging
import math
import re
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import h5py
import lmdb
import make_models
import numpy as np
import pytest
import shipped_nets

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb, write_mean
from caffelite.devices import open_device
from caffelite.layers import REGISTRY
from caffelite.net import graph
from caffelite.training import build_trainer

ROOT = Path(__file__).parent.parent.parent

# Side in pixels of the images that the small nets see.
SIDES = {
    "alexnet": 67,
    "caffenet": 67,
    "vgg16": 32,
    "googlenet": 80,
    "resnet18": 33,
    "resnet50": 33,
    "squeezenet": 35,
    "mobilenet": 32,
}
SIDES |= {"cifar10_quick": 32, "cifar10_full": 32, "cifar10_resnet": 32}
# Shapes of all tops of the data layer where it is no image and a label, and the number of values that they take.
TOPS = {
    "mnist_elastic": {"data": ((4, 1, 28, 28), 8), "label": ((4,), 10)},
    "siamese": {"pair": ((4, 2, 28, 28), 8), "alike": ((4,), 2)},
    "lstm": {"code": ((5, 2), 128), "cont": ((5, 2), 2), "target": ((5, 2), 128)},
    "fcn8s": {"data": ((1, 3, 32, 40), 8), "label": ((1, 1, 32, 40), 21)},
}
# Learned numbers, all of them as published with the nets: running statistics are not counted.
PARAMETERS = {
    "alexnet": 60_965_224,
    "caffenet": 60_965_224,
    "vgg16": 138_357_544,
    "googlenet": 6_998_552,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "squeezenet": 1_235_496,
    "mobilenet": 4_231_976,
    "cifar10_quick": 145_578,
    "cifar10_full": 89_578,
    "cifar10_resnet": 3_699_514,
    "mnist_elastic": 165_394,
    "siamese": 431_080 + 22,  # LeNet and two features
    "lstm": 128 * 64 + 4 * 256 * (64 + 256 + 1) + 4 * 256 * (256 + 256 + 1) + 128 * 257,
    # VGG's convolutions, its wide layers as such, three scores, and a kernel a class: two of side 4, one of side 16
    "fcn8s": 14_714_688 + 4096 * (512 * 49 + 1) + 4096 * 4097 + 21 * (4097 + 513 + 257) + 21 * (16 + 16 + 256),
}
NETS = list(shipped_nets.NETS)
FEEDS = ("Data", "HDF5Data")
FILES = {path.relative_to(ROOT).as_posix(): text for path, text in make_models.files().items()}


@cache
def read(folder: str, kind: str = "train_val") -> pb.NetParameter:
    """A shipped net; awaits the types that it needs."""
    net = prototxt.read_net(ROOT / f"models/{folder}/{kind}.prototxt").message
    if missing := {layer.type for layer in net.layer} - set(REGISTRY):
        pytest.xfail(f"waits for {', '.join(sorted(missing))}")
    return net


def fed(folder: str, side: int = 0) -> pb.NetParameter:
    """The net with random data; side: of its images, 0 for the size that the net is made for."""
    net = pb.NetParameter()
    net.CopyFrom(read(folder))
    for layer in net.layer:
        if layer.type not in FEEDS:
            continue
        length = side or layer.transform_param.crop_size or 32
        tops = TOPS.get(folder) or {"data": ((2, 3, length, length), 255), "label": ((2,), 10)}
        flips = folder == "cifar10_resnet" and layer.include[0].phase == pb.TEST  # "data" has their mirror images too
        assert list(layer.top) == (["image", "label"] if flips else list(tops))
        for shape, below in tops.values():
            layer.dummy_data_param.shape.add(dim=shape)
            if len(shape) == 4 and (shape[1] > 1 or list(tops) == ["data", "label"] and shape[0] > 1):
                layer.dummy_data_param.data_filler.add(type="gaussian", std=below / 8)
            else:
                layer.dummy_data_param.data_filler.add(type="constant", value=below - 1)
        layer.type = "DummyData"
    return net


def thin(net: pb.NetParameter) -> None:
    """Layers for 1000 classes stay; the widest others, and the convolutions of VGG, lose most of their width."""
    for layer in net.layer:
        for p in (layer.inner_product_param, layer.convolution_param):
            if p.num_output == 4096:
                p.num_output = 32
            elif re.fullmatch(r"conv\d_\d", layer.name):
                p.num_output //= 4


def built(net: pb.NetParameter, phase: int) -> graph.Graph:
    return graph.build(net, pb.NetState(phase=phase))


def learned(net: graph.Graph) -> dict[str, list[tuple[int, ...]]]:
    """Layer → shapes of the parameters that it owns and the solver learns."""
    actual: dict[str, list] = {}
    for p in net.parameters:
        if p.node.layer.spec.type != "BatchNorm":
            actual.setdefault(p.node.name, []).append(p.blob.shape)
    return actual


def count(shapes: dict[str, list[tuple[int, ...]]]) -> int:
    return sum(math.prod(shape) for each in shapes.values() for shape in each)


@pytest.mark.parametrize("path", FILES)
def test_file_is_what_the_tool_writes(path):
    assert (ROOT / path).read_text() == FILES[path], "run: python tools/make_models.py"


@pytest.mark.parametrize("path", FILES)
def test_folding_changes_no_net(path):
    """What is written in the short form reads as the net that was built, and no line is wider than the page."""
    folder, kind = Path(path).parent.name, Path(path).stem
    assert prototxt.parse(FILES[path], pb.NetParameter).message == shipped_nets.NETS[folder].model(kind).net
    assert max(map(len, FILES[path].split("\n"))) <= 130


def test_check_finds_a_stale_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_models, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_models.py", "alexnet"])
    make_models.main()
    (tmp_path / "alexnet/deploy.prototxt").write_text("name: 'another'")
    monkeypatch.setattr(sys, "argv", ["make_models.py", "--check", "alexnet"])
    with pytest.raises(SystemExit):
        make_models.main()
    assert "stale: alexnet/deploy.prototxt\n" in capsys.readouterr().out
    assert (tmp_path / "alexnet/deploy.prototxt").read_text() == "name: 'another'"


def test_every_net_has_its_row():
    assert set(PARAMETERS) == set(NETS) == set(SIDES) | set(TOPS)


@pytest.mark.parametrize("folder", NETS)
def test_parameters_are_those_published(folder):
    assert count(learned(built(fed(folder), pb.TEST))) == PARAMETERS[folder]


def test_googlenet_learns_with_two_more_classifiers():
    net = built(fed("googlenet"), pb.TRAIN)
    assert count(learned(net)) == 13_378_280
    assert sorted(weight for _, weight in net.losses) == pytest.approx([0.3, 0.3, 1])


@pytest.mark.parametrize("folder", NETS)
def test_list_of_nets_reports_the_parameters(folder):
    row = next(
        line for line in (ROOT / "models/README.md").read_text().split("\n") if f"({folder}/train_val.prototxt)" in line
    )
    assert f"| {PARAMETERS[folder]:,} |" in row


@pytest.mark.parametrize("folder", [folder for folder, net in shipped_nets.NETS.items() if net.deploy])
def test_deploy_takes_the_trained_weights(folder):
    """The same layers with the same shapes, on the same images; probabilities of the classes come out."""
    deploy, trained = built(read(folder, "deploy"), pb.TEST), built(fed(folder), pb.TEST)
    assert learned(deploy) == learned(trained)
    assert [v.name for v in deploy.outputs] == ["prob"]
    assert deploy.values["data"].shape[1:] == trained.values["data"].shape[1:]
    assert math.prod(deploy.outputs[0].shape) in (10, 1000)


def test_sides_of_a_siamese_net_share_all_weights():
    net = built(fed("siamese"), pb.TRAIN)
    assert {name.rsplit("_", 1)[1] for name in learned(net)} == {"left"}
    assert len([n for n in net.nodes if n.params]) == 2 * len(learned(net))


def test_fcn_gives_a_score_a_pixel():
    net = built(fed("fcn8s"), pb.TRAIN)
    assert net.values["score"].shape == (1, 21, 32, 40)
    vgg = {name: shapes for name, shapes in learned(built(fed("vgg16"), pb.TEST)).items() if name.startswith("conv")}
    mine = learned(net)
    assert vgg == {name: mine[name] for name in vgg} and not {"fc6", "fc7", "fc8"} & set(mine)


@pytest.mark.slow
@pytest.mark.parametrize("folder", NETS)
def test_recipe_trains(folder, tmp_path, caplog):
    """Two iterations and a test of one batch by the net's recipe; losses are finite, and every layer that learns
    moves."""
    caplog.set_level(logging.INFO, "caffelite")
    document = prototxt.read_solver(ROOT / f"solvers/{folder}_solver.prototxt")
    p = document.message
    small = fed(folder, SIDES.get(folder, 0))
    thin(small)
    assert p.net == f"models/{folder}/train_val.prototxt"
    p.ClearField("net")
    p.net_param.CopyFrom(small)
    p.max_iter, p.display, p.test_interval, p.iter_size, p.average_loss = 2, 1, 2, min(p.iter_size, 2), 1
    p.test_iter[:], p.test_initialization, p.snapshot_prefix, p.random_seed = [1], False, str(tmp_path / "run"), 1
    with closing(build_trainer(p, document.locate, "", open_device())) as solver:
        before = {node.name: blobs for node, blobs in solver.net.layer_blobs()}
        solver.solve()
        after = {node.name: blobs for node, blobs in solver.net.layer_blobs()}
    losses = [float(m[1]) for m in re.finditer(r"loss = (\S+)", caplog.text)]
    assert len(losses) >= 2 and all(math.isfinite(loss) for loss in losses)
    assert caplog.text.count("Testing net (#") == 1
    assert all(np.isfinite(blob).all() for blobs in after.values() for blob in blobs)
    still = {
        name
        for name, blobs in after.items()
        for old, new in zip(before[name], blobs, strict=True)
        if (old == new).all()
    }
    assert still <= STILL.get(folder, set()), still


def test_augmented_recipe_trains(tmp_path, monkeypatch, caplog):
    """CIFAR-10 full on mirrored and shifted images, by its recipe and its own data layers."""
    caplog.set_level(logging.INFO, "caffelite")
    document = prototxt.read_solver(ROOT / "solvers/cifar10_full_augmented_solver.prototxt")
    p = document.message
    net = prototxt.read_net(ROOT / p.net).message

    def bare(net: pb.NetParameter) -> pb.NetParameter:
        copy = pb.NetParameter(layer=net.layer[2:])
        for layer in copy.layer:
            layer.convolution_param.ClearField("weight_filler")
            for param in layer.param:
                param.ClearField("decay_mult")
        return copy

    assert bare(net) == bare(read("cifar10_full")), "data, first weights and decay alone differ"
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(1).integers(0, 256, (300, 3, 32, 32)).astype(np.uint8)
    for part in ("train", "test"):
        write_lmdb(f"cifar10_{part}_lmdb", ((image, i % 10) for i, image in enumerate(images)))
    write_mean("mean.binaryproto", images.mean(0))
    p.net, p.max_iter, p.display, p.test_iter[:] = str(ROOT / p.net), 2, 1, [2]
    p.test_initialization, p.snapshot_after_train, p.random_seed = False, False, 1
    with closing(build_trainer(p, document.locate, "", open_device())) as solver:
        before = solver.dev.download(solver.net.params.data)
        solver.solve()
        after = solver.dev.download(solver.net.params.data)
    assert np.isfinite(after).all() and (after != before).any() and solver.iteration == 2


# Layers with a blob that two iterations leave as it is: one is fixed, the steps of the other are too short for float32
# while its scores start at 0; and the bias that both sides of a siamese net add cancels out of their difference.
STILL: dict[str, set[str]] = {"fcn8s": {"upscore8", "upscore2"}, "siamese": {"feature_left", "feature_right"}}


@pytest.mark.parametrize("folder", NETS)
def test_data_layers_fit_their_data(folder, in_tmp_path):
    """The data layers as they ship open the sets that the net's first lines describe, and give the shapes that it is
    built for."""
    for layer in read(folder).layer:
        if layer.type not in FEEDS:
            continue
        tops, size = TOPS.get(folder), 256 if layer.transform_param.crop_size else 32
        if layer.type == "Data":
            shape = next(iter(tops.values()))[0][1:] if tops else (3, size, size)
            write_lmdb(layer.data_param.source, [(np.zeros(shape, np.uint8), 1)])
            if layer.transform_param.mean_file:
                write_mean(layer.transform_param.mean_file, np.zeros(shape), force=True)
        else:
            write_hdf5(
                Path(layer.hdf5_data_param.source).with_suffix(".h5"),
                {name: np.zeros(shape) for name, (shape, _) in tops.items()},
            )
        one = pb.LayerParameter()
        one.CopyFrom(layer)
        for p in (one.data_param, one.hdf5_data_param):
            p.batch_size = 2
        phase = layer.include[0].phase
        net, state = pb.NetParameter(layer=[one]), pb.NetState(phase=phase)
        single = graph.build(net, state, open_source=lambda *args: data.open_source(*args, seed=1))
        try:
            expected = [v.shape[1:] for v in built(fed(folder), phase).nodes[0].tops]
            assert [v.shape[1:] for v in single.nodes[0].tops] == expected
        finally:
            single.nodes[0].layer.source.close()


def test_data_of_the_list_of_nets_is_made_as_it_says(in_tmp_path):
    """The Python lines of models/README.md, on a small MNIST and a short text."""
    images = np.random.default_rng(1).integers(0, 256, (40, 1, 28, 28), np.uint8)
    for part in ("train", "test"):
        write_lmdb(f"mnist_{part}_lmdb", ((image, i % 10) for i, image in enumerate(images)))
    Path("book.txt").write_text("".join(chr(97 + i % 26) for i in range(1700)))
    code = re.search(r"^```python\n(.*?)^```", (ROOT / "models/README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    exec(compile(code, "models/README.md", "exec"), {})
    with h5py.File("characters_train.h5") as file:
        code, cont, target = (file[name][:] for name in ("code", "cont", "target"))
    assert code.shape == cont.shape == target.shape == (1529 // 16, 16) and code.max() < 128
    assert (target[:-1] == code[1:]).all() and not cont[0].any() and cont[1:].all()
    with lmdb.open("siamese_train_lmdb", readonly=True, lock=False) as database, database.begin() as reader:
        pairs = [pb.Datum.FromString(value) for _, value in reader.cursor()]
    assert {(p.channels, p.height, p.width) for p in pairs} == {(2, 28, 28)} and len(pairs) == 40
    assert [p.label for p in pairs[1::2]] == [1] * 20 and 0 in [p.label for p in pairs[::2]]
