"""deploy and classify, from the README's first command to digits drawn by hand."""

import contextlib
import csv
import json
import logging
import os
import shutil
from pathlib import Path

import cv2
import drawing
import numpy as np
import pytest
from projects import by_class

import caffelite
from caffelite import caffelite_pb2 as pb, cli, prototxt
from caffelite.errors import CaffeliteError
from caffelite.zoo import trained as trained_nets

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.slow


DEPLOY = (
    "deploy -model models/lenet/digits_train_val.prototxt -weights digits_iter_1000.caffemodel -out digits.prototxt"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the README's first command ran, and its deploy net, digits.prototxt."""
    folder, before = tmp_path_factory.mktemp("digits"), os.getcwd()
    for name in ("models", "solvers"):
        (folder / name).symlink_to(ROOT / name)
    log = logging.getLogger("caffelite")
    handlers, level, propagate = log.handlers[:], log.level, log.propagate
    os.chdir(folder)
    try:
        train = "train -solver solvers/digits_solver.prototxt"
        for command in ("dataset digits", train, DEPLOY):
            with contextlib.suppress(SystemExit):
                cli.main(command.split())
    finally:
        os.chdir(before)
        log.handlers[:], log.level, log.propagate = handlers, level, propagate
    return folder


@pytest.fixture
def digits(trained, monkeypatch):
    monkeypatch.chdir(trained)


def test_deploy_proves_and_describes(digits, call):
    result = call(f"{DEPLOY} -force").ok
    proof = "Verified with 120 stored images: the largest difference of scores is 0 "
    assert any(line.startswith(proof) for line in result.lines)
    net = prototxt.read_net("digits.prototxt").message
    how = net.deploy_param
    assert (how.weights, how.ground, how.sign_size) == ("digits_iter_1000.caffemodel", how.DARK, 20)
    assert net.layer[0].transform_param.scale == pytest.approx(1 / 256)


def test_the_deploy_net_of_a_deploy_net_is_that_net(in_tmp_path, call):
    """Its preprocessing and labels stay; with other outputs the labels go, and -labels replaces them."""
    assert call("models digits d").status == 0
    first = prototxt.read_net("d/deploy.prototxt").message
    assert call("deploy -model d/deploy.prototxt -out d/again.prototxt").status == 0
    assert prototxt.read_net("d/again.prototxt").message == first
    assert call("deploy -model d/deploy.prototxt -out d/inner.prototxt -output ip1").status == 0
    inner = prototxt.read_net("d/inner.prototxt").message
    assert inner.layer[0] == first.layer[0] and inner.deploy_param.ground == first.deploy_param.ground
    assert not inner.deploy_param.label
    Path("names.txt").write_text("".join(f"digit {i}\n" for i in range(10)))
    assert call("deploy -model d/deploy.prototxt -out d/named.prototxt -labels names.txt").status == 0
    assert prototxt.read_net("d/named.prototxt").message.deploy_param.label[3] == "digit 3"


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("tool", ["pen", "strokes", "type"])
def test_digits_drawn_by_hand(tool, seed, digits, call, tmp_path):
    drawing.write(tmp_path / "drawn", seed, tool)
    actual = json.loads(call("classify", tmp_path / "drawn", "-model", "digits.prototxt", "-json").out)
    right = [entry["answers"][0]["label"] == Path(entry["file"]).stem for entry in actual]
    assert len(actual) == 10 and sum(right) >= 8
    assert all("inverted, dark on light" in e["notes"] or int(Path(e["file"]).stem) % 3 == 2 for e in actual)


def test_the_recipe_s_accuracy(digits, call):
    words = "test -model models/lenet/digits_train_val.prototxt -weights digits_iter_1000.caffemodel -iterations 6"
    result = call(words)
    actual = next(line for line in result.lines if line.startswith("accuracy = "))
    assert float(actual.split()[2]) >= 0.98, "of 360 written digits"


@pytest.mark.data
def test_printed_digits_by_mnist_s_lenet(data_folder, call, in_tmp_path):
    Path("models").symlink_to(ROOT / "models")
    assert call("dataset", "mnist", "--from", data_folder / "mnist").status == 0
    weights = trained_nets.find("lenet_mnist").folder / "lenet_mnist.caffemodel"
    net = ("-model", "models/lenet/train_val.prototxt", "-weights", weights)
    assert call("deploy", *net, "-out", "lenet.prototxt").status == 0
    assert prototxt.read_net("lenet.prototxt").message.deploy_param.sign_centre == pb.DeployParameter.MASS
    right = 0
    for seed in range(1, 11):
        drawing.write(Path("drawn"), seed, "strokes")
        actual = json.loads(call("classify", "drawn", "-model", "lenet.prototxt", "-json").out)
        right += sum(entry["answers"][0]["label"] == Path(entry["file"]).stem for entry in actual)
    assert right >= 80, "8 of 10 on the mean of ten hands"


def test_what_classify_prints(digits, call, tmp_path):
    (tmp_path / "tree.txt").write_text("round\n  0\n  6\n  8\n  9\nstraight\n  1\n  7\n")
    files = drawing.write(tmp_path / "drawn")
    result = call(
        "classify", files[7], files[2], "-model", "digits.prototxt", "-top", 2, "-hierarchy", tmp_path / "tree.txt"
    )
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{files[7]}  ") and lines[0].endswith("s  (inverted, dark on light, fitted)")
    assert lines[1].split()[1] == "7" and lines[3] == "  in general:" and lines[4].endswith("  7 (3.3 bits)")
    assert sum(str(tmp_path) in line for line in lines) == 2 and "2 images, " in result.err


def test_patterns_give_each_file_once_and_equal_answers(digits, call, tmp_path):
    drawing.write(tmp_path)
    pattern = str(tmp_path / "[0-2].png")
    together = json.loads(call("classify", pattern, tmp_path / "1.png", "-model", "digits.prototxt", "-json").out)
    assert [Path(entry["file"]).stem for entry in together] == ["0", "1", "2"]
    alone = json.loads(call("classify", tmp_path / "1.png", "-model", "digits.prototxt", "-json").out)
    scores = [[a["score"] for a in sorted(e["answers"], key=lambda a: a["class"])] for e in (alone[0], together[1])]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_table_has_a_row_for_each_picture(digits, call, tmp_path):
    files = drawing.write(tmp_path / "drawn")[:3]
    (tmp_path / "broken.png").write_bytes(b"none")
    words = ("classify", *files, tmp_path / "broken.png", "-model", "digits.prototxt", "-top", 2)
    assert call(*words, "-csv", tmp_path / "table.csv", "-skip").ok.out == ""
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    shown = json.loads(call(*words, "-json", "-skip").out)
    assert [row["file"] for row in rows] == [str(file) for file in (*files, tmp_path / "broken.png")]
    assert [row["label2"] for row in rows] == [*(entry["answers"][1]["label"] for entry in shown), ""]
    scores = [float(row["score1"]) for row in rows[:3]]
    assert scores == pytest.approx([entry["answers"][0]["score"] for entry in shown], abs=1e-6)
    assert "decoded" in rows[3]["error"] and rows[0]["error"] == ""


def test_annotated_pictures(digits, call, tmp_path):
    drawing.write(tmp_path / "a")
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "a/3.png", tmp_path / "b/3.png")
    assert call(f"classify {tmp_path}/a {tmp_path}/b -model digits.prototxt -annotate {tmp_path}/out").status == 0
    assert {p.stem for p in (tmp_path / "out").iterdir()} == {*map(str, range(10)), "3_2", "all"}
    picture, page = cv2.imread(str(tmp_path / "a/0.png")), cv2.imread(str(tmp_path / "out/0.png"))
    assert page.shape[0] > 240 and len(np.unique(page[250:])) > 10 and picture.shape[0] <= 240
    assert cv2.imread(str(tmp_path / "out/all.png")).shape[1] > 5 * 240


