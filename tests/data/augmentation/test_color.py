"""Light and color, on images whose change is known."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.augmentation.color import Distort, recolored, toned
from caffelite.data.augmentation.perturbation import Fields
from caffelite.errors import NOWHERE, CaffeliteError

BLUE, GREEN, RED = (255, 0, 0), (0, 255, 0), (0, 0, 255)
YELLOW, CYAN = (0, 255, 255), (255, 255, 0)


def plane(*color):
    return np.broadcast_to(np.array(color, np.uint8)[:, None, None], (len(color), 4, 5)).copy()


def of_one_value(found):
    """N×C: the color of each image, which is the same everywhere."""
    assert (found == found[:, :, :1, :1]).all()
    return found[:, :, 0, 0].astype(int)


@pytest.mark.parametrize("color", [(100,), (100, 120, 140)])
def test_brightness_adds_the_same_everywhere(perturbed, color):
    added = (
        of_one_value(perturbed("distort_param { brightness_prob: 1 brightness_delta: 32 }", plane(*color), 200)) - color
    )
    assert (added == added[:, :1]).all() and -32 <= added.min() < -25 and 25 < added.max() <= 32


@pytest.mark.parametrize("color", [(100,), (100, 60, 20)])
def test_contrast_multiplies(perturbed, color):
    actual = of_one_value(
        perturbed("distort_param { contrast_prob: 1 contrast_lower: 0.5 contrast_upper: 1.5 }", plane(*color), 200)
    )
    factors = actual[:, 0] / 100
    assert 0.5 <= factors.min() < 0.6 and 1.4 < factors.max() <= 1.5
    np.testing.assert_allclose(actual, factors[:, None] * color, atol=0.9)


def test_values_are_rounded_and_held_within_a_byte():
    actual = toned(np.array([[[3, 101, 250]]], np.uint8), 1.5, -6)
    assert actual.tolist() == [[[0, 146, 255]]]


@pytest.mark.parametrize(
    "before, turn, after", [(RED, 30, YELLOW), (RED, -60, BLUE), (BLUE, 90, YELLOW), (GREEN, 30, CYAN), (RED, 180, RED)]
)
def test_hue_turns_a_known_color(before, turn, after):
    np.testing.assert_array_equal(recolored(np.full((2, 2, 3), before, np.uint8), 1, turn)[0, 0], after)


def test_hue_stays_within_its_delta(perturbed):
    actual = of_one_value(perturbed("distort_param { hue_prob: 1 hue_delta: 15 }", plane(*RED), 200))
    assert (actual[:, 2] == 255).all() and 100 < actual[:, :2].max() < 130, (
        "red keeps the most, blue or green comes to half of it"
    )
    assert (actual[:, :2].min(1) == 0).all() and (actual[:, 0] > 0).any() and (actual[:, 1] > 0).any()


def test_saturation(perturbed):
    how = "distort_param { saturation_prob: 1 saturation_lower: 0 saturation_upper: 0 }"
    gray = of_one_value(perturbed(how, plane(50, 100, 200), 3))
    assert (gray == 200).all(), "the brightest channel stays, the others rise to it"
    how = "distort_param { saturation_prob: 1 saturation_lower: 0.5 saturation_upper: 1.5 }"
    actual = of_one_value(perturbed(how, plane(150, 175, 200)))
    assert actual[:, 0].min() < 135 and actual[:, 0].max() > 165 and (abs(actual[:, 2] - 200) <= 1).all()


def test_another_order_of_channels(perturbed):
    actual = of_one_value(perturbed("distort_param { random_order_prob: 0.5 }", plane(1, 2, 3), 200))
    orders, counts = np.unique(actual, axis=0, return_counts=True)
    assert len(orders) == 6 and (np.sort(orders) == [1, 2, 3]).all()
    assert counts[0] > 70, "half of them stay as they are"


def test_contrast_comes_before_or_after_saturation():
    """What contrast cuts off at 255 is less saturated then."""
    p = pb.DistortionParameter(contrast_prob=1, contrast_lower=2, contrast_upper=2)
    p.saturation_prob, p.saturation_lower, p.saturation_upper = 1, 0.5, 0.5
    distort, image = Distort(Fields(p, NOWHERE, (3, 1, 1))), np.array([[[10, 100, 200]]], np.uint8)
    before, after = (distort.change(image, [0] * 7 + [coin] + [0] * 3, 0)[0, 0] for coin in (0.2, 0.8))
    np.testing.assert_allclose([before[0], after[0]], [138, 210], atol=3)
    assert before[2] == after[2] == 255


def test_tint_shifts_each_channel_by_its_own(perturbed):
    added = of_one_value(perturbed("perturb_param { tint_delta: 20 }", plane(100, 120, 140), 200)) - (100, 120, 140)
    assert -20 <= added.min() < -17 and 17 < added.max() <= 20
    assert abs(np.corrcoef(added.T)[np.triu_indices(3, 1)]).max() < 0.25, "channels are drawn apart"


@pytest.mark.parametrize("color", [(3,), (3, 100, 250)])
def test_inversion(perturbed, color):
    actual = of_one_value(perturbed("perturb_param { inverse_prob: 0.25 }", plane(*color), 400))
    inverted = (actual == 255 - np.array(color)).all(1)
    assert ((actual == color).all(1) | inverted).all() and 0.2 < inverted.mean() < 0.3


@pytest.mark.parametrize(
    "text, field",
    [
        ("distort_param { hue_prob: 0.5 hue_delta: 9 }", "hue_prob"),
        ("distort_param { saturation_prob: 0.5 }", "saturation_prob"),
        ("distort_param { random_order_prob: 0.5 }", "random_order_prob"),
        ("perturb_param { tint_delta: 20 }", "tint_delta"),
        ("noise_param { prob: 1 decolorize: true }", "decolorize"),
    ],
)
def test_color_asked_of_gray_images(transform, text, field):
    message = f"{field} needs color; expected images of 3 channels, found 1; leave out {field}, or set force_color"
    with pytest.raises(CaffeliteError, match=message):
        transform(text, (1, 8, 8))
