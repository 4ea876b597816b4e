"""Images, arrays and messages of caffelite.pycaffe; its classifier and detector."""

from io import BytesIO

import cv2
import numpy as np
import pytest

import caffelite.pycaffe as caffe
from caffelite.errors import CaffeliteError
from caffelite.pycaffe import io
from caffelite.pycaffe.proto import caffe_pb2

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 4 dim: 3 dim: 4 dim: 4 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "flat" type: "Flatten" bottom: "mean" top: "flat" }
"""


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(2).random((6, 8, 3)).astype(np.float32)


@pytest.fixture
def file(image, tmp_path) -> str:
    """An image whose red is greatest, as PNG."""
    pixels = np.rint(image * 255).astype(np.uint8)
    pixels[..., 0] = 255
    cv2.imwrite(str(tmp_path / "image.png"), pixels[..., ::-1])
    return str(tmp_path / "image.png")


def test_blob_messages_keep_shape_and_numbers():
    array = np.arange(6.0).reshape(1, 2, 3)
    blob = io.array_to_blobproto(array, -array)
    np.testing.assert_array_equal(io.blobproto_to_array(blob), array)
    np.testing.assert_array_equal(io.blobproto_to_array(blob, return_diff=True), -array)
    old = caffe_pb2.BlobProto(num=1, channels=2, height=3, width=1, data=range(6))
    raw = caffe_pb2.BlobProto.FromString(b"\x50\x02\x62\x04" + np.float16([1, -2]).tobytes())  # NVCaffe's
    assert io.blobproto_to_array(raw).tolist() == [1, -2]
    assert io.blobproto_to_array(old).shape == (1, 2, 3, 1)
    with pytest.raises(ValueError):
        io.blobproto_to_array(caffe_pb2.BlobProto(data=range(6)))
    text = io.arraylist_to_blobprotovector_str([array, array[0]])
    assert [a.shape for a in io.blobprotovector_str_to_arraylist(text)] == [(1, 2, 3), (2, 3)]


def test_datums_hold_bytes_or_floats():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    for array in (pixels, pixels / 2):
        datum = io.array_to_datum(array, 4)
        assert datum.label == 4 and bool(datum.data) == (array.dtype == np.uint8)
        np.testing.assert_array_equal(io.datum_to_array(datum), array)
    assert not io.array_to_datum(pixels).HasField("label")
    with pytest.raises(ValueError, match="3 axes"):
        io.array_to_datum(pixels[0])


def test_images_are_floats_in_the_order_rgb(file, tmp_path):
    color, gray = io.load_image(file), io.load_image(file, color=False)
    assert color.shape == (6, 8, 3) and color.dtype == np.float32 and (color[..., 0] == 1).all()
    assert gray.shape == (6, 8, 1)
    np.testing.assert_allclose(gray[..., 0], color @ [0.2125, 0.7154, 0.0721], rtol=1e-5)
    cv2.imwrite(str(tmp_path / "gray.png"), np.full((2, 3), 51, np.uint8))
    assert io.load_image(tmp_path / "gray.png").shape == (2, 3, 3)
    with open(tmp_path / "gray.png", "rb") as opened:
        assert io.load_image(opened).shape == (2, 3, 3)
    with pytest.raises(CaffeliteError, match="the open file: "):
        io.load_image(BytesIO(b"no image"))
    np.testing.assert_allclose(io.load_image(tmp_path / "gray.png", color=False), 0.2, rtol=1e-6)
    (tmp_path / "text.png").write_text("no image")
    for name in ("text.png", "missing.png"):
        with pytest.raises(CaffeliteError, match=name):
            io.load_image(tmp_path / name)


def test_resizing_is_linear_between_pixel_centers():
    ramp = np.tile(np.arange(8, dtype=np.float32), (4, 1))[..., None]
    np.testing.assert_allclose(io.resize_image(ramp, (4, 4))[1, :, 0], [0.5, 2.5, 4.5, 6.5], rtol=1e-5)
    assert io.resize_image(np.dstack([ramp] * 2), (2, 3)).shape == (2, 3, 2)
    constant = io.resize_image(np.full((3, 3, 3), 7.0), (5, 2))
    assert constant.shape == (5, 2, 3) and (constant == 7).all() and constant.dtype == np.float32


def test_ten_crops_are_corners_center_and_mirrors(image):
    crops = io.oversample([image], (4, 4))
    assert crops.shape == (10, 4, 4, 3)
    for crop, (y, x) in zip(crops, [(0, 0), (0, 4), (2, 0), (2, 4), (1, 2)], strict=False):
        np.testing.assert_array_equal(crop, image[y : y + 4, x : x + 4])
    np.testing.assert_array_equal(crops[5:], crops[:5, :, ::-1])


def test_transformer_converts_and_back(image):
    transformer = io.Transformer({"data": (1, 3, 6, 8)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([1.0, 2, 3]))
    transformer.set_input_scale("data", 0.5)
    before = image.copy()
    actual = transformer.preprocess("data", image)
    expected = (image.transpose(2, 0, 1)[::-1] * 255 - np.array([1, 2, 3])[:, None, None]) * 0.5
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(transformer.deprocess("data", actual[None]), image, atol=1e-5)
    np.testing.assert_array_equal(image, before)
    assert transformer.preprocess("data", image[:3]).shape == (3, 6, 8)
    transformer.set_mean("data", np.random.default_rng(1).random((3, 12, 16)))
    assert transformer.mean["data"].shape == (3, 6, 8)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda t: t.preprocess("x", np.zeros(1)), '"x" is no input; expected data'),
        (lambda t: t.set_transpose("data", (1, 0)), "expected 3"),
        (lambda t: t.set_channel_swap("data", (1, 0)), "expected 3"),
        (lambda t: t.set_mean("data", np.zeros(2)), "expected 3 channels, found 2"),
        (lambda t: t.set_mean("data", np.zeros((1, 1, 1, 1))), "1 to 3 axes"),
    ],
)
def test_settings_that_do_not_fit(call, what):
    with pytest.raises(CaffeliteError, match=what):
        call(io.Transformer({"data": (1, 3, 6, 8)}))


@pytest.fixture
def weights(write) -> str:
    caffe.Net(write(NET), caffe.TEST).save("w.caffemodel")
    return "w.caffemodel"


def test_classifier_crops_and_averages(weights, image):
    net = caffe.Classifier("net.prototxt", weights, image_dims=(6, 8), raw_scale=2, channel_swap=(2, 1, 0))
    one = net.predict([image, image], oversample=False)
    np.testing.assert_allclose(one[1], 2 * image[1:5, 2:6, ::-1].mean((0, 1)), rtol=1e-5)
    many = net.predict([image])
    np.testing.assert_allclose(many, 2 * io.oversample([image], (4, 4))[..., ::-1].mean((0, 1, 2))[None], rtol=1e-5)
    whole = caffe.Classifier("net.prototxt", weights).predict([image], oversample=False)
    assert whole.shape == (1, 3)


def test_detector_scores_windows(weights, file):
    net = caffe.Detector("net.prototxt", weights, raw_scale=255, mean=np.array([9.0, 8, 7]))
    window = np.array([0, 0, 4, 4])
    (actual,) = net.detect_windows([(file, [window])])
    expected = io.load_image(file)[:4, :4].mean((0, 1)) * 255 - [9, 8, 7]
    np.testing.assert_allclose(actual["prediction"], expected, rtol=1e-4)
    assert actual["filename"] == file and net.detect_windows([]) == []
    with pytest.raises(CaffeliteError, match="selective_search_ijcv_with_python"):
        net.detect_selective_search([file])


def test_context_outside_of_the_image_is_the_mean(weights, file):
    mean = np.array([9.0, 8, 7])
    net = caffe.Detector("net.prototxt", weights, raw_scale=255, mean=mean, channel_swap=(2, 1, 0), context_pad=1)
    crop = net.crop(io.load_image(file), np.array([0, 0, 3, 3]))
    assert crop.shape == (4, 4, 3)
    np.testing.assert_allclose(crop[0, 0], mean[::-1] / 255, rtol=1e-5)
    assert (crop[2:, 2:, 0] > 0.5).all()
    outside = net.crop(io.load_image(file), np.array([90, 90, 95, 95]))
    np.testing.assert_allclose(outside, np.broadcast_to(mean[::-1] / 255, (4, 4, 3)), rtol=1e-5)
