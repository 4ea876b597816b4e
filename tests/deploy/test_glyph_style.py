"""GlyphStyle: what a data set's images say of theirs, and drawn ones brought to look like them."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.deploy import glyph_style

Deploy = pb.DeployParameter


def sign(tall: int, wide: int, at: tuple[int, int], shape=(28, 28), heavy_left=False) -> np.ndarray:
    """A frame of ink on a dark ground; heavy_left: filled on its left."""
    image = np.zeros(shape, np.uint8)
    image[at[0] : at[0] + tall, at[1] : at[1] + wide] = 255
    image[at[0] + 2 : at[0] + tall - 2, at[1] + (wide // 2 if heavy_left else 2) : at[1] + wide - 2] = 0
    return image


def test_measure_ground_size_and_center():
    middle = [sign(20, w, (4, (28 - w) // 2), heavy_left=w % 4 == 0) for w in (8, 10, 12, 14, 16)]
    actual = glyph_style.measure([image[None] for image in middle])
    assert actual == glyph_style.GlyphStyle(Deploy.DARK, 20, Deploy.BOX)
    assert glyph_style.measure([255 - image[None] for image in middle]) == glyph_style.GlyphStyle(
        Deploy.LIGHT, 20, Deploy.BOX
    )
    how = Deploy(ground=Deploy.DARK, sign_size=20, sign_centre=Deploy.MASS)
    massed = [glyph_style.center_glyph(np.pad(image, 30), (28, 28), how)[None] for image in middle]
    assert glyph_style.measure(massed) == glyph_style.GlyphStyle(Deploy.DARK, 20, Deploy.MASS)


def test_photographs_have_no_signs(seed):
    rng = np.random.default_rng(seed)
    assert (
        glyph_style.measure([rng.integers(0, 256, (1, 28, 28), np.uint8) for _ in range(4)]) == glyph_style.GlyphStyle()
    )
    assert glyph_style.measure([sign(20, 10, (4, 9))[None].repeat(3, 0)]) == glyph_style.GlyphStyle()
    assert glyph_style.measure([sign(60, 30, (100, 100), (256, 256))[None]]) == glyph_style.GlyphStyle()
    assert glyph_style.measure([]) == glyph_style.GlyphStyle()
    assert glyph_style.measure([np.zeros((1, 28, 28), np.uint8)]) == glyph_style.GlyphStyle(Deploy.DARK)


@pytest.mark.parametrize("ground", [Deploy.DARK, Deploy.LIGHT])
@pytest.mark.parametrize("light", [False, True])
def test_ground(ground, light):
    image = sign(20, 10, (4, 9))
    image = 255 - image // 2 if light else image // 2 + 20
    actual, inverted = glyph_style.on_ground(image, ground)
    assert inverted == (light != (ground == Deploy.LIGHT))
    assert (np.median(glyph_style.border(actual)) > 127) == (ground == Deploy.LIGHT)


def test_an_empty_picture_has_the_ground_it_shows():
    assert not glyph_style.on_ground(np.zeros((9, 9), np.uint8), Deploy.DARK)[1]
    assert not glyph_style.on_ground(np.full((9, 9), 255, np.uint8), Deploy.LIGHT)[1]
    assert glyph_style.on_ground(np.full((9, 9), 250, np.uint8), Deploy.DARK)[1]
    assert not glyph_style.center_glyph(
        np.full((90, 90), 7, np.uint8), (28, 28), Deploy(ground=Deploy.DARK, sign_size=20)
    ).any()


@pytest.mark.parametrize("ground", [Deploy.DARK, Deploy.LIGHT])
@pytest.mark.parametrize(("tall", "wide"), [(60, 30), (30, 60), (10, 5), (200, 20)])
def test_fit_size_and_middle(ground, tall, wide):
    image = sign(tall, wide, (7, 31), (240, 180)) // 2 + 40
    image = 255 - image if ground == Deploy.LIGHT else image
    actual = glyph_style.center_glyph(image, (28, 28), Deploy(ground=ground, sign_size=20))
    actual = 255 - actual if ground == Deploy.LIGHT else actual
    rows, columns = (np.flatnonzero((actual > 40).any(axis)) for axis in (1, 0))
    assert max(np.ptp(rows), np.ptp(columns)) + 1 == 20
    assert np.ptp(rows) + 1 == pytest.approx(20 * tall / max(tall, wide), abs=1.1)
    assert [rows.mean() + 0.5, columns.mean() + 0.5] == pytest.approx([14, 14], abs=0.6)
    assert actual.max() == 255 and actual[0].max() == 0


def test_fit_by_mass():
    image = sign(40, 40, (5, 5), (80, 80), heavy_left=True)
    actual = glyph_style.center_glyph(
        image, (28, 28), Deploy(ground=Deploy.DARK, sign_size=20, sign_centre=Deploy.MASS)
    ).astype(float)
    middle = [(actual.sum(1 - axis) * (np.arange(28) + 0.5)).sum() / actual.sum() for axis in (0, 1)]
    assert middle == pytest.approx([14, 14], abs=0.6)


def test_dirt_and_grain_are_not_ink(seed):
    image = sign(60, 30, (20, 60), (120, 160)).astype(float)
    image[3:5, 3:5] = 255
    image = np.clip(image * 0.8 + 25 + np.random.default_rng(seed).normal(0, 6, image.shape), 0, 255).astype(np.uint8)
    clean = glyph_style.center_glyph(
        sign(60, 30, (20, 60), (120, 160)), (28, 28), Deploy(ground=Deploy.DARK, sign_size=20)
    )
    actual = glyph_style.center_glyph(image, (28, 28), Deploy(ground=Deploy.DARK, sign_size=20))
    assert np.abs(actual.astype(int) - clean).mean() < 6


def test_the_median_is_that_of_numpy(seed):
    rng = np.random.default_rng(seed)
    for count in (1, 2, 5, 332, 333):
        values = rng.integers(0, 256, count).astype(np.uint8)
        assert glyph_style._median(values) == np.median(values)
