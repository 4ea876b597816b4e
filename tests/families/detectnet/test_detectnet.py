"""DetectNet's pictures, what training draws, mistakes."""

import cv2
import numpy as np
import pytest
from families.detectnet.rows import objects, pixels
from textnet import bind, feed, inputs, mistaken, wired

from caffelite.families.detectnet import detect_net_transformation as transformation

NEVER = " ".join(f"{name}_prob: 0" for name in ("crop", "scale", "flip", "rotation", "hue_rotation", "desaturation"))
SIZE = "detectnet_groundtruth_param { image_size_x: 12 image_size_y: 8 }"


def layer(drawn: str = NEVER, size: str = SIZE, more: str = "") -> str:
    body = f"{size} detectnet_augmentation_param {{ {drawn} }} {more}"
    return wired("DetectNetTransformation", "x l", "y g", body)


def transformed(drawn: str, x: np.ndarray, labels: np.ndarray, iteration: int = 0):
    net = bind(inputs(x=x.shape, l=labels.shape) + layer(drawn), keep=True)
    feed(net, x=x, l=labels)
    net.forward(iteration)
    return net.blobs["y"].copy(), net.blobs["g"].copy()


def test_a_flip_moves_pixels_and_objects(rng):
    x, labels = pixels(rng, (1, 3, 8, 12)), objects(rng, (1, 1, 4, 7))
    image, grid = transformed(NEVER, x, labels)
    flipped, other = transformed(NEVER.replace("flip_prob: 0", "flip_prob: 1"), x, labels)
    np.testing.assert_allclose(image, x, rtol=1e-6)
    np.testing.assert_allclose(flipped, x[..., ::-1], rtol=1e-6)
    assert grid[:, 0].any() and not np.array_equal(grid, other)


def test_draws_depend_on_the_iteration(rng):
    x, labels = pixels(rng, (1, 3, 16, 20)), objects(rng, (1, 1, 4, 7))
    often = "scale_prob: 1 rotation_prob: 1 hue_rotation_prob: 1 desaturation_prob: 1"
    first, again, later = (transformed(often, x, labels, iteration)[0] for iteration in (3, 3, 4))
    assert np.isfinite(first).all() and np.array_equal(first, again) and not np.array_equal(first, later)


def test_colors(rng):
    image = rng.random((3, 4, 5))
    np.testing.assert_allclose(transformation.recolored(image, 360, 1), image, atol=1e-12)
    turned, gray = transformation.recolored(image, 70, 1), np.broadcast_to(image.max(0), image.shape)
    np.testing.assert_allclose(transformation.recolored(turned, -70, 1), image, atol=1e-12)
    np.testing.assert_allclose(transformation.recolored(image, 120, 1), image[[1, 2, 0]], atol=1e-12)
    np.testing.assert_allclose(transformation.recolored(image, 0, 0), gray, atol=1e-12)


def test_sizes():
    assert transformation.resized(np.ones((3, 7, 9)), 4, 5) == pytest.approx(np.ones((3, 4, 5)))
    step = transformation.resized(np.broadcast_to(np.arange(9.0) > 4, (3, 7, 9)).astype(float), 7, 27)
    assert step.min() < 0 < 1 < step.max() and step[0, 0, 13] == pytest.approx(0)


def test_opencv_resizes_alike(rng):
    image = rng.random((3, 7, 9))
    theirs = cv2.resize(image.transpose(1, 2, 0), (13, 5), interpolation=cv2.INTER_CUBIC)
    np.testing.assert_allclose(transformation.resized(image, 5, 13), theirs.transpose(2, 0, 1), atol=1e-6)


def test_a_quarter_turn():
    image = np.zeros((3, 21, 11))
    image[:, 4:8, 2:5] = 1
    turn = transformation.Turn(21, 11, 90)
    actual = turn.image(image)
    assert actual.shape == (3, 11, 21) and actual.sum() == pytest.approx(image.sum())
    rows, columns = np.nonzero(actual[0] > 0.5)
    assert (columns.mean(), rows.mean()) == pytest.approx(tuple(turn.moved(3, 5.5)), abs=0.01)


test_mistakes = mistaken(
    (layer(more='@transform_param { mean_file: "m" }'), "needs a mean of its own"),
    (layer("flip_prob: @2"), "a bad flip_prob"),
    (layer(size="detectnet_groundtruth_param { stride: @0 }"), "stride must be positive"),
    (layer().replace('bottom: "x"', 'bottom: @"z"'), "has other channels"),
    (layer().replace('bottom: "l"', 'bottom: @"s"'), "does not fit"),
    before=inputs(x=(2, 3, 8, 12), z=(2, 1, 8, 12), l=(2, 1, 4, 7), s=(1, 1, 4, 7)),
)


def test_labels_that_do_not_fit(rng):
    net = bind(inputs(x=(1, 3, 8, 12), l=(1, 1, 2, 7)) + layer(), keep=True)
    labels = np.zeros((1, 1, 2, 7))
    labels[0, 0, 0, :2] = 5, 7
    feed(net, x=pixels(rng, (1, 3, 8, 12)), l=labels)
    with pytest.raises(Exception, match="labels that do not fit"):
        net.forward(0)
