"""Transform against Caffe's formula, written out pixel by pixel."""

import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data.draws import below, key, per_sample
from caffelite.data.transforms import Transform
from caffelite.errors import CaffeliteError, Locator

KEY = key(1, "in", "transform")


def transform(text, shape, phase=pb.TRAIN, folder="."):
    param = text_format.Parse(text, pb.TransformationParameter())
    return Transform(param, phase, shape, Locator(f"{folder}/net.prototxt"), KEY)


def by_hand(images, scale=1.0, mean=None, crop=0, corners=None, flips=None):
    n, channels, height, width = images.shape
    high, wide = (crop, crop) if crop else (height, width)
    y = np.empty((n, channels, high, wide), np.float32)
    for i in range(n):
        top, left = corners[i] if corners is not None else ((height - high) // 2, (width - wide) // 2)
        for c, h, w in np.ndindex(channels, high, wide):
            value = np.float32(images[i, c, top + h, left + w])
            if mean is not None:
                value -= np.broadcast_to(mean, images.shape[1:])[c, top + h, left + w]
            y[i, c, h, wide - 1 - w if flips is not None and flips[i] else w] = value * np.float32(scale)
    return y


def run(transform, images, start=0):
    out = np.full((len(images), *transform.shape), np.nan, np.float32)
    transform(images, start, out)
    return out


def drawn(images, crop, start=0):
    draws = per_sample(KEY, start, len(images))
    room = np.array(images.shape[2:]) - crop + 1
    return below(draws[:, 1:3], room).astype(int), below(draws[:, 0], 2)


def test_scale(images):
    np.testing.assert_array_equal(
        run(transform("scale: 0.00390625", (3, 6, 5)), images), by_hand(images, scale=0.00390625)
    )


@pytest.mark.parametrize("values", [[100.5], [104, 117, 123]])
def test_mean_value_is_subtracted_before_scaling(images, values):
    text = " ".join(f"mean_value: {v}" for v in values) + " scale: 0.5"
    mean = np.array(values, np.float32).reshape(-1, 1, 1)
    np.testing.assert_array_equal(run(transform(text, (3, 6, 5)), images), by_hand(images, 0.5, mean))


def test_test_phase_crops_the_center(images):
    np.testing.assert_array_equal(run(transform("crop_size: 3", (3, 6, 5), pb.TEST), images), by_hand(images, crop=3))


def test_crops_that_are_not_square(images):
    """crop_h and crop_w, crop_size where one is missing."""
    for text, (high, wide) in {"crop_h: 2 crop_w: 5": (2, 5), "crop_w: 1 crop_size: 4": (4, 1)}.items():
        actual = run(transform(text, (3, 6, 5), pb.TEST), images)
        np.testing.assert_array_equal(
            actual, images[:, :, (6 - high) // 2 :, (5 - wide) // 2 :][:, :, :high, :wide].astype(np.float32)
        )
    actual = run(transform("crop_h: 3 crop_w: 2", (3, 6, 5)), images, 4)
    for image, row, (top, left) in zip(
        images, actual, below(per_sample(KEY, 4, len(images))[:, 1:3], np.array([4, 4])).astype(int), strict=True
    ):
        np.testing.assert_array_equal(row, image[:, top : top + 3, left : left + 2].astype(np.float32))


@pytest.mark.parametrize("phase", [pb.TRAIN, pb.TEST])
def test_mirror_flips_in_both_phases(images, phase):
    _, flips = drawn(images, 3)
    assert 0 < flips.sum() < len(flips)
    np.testing.assert_array_equal(
        run(transform("mirror: true", (3, 6, 5), phase), images), by_hand(images, flips=flips)
    )


@pytest.fixture
def mean_file(tmp_path):
    def write(axes=(1, 3, 6, 5), **other):
        mean = np.random.default_rng(5).uniform(0, 255, axes).astype(np.float32)
        blob = pb.BlobProto(
            data=mean.ravel(), **(other or dict(zip(("num", "channels", "height", "width"), axes, strict=True)))
        )
        (tmp_path / "mean.binaryproto").write_bytes(blob.SerializeToString())
        return mean.reshape(axes[-3:])

    return write


@pytest.mark.parametrize("phase", [pb.TRAIN, pb.TEST])
def test_mean_file_is_cropped_and_mirrored_with_the_image(images, mean_file, tmp_path, phase):
    mean = mean_file()
    corners, flips = drawn(images, 4)
    t = transform('mean_file: "mean.binaryproto" crop_size: 4 mirror: true scale: 0.5', (3, 6, 5), phase, tmp_path)
    expected = by_hand(images, 0.5, mean, 4, corners if phase == pb.TRAIN else None, flips)
    np.testing.assert_array_equal(run(t, images), expected)


def test_mean_file_of_height_one_is_cropped_too(mean_file, tmp_path):
    flat = np.arange(12, dtype=np.uint8).reshape(1, 3, 1, 4)
    mean = mean_file((1, 3, 1, 4))
    t = transform('mean_file: "mean.binaryproto" crop_size: 1', (3, 1, 4), pb.TEST, tmp_path)
    np.testing.assert_array_equal(run(t, flat), by_hand(flat, mean=mean, crop=1))


def test_float_images():
    values = np.random.default_rng(0).normal(size=(2, 1, 3, 3)).astype(np.float32)
    t = transform("mean_value: 0.25 scale: 3", (1, 3, 3))
    np.testing.assert_array_equal(run(t, values), (values - np.float32(0.25)) * np.float32(3))


@pytest.mark.parametrize(
    "text, said",
    [
        ("mean_value: 1 mean_value: 2", "wrong number of mean_value; expected 1 or 3, one for each channel, found 2"),
        ('mean_value: 1 mean_file: "m"', "mean_file and mean_value exclude each other"),
        ('mean_file: "nowhere"', 'cannot read mean_file "nowhere": No such file'),
        ("crop_h: 7 crop_w: 2", "crop_h is larger than the image; expected at most 6 rows, found 7"),
        ("crop_h: 2 crop_w: 6", "crop_w is larger than the image; expected at most 5 columns, found 6"),
        ("crop_h: 2", "crop_h without crop_w; set crop_w, or crop_size"),
        ("crop_size: 6", "crop_size is larger than the image; expected at most 5, found 6"),
        ("force_color: true force_gray: true", "force_color and force_gray exclude each other"),
        (
            "force_gray: true",
            "force_gray acts on encoded records of a Data layer only; found images of 3 channels; for ImageData set "
            "is_color",
        ),
    ],
)
def test_mistakes(text, said):
    with pytest.raises(CaffeliteError, match=r"net\.prototxt") as mistake:
        transform(text, (3, 6, 5))
    assert said in str(mistake.value)


def test_a_mean_of_another_shape_is_refused(mean_file, tmp_path):
    mean_file((1, 3, 5, 6))
    with pytest.raises(CaffeliteError, match=r"mean\.binaryproto: .*expected 3×6×5, found 1×3×5×6 with 90 values"):
        transform('mean_file: "mean.binaryproto"', (3, 6, 5), folder=tmp_path)


def test_a_mean_file_that_is_none(tmp_path):
    (tmp_path / "mean.binaryproto").write_bytes(b"\xff\xff\xffno")
    with pytest.raises(CaffeliteError, match="not a mean file"):
        transform('mean_file: "mean.binaryproto"', (3, 6, 5), folder=tmp_path)
