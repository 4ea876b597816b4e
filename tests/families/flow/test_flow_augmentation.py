"""FlowNet's random changes of images and flows: what is drawn, colors, means."""

import math

import numpy as np
import pytest
from textnet import bind, forward, inputs, layer, mistaken

from caffelite.families.flow.coefficients import INDEX, IS_FACTOR, NAMES, values
from caffelite.net import parameters

CROP = "crop_width: 4 crop_height: 3"
IMAGES = (4, 3, 6, 5)


def augmentation(body, kind="DataAugmentation", bottoms=("x",), tops="y", more="", **shapes):
    shapes = shapes or {"x": IMAGES}
    body = f"augmentation_param {{ {body} }} {more}"
    return inputs(**shapes) + layer(kind, *bottoms, tops=tops, body=body, name="augment")


def outputs(net, **fed):
    forward(net, **fed)
    return {name: net.dev.download(net.blobs[name]) for name in ("y", "v") if name in net.blobs}


def vectors(**numbers):
    """Vectors for the four images, in which these numbers are not at rest."""
    vector = np.zeros(len(NAMES))
    for name, number in numbers.items():
        vector[INDEX[name]] = math.log(number) if IS_FACTOR[INDEX[name]] else number
    return np.tile(vector, (IMAGES[0], 1)).reshape(IMAGES[0], -1, 1, 1)


