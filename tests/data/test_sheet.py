"""The sheet's pixels, read back from the PNG."""

import cv2
import numpy as np
import pytest

from caffelite.data import lettering
from caffelite.data.sheet import BACKGROUND, CAPTION, GAP, contact_sheet, value_range
from caffelite.errors import CaffeliteError


def drawn(images, captions=(), columns=None):
    png, black, white = contact_sheet(images, captions, columns)
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR), black, white


def test_bytes_stay_what_they_are():
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 100, 120)).astype(np.float32)
    sheet, black, white = drawn(image)
    assert (black, white) == (0, 255) and sheet.shape == (100 + 2 * GAP, 120 + 2 * GAP, 3)
    assert (sheet[GAP:-GAP, GAP:-GAP] == image[0].transpose(1, 2, 0)).all() and (sheet[:GAP] == BACKGROUND).all()


def test_other_values_are_stretched_alike_and_nan_is_magenta():
    images = np.zeros((2, 3, 96, 96), np.float32)
    images[0], images[1, :, 0, 0], images[1, 0, 5, 5] = -2, 2, np.nan
    sheet, black, white = drawn(images, columns=2)
    assert (black, white) == (-2, 2)
    second = GAP + 96 + GAP
    assert sheet[GAP + 10, GAP + 10].tolist() == [0] * 3 and sheet[GAP, second].tolist() == [255] * 3
    assert sheet[GAP + 9, second + 9].tolist() == [128] * 3 and sheet[GAP + 5, second + 5].tolist() == [255, 0, 255]


def test_sheet_scales_images_and_tiles_channels():
    pair = np.zeros((1, 2, 28, 28), np.float32)
    pair[0, 1] = 200
    sheet, *_ = drawn(pair)
    assert sheet.shape == (112 + 2 * GAP, 224 + 2 * GAP, 3)
    assert not sheet[GAP:-GAP, GAP : GAP + 112].any() and (sheet[GAP:-GAP, GAP + 112 : -GAP] == 200).all()
    assert drawn(np.zeros((1, 3, 512, 256)))[0].shape == (256 + 2 * GAP, 128 + 2 * GAP, 3)


def test_captions_stand_below_their_images():
    images = np.full((3, 1, 96, 96), 7.0)
    sheet, *_ = drawn(images, ["1", "a name much too long for this width, really", ""], columns=3)
    assert sheet.shape[0] == 96 + 4 * CAPTION + 2 * GAP, "the longest caption has 4 lines"
    strips = [sheet[GAP + 96 : GAP + 96 + 4 * CAPTION, GAP + i * 100 : GAP + i * 100 + 96] for i in range(3)]
    assert [bool((strip > 150).any()) for strip in strips] == [True, True, False]
    assert (sheet[GAP + 96 : -GAP, GAP + 196 : GAP + 200] == BACKGROUND).all(), "no text runs into the next image"


def test_rows_are_filled_in_order():
    sheet, *_ = drawn(
        np.arange(0, 250, 50, dtype=np.float32).reshape(5, 1, 1, 1).repeat(96, 2).repeat(96, 3), columns=2
    )
    values = [sheet[GAP + row * 100, GAP + column * 100, 0] for row in range(3) for column in range(2)]
    assert values == [0, 50, 100, 150, 200, BACKGROUND]


def test_value_range():
    assert value_range(np.array([0, 1.0])) == (0, 1) and value_range(np.array([0, 200.0])) == (0, 255)
    assert value_range(np.array([np.nan])) == (0, 0) and value_range(np.array([3.0, 300])) == (3, 300)


def test_what_are_no_images():
    with pytest.raises(CaffeliteError, match="no image to show; expected C×H×W, found 4"):
        contact_sheet(np.zeros((5, 4)))


def test_images_of_several_sizes_stand_in_places_of_one():
    images = [
        np.full((3, 96, 96), 50, np.uint8),
        np.full((3, 128, 100), 200, np.uint8),
        np.full((1, 96, 120), 90, np.uint8),
    ]
    sheet, black, white = drawn(images, columns=2)
    assert (black, white) == (0, 255) and sheet.shape == (2 * 128 + 3 * GAP, 2 * 120 + 3 * GAP, 3)
    assert (sheet[GAP : GAP + 96, GAP : GAP + 96] == 50).all()
    assert (sheet[GAP : GAP + 128, GAP + 96 : GAP + 120] == BACKGROUND).all()
    assert (sheet[GAP : GAP + 128, 2 * GAP + 120 : 2 * GAP + 220] == 200).all()
    assert (sheet[2 * GAP + 128 :][:96, GAP : GAP + 120] == 90).all()


def test_captions_keep_their_letters_and_wrap():
    assert lettering.wrapped("big trück ∑", 200, 3) == ["big trück ∑"]
    lines = lettering.wrapped("a name much too long for this width", 94, 3)
    assert " ".join(lines) == "a name much too long for this width"
    assert all(lettering.width(line) <= 94 for line in lines)
    assert lettering.wrapped("x" * 500, 94, 2)[1].endswith("…") and lettering.wrapped("", 94, 3) == []
    plain, umlaut = (drawn(np.full((1, 1, 96, 96), 7.0), [text])[0] for text in ("truck", "trück"))
    question = drawn(np.full((1, 1, 96, 96), 7.0), ["tr?ck"])[0]
    assert (plain != umlaut).any() and (umlaut != question).any()


@pytest.fixture
def font_with_one_character(tmp_path):
    """A font file whose one glyph, a filled square for 日, is 1 em wide."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    builder, glyphs = FontBuilder(1000), {}
    builder.setupGlyphOrder([".notdef", "sun"])
    builder.setupCharacterMap({ord("日"): "sun"})
    for name, side in ((".notdef", 100), ("sun", 800)):
        pen = TTGlyphPen(None)
        pen.moveTo((0, 0))
        for corner in ((0, side), (side, side), (side, 0)):
            pen.lineTo(corner)
        pen.closePath()
        glyphs[name] = pen.glyph()
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics({".notdef": (500, 0), "sun": (1000, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Sun", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "sun.ttf")
    return str(tmp_path / "sun.ttf")


def shown_with(monkeypatch, paths, text):
    """A caption's pixels and width where the system has these fonts."""
    monkeypatch.setattr(lettering, "system_fonts", lambda: paths)
    lettering._fallback.cache_clear()
    sheet = drawn(np.full((1, 1, 96, 96), 7.0), [text])[0], lettering.width(text)
    lettering._fallback.cache_clear()
    return sheet


def test_a_caption_uses_the_fonts_of_the_system(monkeypatch, font_with_one_character, tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    pixels, width = shown_with(monkeypatch, (str(tmp_path / "broken.ttf"), font_with_one_character), "a日b")
    without = lettering.width("ab")
    assert width == pytest.approx(without + 12, abs=0.2)
    assert (pixels == 255).sum() > 80, "the filled square is there"


def test_a_caption_shows_a_box_where_no_font_has_a_character(monkeypatch):
    pixels, width = shown_with(monkeypatch, (), "a日b")
    box, box_width = shown_with(monkeypatch, (), "a□b")
    assert width == box_width and (pixels == box).all()
