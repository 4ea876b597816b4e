"""noise_param, blur, noise, cutout and random erasing."""

import numpy as np
import pytest

from caffelite.errors import CaffeliteError


def point(channels=3):
    image = np.zeros((channels, 21, 21), np.uint8)
    image[:, 10, 10] = 255
    return image


@pytest.mark.parametrize("channels", [1, 3])
def test_cutout_is_a_square_of_one_value(perturbed, channels):
    image = np.full((channels, 16, 20), 9, np.uint8)
    actual = perturbed("mean_value: 100.6 perturb_param { cutout_size: 6 }", image, 400)
    assert set(np.unique(actual)) == {9, 101}, "the mean, rounded"
    gone = (actual == 101).all(1)
    areas = gone.sum((1, 2))
    assert areas.max() == 36 and 9 <= areas.min() <= 16, "all of it within the image, or its middle in a corner"
    for each in gone:
        rows, columns = np.flatnonzero(each.any(1)), np.flatnonzero(each.any(0))
        assert each.sum() == len(rows) * len(columns) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    assert gone.any(0).all(), "anywhere"


def test_cutout_value_and_probability(perturbed, picture):
    cutout = "cutout_prob: 0.25 cutout_size: 4 cutout_value: 1 cutout_value: 2 cutout_value: 3"
    actual = perturbed(f"perturb_param {{ {cutout} }}", picture, 400)
    changed = [(image != picture).any(0) for image in actual]
    assert 0.2 < np.mean([each.any() for each in changed]) < 0.3
    for image, each in zip(actual, changed, strict=True):
        assert (image[:, each] == [[1], [2], [3]]).all()


def test_cutout_is_within_the_crop(perturbed):
    actual = perturbed(
        "crop_size: 8 perturb_param { cutout_size: 4 cutout_value: 0 }", np.full((3, 64, 64), 9, np.uint8), 50
    )
    assert actual.shape == (50, 3, 8, 8) and (actual == 0).any((1, 2, 3)).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_erasing_has_its_areas_and_ratios(perturbed, channels):
    image = np.full((channels, 40, 40), 9, np.uint8)
    text = (
        "mean_value: 100.6 perturb_param { erase_prob: 0.5 erase_area_min: 0.1 erase_area_max: 0.2 erase_ratio: 0.5 }"
    )
    actual = perturbed(text, image, 400)
    gone = (actual == 101).all(1)
    erased = gone[gone.any((1, 2))]
    assert 0.42 < len(erased) / 400 < 0.58 and set(np.unique(actual)) == {9, 101}, "the mean, rounded"
    heights, widths = erased.any(2).sum(1), erased.any(1).sum(1)
    np.testing.assert_array_equal(erased.sum((1, 2)), heights * widths)
    areas, ratios = heights * widths / 1600, widths / heights
    assert 0.09 < areas.min() < 0.12 and 0.18 < areas.max() < 0.22
    assert 0.45 < ratios.min() < 0.6 and 1.7 < ratios.max() < 2.2 and abs(np.log(ratios).mean()) < 0.1
    assert gone.any((0, 1)).all() and gone.any((0, 2)).all(), "anywhere"


def test_erasing_with_a_value_or_random_bytes(perturbed, picture):
    text = "perturb_param {{ erase_prob: 1 erase_area_min: 1 erase_area_max: 1 erase_ratio: 1 {} }}"
    whole = perturbed(text.format("erase_value: 1 erase_value: 2 erase_value: 3"), np.zeros((3, 16, 16), np.uint8), 1)
    np.testing.assert_array_equal(whole[0], np.broadcast_to([[[1]], [[2]], [[3]]], (3, 16, 16)))
    noise = perturbed(text.format("erase_random: true"), np.zeros((3, 64, 64), np.uint8), 2)
    assert 125 < noise.mean() < 130 and 72 < noise.std() < 76 and (noise[0] != noise[1]).mean() > 0.98


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_has_its_deviation(perturbed, channels):
    image = np.full((channels, 64, 64), 128, np.uint8)
    noise = perturbed("perturb_param { noise_sigma_min: 10 noise_sigma_max: 10 }", image, 4).astype(float) - 128
    assert abs(noise.mean()) < 0.3 and 9.7 < noise.std() < 10.3
    assert 0.64 < (abs(noise) < 10).mean() < 0.72, "normal, not uniform"
    pairs = np.corrcoef(noise.reshape(4 * channels, -1))[np.triu_indices(4 * channels, 1)]
    assert abs(pairs).max() < 0.08, "another for each channel and sample"


def test_noise_is_held_within_a_byte(perturbed):
    actual = perturbed(
        "perturb_param { noise_sigma_min: 10 noise_sigma_max: 10 }", np.full((1, 32, 32), 254, np.uint8), 1
    )
    assert actual.min() > 200 and (actual == 255).mean() > 0.4


