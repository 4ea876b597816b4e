"""`caffelite deploy` and `classify`, and Python's preprocessing, on a net of color images."""

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from projects import by_class

import caffelite
from caffelite import prototxt
from caffelite.cli.classify import _override
from caffelite.data.writers import write_lmdb
from caffelite.deploy import convert
from caffelite.errors import CaffeliteError

COLOR = """
layer { name: "data" type: "Data" top: "data" top: "label"
  transform_param { crop_size: 12 mirror: true scale: 0.01 mean_file: "mean.binaryproto" }
  data_param { source: "color_lmdb" batch_size: 4 backend: LMDB } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 5 stride: 3
  weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture
def color(folder, call, seed):
    rng = np.random.default_rng(seed)
    write_lmdb(folder / "color_lmdb", ((rng.integers(0, 256, (3, 16, 14), np.uint8), i % 3) for i in range(10)))
    assert call("compute_image_mean", "color_lmdb", "mean.binaryproto").status == 0
    (folder / "color.prototxt").write_text(COLOR)
    (folder / "names.txt").write_text("ash\nbirch\noak\n")
    return folder


def test_deploy_with_a_mean_a_crop_and_labels(color, call):
    (color / "use").mkdir()
    words = "deploy -model color.prototxt -out use/made.prototxt -labels names.txt -channel_order rgb -samples 10"
    result = call(words).ok
    assert any(
        "Verified with 12 stored images: the largest difference of scores is 0 " in line for line in result.lines
    )
    net = prototxt.read_net("use/made.prototxt").message
    assert net.layer[0].transform_param.mean_file == "made_mean.binaryproto" and not net.layer[0].transform_param.mirror
    assert (color / "use/made_mean.binaryproto").read_bytes() == (color / "mean.binaryproto").read_bytes()
    how = net.deploy_param
    assert (how.height, how.width, how.channel_order, list(how.label)) == (16, 14, how.RGB, ["ash", "birch", "oak"])
    assert not how.ground and not how.sign_size


def test_a_wrong_deploy_net_is_found_out(color, call, monkeypatch):
    monkeypatch.setattr(convert, "CHANCE", (*convert.CHANCE, "scale"))
    result = call("deploy", "-model", "color.prototxt", "-out", "made.prototxt")
    assert result.status == 2 and 'the deploy net gets other numbers for "ip" than the validated net, ' in result.err
    assert not Path("made.prototxt").exists()


@pytest.mark.parametrize("kind", ["color", "gray", "transparent", "larger"])
def test_python_prepares_colors_as_the_command_does(color, call, kind, seed):
    caffelite.Net("color.prototxt", seed=5).save("w.caffemodel")
    call("deploy -model color.prototxt -weights w.caffemodel -out made.prototxt -channel_order rgb")
    shape = {"color": (16, 14, 3), "gray": (16, 14), "transparent": (16, 14, 4), "larger": (40, 50, 3)}[kind]
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    cv2.imwrite("x.png", pixels)
    (entry,) = json.loads(call("classify", "x.png", "-model", "made.prototxt", "-json").out)
    net = caffelite.Net("made.prototxt")
    for image in ("x.png", pixels):
        assert [p.score for p in net.classify(image)] == [a["score"] for a in entry["answers"]]
        np.testing.assert_allclose(
            net.forward(data=net.preprocess(image))["prob"][0], by_class(entry["answers"]), rtol=1e-5
        )
    assert net.preprocess("x.png").shape == (1, 3, 12, 12)


def test_classify_says_that_opacity_is_dropped(color, call):
    caffelite.Net("color.prototxt", seed=5).save("w.caffemodel")
    call("deploy -model color.prototxt -weights w.caffemodel -out made.prototxt")
    images = np.zeros((2, 16, 14, 4), np.uint8)
    images[:, :8] = 255
    for name, image in zip(("a.png", "b.png"), images, strict=True):
        cv2.imwrite(name, image)
    cv2.imwrite("plain.png", images[0, ..., :3])
    said = call("classify a.png b.png plain.png -model made.prototxt").ok.err.splitlines()
    (note,) = [line for line in said if "hidden colors" in line]
    assert "made.prototxt:" in note and "a.png is transparent" in note and "opacity: ON_" in note
    text = Path("made.prototxt").read_text()
    Path("made.prototxt").write_text(text.replace("transform_param {", "transform_param { opacity: DROP", 1))
    assert "hidden colors" not in call("classify a.png -model made.prototxt").ok.err


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("none.png", "cannot read none.png"),
        ("names.txt", "names.txt: not an image"),
        (np.zeros((16, 14, 3)), "bytes, 0 to 255; expected uint8, found float64 of shape"),
        (np.zeros((3, 16, 14), np.uint8), "this array is no picture; expected H×W, or H×W×C"),
        (np.zeros((0, 14, 3), np.uint8), "this array is no picture"),
    ],
)
def test_what_python_cannot_classify(color, call, image, message):
    call("deploy", "-model", "color.prototxt", "-out", "made.prototxt")
    net = caffelite.Net("made.prototxt")
    for method in (net.classify, net.preprocess):
        with pytest.raises(CaffeliteError, match=message):
            method(image)


def test_a_train_net_takes_no_pictures(color):
    with pytest.raises(CaffeliteError, match="this net takes no pictures"):
        caffelite.Net("color.prototxt").preprocess("x.png")


def test_a_layer_in_place_on_the_data_is_deployed(color, call):
    """Both the proof and classify feed the data, not what the layer makes of it."""
    net = COLOR.replace(
        'layer { name: "conv"',
        'layer { name: "power" type: "Power" bottom: "data" top: "data" '
        'power_param { scale: -2 shift: 1 } }\nlayer { name: "conv"',
    )
    Path("color.prototxt").write_text(net)
    caffelite.Net("color.prototxt", seed=5).save("w.caffemodel")
    result = call("deploy -model color.prototxt -weights w.caffemodel -out made.prototxt -samples 10").ok
    assert any(
        "Verified with 12 stored images: the largest difference of scores is 0 " in line for line in result.lines
    )
    scores = []
    for level in (20, 230):
        cv2.imwrite("x.png", np.full((16, 14, 3), level, np.uint8))
        (entry,) = json.loads(call("classify", "x.png", "-model", "made.prototxt", "-json").out)
        scores.append(by_class(entry["answers"]))
    assert np.abs(np.subtract(*scores)).max() > 0.01


def test_weights_that_are_not_finite_are_no_proof(color, call):
    net = caffelite.Net("color.prototxt")
    net.params["conv"][0].data[0] = np.nan
    net.save("w.caffemodel")
    result = call("deploy -model color.prototxt -weights w.caffemodel -out made.prototxt -samples 10").refused
    assert (
        'the validated net gives "ip" numbers that are not finite, sample 0 (00000000); are the weights those'
        in result.err
    )
    assert not Path("made.prototxt").exists()


def test_deploy_without_its_mean(color, call):
    (color / "mean.binaryproto").unlink()
    result = call("deploy -model color.prototxt -out made.prototxt -samples 0 -shape data=3x12x12").refused
    assert 'color.prototxt: mean_file "mean.binaryproto" does not exist; correct the path' in result.err


def test_deploy_without_data(color, call):
    shutil.rmtree("color_lmdb")
    assert call("deploy", "-model", "color.prototxt", "-out", "made.prototxt").status == 2
    assert call("deploy -model color.prototxt -out made.prototxt -samples 0 -shape data=3x12x12").status == 0
    assert prototxt.read_net("made.prototxt").message.layer[0].input_param.shape[0].dim == [1, 3, 12, 12]
    result = call("deploy -model color.prototxt -out made.prototxt -samples 0 -shape data=3x12x12")
    assert result.status == 2 and "made.prototxt exists" in result.err


def test_overrides(color, call, monkeypatch):
    assert call("deploy -model color.prototxt -out made.prototxt -samples 0 -shape data=3x12x12").status == 0
    net = prototxt.read_net("made.prototxt").message

    _override(net, "1,2,3", 0.5, "20x30", "rgb")
    t, how = net.layer[0].transform_param, net.deploy_param
    assert (list(t.mean_value), t.mean_file, t.scale) == ([3, 2, 1], "", 0.5)
    assert (how.height, how.width, how.channel_order) == (20, 30, how.RGB)


@pytest.mark.parametrize("order", ["bgr", "rgb"])
@pytest.mark.parametrize("named", ["in the net", "by the option"])
def test_a_mean_is_blue_green_and_red_in_every_order(in_tmp_path, call, order, named):
    net = (
        'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }\n'
        'layer { name: "p" type: "Pooling" bottom: "data" top: "p" '
        "pooling_param { pool: AVE global_pooling: true } }\n"
        'layer { name: "s" type: "Scale" bottom: "p" top: "prob" }\n'
        'deploy_param { label: "0" label: "1" label: "2" %s }'
    )
    Path("net.prototxt").write_text(net % (f"channel_order: {order.upper()}" if named == "in the net" else ""))
    caffelite.Net("net.prototxt").save("w.caffemodel")
    cv2.imwrite("x.png", np.full((8, 8, 3), (104, 117, 124), np.uint8))
    words = "classify x.png -model net.prototxt -weights w.caffemodel -json -mean 104,117,123"
    answer = call(words + (f" -channel_order {order}" if named == "by the option" else "")).ok
    (entry,) = json.loads(answer.out)
    assert list(by_class(entry["answers"])) == ([1, 0, 0] if order == "rgb" else [0, 0, 1])


def test_outputs_and_weights_that_are_named_one_by_one(color, call):
    for seed in (1, 2):
        caffelite.Net("color.prototxt", seed=seed).save(f"{seed}.caffemodel")
    words = "deploy -model color.prototxt -samples 0 -shape data=3x12x12"
    several = "-output data -output ip -weights 1.caffemodel -weights 2.caffemodel"
    assert call(f"{words} -out a.prototxt {several}").status == 0
    assert call(f"{words} -out b.prototxt -output data,ip -weights 1.caffemodel,2.caffemodel").status == 0
    assert Path("a.prototxt").read_text().replace("a_mean", "b_mean") == Path("b.prototxt").read_text()
    assert call(f"{words} -out c.prototxt -output ip -weights 2.caffemodel").status == 0
    assert Path("a.prototxt").read_text() != Path("c.prototxt").read_text()


READY = "names.txt -model made.prototxt -weights w"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("x.png -model color.prototxt", "no file x.png"),
        ("names.txt -model color.prototxt -weights w", "this net takes no pictures"),
        ("names.txt -model made.prototxt", "-weights is missing, and the net names none"),
        (f"{READY} -size big", "a bad -size; expected rows x columns"),
        (f"{READY} -mean a", "a bad -mean; expected numbers"),
        (f"{READY} -labels two.txt", "labels do not fit the net; expected 3, one a score"),
        (f"{READY} -output ip", 'no output "ip"; expected one of prob'),
        ("empty -model made.prototxt", "empty holds no pictures"),
        (f"{READY} -set ipp.inner_product_param.axis=1", 'no layer is called "ipp"'),
    ],
)
def test_mistakes(words, match, color, call):
    call("deploy", "-model", "color.prototxt", "-out", "made.prototxt")
    (color / "two.txt").write_text("a\nb\n")
    (color / "empty").mkdir()
    assert match in call(f"classify {words}").refused.err


@pytest.mark.parametrize(("more", "status"), [([], 1), (["-skip"], 0)])
def test_one_broken_picture_does_not_stop_the_others(color, call, more, status):
    caffelite.Net("color.prototxt", seed=5).save("w.caffemodel")
    call("deploy", "-model", "color.prototxt", "-weights", "w.caffemodel", "-out", "made.prototxt")
    Path("pictures").mkdir()
    for name in ("a", "c"):
        cv2.imwrite(f"pictures/{name}.png", np.full((16, 14, 3), 90, np.uint8))
    Path("pictures/b.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    result = call("classify", "pictures", "-model", "made.prototxt", "-json", "-annotate", "out", *more)
    assert [entry["file"] for entry in json.loads(result.out)] == ["pictures/a.png", "pictures/c.png"]
    assert result.status == status and "pictures/b.png: " in result.err
    assert "1 of 3 pictures could not be read" in result.err
    assert sorted(p.name for p in Path("out").iterdir()) == ["a.png", "all.png", "c.png"]
    Path("pictures/a.png").write_bytes(b"")
    Path("pictures/c.png").unlink()
    none = call("classify", "pictures", "-model", "made.prototxt", "-json", *more)
    assert json.loads(none.out) == [] and none.status == status
