"""Nets that read lines of text: their deploy nets, the command, and the page try."""

import csv
import json
from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest
from browsing import Server, opened
from report_pages import write_weights
from starlette.testclient import TestClient

import caffelite
from caffelite import caffelite_pb2 as pb, cli, prototxt
from caffelite.deploy import convert
from caffelite.errors import CaffeliteError
from caffelite.layers.base.facets import Decodes
from caffelite.net import graph
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.zoo import trained

# Each column of an image of 3 rows is a step: the brightest row is its class, the first the blank.
NET = """
name: "rows" deploy_param { weights: "w.caffemodel" LABELS }
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 3 dim: 6 } }
  transform_param { scale: 0.05 } }
layer { name: "all" type: "Convolution" bottom: "data" top: "all"
  convolution_param { num_output: 3 kernel_h: 3 kernel_w: 1 } }
layer { name: "steps" type: "Permute" bottom: "all" top: "steps" permute_param { order: 3 order: 0 order: 1 order: 2 } }
layer { name: "scores" type: "Reshape" bottom: "steps" top: "scores" reshape_param { shape { dim: 0 dim: 0 dim: 3 } } }
LAST
layer { name: "text" type: "CTCGreedyDecoder" bottom: "BOTTOM" top: "text" DECODER }
"""
SOFTMAX = 'layer { name: "prob" type: "Softmax" bottom: "scores" top: "prob" softmax_param { axis: 2 } }'
TIMES = " time_step: 6 batch_size: 1 } }\n"
NAMED = 'label: "-" label: "a" label: "b"'


def written(folder: Path, labels: str = NAMED, last: str = "", decoder: str = "") -> Path:
    """The net and its weights, which copy pixels, in a folder."""
    text = NET.replace("LABELS", labels).replace("LAST", last).replace("DECODER", decoder)
    (folder / "deploy.prototxt").write_text(text.replace("BOTTOM", "prob" if last else "scores"))
    weights = np.eye(3, dtype=np.float32).reshape(3, 1, 3, 1)
    write_weights(folder / "w.caffemodel", {"all": [weights, np.zeros(3, np.float32)]})
    return folder / "deploy.prototxt"


def drawn(*classes: int, value: int = 255) -> np.ndarray:
    image = np.zeros((3, 6), np.uint8)
    image[list(classes), range(6)] = value
    return image


@pytest.fixture
def answered(capsys):
    """What `classify -json` prints."""

    def answer(*words: object) -> list[dict]:
        cli.main(["classify", *map(str, words), "-json"])
        return json.loads(capsys.readouterr().out)

    return answer


def test_lines_are_read(tmp_path, answered):
    for name, classes in {"one": (1, 1, 0, 1, 2, 2), "none": (0,) * 6}.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), drawn(*classes))
    one, none = answered(tmp_path / "one.png", tmp_path / "none.png", "-model", written(tmp_path))
    assert one["text"] == "aab" and none["text"] == ""
    assert one["score"] > 0.999 and none["score"] > 0.999


@pytest.mark.parametrize(
    ("labels", "text"), [("", "1 1 2"), ('label: "one" label: "two"', "oneonetwo"), (NAMED, "aab")]
)
def test_names_with_and_without_the_blank(tmp_path, answered, labels, text):
    cv2.imwrite(str(tmp_path / "one.png"), drawn(1, 1, 0, 1, 2, 2))
    assert answered(tmp_path / "one.png", "-model", written(tmp_path, labels))[0]["text"] == text


def test_a_wrong_number_of_labels_is_refused(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "one.png"), drawn(1, 1, 0, 1, 2, 2))
    with pytest.raises(SystemExit) as ended:
        cli.main(["classify", str(tmp_path / "one.png"), "-model", str(written(tmp_path, 'label: "a"'))])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and "expected 3, one a class, or 2 without the blank, found 1" in error


@pytest.mark.parametrize("last", ["", SOFTMAX])
def test_the_score_is_the_probability_of_the_text(tmp_path, answered, last):
    """Added up over all paths of six steps."""
    image = drawn(1, 1, 0, 1, 2, 2, value=40)  # scores of 2 and 0
    cv2.imwrite(str(tmp_path / "one.png"), image)
    shares = np.exp(image * 0.05) / np.exp(image * 0.05).sum(0)
    expected = 0.0
    for path in np.ndindex((3,) * 6):
        merged = [c for step, c in enumerate(path) if c and (step == 0 or path[step - 1] != c)]
        if merged == [1, 1, 2]:
            expected += np.prod(shares[list(path), range(6)])
    (one,) = answered(tmp_path / "one.png", "-model", written(tmp_path, last=last))
    assert one["text"] == "aab" and one["score"] == pytest.approx(expected, rel=1e-4)


