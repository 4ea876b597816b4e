"""A folder in place of a file means the net or solver that a project has in it."""

import os
import shutil
from pathlib import Path

import pytest
from tiny_project import NET, SOLVER


@pytest.fixture
def pets(in_tmp_path):
    """A folder as caffelite new writes it: its paths count from the folder above."""
    Path("pets").mkdir()
    Path("pets/train_val.prototxt").write_text(NET)
    Path("pets/deploy.prototxt").write_text(
        'name: "deployed" input: "data" input_shape { dim: 1 dim: 3 } layer { name: "ip" type: "InnerProduct" '
        'bottom: "data" top: "ip" inner_product_param { num_output: 2 } }'
    )
    text = SOLVER.replace("net.prototxt", "pets/train_val.prototxt").replace('"tiny"', '"pets/pets"')
    Path("pets/solver.prototxt").write_text(text)
    return Path("pets")


def test_train_and_check_take_its_solver(pets, call):
    assert call("check pets").ok
    assert call("train -solver pets").ok
    assert Path("pets/pets_iter_3.caffemodel").is_file()
    assert call("schedule -solver pets").ok.out == call("schedule -solver pets/solver.prototxt").ok.out


def test_each_command_takes_the_net_that_it_needs(pets, call):
    assert 'name: "tiny"' not in call("summary -model pets").ok.out
    assert "loss" in call("summary -model pets").ok.out
    assert call("train -solver pets").ok
    words = "-weights pets/pets_iter_3.caffemodel"
    assert call(f"test -model pets {words} -iterations 1").ok
    assert call(f"export -model pets {words} -out ip.onnx -no_check").ok, "the deploy net has no loss"
    Path("pets/deploy.prototxt").unlink()
    assert "DummyData" in call(f"export -model pets {words} -out b.onnx -no_check").refused.err


def test_a_folder_without_such_a_file_is_named(pets, call):
    (pets / "solver.prototxt").rename(pets / "other.prototxt")
    refused = call("train -solver pets").refused
    assert "pets is a folder; expected a file, or a folder with solver.prototxt" in refused.err
    assert "found deploy.prototxt, other.prototxt, train_val.prototxt" in refused.err
    shutil.rmtree(pets)
    pets.mkdir()
    assert "found no prototxt in it" in call("summary -model pets").refused.err


def test_inside_the_folder_paths_count_from_above(pets, call, monkeypatch):
    above = os.getcwd()
    monkeypatch.chdir(pets)
    assert f"paths count from the folder above: cd {above}" in call("train -solver solver.prototxt").refused.err
