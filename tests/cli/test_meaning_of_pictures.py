"""Training, deploy net and classify see the same array of a picture; new, check and train propose what suits it."""

import io
from contextlib import closing
from pathlib import Path

import cv2
import numpy as np
import pytest

import caffelite
from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import open_source
from caffelite.data.pictures import Decoder
from caffelite.deploy import preprocessing
from caffelite.errors import Locator

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SIDE, EACH = 20, 6  # pixels; pictures of each class
NET = """
layer {{ name: "d" type: "{}" top: "data" top: "label" transform_param {{ scale: 0.01 {} }} {} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param {{ num_output: 2 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""


def glyph(rng: np.random.Generator, cross: bool) -> np.ndarray:
    """H×W of uint8: a ring or a cross, 255 on 0."""
    image, (x, y) = np.zeros((SIDE, SIDE), np.uint8), rng.integers(7, 13, 2).tolist()
    if cross:
        cv2.drawMarker(image, (x, y), 255, cv2.MARKER_CROSS, 9, 2)
    else:
        cv2.circle(image, (x, y), 5, 255, 2)
    return image


def png(image) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def jpeg(image, orientation: int) -> bytes:
    file, block = io.BytesIO(), Image.Exif()
    block[0x112] = orientation
    Image.fromarray(image).save(file, "JPEG", exif=block)
    return file.getvalue()


# A picture of a glyph by the kind of a data set; cross: its class
SETS = {
    "black_on_transparent": lambda ink, cross: png(np.dstack([ink * 0] * 3 + [ink])),
    "white_on_transparent": lambda ink, cross: png(np.dstack([255 * (ink > 0)] * 3 + [ink]).astype(np.uint8)),
    "exif": lambda ink, cross: jpeg(np.dstack([ink, ink // 2, ink // 3]), 6 if cross else 3),
    "deep": lambda ink, cross: cv2.imencode(".png", ink.astype(np.uint16) * 12 + 300)[1].tobytes(),
    "sorted_grounds": lambda ink, cross: png(255 - ink if cross else ink),
}


@pytest.fixture
def pictures(folder, seed, request):
    """A folder "set" of class folders of a kind of pictures."""
    rng = np.random.default_rng(seed)
    for cross, name in enumerate(("circle", "cross")):
        (folder / "set" / name).mkdir(parents=True)
        for i in range(EACH):
            ending = "jpg" if request.param == "exif" else "png"
            content = SETS[request.param](glyph(rng, bool(cross)), bool(cross))
            (folder / "set" / name / f"{i}.{ending}").write_bytes(content)
    return folder


SETTINGS = {
    "black_on_transparent": ("", "opacity: ON_WHITE"),
    "white_on_transparent": ("opacity: ON_BLACK",),
    "exif": ("", "orientation: AS_STORED"),
    "deep": ("", "depth: STRETCH depth_low: 300 depth_high: 3000"),
    "sorted_grounds": ("",),
}
CASES = [(kind, setting) for kind, settings in SETTINGS.items() for setting in settings]


@pytest.mark.parametrize("records", [False, True], ids=["files", "records"])
@pytest.mark.parametrize(("pictures", "setting"), CASES, indirect=["pictures"])
def test_classify_sees_what_training_saw(pictures, setting, records, call):
    """Of every picture of the set, not of those alone that deploy compares."""
    data = 'image_data_param { source: "set" batch_size: 4 is_color: false }'
    if records:
        assert call("convert_imageset set db -encoded").status == 0
        data = 'data_param { source: "db" backend: LMDB batch_size: 4 }'
        setting += " force_gray: true"
    Path("net.prototxt").write_text(NET.format("Data" if records else "ImageData", setting, data))
    caffelite.Net("net.prototxt", seed=5).save("w.caffemodel")
    result = call("deploy -model net.prototxt -weights w.caffemodel -out deploy.prototxt -samples 3").ok
    assert any("Verified with 4 stored images: the largest difference of scores is 0 " in line for line in result.lines)
    layer = prototxt.read_net("net.prototxt").message.layer[0]
    layer.image_data_param.batch_size = layer.data_param.batch_size = 2 * EACH
    net = caffelite.Net("deploy.prototxt")
    with closing(open_source(layer, pb.TEST, Locator("net.prototxt"), 0)) as source:
        for seen, file in zip(source.next()[0], sorted((pictures / "set").glob("*/*")), strict=True):
            np.testing.assert_array_equal(net.preprocess(str(file))[0], seen)


@pytest.mark.parametrize("pictures", ["black_on_transparent"], indirect=True)
def test_a_deploy_net_that_sees_files_otherwise_is_found_out(pictures, call, monkeypatch):
    class Blind(Decoder):
        @classmethod
        def of(cls, transform, color, locate=None):
            return Decoder(color)

    monkeypatch.setattr(preprocessing, "Decoder", Blind)
    text = 'image_data_param { source: "set" batch_size: 4 is_color: false }'
    Path("net.prototxt").write_text(NET.format("ImageData", "opacity: ON_WHITE", text))
    result = call("deploy -model net.prototxt -out deploy.prototxt")
    assert (
        result.status == 2
        and 'the deploy net gets other numbers for "ip" than the validated net, sample ' in result.err
    )
    assert "(set/" in result.err, "the file is named"


@pytest.mark.parametrize("pictures", ["white_on_transparent"], indirect=True)
@pytest.mark.parametrize("size", [SIDE, 16])
def test_files_that_training_resizes_are_resized_and_not_fitted(pictures, size, call):
    text = f'image_data_param {{ source: "set" batch_size: 4 is_color: false new_height: {size} new_width: {size} }}'
    Path("net.prototxt").write_text(NET.format("ImageData", "", text))
    assert call("deploy -model net.prototxt -out deploy.prototxt").status == 0
    how = prototxt.read_net("deploy.prototxt").message.deploy_param
    assert how.ground == how.DARK and bool(how.sign_size) == (size == SIDE)


@pytest.mark.parametrize("pictures", ["sorted_grounds"], indirect=True)
def test_a_sorted_set_has_no_ground(pictures, call):
    text = 'image_data_param { source: "set" batch_size: 4 is_color: false }'
    Path("net.prototxt").write_text(NET.format("ImageData", "", text))
    assert call("deploy -model net.prototxt -out deploy.prototxt -samples 1").status == 0
    assert not prototxt.read_net("deploy.prototxt").message.deploy_param.ground


def test_the_order_of_files_is_theirs_alone(folder, call, seed):
    """Image files are blue, green, red: rgb is wrong for them, which deploy finds by the files."""
    rng = np.random.default_rng(seed)
    for name in "ab":
        (folder / "set" / name).mkdir(parents=True)
        cv2.imwrite(str(folder / "set" / name / "1.png"), rng.integers(0, 256, (8, 8, 3), np.uint8))
    Path("net.prototxt").write_text(NET.format("ImageData", "", 'image_data_param { source: "set" batch_size: 2 }'))
    result = call("deploy -model net.prototxt -out deploy.prototxt -channel_order rgb")
    assert result.status == 2 and "leave out -channel_order rgb" in result.err
    assert call("deploy -model net.prototxt -out deploy.prototxt").status == 0


PROPOSED = {
    "black_on_transparent": "opacity: ON_WHITE",
    "white_on_transparent": "opacity: ON_BLACK",
    "deep": "depth: STRETCH depth_low: 300 depth_high: 3360",
}


@pytest.mark.parametrize(("pictures", "text"), [(kind, PROPOSED.get(kind, "")) for kind in SETS], indirect=["pictures"])
def test_new_sets_what_suits_the_pictures_and_others_propose_it(pictures, text, call):
    result = call("new project set").ok
    nets = [prototxt.read_net(f"project/{name}.prototxt").message for name in ("train_val", "deploy")]
    transforms = [layer.transform_param for net in nets for layer in net.layer if layer.HasField("transform_param")]
    assert len(transforms) == 3
    for one in transforms:
        fields = {f.name for f, _ in one.ListFields()} & {"opacity", "orientation", "depth", "depth_low", "depth_high"}
        assert fields == {word.removesuffix(":") for word in text.split()[::2]}
    assert (f"Pictures: {text}: 12 of 12 pictures" in result.out) == bool(text)
    data = 'image_data_param { source: "set" batch_size: 4 is_color: false }'
    Path("net.prototxt").write_text(NET.format("ImageData", "", data))
    Path("solver.prototxt").write_text('net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 1')
    found = call("check net.prototxt").out, call("train -solver solver.prototxt").err
    assert [f"set {text} in transform_param" in one for one in found] == [bool(text)] * 2
    assert [" pictures " in one for one in found] == [bool(text)] * 2
    written = call("convert_imageset set db").err
    words = text.replace(":", "").lower().split()
    options = " ".join(f"-{name}={value}" for name, value in zip(words[::2], words[1::2], strict=True))
    assert (f"give {options}, and set {text} in transform_param" in written) == bool(text)


@pytest.mark.parametrize("pictures", ["deep"], indirect=True)
def test_writers_and_the_mean_take_the_settings_as_options(pictures, call):
    given = "-depth STRETCH -depth_low 300 -depth_high 3360"
    for more in ("", " -encoded -encode_type png"):
        assert "give -depth" not in call(f"convert_imageset set db -gray -force {given}{more}").err
        means = call("compute_image_mean db").err
        images = [cv2.imread(str(file), cv2.IMREAD_UNCHANGED) for file in (pictures / "set").glob("*/*")]
        expected = np.mean([np.rint((image - 300.0) / 12) for image in images])
        assert f"mean_value channel [0]: {expected:g}" in means
    assert call("convert_imageset set db -gray -force -encoded").status == 0
    assert f"mean_value channel [0]: {expected:g}" in call(f"compute_image_mean db {given}").err


@pytest.mark.parametrize("pictures", SETS, indirect=True)
def test_info_names_what_arrays_do_not_show(pictures, call):
    lines = [line for line in call("dataset info set").out.splitlines() if "  pictures: " in line]
    kind = next(iter((pictures / "set").glob("*/*"))).suffix
    if kind == ".jpg":
        assert "turned by EXIF (12)" in lines[0]
    elif lines:
        assert "transparent in places (12)" in lines[0] or "more than 8 bits (12), values from 300 to 3360" in lines[0]
    assert call("convert_imageset set db -encoded").status == 0
    assert [line for line in call("dataset info db").out.splitlines() if "  pictures: " in line] == lines