def test_classes_that_are_not_merged(tmp_path, answered):
    image = drawn(1, 1, 0, 1, 2, 2, value=40)
    cv2.imwrite(str(tmp_path / "one.png"), image)
    net = written(tmp_path, decoder="ctc_decoder_param { ctc_merge_repeated: false }")
    (one,) = answered(tmp_path / "one.png", "-model", net)
    assert one["text"] == "aaabb" and one["score"] == pytest.approx((np.e**2 / (np.e**2 + 2)) ** 6, rel=1e-4)


def test_indicators_of_sequences(tmp_path, answered):
    for name, classes in {"one": (1, 1, 0, 1, 2, 2), "two": (2, 0, 2, 0, 1, 1)}.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), drawn(*classes))
    net = written(tmp_path, decoder='bottom: "on" top: "cost" ctc_decoder_param { blank_index: 0 }')
    indicator = 'layer { name: "on" type: "ContinuationIndicator" top: "on" continuation_indicator_param {'
    net.write_text(net.read_text().replace('layer { name: "text"', indicator + TIMES + 'layer { name: "text"'))
    answers = answered(tmp_path / "one.png", tmp_path / "two.png", "-model", net)
    assert [answer["text"] for answer in answers] == ["aab", "bba"]
    assert all(answer["score"] > 0.999 for answer in answers)


def test_scores_that_are_not_finite(tmp_path, capsys):
    net = written(tmp_path)
    write_weights(tmp_path / "w.caffemodel", {"all": [np.full((3, 1, 3, 1), np.nan, np.float32), np.zeros(3)]})
    cv2.imwrite(str(tmp_path / "one.png"), drawn(1, 1, 0, 1, 2, 2))
    with pytest.raises(SystemExit) as ended:
        cli.main(["classify", str(tmp_path / "one.png"), "-model", str(net)])
    assert ended.value.code == 2 and "the net's scores are not finite" in capsys.readouterr().err


def test_a_table_and_pictures(tmp_path, in_tmp_path, capsys):
    for i in range(40):  # more than a batch
        cv2.imwrite(f"{i:02}.png", drawn(*[1 + i % 2] * 6))
    Path("99.png").write_bytes(b"no picture")
    with pytest.raises(SystemExit) as ended:
        cli.main(["classify", *sorted(map(str, Path().glob("*.png"))), *_options(written(tmp_path))])
    assert ended.value.code == 1
    with open("all.csv", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["text"] for row in rows] == [*"ab" * 20, ""] and "99.png" in rows[-1]["error"]
    assert len(list(Path("out").glob("*.png"))) == 41


def _options(net: Path) -> list[str]:
    return ["-model", str(net), "-csv", "all.csv", "-annotate", "out"]


@pytest.mark.parametrize("option", [("-oversample",), ("-output", "scores")])
def test_options_of_classifiers(tmp_path, capsys, option):
    cv2.imwrite(str(tmp_path / "one.png"), drawn(1, 1, 0, 1, 2, 2))
    with pytest.raises(SystemExit) as ended:
        cli.main(["classify", str(tmp_path / "one.png"), "-model", str(written(tmp_path)), *option])
    assert (
        ended.value.code == 2 and f"{option[0]} is for classifiers, and the net reads text" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("loss", "blank"),
    [
        ('type: "CtcLoss" bottom: "label" ctc_loss_param { blank_label: 1 }', 1),
        ('type: "WarpCTCLoss" bottom: "label"', 0),
        ('type: "CTCLoss" bottom: "cont" bottom: "label"', 3),
    ],
)
def test_the_deploy_net_decodes(loss, blank):
    shapes = "shape { dim: 2 dim: 1 dim: 4 dim: 5 } shape { dim: 2 dim: 3 } shape { dim: 5 dim: 2 }"
    if '"CTCLoss"' in loss:
        shapes = shapes.replace("dim: 2 dim: 3", "dim: 3 dim: 2")
    text = f"""layer {{ name: "d" type: "DummyData" top: "data" top: "label" top: "cont"
      dummy_data_param {{ {shapes} }} }}
    layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
      convolution_param {{ num_output: 4 kernel_h: 4 kernel_w: 1 }} }}
    layer {{ name: "steps" type: "Permute" bottom: "conv" top: "steps"
      permute_param {{ order: 3 order: 0 order: 1 order: 2 }} }}
    layer {{ name: "loss" bottom: "steps" top: "loss" {loss} }}"""
    built = graph.build(prototxt.parse(text, pb.NetParameter).message, pb.NetState(phase=pb.TEST))
    converted = convert.convert(built)
    decoder = converted.message.layer[-1]
    assert Decodes.of(decoder.type).text and converted.outputs == ["text"] and converted.inputs == ["data"]
    taken = text.replace('"conv"', '"text"')
    message = prototxt.parse(taken, pb.NetParameter).message
    assert convert.convert(graph.build(message, pb.NetState(phase=pb.TEST))).outputs == ["loss_text"]
    assert list(decoder.bottom) == ["steps"] and decoder.ctc_decoder_param.blank_index == blank


