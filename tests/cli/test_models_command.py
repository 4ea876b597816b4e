"""caffelite models: the list, and copies that work in an empty folder."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from caffelite import prototxt
from caffelite.zoo import catalog, trained

ROOT = Path(__file__).parents[2]


def test_list_has_every_shipped_net(call):
    rows = json.loads(call("models", "--json").out)
    assert len(rows) == len(list((ROOT / "solvers").glob("*_solver.prototxt"))) - 1  # two solvers are for one net
    by_name = {row["name"]: row for row in rows}
    assert by_name["lenet"]["input"] == [1, 28, 28] and by_name["lenet"]["parameters"] == 431_080
    assert by_name["cifar10_quick"]["multiply_adds"] == 12_298_240 + 1024 * 64 + 64 * 10 - 1024 * 10
    assert by_name["lstm"]["input"] is None
    assert "published" in by_name["squeezenet"]["accuracy"] and "SqueezeNet" in by_name["squeezenet"]["paper"]


def test_list_is_readable_text(call):
    out = call("models").out
    assert re.search(r"^resnet18 +3×224×224 +11,689,512 +1,814,073,344  published: top-1", out, re.MULTILINE)


def test_one_score_of_a_net_with_weights(call):
    """Both tables have the score of the weights that ship, by one name."""
    recipes, with_weights = call("models").out.split("with weights:")
    for name in ("ssd_shapes", "flow_shapes", "segnet_shapes"):
        measured = trained.find(name).measured
        assert f"  {measured} ({name})" in recipes and f"{measured}  " in with_weights
    assert trained.find("flow_shapes").measured == "end-point error 1.25 pixels"


def test_list_is_free_of_markdown(call):
    assert "](" not in call("models").out + call("models", "--json").out


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("squeezenet", "no weights ship with squeezenet"),
        ("alexnet", "--download gets the published ones"),
        ("lenet", "weights ship as lenet_mnist: caffelite models lenet_mnist"),
    ],
)
def test_a_copy_without_weights_says_where_they_are(call, in_tmp_path, name, expected):
    assert expected in call("models", name, "mine").err


@pytest.mark.parametrize("name", [one.name for one in catalog.shipped()])
def test_copy_names_itself_and_is_valid(call, in_tmp_path, name):
    assert call("models", name, "mine").status == 0
    assert 'net: "mine/train_val.prototxt"' in Path("mine/solver.prototxt").read_text()
    actual = json.loads(call("check", "mine/solver.prototxt", "--json").out)
    assert not actual["counts"]["mistake"], actual


def test_list_says_what_ships_with_weights(call):
    actual = call("models").out.split("with weights:")[1]
    words = " ".join(actual.split())
    assert re.search(r"^lenet_mnist +accuracy 0.99\d*  0.86 MB  BSD-2-Clause$", actual, re.MULTILINE)
    assert "caffelite train -solver solvers/lenet_solver.prototxt" in words
    rows = {row["name"]: row for row in json.loads(call("models", "--json").out)}
    assert rows["lenet"]["weights"][0]["name"] == "lenet_mnist" and rows["alexnet"]["weights"] == []


def test_copy_with_weights_is_complete(call, in_tmp_path):
    assert call("models", "lenet_mnist", "mine").status == 0
    files = {p.relative_to("mine").as_posix() for p in Path("mine").rglob("*") if p.is_file()}
    assert files >= {"train_val.prototxt", "deploy.prototxt", "solver.prototxt", "lenet_mnist.caffemodel", "labels.txt"}
    assert files >= {"run/run.json", "run/solver.prototxt", "run/losses.f32", "pictures/7/7.png"}
    assert 'net: "mine/train_val.prototxt"' in Path("mine/solver.prototxt").read_text()
    assert call("models", "lenet_mnist", "mine").status == 2, "nothing is replaced without --force"
    rows = json.loads(call("classify", "--model", "mine/deploy.prototxt", "mine/pictures/*/*.png", "--json").out)
    right = sum(Path(row["file"]).stem == row["answers"][0]["label"] for row in rows)
    assert len(rows) == 10 and right >= 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ctc_words", "try it with: caffelite classify -model it/deploy.prototxt IMAGE"),
        (
            "flow_shapes",
            "(caffelite dataset motions) with: caffelite test -model it/train_val.prototxt -weights it/flow",
        ),
    ],
)
def test_copy_says_how_to_try_it(call, in_tmp_path, name, expected):
    assert expected in call("models", name, "it").err


def test_classify_takes_the_name_of_a_shipped_net(call, in_tmp_path):
    picture = trained.find("lenet_mnist").folder / "pictures" / "3" / "3.png"
    named = call("classify", "--model", "lenet_mnist", str(picture), "--json")
    assert json.loads(named.out)[0]["answers"][0]["label"] == "3"
    answer = call("classify", "--model", "lenet_mnits", str(picture)).refused
    assert 'no file lenet_mnits, and no net "lenet_mnits" with weights; expected one of' in answer.err
    assert 'did you mean "lenet_mnist"' in answer.err
    Path("lenet_mnist").mkdir()  # as models makes it
    assert call("summary", "--model", "lenet_mnist").ok


def test_copy_replaces_nothing_without_force(call, in_tmp_path):
    assert call("models", "lenet").status == 0
    Path("lenet/solver.prototxt").write_text("mine")
    assert "already exists" in call("models", "lenet").refused.err
    assert Path("lenet/solver.prototxt").read_text() == "mine"
    assert call("models", "lenet", "-force").status == 0
    assert Path("lenet/solver.prototxt").read_text() != "mine"


def test_unknown_name_gets_a_suggestion(call):
    assert 'did you mean "lenet"' in call("models", "lennet").refused.err


def test_wheel_contains_the_nets(tmp_path):
    """Builds the package as a wheel does and lists the nets from there, without the checkout."""
    build = "from setuptools import setup; setup()"
    command = ["build_py", "--build-lib", str(tmp_path / "lib"), "egg_info", "--egg-base", str(tmp_path)]
    run = [sys.executable, "-W", "ignore", "-c", build, "-q", *command]
    subprocess.run(run, cwd=ROOT, check=True, capture_output=True)
    installed = tmp_path / "lib" / "caffelite" / "zoo"
    weights = ROOT / "caffelite" / "zoo" / "weights"
    shipped = sorted(p.relative_to(weights) for p in weights.rglob("*") if p.is_file())
    assert shipped == sorted(p.relative_to(installed / "weights") for p in (installed / "weights").rglob("*.*"))
    for folder in ("models", "solvers"):
        files = sorted(p.relative_to(ROOT / folder) for p in (ROOT / folder).rglob("*") if p.is_file())
        copies = [p for p in (installed / folder).rglob("*") if p.is_file()]
        assert files == sorted(p.relative_to(installed / folder) for p in copies)
        assert not (installed / folder).is_symlink()


def test_deploy_takes_the_weights_that_ship(call, in_tmp_path):
    said = call("deploy -model digits -samples 2 -out own.prototxt").ok.err
    assert "Without -weights" not in said and "Verified with 2 inputs" in said
    named = prototxt.read_net("own.prototxt").message.deploy_param.weights
    assert Path(named).resolve() == trained.find("digits").folder / "digits.caffemodel"
