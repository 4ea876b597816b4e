"""Random sizes, random parts, shift, scale and rotation, on images that tell where each pixel came from."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.augmentation.geometry import Elastic, Warp
from caffelite.data.augmentation.perturbation import Fields
from caffelite.data.images import channels_first, channels_last
from caffelite.errors import NOWHERE, CaffeliteError


def ramps(height, width):
    """Channel 0 is the column, channel 1 the row."""
    y, x = np.mgrid[:height, :width]
    return np.stack([x, y, 0 * x]).astype(np.uint8)


def shifted(image, dx, dy, mode="reflect"):
    pad = 8
    wide = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), mode)
    return wide[:, pad - dy : pad - dy + image.shape[1], pad - dx : pad - dx + image.shape[2]]


def warped(image, u, **fields):
    """One warp by numbers of the test's choice: u = shift?, x, y, scale?, factor, rotation?, angle."""
    warp = Warp(Fields(pb.PerturbationParameter(**fields), NOWHERE, image.shape))
    return channels_first(warp.change(channels_last(image), u, 0))


@pytest.mark.parametrize("border, mode", [("MIRRORED", "reflect"), ("REPEATED", "edge"), ("CONSTANT", "constant")])
def test_shift_moves_by_whole_pixels(perturbed, picture, border, mode):
    seen = set()
    for actual in perturbed(f"perturb_param {{ shift_x: 3 shift_y: 1 border: {border} }}", picture, 200):
        where = [
            (dx, dy) for dx in range(-3, 4) for dy in (-1, 0, 1) if (actual == shifted(picture, dx, dy, mode)).all()
        ]
        assert len(where) == 1
        seen |= set(where)
    assert len(seen) == 21, "every shift from -3 to 3 and from -1 to 1 is drawn"


def test_shift_goes_right_and_down(picture):
    np.testing.assert_array_equal(
        warped(picture, [0, 0.999, 0.999, 0, 0, 0, 0], shift_x=5, shift_y=2), shifted(picture, 5, 2)
    )


def test_border_value(picture):
    border = {"border": pb.PerturbationParameter.CONSTANT, "border_value": [7, 8, 9]}
    actual = warped(picture, [0, 0.999, 0.5, 0, 0, 0, 0], shift_x=4, **border)
    np.testing.assert_array_equal(actual[:, :, :4], np.broadcast_to([[[7]], [[8]], [[9]]], (3, 16, 4)))


@pytest.mark.parametrize("u, turns", [(0.0, -1), (0.5, 0), (1.0, 1)])
def test_rotation_is_against_the_clock(u, turns):
    image = np.random.default_rng(1).integers(0, 256, (3, 15, 15)).astype(np.uint8)
    np.testing.assert_array_equal(
        warped(image, [1, 0, 0, 1, 0, 0, u], max_rotate_degree=90), np.rot90(image, turns, (1, 2))
    )


def test_scale_enlarges_around_the_middle():
    actual = warped(ramps(21, 31), [1, 0, 0, 0, 1.0, 1, 0], scale_max=2)
    np.testing.assert_allclose(actual[0], np.broadcast_to((np.arange(31) - 15) / 2 + 15, (21, 31)), atol=0.5)
    np.testing.assert_allclose(actual[1].T, np.broadcast_to((np.arange(21) - 10) / 2 + 10, (31, 21)), atol=0.5)


def test_scale_and_rotation_stay_within_their_ranges(perturbed):
    """From the slopes of the ramps: the factor is 1 over their length, the angle is their direction."""
    text = "perturb_param { scale_min: 0.5 scale_max: 2 max_rotate_degree: 30 border: REPEATED }"
    factors, angles = [], []
    for actual in perturbed(text, 5 * ramps(41, 41), 100):
        dx = (actual[0, 20, 24].astype(float) - actual[0, 20, 16]) / 40
        dy = (actual[0, 24, 20].astype(float) - actual[0, 16, 20]) / 40
        factors.append(1 / np.hypot(dx, dy))
        angles.append(np.degrees(np.arctan2(-dy, dx)))
    assert 0.45 < min(factors) < 0.7 and 1.7 < max(factors) < 2.2
    assert -33 < min(angles) < -22 and 22 < max(angles) < 33


