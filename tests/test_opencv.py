"""A caffemodel written here loads in OpenCV's Caffe importer with the deploy nets that ship, and gives the same outputs
there.

Needs OpenCV 4 (the extra `test` brings it): OpenCV 5 has no Caffe importer.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

import caffelite
from caffelite.cli import caffelite as commands
from caffelite.errors import CaffeliteError
from caffelite.zoo import trained

MODELS = Path(__file__).parent.parent / "models"


def plausible(net: caffelite.Net, rng) -> None:
    """Moments of BatchNorm over a count, as training leaves them; Scale's factors and every bias off their fillers'
    constants."""
    for name, blobs in net.params.items():
        if len(blobs) == 3:
            mean, variance, count = (b.data for b in blobs)
            count[...] = 50
            mean[...] = 50 * rng.normal(0, 0.3, mean.shape)
            variance[...] = 50 * rng.uniform(0.5, 2, variance.shape)
        elif name.startswith("scale"):
            blobs[0].data[...] = rng.uniform(0.5, 1.2, blobs[0].shape)
        if len(blobs) == 2:
            blobs[1].data[...] = rng.normal(0, 0.1, blobs[1].shape)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("lenet", "ip2"),
        pytest.param("alexnet", "fc8", marks=pytest.mark.slow),
        ("resnet18", "fc1000"),
    ],  # a file of 240 MB
)
def test_same_outputs_as_in_opencv(name, score, seed, tmp_path):
    model, rng = MODELS / name / "deploy.prototxt", np.random.default_rng(seed)
    net = caffelite.Net(model, seed=1)
    plausible(net, rng)
    image = rng.uniform(0, 1 if name == "lenet" else 60, net.blobs["data"].shape).astype(np.float32)
    net.forward(data=image)
    for blob in net.params[score]:  # scores some units apart, so that the answer is no flat one
        blob.data[...] *= 2 / net.blobs[score].data.std()
    expected = net.forward(data=image)["prob"]
    assert 0.99 > expected.max() > 5 * expected.mean()
    net.save(tmp_path / "net.caffemodel")
    theirs = cv2.dnn.readNetFromCaffe(str(model), str(tmp_path / "net.caffemodel"))
    for output in ("prob", score):
        theirs.setInput(image)
        np.testing.assert_allclose(
            theirs.forward(output).reshape(expected.shape), net.blobs[output].data, rtol=0, atol=1e-4
        )


def test_weights_in_float16_are_read_as_by_opencv(seed, tmp_path):
    """OpenCV writes and reads NVCaffe's raw_data. Its file has our checksum, as a field that it does not know."""
    model, rng = MODELS / "lenet" / "deploy.prototxt", np.random.default_rng(seed)
    caffelite.Net(model, seed=1).save(tmp_path / "net.caffemodel")
    cv2.dnn.shrinkCaffeModel(str(tmp_path / "net.caffemodel"), str(tmp_path / "half.caffemodel"))
    net = caffelite.Net(model, tmp_path / "half.caffemodel")
    theirs = cv2.dnn.readNetFromCaffe(str(model), str(tmp_path / "half.caffemodel"))
    for name, blobs in net.params.items():
        for i, blob in enumerate(blobs):
            assert (theirs.getParam(name, i).ravel() == blob.data.ravel()).all(), (name, i)
    image = rng.uniform(0, 1, net.blobs["data"].shape).astype(np.float32)
    theirs.setInput(image)
    np.testing.assert_allclose(theirs.forward(), net.forward(data=image)["prob"], rtol=0, atol=1e-5)


