"""Perturbations together: what decides them, what they leave alone, what is refused."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data.augmentation.perturbation import Perturbation
from caffelite.data.draws import key, of_sample, of_samples, uniform
from caffelite.data.transforms import Transform
from caffelite.errors import CaffeliteError, Locator

EVERYTHING = """
mirror: true mean_value: 100 scale: 0.5
img_rand_resize_lower: 14 img_rand_resize_upper: 20 allow_upscale: true
distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.5 contrast_upper: 1.5
  hue_prob: 0.5
                hue_delta: 18 saturation_prob: 0.5 saturation_lower: 0.5 saturation_upper: 1.5 random_order_prob: 0.5 }
noise_param { prob: 0.5 gauss_blur: true saltpepper: true saltpepper_param { fraction: 0.02 value: 255 } }
perturb_param { shift_x: 2 shift_y: 2 scale_min: 0.9 scale_max: 1.1 max_rotate_degree: 15 tint_delta: 20
  inverse_prob: 0.5
                blur_sigma_max: 1 noise_sigma_max: 10 cutout_size: 4
  elastic_prob: 0.5 elastic_alpha: 1 elastic_sigma: 2 erase_prob: 0.5 erase_random: true }
"""
FOR_GRAY = """
perturb_param { shift_x: 2 max_rotate_degree: 15 inverse_prob: 0.5 blur_sigma_max: 1 noise_sigma_max: 10
  cutout_size: 4 elastic_prob: 0.5 elastic_alpha: 1 elastic_sigma: 2 erase_prob: 0.5 }