@pytest.mark.parametrize("oversample", [False, True])
def test_python_gives_the_command_s_scores(digits, call, tmp_path, oversample):
    net = caffelite.Net("digits.prototxt")
    for file in drawing.write(tmp_path / "drawn")[:4]:
        flags = ["-oversample"] * oversample
        (entry,) = json.loads(call("classify", file, "-model", "digits.prototxt", "-json", "-top", 10, *flags).out)
        actual = net.classify(file, 10, oversample=oversample)
        assert [(a["label"], a["class"], a["score"]) for a in entry["answers"]] == [
            tuple(prediction) for prediction in actual
        ]
        if not oversample:
            np.testing.assert_allclose(
                net.forward(data=net.preprocess(str(file)))["prob"][0], by_class(entry["answers"]), rtol=1e-5, atol=1e-8
            )
            assert net.classify(cv2.imread(str(file), cv2.IMREAD_GRAYSCALE), 10) == actual
    net.params["ip2"][0].data[...] = 0  # its weights are the net's own
    net.params["ip2"][1].data[...] = 0
    assert net.classify(file)[0].score == pytest.approx(0.1)


def test_weights_that_a_deploy_net_names_are_loaded_or_missed(digits, tmp_path, monkeypatch):
    named, given = caffelite.Net("digits.prototxt"), caffelite.Net("digits.prototxt", "digits_iter_1000.caffemodel")
    np.testing.assert_array_equal(named.params["conv1"][0].data, given.params["conv1"][0].data)
    (tmp_path / "alone.prototxt").write_text(Path("digits.prototxt").read_text())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaffeliteError, match=r"digits_iter_1000\.caffemodel"):
        caffelite.Net("alone.prototxt")


def test_scores_that_are_no_numbers(digits, call, tmp_path):
    files = drawing.write(tmp_path / "drawn")
    result = call("classify", files[3], "-model", "digits.prototxt", "-scale", "1e36").refused
    assert f"{files[3]}: the net's scores are not finite; are its weights those of this net" in result.err