def test_ssd_for_opencv(seed, tmp_path):
    """deploy -for opencv: the same boxes, sorted by score, in OpenCV's DetectionOutput."""
    net, out = trained.find("ssd_shapes"), tmp_path / "ssd.prototxt"
    weights = net.folder / "ssd_shapes.caffemodel"
    words = ["deploy", "--model", net.deploy, "--weights", weights, "--out", out, "--samples", 0, "--for", "opencv"]
    done = CliRunner().invoke(commands, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    theirs, mine = cv2.dnn.readNetFromCaffe(str(out), str(weights)), caffelite.Net(net.deploy, weights)
    for picture in net.pictures[:3]:
        image = cv2.imread(str(picture)).transpose(2, 0, 1)[None].astype(np.float32) / 128 - 1
        theirs.setInput(image)
        rows = theirs.forward()[0, 0]
        expected = mine.forward(data=image)["detection_out"][0, 0]
        expected = expected[np.argsort(-expected[:, 2], kind="stable")]
        assert len(expected) > 3
        np.testing.assert_allclose(rows[rows[:, 2] > 0], expected, rtol=0, atol=1e-5)


def test_segnet_for_opencv(tmp_path):
    """deploy -for opencv: places of maxima, and BN as BatchNorm and Scale with a caffemodel of its own; caffelite reads
    the files too."""
    net, out = trained.find("segnet_shapes"), tmp_path / "segnet.prototxt"
    weights, own = net.folder / "segnet_shapes.caffemodel", tmp_path / "segnet.caffemodel"
    words = ["deploy", "--model", net.deploy, "--weights", weights, "--out", out, "--samples", 0, "--for", "opencv"]
    done = CliRunner().invoke(commands, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    theirs, mine = cv2.dnn.readNetFromCaffe(str(out), str(own)), caffelite.Net(net.deploy, weights)
    again = caffelite.Net(out, own)
    for picture in net.pictures[:2]:
        image = cv2.resize(cv2.imread(str(picture)), (128, 128)).transpose(2, 0, 1)[None].astype(np.float32) / 64 - 2
        theirs.setInput(image)
        (expected,) = mine.forward(data=image).values()
        assert np.ptp(expected) > 0.9
        # rounding moves the place of a maximum where two values are next to each other, which a few pixels see
        for found in (theirs.forward(), *again.forward(data=image).values()):
            assert abs(found - expected).mean() < 1e-6 and (abs(found - expected) > 1e-5).mean() < 0.02
            assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()


UNPOOLED = """layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 7 dim: 6 } } }
layer { name: "p" type: "Pooling" bottom: "x" top: "p" top: "m" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "u" type: "Upsample" bottom: "p" %s }"""


@pytest.mark.parametrize(
    "fields",
    [
        'type: "Upsample" upsample_param { scale: 2 pad_out_h: true }',
        'type: "Upsample" upsample_param { upsample_h: 7 upsample_w: 6 }',
        'type: "Unpooling" unpooling_param { kernel_h: 1 kernel_w: 2 stride: 2 }',
    ],
)
def test_unpooling_of_uneven_sides_for_opencv(fields, seed, tmp_path):
    net, out = tmp_path / "net.prototxt", tmp_path / "out.prototxt"
    net.write_text(UNPOOLED.replace('type: "Upsample"', "") % f'bottom: "m" top: "u" {fields}')
    words = ["deploy", "--model", net, "--out", out, "--samples", 0, "--output", "u", "--for", "opencv"]
    CliRunner().invoke(commands, [str(word) for word in words], catch_exceptions=False)
    x = np.random.default_rng(seed).standard_normal((1, 2, 7, 6)).astype(np.float32)
    theirs, expected = cv2.dnn.readNetFromCaffe(str(out)), caffelite.Net(net).forward(x=x)["u"]
    theirs.setInput(x)
    assert np.count_nonzero(expected) == 2 * 4 * 3
    np.testing.assert_array_equal(theirs.forward("u"), expected)
    np.testing.assert_array_equal(caffelite.Net(out).forward(x=x)["u"], expected)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ('type: "BN" bn_param { bn_mode: LEARN }', "the moments of the batch"),
        ('type: "Upsample"', "with one bottom is none that OpenCV reads"),
        ('type: "BN" bn_param { eps: 1e-5 }', "-weights"),
    ],
)
def test_what_opencv_cannot_read(layer, message, tmp_path):
    net, out = tmp_path / "net.prototxt", tmp_path / "out.prototxt"
    net.write_text(UNPOOLED.replace('type: "Upsample"', "") % f'top: "u" {layer}')
    words = ["deploy", "--model", net, "--out", out, "--samples", 0, "--output", "u", "--for", "opencv"]
    done = CliRunner().invoke(commands, [str(word) for word in words])
    assert isinstance(done.exception, CaffeliteError) and list(tmp_path.iterdir()) == [net]
    assert message in str(done.exception)