@pytest.mark.parametrize("per_pixel", [True, False])
def test_the_mean_of_the_first_passes(per_pixel, rng):
    body = f"recompute_mean: 2 mean_per_pixel: {str(per_pixel).lower()}"
    net, batches = bind(augmentation(body)), rng.normal(3, 1, (3, *IMAGES))
    for i, x in enumerate(batches):
        mean = batches[: min(i + 1, 2)].mean((0, 1))
        mean = mean if per_pixel else mean.mean((1, 2), keepdims=True)
        np.testing.assert_allclose(outputs(net, x=x)["y"], x - mean, rtol=1e-10, atol=1e-12)
    passes, pixels, channels = net.params.blobs
    assert passes == 3
    np.testing.assert_allclose(pixels[0], batches[:2].mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(channels[0, :, 0, 0], batches[:2].mean((0, 1, 3, 4)), rtol=1e-12)
    test = bind(augmentation(f"{body} crop_width: 3 crop_height: 6"), "TEST")
    stored = {"augment": [blob.copy() for blob in net.params.blobs]}
    parameters.load(test.graph, test.dev, stored, "file")
    expected = batches[:2].mean((0, 1, 3, 4)).reshape(3, 1, 1)
    actual = outputs(test, x=np.broadcast_to(expected + 1, IMAGES))["y"]
    np.testing.assert_allclose(actual, 1, rtol=1e-10)
    np.testing.assert_array_equal(test.params.blobs[0], 3)


def test_a_mean_of_the_same_size_is_taken_as_it_is(rng):
    net = bind(augmentation("recompute_mean: 2"), "TEST")
    stored = [np.full((1, 1, 1, 1), 5.0), rng.normal(size=(1, *IMAGES[1:])), rng.normal(size=(1, 3, 1, 1))]
    parameters.load(net.graph, net.dev, {"augment": stored}, "file")
    np.testing.assert_allclose(outputs(net, x=np.zeros(IMAGES))["y"][:1], -stored[1], rtol=1e-12)


def uniform(name, mean=0.0, spread=0.0, more=""):
    return f"{name} {{ mean: {mean} spread: {spread} {more} }} "


def drawn(body, phase="TRAIN", shape=(500, 1, 40, 60), more=""):
    size = "crop_width: 30 crop_height: 20 "
    kind = "GenerateAugmentationParameters"
    net = bind(augmentation(size + body, kind, tops="v", more=more, x=shape), phase)
    actual = outputs(net, x=np.zeros(shape))["v"][..., 0, 0]
    numbers = [values(vector) for vector in actual]
    return actual, {name: np.array([each[name] for each in numbers]) for name in NAMES}


def test_numbers_are_drawn_as_the_fields_say():
    body = uniform("rotate", 0.1, 0.2) + uniform("zoom", 0.5, 0.2, "exp: true") + "translate_x { mean: 0.02 } "
    body += 'mirror { rand_type: "bernoulli" prob: 0.3 } ' + uniform("squeeze", 0, 0.3, "exp: true")
    body += uniform("gamma", 0, 0.5, 'exp: true rand_type: "gaussian"') + "noise { mean: 0.25 } "
    body += uniform("brightness", 1, 0.5, 'rand_type: "uniform_bernoulli" prob: 0.4')
    actual, by_name = drawn(body)
    assert 0.2 < by_name["mirror"].mean() < 0.4
    assert set(by_name["mirror"]) == {0, 1}
    assert -0.1 <= by_name["angle"].min() < -0.05 < 0.25 < by_name["angle"].max() <= 0.3
    np.testing.assert_allclose(by_name["dx"], 0.02, rtol=1e-6)
    assert not by_name["dy"].any()
    zoom = np.log(by_name["zoom_x"] * by_name["zoom_y"]) / 2
    squeeze = np.log(by_name["zoom_x"] / by_name["zoom_y"]) / 2
    assert 0.3 <= zoom.min() < 0.4 < 0.6 < zoom.max() < 0.7001
    assert -0.3001 <= squeeze.min() < -0.2 < 0.2 < squeeze.max() < 0.3001
    assert 0.4 < np.log(by_name["gamma"]).std() < 0.6
    changed = by_name["brightness"][by_name["brightness"] != 0]
    assert 0.5 <= changed.min() < changed.max() <= 1.5
    assert 0.3 < len(changed) / 500 < 0.5
    np.testing.assert_allclose(by_name["noise"], 0.25)
    np.testing.assert_array_equal(actual, drawn(body)[0])


def test_crops_stay_in_the_image():
    _, by_name = drawn(uniform("translate", 0, 3) + uniform("rotate", 0, 2))
    corners = np.array([[x, y] for x in (0, 29) for y in (0, 19)]) - (15, 10)
    for dx, dy, angle in zip(*(by_name[name] for name in ("dx", "dy", "angle")), strict=True):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        places = corners @ turn.T + (30 * dx + 30, 20 * dy + 20)
        assert (np.floor(places) >= 0).all()
        assert (np.floor(places) <= (58, 38)).all()
    assert by_name["dx"].std() > 0.1
    assert not drawn(uniform("translate", 9, 0))[0].any()  # nothing leads into the image


def test_without_training_nothing_is_drawn():
    assert not drawn(uniform("rotate", 0.1, 0.2), "TEST")[0].any()
    assert drawn(uniform("rotate", 0.1, 0.2) + "augment_during_test: true", "TEST")[0].all(0).sum() == 1


def test_the_spread_grows():
    more = "coeff_schedule_param { half_life: 1 initial_coeff: 0 final_coeff: 1 }"
    _, by_name = drawn(uniform("rotate", 0, 0.2) + uniform("gamma", 0, 0.2, "apply_schedule: false"), more=more)
    assert 0.09 < np.abs(by_name["angle"]).max() < 0.1001
    assert np.abs(by_name["gamma"]).max() > 0.15


@pytest.mark.parametrize(("mode", "turned"), [("add", 0.5), ("replace", 0.25), ("regenerate", 0.25)])
def test_modes(mode, turned):
    body = f'rotate {{ mean: 0.25 }} contrast {{ mean: 2 }} mode: "{mode}" {CROP} bottomwidth: 50 bottomheight: 60'
    net = bind(augmentation(body, "GenerateAugmentationParameters", tops="v", x=(4, 42, 1, 1)))
    actual = [values(v) for v in outputs(net, x=vectors(angle=0.25, contrast=3, gamma=2))["v"][..., 0, 0]]
    assert [each["angle"] for each in actual] == pytest.approx([turned] * 4)
    assert [each["contrast"] for each in actual] == pytest.approx([6 if mode == "add" else 2] * 4)
    assert [each["gamma"] for each in actual] == pytest.approx([1 if mode == "regenerate" else 2] * 4)


def test_a_layer_that_draws_its_own_numbers_gives_them_on(rng):
    body = f"{CROP} {uniform('translate', 0, 0.2)}"
    x = rng.random(IMAGES)
    actual = outputs(bind(augmentation(body, tops="y v")), x=x)
    text = augmentation(body, bottoms=("x", "w"), x=IMAGES, w=(4, 42, 1, 1))
    again = outputs(bind(text), x=x, w=actual["v"])
    np.testing.assert_array_equal(again["y"], actual["y"])
    assert actual["v"].std() > 0


def recolored(x, body="", **numbers):
    text = augmentation(f"{CROP} max_multiplier: 1 {body}", bottoms=("x", "v"), x=IMAGES, v=(4, 42, 1, 1))
    plain = outputs(bind(text, "TEST"), x=x, v=vectors())["y"]
    return plain, outputs(bind(text, "TEST"), x=x, v=vectors(**numbers))["y"]


def test_colors(rng):
    numbers = {"gamma": 1.5, "brightness": 0.125, "contrast": 1.25, "color1": 0.5, "color2": 1.5, "color3": 1.25}
    plain, actual = recolored(rng.random(IMAGES), **numbers)
    for n, i, j in np.ndindex(4, 3, 4):
        pixel = plain[n, :, i, j]
        colored = pixel * (0.5, 1.5, 1.25)
        colored = np.clip(colored * pixel.sum() / (colored.sum() + 0.01), 0, 1) ** 1.5 + 0.125
        np.testing.assert_allclose(actual[n, :, i, j], np.clip(0.5 + (colored - 0.5) * 1.25, 0, 1), rtol=1e-10)


def test_colors_along_vectors(rng):
    """Pixel by pixel."""
    e = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    body = " ".join(f"chromatic_eigvec: {v:.9g}" for v in e.ravel())
    e = e.astype(np.float32).astype(float)
    numbers = {"pow_nomean0": 1.2, "add_nomean1": 0.1, "mult_nomean2": 1.3, "pow_withmean1": 1.1, "pow_withmean2": 1.1}
    numbers |= {"add_withmean1": 0.05, "mult_withmean1": 0.9, "lmult_pow": 1.1, "lmult_mult": 0.9, "lmult_add": 0.02}
    x = rng.random(IMAGES)
    plain, actual = recolored(x, body, **numbers, col_angle=0.3)
    mean, reach = x.mean((0, 2, 3)), np.abs(np.einsum("kc,nchw->nkhw", e, x)).max((0, 2, 3))
    for n, i, j in np.ndindex(4, 3, 4):
        c = e @ (plain[n, :, i, j] - mean) / reach
        c = np.array([math.copysign(abs(c[0]) ** 1.2, c[0]), c[1] + 0.1, c[2] * 1.3]) + e @ mean / reach
        s = math.hypot(*c[1:])
        turned = complex(*c[1:]) * complex(math.cos(0.3), math.sin(0.3))
        c = np.array([c[0], turned.real, turned.imag]) * reach
        length = np.linalg.norm(c) / np.linalg.norm(reach)
        c[1:] *= max(s**1.1 + 0.05, 0) * 0.9 / s
        c *= max(length**1.1 + 0.02, 0) * 0.9 * np.linalg.norm(reach) / np.linalg.norm(c)
        np.testing.assert_allclose(actual[n, :, i, j], np.clip(e.T @ np.minimum(c, reach), 0, 1), rtol=1e-6, atol=1e-7)


def test_effects(rng):
    x = 0.4 + 0.2 * rng.random(IMAGES)
    plain, actual = recolored(x, shadow_angle=0, shadow_distance=0.5, shadow_strength=0.25)
    np.testing.assert_allclose(actual, plain - 0.25 * (np.arange(4) > 2), rtol=1e-10)
    plain, actual = recolored(x, noise=0.125)
    assert 0.1 < (actual - plain).std() < 0.15


test_mistakes = mistaken(
    (augmentation("crop_width: @6 crop_height: 3"), "crop_width is larger than the image; expected at most 5, found 6"),
    (augmentation('rotate { rand_type: @"normal" }'), "an unknown rand_type"),
    (
        augmentation("sat_pow { mean: 1 }").replace("augmentation_param", "@augmentation_param"),
        "needs the eigenvectors",
    ),
    (augmentation("", more="coeff_schedule_param { half_life: @0 }"), "a bad half_life"),
    (augmentation(CROP, "FlowAugmentation", ("x", "@x", "x"), x=(2, 2, 6, 5)), "does not fit"),
    (augmentation(CROP, "FlowAugmentation", ("@x", "x", "x")), "is no flow"),
    (augmentation(f'{CROP} mode: @"new"', "GenerateAugmentationParameters"), "an unknown mode"),
    (inputs(x=IMAGES) + "@" + layer("GenerateAugmentationParameters", "x"), "has no crop"),
    (augmentation(CROP, "GenerateAugmentationParameters", ("@x", "x", "x")), "does not fit"),
)