def test_probabilities_are_drawn_apart(perturbed, picture):
    actual = perturbed("perturb_param { shift_prob: 0.25 shift_x: 3 shift_y: 3 }", picture, 400)
    still = sum((image == picture).all() for image in actual)
    assert 0.7 < still / 400 < 0.83, "three in four, and one in 49 of the others"


def test_scale_and_rotation_have_their_own_probabilities(picture):
    fields = {"scale_prob": 0.5, "scale_max": 2, "rotation_prob": 0.5, "max_rotate_degree": 90}
    np.testing.assert_array_equal(warped(picture, [1, 0, 0, 0.6, 1, 0.6, 1], **fields), picture)
    scaled, turned = (warped(picture, [1, 0, 0, *u], **fields) for u in ((0.4, 1, 0.6, 1), (0.6, 1, 0.4, 1)))
    np.testing.assert_array_equal(scaled, warped(picture, [1, 0, 0, 0, 1, 1, 0], scale_max=2))
    np.testing.assert_array_equal(turned, warped(picture, [1, 0, 0, 1, 0, 0, 1], max_rotate_degree=90))


# Elastic distortion


def elastic(size, **fields):
    made = Elastic(Fields(pb.PerturbationParameter(**fields), NOWHERE, (1, *size)))
    made.seed((1, 2))
    return made


def test_elastic_field_has_its_deviation_and_is_smooth():
    fields = np.stack([elastic((64, 64), elastic_alpha=2, elastic_sigma=3).field(i, (64, 64)) for i in range(40)])
    inner = fields[:, 9:-9, 9:-9]
    assert abs(inner.mean()) < 0.1 and 1.85 < inner.std() < 2.15
    assert 0.88 < np.corrcoef(inner[:, :, 1:].ravel(), inner[:, :, :-1].ravel())[0, 1] < 0.99, "e^(-1/36) = 0.973"
    assert abs(np.corrcoef(inner[..., 0].ravel(), inner[..., 1].ravel())[0, 1]) < 0.1, "x and y are drawn apart"


def test_elastic_distortion_moves_pixels_by_the_field(perturbed):
    """Ramps tell where each pixel came from."""
    made, size = elastic((41, 41), elastic_alpha=1.5, border=pb.PerturbationParameter.REPEATED), (41, 41)
    actual = channels_first(made.change(channels_last(5 * ramps(*size)), [], 7)) / 5
    expected = made.field(7, size) + np.stack(np.meshgrid(range(41), range(41)), -1)
    np.testing.assert_allclose(actual[0], expected[..., 0].clip(0, 40), atol=0.15)
    np.testing.assert_allclose(actual[1], expected[..., 1].clip(0, 40), atol=0.15)


