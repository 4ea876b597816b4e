"""The nets that ship with weights: their files, their figures, and the data sets that they are tested with."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

import cv2
import lmdb
import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import text_format

import caffelite
from caffelite import caffelite_pb2 as pb, weights
from caffelite.cli.dataset import dataset
from caffelite.data import open_source
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.zoo import catalog, trained

NETS = trained.trained()
ONE_TO_TRAIN = {"shapes": "--images", "words": "--lines", "motions": "--pairs"}
DATA = os.environ.get("CAFFELITE_DATA")
SETS = {"MNIST": ("mnist", "mnist"), "CIFAR-10": ("cifar10", "cifar10-jpg.tar.gz"), "scikit-learn": ("digits", None)}
SETS |= {"drawn shapes": ("shapes", None), "drawn words": ("words", None), "drawn motions": ("motions", None)}


def test_all_together_are_small():
    assert {"lenet_mnist", "digits", "mnist_elastic"} <= {one.name for one in NETS}
    contents = [path.read_bytes() for path in trained.FOLDER.rglob("*") if path.is_file()]
    assert sum(len(zlib.compress(content)) for content in contents) <= 12_000_000  # as in a wheel


@pytest.mark.parametrize("one", NETS, ids=lambda one: one.name)
def test_card_names_every_file(one):
    files = {path.relative_to(one.folder).as_posix() for path in one.folder.rglob("*") if path.is_file()}
    assert files == {trained.CARD, *one.files}
    assert [name for name, _ in one.verified()] == list(one.files)
    assert one.origin.startswith("caffelite train -solver solvers/") and catalog.find(one.recipe)
    assert not any(b"/tmp/" in path.read_bytes() for path in one.folder.rglob("*.*") if path.suffix != ".png")


@pytest.mark.parametrize("one", NETS, ids=lambda one: one.name)
def test_weights_fit_the_recipe(one):
    model = weights.read_model(one.folder / f"{one.name}.caffemodel")
    with contextlib.closing(caffelite.load(one.name)) as net:
        shapes = {name: [blob.shape for blob in blobs] for name, blobs in net.params.items()}
    assert shapes == {name: [blob.shape for blob in blobs] for name, blobs in model.items()}


def test_load_answers_for_a_picture():
    picture = trained.find("lenet_mnist").folder / "pictures" / "7" / "7.png"
    with contextlib.closing(caffelite.load("lenet_mnist")) as net:
        assert net.classify(picture)[0].label == "7"


def test_load_refuses_an_unknown_name():
    with pytest.raises(CaffeliteError, match='no net "lenet_mnits" with weights; .*did you mean "lenet_mnist"'):
        caffelite.load("lenet_mnits")


def test_load_takes_the_folder_of_a_net(tmp_path, in_tmp_path):
    trained.copy(trained.find("lenet_mnist"), tmp_path / "mine")
    picture = tmp_path / "mine/pictures/7/7.png"
    for folder in ("mine", str(tmp_path / "mine")):
        assert caffelite.load(folder).classify(picture)[0].label == "7"
    (tmp_path / "empty").mkdir()
    with pytest.raises(CaffeliteError, match="empty is a folder; expected a file, or a folder with deploy.prototxt"):
        caffelite.load("empty")


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    shutil.copytree(trained.find("lenet_mnist").folder, tmp_path / "lenet_mnist")
    monkeypatch.setattr(trained, "FOLDER", tmp_path)
    path = tmp_path / "lenet_mnist" / "lenet_mnist.caffemodel"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(CaffeliteError, match="lenet_mnist.caffemodel of lenet_mnist is not what was shipped"):
        caffelite.load("lenet_mnist")
    path.unlink()
    with pytest.raises(CaffeliteError, match="is missing; install caffelite anew"):
        trained.copy(trained.find("lenet_mnist"), tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Makes a folder with the data sets that nets need, each once."""
    folder, made = tmp_path_factory.mktemp("sets"), set()

    def make(about: str) -> Path:
        name, source = next(value for start, value in SETS.items() if about.startswith(start))
        if source and not DATA:
            pytest.skip("CAFFELITE_DATA, a folder with MNIST and CIFAR-10, is not set")
        if name not in made:
            origin = ["--from", str(Path(DATA or "") / source)] if source else []
            few = [ONE_TO_TRAIN[name], "1"] if name in ONE_TO_TRAIN else []
            arguments = [name, *origin, *few, "--out", str(folder)]
            CliRunner().invoke(dataset, arguments, catch_exceptions=False, standalone_mode=False)
            if name == "shapes":  # the net reads databases of boxes
                listed = str(folder / "shapes" / "test.json")
                boxes = ["detection", listed, "--name", "shapes_test", "--out", str(folder)]
                CliRunner().invoke(dataset, boxes, catch_exceptions=False, standalone_mode=False)
            made.add(name)
        return folder

    return make


def lmdb_of(path, batch):
    layer = f'type: "Data" top: "data" top: "label" data_param {{ source: "{path}" backend: LMDB batch_size: {batch} }}'
    with open_source(text_format.Parse(layer, pb.LayerParameter()), pb.TEST, NOWHERE, 0) as source:
        assert source.length == batch
        return [array.copy() for array in source.next()]


def keys(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return [key.decode()[9:] for key in transaction.cursor().iternext(values=False)]


@pytest.mark.data
def test_the_real_mnist(sets):
    _, label = lmdb_of(sets("MNIST") / "mnist_test_lmdb", 10000)
    assert label[:5].tolist() == [7, 2, 1, 0, 4] and label.sum() == 44434


@pytest.mark.data
@pytest.mark.slow
def test_the_real_cifar10_as_image_files(sets, data_folder):
    """Every record of the test set against the archive's own bytes; of the training set each image once, and the
    mean."""
    made = sets("CIFAR-10")
    with tarfile.open(data_folder / "cifar10-jpg.tar.gz") as archive:
        files = {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}
    test, train = lmdb_of(made / "cifar10_test_lmdb", 10000), lmdb_of(made / "cifar10_train_lmdb", 50000)
    classes = sorted({name.split("/")[1] for name in files})
    for name, image, label in zip(keys(made / "cifar10_test_lmdb"), *test, strict=True):
        expected = cv2.imdecode(np.frombuffer(files.pop(f"test/{name}"), np.uint8), cv2.IMREAD_COLOR)
        assert classes[int(label)] == name.split("/")[0] and (image == expected.transpose(2, 0, 1)).all()
    assert {f"train/{name}" for name in keys(made / "cifar10_train_lmdb")} == set(files)
    assert np.bincount(train[1].astype(int)).tolist() == [5000] * 10 and len(set(train[1][:50])) == 10
    mean = pb.BlobProto.FromString((made / "mean.binaryproto").read_bytes())
    assert np.array(mean.data) == pytest.approx(train[0].mean(0, np.float64).ravel(), rel=1e-6)


LONG = {"cifar10_resnet"}  # half of the time of all


@pytest.mark.slow
@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.name, marks=[pytest.mark.full] * (one.name in LONG)) for one in NETS]
)
def test_the_test_command_repeats_the_figure(one, sets):
    """To the last digit, with the copied files and the command of the card."""
    folder = sets(one.data)
    trained.copy(one, folder / one.name)
    program, *words = one.test.split()
    assert program == "caffelite"
    command = [sys.executable, "-m", "caffelite", *words]
    actual = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert actual.returncode == 0 and re.search(f"{one.score} = {one.value:g}[ \n]", actual.stderr), actual.stderr
