"""The nets that ship with weights: their files, their figures and the runs that made them."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import caffelite
from caffelite import weights
from caffelite.cli.dataset import dataset
from caffelite.errors import CaffeliteError
from caffelite.zoo import catalog, trained

NETS = trained.trained()
DATA = os.environ.get("CAFFELITE_DATA")
SETS = {"MNIST": ("mnist", "mnist"), "CIFAR-10": ("cifar10", "cifar10-jpg.tar.gz"), "scikit-learn": ("digits", None)}
SETS |= {"drawn shapes": ("shapes", None)}


def test_all_together_are_small():
    assert {"lenet_mnist", "digits", "mnist_elastic"} <= {one.name for one in NETS}
    total = sum(path.stat().st_size for path in trained.FOLDER.rglob("*") if path.is_file())
    assert total <= 12_000_000


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
            arguments = [name, *origin, "--out", str(folder)]
            CliRunner().invoke(dataset, arguments, catch_exceptions=False, standalone_mode=False)
            if name == "shapes":  # the net reads databases of boxes
                boxes = [
                    "detection",
                    str(folder / "shapes" / "test.json"),
                    "--name",
                    "shapes_test",
                    "--out",
                    str(folder),
                ]
                CliRunner().invoke(dataset, boxes, catch_exceptions=False, standalone_mode=False)
            made.add(name)
        return folder

    return make


@pytest.mark.slow
@pytest.mark.parametrize("one", NETS, ids=lambda one: one.name)
def test_the_test_command_repeats_the_figure(one, sets):
    """To the last digit, with the copied files and the command of the card."""
    folder = sets(one.data)
    trained.copy(one, folder / one.name)
    program, *words = one.test.split()
    assert program == "caffelite"
    command = [sys.executable, "-m", "caffelite", *words]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0 and f"{one.score} = {one.value:g}\n" in found.stderr, found.stderr