def test_elastic_border_and_probability(perturbed, picture):
    text = "perturb_param { elastic_prob: 0.25 elastic_alpha: 3 border: CONSTANT border_value: 255 }"
    actual = perturbed(text, picture // 2, 200)
    changed = [(image != picture // 2).any() for image in actual]
    assert 0.15 < np.mean(changed) < 0.35
    assert actual.max() == 255 and (picture // 2).max() < 128, "what is outside has border_value"


# Sizes


def sizes(transform, text, image, count=200, phase=pb.TRAIN):
    step = transform(text, image.shape, phase)._augmentation.moves[0]
    return np.array([step(channels_last(image), i).shape[:2] for i in range(count)])


def test_shorter_side_is_drawn(transform):
    text = "crop_size: 8 img_rand_resize_lower: 10 img_rand_resize_upper: 14"
    actual = sizes(transform, text, ramps(16, 32))
    assert set(actual[:, 0]) == {10, 11, 12, 13, 14} and (actual[:, 1] == 2 * actual[:, 0]).all()


@pytest.mark.parametrize(
    "text, phase, size",
    [
        ("crop_size: 8 img_rand_resize_lower: 30 img_rand_resize_upper: 30", pb.TRAIN, (16, 32)),
        ("crop_size: 8 img_rand_resize_lower: 30 img_rand_resize_upper: 30 allow_upscale: true", pb.TRAIN, (30, 60)),
        ("crop_h: 12 crop_w: 9 img_rand_resize_lower: 4 img_rand_resize_upper: 4", pb.TRAIN, (12, 9)),
        ("crop_size: 8 img_rand_resize_lower: 10 img_rand_resize_upper: 14", pb.TEST, (12, 24)),
        ("crop_size: 8 horizontal_stretch_upper: 2", pb.TEST, (16, 32)),
    ],
)
def test_sizes_that_are_not_drawn(transform, text, phase, size):
    """Sides grow only where allowed, none is shorter than the crop, TEST takes the middle size."""
    assert (sizes(transform, text, ramps(16, 32), 20, phase) == size).all()


def test_ratio_of_the_sides(transform):
    text = (
        "crop_size: 8 img_rand_resize_lower: 60 img_rand_resize_upper: 60 rand_resize_ratio_lower: 1.2 "
        "rand_resize_ratio_upper: 1.5"
    )
    actual = sizes(transform, text + " allow_upscale: true", ramps(60, 60))
    assert (actual.min(1) == 60).all() and actual.max() <= 90 and actual.max(1).min() >= 72
    assert 60 < (actual[:, 0] == 60).sum() < 140, "either side"
    assert (sizes(transform, text + " allow_upscale: true", ramps(60, 80))[:, 1] > 71).all(), (
        "the longer side stays the longer"
    )


def test_stretch(transform):
    text = (
        "crop_size: 8 vertical_stretch_lower: 0.5 vertical_stretch_upper: 0.75 horizontal_stretch_upper: 1.5 "
        "allow_upscale: true"
    )
    actual = sizes(transform, text, ramps(40, 40))
    assert (
        actual[:, 0].min() == 20 and actual[:, 0].max() == 30 and actual[:, 1].min() == 40 and actual[:, 1].max() == 60
    )


def test_intels_random_size_grows(transform):
    actual = sizes(transform, "crop_size: 8 random_resize_param { min_size: 18 max_size: 20 }", ramps(16, 32))
    assert set(actual[:, 0]) == {18, 19, 20}


def test_interpolation(transform, picture):
    """The nearest pixel makes no new value, the mean of those covered does."""
    image = np.repeat(np.repeat(np.array([[[0, 255]]], np.uint8), 8, 1), 8, 2)[:, :, [0, 8] * 8]
    for algorithm, expected in (("INTER_NEAREST", {0, 255}), ("INTER_AREA", {128})):
        text = f"crop_size: 4 img_rand_resize_lower: 4 img_rand_resize_upper: 4 interpolation_algo_down: {algorithm}"
        assert set(transform(text, image.shape).augment(image, 0).ravel().tolist()) <= expected


@pytest.mark.parametrize(
    "text", ["random_resize_param { min_size: 8 max_size: 8 %s }", "random_aspect_ratio_param { min_area_ratio: 1 %s }"]
)
def test_intels_interpolation(transform, text):
    """Of resize_param: the nearest pixel makes no new value, the mean of those covered does, or one of both."""
    image = np.repeat(np.repeat(np.array([[[0, 255]]], np.uint8), 16, 1), 8, 2)[:, :, [0, 8] * 8]
    for modes, expected in (("NEAREST", [{0}, {255}]), ("AREA", [{127}, {128}]), ("NEAREST AREA", [{0}, {255}, {128}])):
        fields = "resize_param { " + " ".join(f"interp_mode: {mode}" for mode in modes.split()) + " }"
        made = transform(f"crop_size: 8 {text % fields}", image.shape)
        seen = [set(made.augment(image, i).ravel().tolist()) for i in range(20)]
        assert all(any(values <= one for one in expected) for values in seen), seen
        assert len({max(values) in (127, 128) for values in seen}) == len(modes.split())


def test_random_part_has_its_area_and_ratio(transform):
    made = transform(
        "crop_size: 50 random_aspect_ratio_param { min_area_ratio: 0.25 max_area_ratio: 0.5 aspect_ratio_change: 0.5 }",
        (3, 200, 200),
    )
    spans = np.array([np.ptp(made.augment(ramps(200, 200), i)[:2].astype(float), (1, 2)) + 3 for i in range(150)])
    areas, ratios = spans.prod(1) / 200**2, spans[:, 0] / spans[:, 1]
    assert 0.2 < areas.min() < 0.3 and 0.45 < areas.max() < 0.55
    assert 0.45 < ratios.min() < 0.6 and 1.7 < ratios.max() < 2.2


def test_random_part_that_shrinks_is_averaged(transform):
    noise = np.random.default_rng(1).integers(0, 256, (3, 200, 200)).astype(np.uint8)
    made = transform("crop_size: 20 random_aspect_ratio_param { min_area_ratio: 1 }", (3, 200, 200))
    assert made.augment(noise, 0).std() < 10, "the mean of 100 pixels, each with a deviation of 74"


def test_random_part_without_a_crop_keeps_the_size(transform, picture):
    made = transform("random_aspect_ratio_param { min_area_ratio: 0.3 }", picture.shape)
    actual = [made.augment(picture, i) for i in range(5)]
    assert {image.shape for image in actual} == {(3, 16, 20)} and not (actual[0] == actual[1]).all()
    assert made.augment(ramps(40, 30), 0).shape == (3, 16, 20), "images may differ in size"


def test_random_part_that_never_fits_is_the_whole(transform):
    made = transform("random_aspect_ratio_param { min_area_ratio: 1 aspect_ratio_change: 1 }", (3, 16, 20))
    np.testing.assert_array_equal(made.augment(ramps(16, 20), 0), ramps(16, 20))


def test_random_part_is_for_train_alone(transform):
    made = transform("crop_size: 8 random_aspect_ratio_param {}", (3, 16, 20), pb.TEST)
    assert made.plain
    np.testing.assert_array_equal(made.augment(ramps(16, 20), 0), ramps(16, 20)[:, 4:12, 6:14])


TSN = "crop_size: 60 multi_scale: true scale_ratios: 1 scale_ratios: 0.8 scale_ratios: 0.5"


def regions(transform, text, count=300):
    """Top, left, height and width of the regions of an image of 100 rows and 120 columns."""
    made, image = transform(text, (2, 100, 120)), ramps(100, 120)[:2]
    pixels = np.array([made.augment(image, i)[:, [0, -1]][..., [0, -1]].astype(float) for i in range(count)])
    first, last = pixels[:, :, 0, 0], pixels[:, :, 1, 1]
    return np.concatenate([first, last - first + 1], 1)[:, [1, 0, 3, 2]]


def test_regions_of_several_scales(transform):
    actual = regions(transform, TSN)
    sides = {(int(round(h, -1)), int(round(w, -1))) for h, w in actual[:, 2:]}
    assert sides == {(100, 100), (100, 80), (80, 100), (80, 80), (80, 50), (50, 80), (50, 50)}, "50 and 100 are too far"
    whole = actual[actual[:, 2] > 95]
    assert len(set(whole[:, 1])) > 5 and whole[:, 1].max() > 15, "anywhere"


@pytest.mark.parametrize("more, count", [("", 5), ("more_fix_crop: true", 13)])
def test_regions_in_corners(transform, more, count):
    actual = regions(transform, f"crop_size: 60 multi_scale: true scale_ratios: 0.6 fix_crop: true {more}")
    assert set(actual[:, 2]) == set(actual[:, 3]) == {60}, "the crop's size, which needs no resizing"
    corners = {(int(top), int(left)) for top, left in actual[:, :2]}
    assert len(corners) == count and {(0, 0), (0, 60), (40, 0), (40, 60), (20, 30)} <= corners


def test_fixed_crops_of_one_scale(transform):
    """Of the crop's size, which an image must have."""
    actual = regions(transform, "crop_size: 60 fix_crop: true")
    assert {(int(top), int(left)) for top, left in actual[:, :2]} == {(0, 0), (0, 60), (40, 0), (40, 60), (20, 30)}
    assert set(actual[:, 2]) == set(actual[:, 3]) == {60}
    with pytest.raises(CaffeliteError, match="crop_size is larger than the image"):
        transform("crop_size: 60 fix_crop: true", (2, 100, 120)).augment(ramps(50, 120)[:2], 0)
