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


def test_what_opencv_cannot_read(tmp_path):
    net, out = trained.find("segnet_shapes"), tmp_path / "segnet.prototxt"
    words = ["deploy", "--model", net.deploy, "--out", out, "--samples", 0, "--for", "opencv"]
    done = CliRunner().invoke(commands, [str(word) for word in words])
    assert isinstance(done.exception, CaffeliteError) and not out.exists()
    assert '"conv1_bn" (BN) is none that OpenCV reads' in str(done.exception)