distort_param { brightness_prob: 0.5 brightness_delta: 32 contrast_prob: 0.5 contrast_lower: 0.5 contrast_upper: 1.5 }
noise_param { prob: 0.5 hist_eq: true clahe: true jpeg: 50 erode: true posterize: true inverse: true gauss_blur: true }
"""


def run(transform, images, position=0):
    out = np.full((len(images), *transform.shape), np.nan, np.float32)
    transform(images, position, out)
    return out


@pytest.fixture
def batch():
    return np.random.default_rng(2).integers(0, 256, (12, 3, 16, 20)).astype(np.uint8)


@pytest.mark.parametrize("samples", [1, 40])
@pytest.mark.parametrize("first", [0, 2**40 - 3])
def test_draws_of_a_batch_are_those_of_its_samples(first, samples):
    own = key(7, "transform", "warp")
    expected = [of_sample(own, first + i, 12) for i in range(samples)]
    np.testing.assert_array_equal(of_samples(own, first, samples, 12), expected)


def test_a_sample_does_not_depend_on_its_batch(transform, batch):
    whole = run(transform("crop_size: 12" + EVERYTHING), batch, 100)
    for size in (1, 5):
        parts = [run(transform("crop_size: 12" + EVERYTHING), batch[i : i + size], 100 + i) for i in range(0, 12, size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sample_does_not_depend_on_who_computes_it(transform, batch, workers):
    """By several threads, in another order, each sample twice."""
    made = transform("crop_size: 12" + EVERYTHING)
    expected = [made.augment(image, i) for i, image in enumerate(batch)]
    order = np.random.default_rng(1).permutation(24) % 12
    with ThreadPoolExecutor(workers) as pool:
        for i, actual in zip(order, pool.map(lambda i: made.augment(batch[i], int(i)), order), strict=True):
            np.testing.assert_array_equal(actual, expected[i])


def test_samples_and_layers_differ(transform, batch):
    same = np.repeat(batch[:1], 12, 0)
    actual = run(transform("crop_size: 12" + EVERYTHING), same)
    assert len({image.tobytes() for image in actual}) == 12
    assert not (actual == run(transform("crop_size: 12" + EVERYTHING), same, 12)).all(), "another epoch"
    assert not (actual == run(transform("crop_size: 12" + EVERYTHING, layer="other"), same)).all()


def test_one_perturbation_does_not_move_another(transform, batch):
    """Adding an inversion of all leaves the shifts as they were."""
    plain, inverted = (
        transform(f"perturb_param {{ shift_x: 5 shift_y: 5 {more} }}") for more in ("", "inverse_prob: 1")
    )
    for i, image in enumerate(batch):
        np.testing.assert_array_equal(inverted.augment(image, i), 255 - plain.augment(image, i))


def test_perturbations_happen_apart(transform):
    """Two with probability one half: all four combinations come, a quarter of the time each."""
    made = transform("perturb_param { inverse_prob: 0.5 } noise_param { prob: 0.5 posterize: true }")
    image = np.full((3, 16, 20), 70, np.uint8)
    values, counts = np.unique([made.augment(image, i)[0, 0, 0] for i in range(400)], return_counts=True)
    assert values.tolist() == [70, 96, 160, 185] and counts.min() > 70


def test_words_of_pixels_are_not_those_that_decide():
    step = Perturbation()
    step.name = "test"
    step.seed((1, 2))
    words = of_sample(step._key, 5, 40)
    np.testing.assert_array_equal(step.more(5, 20), words[12:32])
    step.probability, step.change = 0.5, lambda image, u, sample: u
    happens, *numbers = uniform(words[:12]).tolist()
    assert step(None, 5) == (numbers if happens < 0.5 else None)


def test_test_phase_draws_nothing(transform, batch):
    text = EVERYTHING.replace(
        "img_rand_resize_lower: 14 img_rand_resize_upper: 20 allow_upscale: true", "crop_size: 12"
    )
    made = transform(text.replace("mirror: true", ""), phase=pb.TEST)
    assert made.plain
    np.testing.assert_array_equal(run(made, batch), (batch[:, :, 2:14, 4:16] - np.float32(100)) * np.float32(0.5))


def test_plain_is_what_a_device_can_do(transform):
    assert transform("crop_size: 8 mirror: true scale: 0.5 mean_value: 3").plain
    assert transform("perturb_param { shift_prob: 0 shift_x: 5 } distort_param { brightness_delta: 5 }").plain, (
        "nothing ever happens"
    )
    assert not transform("perturb_param { cutout_size: 3 }").plain


@pytest.mark.parametrize("text", ["", "crop_size: 9", "crop_h: 5 crop_w: 16"])
def test_gray_images(transform, text):
    gray = np.random.default_rng(2).integers(0, 256, (12, 1, 16, 20)).astype(np.uint8)
    made = transform(text + FOR_GRAY, (1, 16, 20))
    actual = run(made, gray)
    assert actual.shape[1] == 1 and actual.shape == (12, *made.shape) and np.isfinite(actual).all()
    assert len({image.tobytes() for image in run(made, np.repeat(gray[:1], 12, 0))}) > 10


def test_images_of_bytes_lying_either_way(transform, batch):
    """Contiguous C×H×W, or a view of H×W×C as decoders give it."""
    made = transform("crop_size: 12" + EVERYTHING)
    view = np.ascontiguousarray(batch.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(run(made, list(view)), run(made, batch))


# The two ways of a sample


@pytest.mark.parametrize("phase", [pb.TRAIN, pb.TEST])
@pytest.mark.parametrize("text", ["crop_size: 9 mirror: true", "mirror: true", "crop_h: 16 crop_w: 7", ""])
def test_whole_images_finish_as_cut_ones_do(transform, batch, text, phase, tmp_path):
    mean = np.random.default_rng(5).uniform(0, 255, (3, 16, 20)).astype(np.float32)
    (tmp_path / "mean").write_bytes(
        pb.BlobProto(data=mean.ravel(), shape=pb.BlobShape(dim=[1, 3, 16, 20])).SerializeToString()
    )
    made = transform(f'mean_file: "mean" scale: 0.5 {text}', phase=phase, folder=tmp_path)
    assert made.plain
    choice, expected = made.choose(50, 12), run(made, batch, 50)
    for given in (batch, np.stack([made.augment(image, 50 + i) for i, image in enumerate(batch)])):
        out = np.empty_like(expected)
        made.finish(given, choice, out)
        np.testing.assert_array_equal(out, expected)


def test_mean_image_is_cut_where_the_perturbed_image_is(transform, batch, tmp_path):
    mean = np.random.default_rng(5).integers(0, 256, (3, 16, 20)).astype(np.float32)
    (tmp_path / "mean").write_bytes(
        pb.BlobProto(data=mean.ravel(), shape=pb.BlobShape(dim=[3, 16, 20])).SerializeToString()
    )
    made = transform('mean_file: "mean" crop_size: 9 perturb_param { inverse_prob: 1 }', folder=tmp_path)
    for image, (top, left), actual in zip(batch, made.choose(0, 12).corners.tolist(), run(made, batch), strict=True):
        window = slice(None), slice(top, top + 9), slice(left, left + 9)
        np.testing.assert_array_equal(actual, (255 - image[window]) - mean[window])


def test_mean_image_of_images_of_random_size_gives_its_middle(transform, batch, tmp_path):
    mean = np.arange(3 * 16 * 20, dtype=np.float32).reshape(3, 16, 20)
    (tmp_path / "mean").write_bytes(
        pb.BlobProto(data=mean.ravel(), shape=pb.BlobShape(dim=[3, 16, 20])).SerializeToString()
    )
    text = "crop_size: 8 img_rand_resize_lower: 9 img_rand_resize_upper: 15"
    made, bare = transform('mean_file: "mean" ' + text, folder=tmp_path), transform(text)
    np.testing.assert_array_equal(run(made, batch), run(bare, batch) - mean[:, 4:12, 6:14])


# Mistakes


@pytest.mark.parametrize(
    "message, field, expected",
    [
        ("perturb_param", "shift_prob: 1.1", "from 0 to 1"),
        ("perturb_param", "inverse_prob: -0.5", "from 0 to 1"),
        ("perturb_param", "inverse_prob: nan", "from 0 to 1"),
        ("perturb_param", "scale_min: 0", "above 0"),
        ("perturb_param", "scale_max: inf", "0 or more"),
        ("perturb_param", "max_rotate_degree: 181", "from 0 to 180"),
        ("perturb_param", "border_value: 300", "0 to 255"),
        ("perturb_param", "tint_delta: -1", "from 0 to 255"),
        ("perturb_param", "noise_sigma_max: -3", "from 0 to 255"),
        ("perturb_param", "cutout_value: -1", "0 to 255"),
        ("perturb_param", "elastic_alpha: 21", "from 0 to 20"),
        ("perturb_param", "elastic_sigma: 0", "above 0"),
        ("perturb_param", "erase_prob: 2", "from 0 to 1"),
        ("perturb_param", "erase_area_min: 0", "above 0"),
        ("perturb_param", "erase_ratio: 2", "from 0.001 to 1"),
        ("perturb_param", "erase_value: 300", "0 to 255"),
        ("distort_param", "brightness_prob: 2", "from 0 to 1"),
        ("distort_param", "hue_delta: 181", "from 0 to 180"),
        ("random_aspect_ratio_param", "max_area_ratio: 2", "from 0 to 1"),
        ("random_aspect_ratio_param", "min_area_ratio: 0", "above 0"),
        ("random_aspect_ratio_param", "aspect_ratio_change: 0", "above 0"),
        ("random_aspect_ratio_param", "max_attempt: 0", "from 1 to 100"),
    ],
)
@pytest.mark.parametrize("phase", [pb.TRAIN, pb.TEST])
def test_values_out_of_their_range(transform, message, field, expected, phase):
    name, value = field.split(": ")
    text = f"wrong value for {name}; expected {expected}, found {value}"
    with pytest.raises(CaffeliteError, match=rf"net\.prototxt.*{re.escape(text)}"):
        transform(f"{message} {{ {field} }}", phase=phase)


@pytest.mark.parametrize(
    "text, said",
    [
        ("perturb_param { shift_x: 20 }", "shift_x moves images out of sight; expected at most 19, found 20"),
        ("perturb_param { scale_min: 2 }", "scale_min is above scale_max; expected at most 1, found 2.0; swap them"),
        (
            "perturb_param { border_value: 1 border_value: 2 }",
            "wrong number of border_value; expected 1 or 3, one a channel, found 2",
        ),
        (
            "perturb_param { blur_sigma_min: 2 blur_sigma_max: 1 }",
            "blur_sigma_min is above blur_sigma_max; expected at most 1, found 2",
        ),
        (
            "perturb_param { elastic_alpha: 1 elastic_sigma: 11 }",
            "wrong value for elastic_sigma; expected from 0 to 10, found 11",
        ),
        (
            "perturb_param { erase_area_min: 0.5 }",
            "erase_area_min is above erase_area_max; expected at most 0.33, found 0.5",
        ),
        ("distort_param { contrast_prob: 1 }", "wrong value for contrast_upper; expected above 0, found 0"),
        (
            "distort_param { saturation_lower: 1 }",
            "saturation_lower is above saturation_upper; expected at most 0, found 1",
        ),
        ("img_rand_resize_lower: 8 img_rand_resize_upper: 9", "a random size needs a crop; set crop_size"),
        ("crop_size: 4 img_rand_resize_upper: 9", "wrong value for img_rand_resize_lower; expected above 0, found 0"),
        ("crop_size: 4 img_rand_resize_lower: 9", "img_rand_resize_lower is above img_rand_resize_upper"),
        ("crop_size: 4 random_resize_param {}", "wrong value for min_size; expected above 0, found 0"),
        (
            "crop_size: 4 random_resize_param { min_size: 1 max_size: 1 } img_rand_resize_lower: 1",
            "exclude each other; leave one out",
        ),
        (
            "crop_size: 4 rand_resize_ratio_lower: 0.5 rand_resize_ratio_upper: 2",
            "wrong value for rand_resize_ratio_lower; expected 1 or more",
        ),
        ("crop_size: 4 vertical_stretch_lower: 0", "wrong value for vertical_stretch_lower; expected above 0, found 0"),
        (
            "crop_size: 17 img_rand_resize_lower: 20 img_rand_resize_upper: 20",
            "crop_size is larger than the image; expected at most 16",
        ),
        (
            "crop_size: 4 random_aspect_ratio_param {} img_rand_resize_lower: 1 img_rand_resize_upper: 1",
            "excludes other random sizes",
        ),
        ("crop_size: 4 multi_scale: true random_aspect_ratio_param {}", "multi_scale excludes other random sizes"),
        ("multi_scale: true", "multi_scale needs a crop"),
        ("fix_crop: true", "fix_crop needs a crop"),
        ("is_flow: true", "is_flow acts on VideoData of modality FLOW only"),
        (
            "crop_size: 4 multi_scale: true scale_ratios: 1 scale_ratios: 2",
            "wrong value for scale_ratios; expected above 0, at most 1, found 2",
        ),
    ],
)
@pytest.mark.parametrize("phase", [pb.TRAIN, pb.TEST])
def test_mistakes(transform, text, said, phase):
    with pytest.raises(CaffeliteError, match=r"net\.prototxt") as mistake:
        transform(text, phase=phase)
    assert said in str(mistake.value)


def test_images_that_are_no_bytes(transform):
    made = transform("perturb_param { cutout_size: 3 }")
    with pytest.raises(CaffeliteError, match="perturbations need bytes; expected uint8, found float32; leave"):
        made.augment(np.zeros((3, 16, 20), np.float32), 0)


def test_image_that_does_not_fit(transform):
    with pytest.raises(CaffeliteError, match="crop_size is larger than the image; expected at most 8, found 12"):
        transform("crop_size: 12").augment(np.zeros((3, 8, 30), np.uint8), 0)
    with pytest.raises(
        CaffeliteError, match="images differ in shape; expected 3×16×20, found 1×16×20; where records are encoded"
    ):
        transform("crop_size: 12").augment(np.zeros((1, 16, 20), np.uint8), 0)


def test_images_of_many_channels(transform):
    with pytest.raises(
        CaffeliteError, match="perturbations do not take such images; expected at most 4, found 5 channels"
    ):
        transform("perturb_param { cutout_size: 3 }", (5, 16, 20))
    actual = transform("perturb_param { shift_x: 3 cutout_size: 3 }", (2, 16, 20)).augment(
        np.ones((2, 16, 20), np.uint8), 0
    )
    assert actual.shape == (2, 16, 20)


def test_without_opencv(without_opencv):
    """Mean, crop, mirror and scale need none; a perturbation says in one line what to install."""

    def made(text):
        return Transform(
            text_format.Parse(text, pb.TransformationParameter()), pb.TRAIN, (3, 8, 8), Locator("net"), key(1, "in")
        )

    transform = made("crop_size: 5 mirror: true scale: 0.5 mean_value: 3")
    assert run(transform, np.ones((2, 3, 8, 8), np.uint8)).shape == (2, 3, 5, 5)
    message = r"needs opencv-python-headless, which is not installed; .*caffelite\[images\]"
    with pytest.raises(CaffeliteError, match=message):
        made("perturb_param { cutout_size: 3 }")


def test_every_field_is_in_the_document():
    text = (Path(__file__).parents[3] / "docs/data.md").read_text()
    named = set(re.findall(r"`(\w+)`", text)) | {
        f"{m[1]}_upper" for m in re.finditer(r"`(\w+)_lower` and `_upper`", text)
    }
    messages = (
        pb.TransformationParameter,
        pb.PerturbationParameter,
        pb.DistortionParameter,
        pb.NoiseParameter,
        pb.SaltPepperParameter,
    )
    messages += pb.RandomResizeParameter, pb.RandomAspectRatioParameter
    fields = {field.name for message in messages for field in message.DESCRIPTOR.fields}
    # docs/layers.md has these.
    assert fields - named == {"crop_h", "crop_w", "crop_height", "crop_width", "scale_factors"}
