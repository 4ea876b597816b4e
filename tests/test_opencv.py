"""A caffemodel written here loads in OpenCV's Caffe importer with the deploy nets that ship, and gives the same outputs
there.

Needs OpenCV 4 (the extra `test` brings it): OpenCV 5 has no Caffe importer.
"""

from pathlib import Path

import cv2
import numpy as np
import pytest

import caffelite

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