@pytest.mark.parametrize("channels", [1, 3])
def test_blur_spreads_a_point(perturbed, channels):
    actual = perturbed("perturb_param { blur_sigma_min: 1.5 blur_sigma_max: 1.5 }", point(channels), 1)[0].astype(float)
    at = np.arange(21) - 10
    for each in actual:
        assert abs(each.sum() - 255) < 30
        assert np.sqrt((each.sum(0) * at**2).sum() / each.sum()) == pytest.approx(1.5, abs=0.25)


def test_blur_from_nothing_on(perturbed):
    peaks = perturbed("perturb_param { blur_sigma_max: 2 }", point(), 100)[:, 0, 10, 10]
    assert peaks.max() == 255 and peaks.min() < 20


def corrupted(perturbed, image, text):
    return perturbed(f"noise_param {{ prob: 1 {text} }}", image, 1)[0].astype(int)


def test_corruptions_of_an_image(perturbed, picture):
    image = picture.astype(int)
    np.testing.assert_array_equal(corrupted(perturbed, picture, "inverse: true"), 255 - image)
    np.testing.assert_array_equal(corrupted(perturbed, picture, "posterize: true"), image // 64 * 64 + 32)
    gray = corrupted(perturbed, picture, "decolorize: true")
    np.testing.assert_allclose(gray[1], 0.114 * image[0] + 0.587 * image[1] + 0.299 * image[2], atol=1)
    assert (gray == gray[:1]).all()
    wide = np.pad(image, ((0, 0), (1, 1), (1, 1)), "edge")
    cross = [wide[:, 1:-1, 1:-1], wide[:, :-2, 1:-1], wide[:, 2:, 1:-1], wide[:, 1:-1, :-2], wide[:, 1:-1, 2:]]
    np.testing.assert_array_equal(corrupted(perturbed, picture, "erode: true"), np.min(cross, 0))
    actual = corrupted(perturbed, picture, "jpeg: 90")
    assert 0 < abs(actual - image).max() < 25
    assert abs(corrupted(perturbed, picture, "jpeg: 5") - image).mean() > abs(actual - image).mean()


@pytest.mark.parametrize("channels", [1, 3])
def test_gauss_blur_and_histograms(perturbed, channels):
    spread = corrupted(perturbed, point(channels), "gauss_blur: true")
    assert spread[0].astype(bool).sum() <= 49 and abs(spread[0].sum() - 255) < 30
    dim = np.random.default_rng(1).integers(100, 140, (channels, 32, 32)).astype(np.uint8)
    dim[:] = dim[:1]
    for text in ("hist_eq: true", "clahe: true"):
        assert np.ptp(corrupted(perturbed, dim, text)) > 1.5 * np.ptp(dim)


def test_the_order_is_nvcaffes(perturbed, picture):
    """Posterized first, inverted after it."""
    actual = corrupted(perturbed, picture, "inverse: true posterize: true")
    np.testing.assert_array_equal(actual, 255 - (picture.astype(int) // 64 * 64 + 32))


@pytest.mark.parametrize("channels, value", [(1, "255"), (3, "255"), (3, "255 value: 254 value: 253")])
def test_salt_on_a_share_of_the_pixels(perturbed, channels, value):
    image = np.zeros((channels, 40, 40), np.uint8)
    text = f"noise_param {{ prob: 0.5 saltpepper: true saltpepper_param {{ fraction: 0.1 value: {value} }} }}"
    actual = perturbed(text, image, 100)
    share = (actual > 0).all(1).mean((1, 2))
    assert 0.35 < (share > 0).mean() < 0.65
    assert (share <= 0.1).all() and share[share > 0].min() > 0.08, "the same pixel may come twice"
    if " " in value:
        assert (actual[(share > 0).argmax()].max((1, 2)) == [255, 254, 253]).all()


@pytest.mark.parametrize(
    "text, said",
    [
        ("prob: 1.5", "wrong value for prob; expected from 0 to 1, found 1.5"),
        ("prob: 1 jpeg: 0", "wrong value for jpeg; expected above 0, found 0"),
        ("prob: 1 jpeg: 101", "wrong value for jpeg; expected from 0 to 100, found 101"),
        ("prob: 1 saltpepper: true", "wrong value for fraction; expected above 0, found 0"),
        (
            "prob: 1 saltpepper: true saltpepper_param { fraction: 0.1 }",
            "saltpepper without a value; expected 0 to 255; set value in",
        ),
        (
            "prob: 1 saltpepper: true saltpepper_param { fraction: 0.1 value: 256 }",
            "wrong value for value; expected 0 to 255, found 256",
        ),
        (
            "prob: 1 saltpepper: true saltpepper_param { fraction: 0.1 value: 1 value: 2 }",
            "expected 1 or 3, one a channel, found 2",
        ),
    ],
)
def test_mistakes(transform, text, said):
    with pytest.raises(CaffeliteError, match=r"net\.prototxt") as mistake:
        transform(f"noise_param {{ {text} }}")
    assert said in str(mistake.value)