@pytest.fixture
def client(tmp_path):
    written(tmp_path)
    with TestClient(create_app(ServeConfig(roots=(tmp_path,))), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def test_the_page_try(client):
    def post(address, **fields):
        files = {"image": ("one.png", cv2.imencode(".png", drawn(1, 1, 0, 1, 2, 2))[1].tobytes())}
        data = {"net": "deploy.prototxt", **fields}
        return client.post(f"/try/{address}", data=data, files=files, headers={"Accept": "application/json"})

    info = client.get("/try/model.json", params={"net": "deploy.prototxt"}).json()
    assert info["reads"] and not info["classifies"] and not info["detects"] and not info["segments"]
    (answer,) = post("classify").json()["answers"]
    assert answer["label"] == "aab" and answer["score"] > 0.999
    assert "the net reads text" in post("classify", oversample="on").json()["error"]
    for address, fields in (("layers", {}), ("saliency", {}), ("correct", {"class": "1"})):
        assert post(address, **fields).status_code == 400, address


def test_the_page_offers_nets_that_take_pictures(client):
    offered = client.get("/try").text
    assert "Try ctc_words" in offered and "Try flow_shapes" not in offered


def test_sample_pictures_of_a_shipped_net(client, tmp_path):
    """They are samples to try, and no classes to train on."""
    client.post("/try/shipped", data={"name": "ctc_words"}, headers={"Accept": "application/json"})
    assert client.get("/try.json").json()["data_sets"] == ["ctc_words/pictures"]
    assert client.get("/new.json").json()["pictures"] == []


@pytest.mark.browser
def test_a_line_is_shown(browser, tmp_path):
    written(tmp_path)
    cv2.imwrite(str(tmp_path / "one.png"), drawn(1, 1, 0, 1, 2, 2))
    with Server(tmp_path, "-cpu_slots", "0") as server, opened(browser, server, "/try?net=deploy.prototxt") as page:
        page.set_input_files("#file", tmp_path / "one.png")
        page.wait_for_selector(".answer[data-best='aab']")
        assert page.is_visible("[data-part=seen]") and page.is_hidden("[data-part=explain]")
        assert page.is_hidden("[data-part=correct]")


@pytest.mark.parametrize(("name", "method"), [("ctc_words", "read"), ("ssd_shapes", "detect"), ("digits", "classify")])
def test_python_answers_as_the_command(answered, name, method):
    """With the weights that the net has now; another method names the right one."""
    picture = trained.find(name).pictures[1]
    with closing(caffelite.load(name)) as net:
        (expected,), actual = answered(picture, "-model", name), getattr(net, method)(picture)
        if method == "read":
            assert actual.text == expected["text"] and actual.score == pytest.approx(expected["score"], rel=1e-6)
        elif method == "detect":
            assert [one.record() for one in actual] == expected["detections"] and actual
        else:
            assert [one.label for one in actual] == [one["label"] for one in expected["answers"]]
        for blobs in net.params.values():
            for blob in blobs:
                blob.data[...] = 0
        assert getattr(net, method)(picture) != actual
        for other in {"read", "detect", "classify"} - {method}:
            with pytest.raises(CaffeliteError, match=rf"this net does not {other}; call {method}\(image\)"):
                getattr(net, other)(picture)


def test_words_that_ship(answered):
    """Three of the four pictures; of the fourth the net is not sure."""
    one = trained.find("ctc_words")
    answers = {Path(answer["file"]).stem: answer for answer in answered(*one.pictures, "-model", "ctc_words")}
    assert [name for name, answer in answers.items() if answer["text"] == name] == ["wvgzf", "xtr", "xzohu"]
    assert answers["whhow"]["score"] < 0.2
