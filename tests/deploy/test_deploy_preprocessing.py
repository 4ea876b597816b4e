"""Pictures made a net's input."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.deploy.preprocessing import Preparation
from caffelite.errors import CaffeliteError

NET = (
    'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: {} dim: 4 dim: 5 }} }} {} '
    "}} {}"
)


def prepared(channels=3, transform="", how="") -> Preparation:
    document = prototxt.parse(
        NET.format(channels, f"transform_param {{ {transform} }}", f"deploy_param {{ {how} }}"), pb.NetParameter
    )
    return Preparation(document.message, document.locate)


@pytest.fixture
def picture(tmp_path, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 10, 3), np.uint8)

    def write(name="p.png", image=pixels):
        cv2.imwrite(str(tmp_path / name), image)
        return tmp_path / name

    write.pixels = pixels
    return write


def test_mean_scale_crop_and_size(picture):
    actual = prepared(
        3, "mean_value: 10 mean_value: 20 mean_value: 30 scale: 0.5 crop_h: 4 crop_w: 5", "height: 8 width: 10"
    )
    image, notes = actual.fitted(actual.decode(picture()))
    assert notes == [] and image.shape == (3, 8, 10)
    expected = (picture.pixels[2:6, 2:7].transpose(2, 0, 1).astype(float) - np.array([10, 20, 30])[:, None, None]) / 2
    np.testing.assert_allclose(actual.views(image)[0], expected)


def test_size_is_the_input_s_where_none_is_named(picture):
    actual = prepared(3)
    np.testing.assert_array_equal(
        actual.fitted(actual.decode(picture()))[0], cv2.resize(picture.pixels, (5, 4)).transpose(2, 0, 1)
    )


def test_channel_order_and_gray(picture):
    path = picture("p.png", picture.pixels[:4, :5])
    blue = prepared(3, how="channel_order: BGR")
    red = prepared(3, how="channel_order: RGB")
    np.testing.assert_array_equal(blue.decode(path), red.decode(path)[::-1])
    np.testing.assert_array_equal(blue.decode(path), picture.pixels[:4, :5].transpose(2, 0, 1))
    np.testing.assert_array_equal(red.read(path), blue.read(path))
    assert prepared(1).decode(path).shape == (1, 4, 5)


def test_ten_views_are_corners_middle_and_mirrors(picture):
    actual = prepared(3, "crop_h: 4 crop_w: 5 scale: 2", "height: 8 width: 10")
    whole = picture.pixels.transpose(2, 0, 1)
    views = actual.views(actual.fitted(actual.decode(picture()))[0], oversample=True)
    corners = [(0, 0), (0, 5), (4, 0), (4, 5), (2, 2)]
    for i, (top, left) in enumerate(corners):
        cut = 2.0 * whole[:, top : top + 4, left : left + 5]
        np.testing.assert_array_equal(views[i], cut)
        np.testing.assert_array_equal(views[5 + i], cut[..., ::-1])


@pytest.mark.parametrize("channels", [1, 3])
def test_transparent_is_what_transform_param_says(channels, picture):
    image = np.zeros((4, 5, 4), np.uint8)
    image[1, 1] = (0, 0, 255, 255)
    image[2, 2, 3] = 51
    assert not prepared(channels).decode(picture("a.png", image))[:, 0].any(), "as Caffe does, opacity is dropped"
    on_white = prepared(channels, "opacity: ON_WHITE")
    actual = on_white.decode(picture("a.png", image))
    np.testing.assert_array_equal(actual, on_white.decode(image), "a file and its pixels")
    assert (actual[:, 0] == 255).all() and (actual[:, 2, 2] == 204).all()
    assert actual[:, 1, 1].tolist() == ([0, 0, 255] if channels == 3 else [76])


def test_sixteen_bits(picture):
    actual = prepared(1).decode(picture("deep.png", np.full((4, 5), 65535, np.uint16)))
    assert actual.dtype == np.uint8 and (actual == 255).all()


def test_signs_are_inverted_and_fitted(picture):
    image = np.full((60, 60), 230, np.uint8)
    image[20:50, 30:40] = 10
    actual = prepared(1, how="ground: DARK sign_size: 4")
    fitted, notes = actual.fitted(actual.decode(picture("s.png", image)))
    assert notes == ["inverted, dark on light", "fitted"] and fitted.shape == (1, 4, 5)
    assert (fitted[0].max(1) > 200).all()
    own = image[18:22, 28:33]
    taken, notes = actual.fitted(own[None])
    assert notes == ["inverted, dark on light"] and (taken[0] == 255 - own).all()


@pytest.mark.parametrize(
    ("channels", "transform", "how", "match"),
    [
        (
            2,
            "",
            "",
            "this net takes no pictures; expected one Input layer of N×C×H×W with 1 or 3 channels, found data 1×2×4×5",
        ),
        (3, "crop_size: 2", "height: 9", "transform_param and the input's shape differ; expected 3×4×5, found 3×2×2"),
        (1, "", "sign_size: 20", "sign_size without ground; set ground"),
        (3, "mean_value: 1 mean_value: 2", "", "wrong number of mean_value"),
    ],
)
def test_mistakes(channels, transform, how, match):
    with pytest.raises(CaffeliteError, match=match):
        prepared(channels, transform, how)


def test_files_that_are_no_pictures(tmp_path):
    (tmp_path / "no.png").write_text("text")
    with pytest.raises(CaffeliteError, match="no.png: not an image that can be decoded"):
        prepared().decode(tmp_path / "no.png")
    with pytest.raises(CaffeliteError, match="cannot read .*gone.png: No such file"):
        prepared().decode(tmp_path / "gone.png")
