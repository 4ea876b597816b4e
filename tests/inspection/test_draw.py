"""The layout's promises, and the pictures made of it."""

import xml.etree.ElementTree as ElementTree

import pytest
from textnet import build, inputs

from caffelite.inspection.picture import picture
from caffelite.inspection.placement import GAP_X, lay_out
from caffelite.inspection.scene import Scene, Text, png, svg, text_width

SVG = "{http://www.w3.org/2000/svg}"
BOX = (100.0, 24.0)


def laid(edges: str, names: str):
    return lay_out({name: BOX for name in names}, [(*edge, edge[0]) for edge in edges.split()])


def test_every_edge_leads_down():
    actual = laid("ab ac bd cd ad de", "abcde").boxes
    assert all(actual[a].y + actual[a].height < actual[b].y for a, b in ("ab", "ac", "bd", "cd", "ad", "de"))


def test_no_two_boxes_touch():
    actual = laid("ab ac ad ae bf cf df ef", "abcdef").boxes
    row = sorted(actual[n].x for n in "bcde")
    assert min(b - a for a, b in zip(row, row[1:], strict=False)) >= BOX[0] + GAP_X - 1e-6


def test_a_chain_is_one_column_next_to_a_long_edge():
    actual = laid("ab bc cd ad", "abcd")
    assert len({round(v.x, 3) for v in actual.boxes.values()}) == 1
    bends = actual.bends[3]
    assert len(bends) == 2 and bends[0].x == pytest.approx(bends[1].x)
    assert abs(bends[0].x - actual.boxes["b"].x) >= BOX[0] / 2


def test_branches_are_centered_below_their_origin():
    actual = laid("ab ac bd cd", "abcd").boxes
    assert actual["a"].x == pytest.approx((actual["b"].x + actual["c"].x) / 2) == pytest.approx(actual["d"].x)


def test_crossings_are_undone():
    actual = laid("ad be cf", "abcfed").boxes
    assert all(actual[a].x == pytest.approx(actual[b].x) for a, b in ("ad", "be", "cf"))


def test_a_source_is_directly_above_its_reader():
    actual = laid("ab bc cd xd", "xabcd").boxes
    assert actual["x"].rank == actual["c"].rank


def test_one_box_alone():
    assert lay_out({"a": BOX}, []).boxes["a"].x == 50


NET = (
    inputs(**{"x<&": (2, 3, 8, 8)})
    + """
layer { name: "conv" type: "Convolution" bottom: "x<&" top: "y"
  convolution_param { num_output: 4 kernel_size: 3 stride: 2 } }
layer { name: "relu" type: "ReLU" bottom: "y" top: "y" }
layer { name: "left" type: "TanH" bottom: "y" top: "left" }
layer { name: "sum" type: "Eltwise" bottom: "y" bottom: "left" top: "sum" }
"""
)


def test_svg_shows_names_details_and_shapes():
    root = ElementTree.fromstring(svg(picture(build(NET))))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    for expected in ("x<&", "conv", "Convolution 3×3 /2 → 4", "relu", "sum", "3×8×8", "4×3×3", "convolution"):
        assert expected in texts, texts
    assert texts.count("4×3×3") == 2, "once for each blob: conv's after relu, and left's"
    arrows = list(root.iter(f"{SVG}polygon"))
    assert len(arrows) == 4 and root.get("width") and all(p.get("fill") for p in arrows)


def test_in_place_layers_share_a_box():
    root = ElementTree.fromstring(svg(picture(build(NET))))
    outlines = [r for r in root.iter(f"{SVG}rect") if r.get("fill") == "none"]
    assert len(outlines) == 4 and max(float(r.get("height")) for r in outlines) == 48


def test_png():
    body = png(picture(build(NET)), scale=1)
    assert body[:8] == b"\x89PNG\r\n\x1a\n" and len(body) > 5000


@pytest.mark.parametrize("bold", [False, True])
def test_text_widths_are_those_of_dejavu_sans(bold):
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.ft2font import FT2Font

    font = FT2Font(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans{'-Bold' * bold}.ttf")
    font.set_size(1000, 72)
    for text in ("conv1", "Convolution 5×5 → 20", "inception_3a/5x5_reduce", "~!{W}"):
        drawn = sum(font.load_char(ord(char)).linearHoriAdvance for char in text) / 65536 / 1000
        assert text_width(text, 12, bold) == pytest.approx(12 * drawn, rel=2e-3)


def test_texts_of_a_box_never_overlap_in_any_font():
    root = ElementTree.fromstring(svg(picture(build(NET))))
    texts = {t.text: t for t in root.iter(f"{SVG}text")}
    assert all(float(t.get("textLength")) > 0 and t.get("lengthAdjust") == "spacingAndGlyphs" for t in texts.values())
    name, detail = texts["conv"], texts["Convolution 3×3 /2 → 4"]
    left = float(name.get("x")) + float(name.get("textLength"))
    assert detail.get("text-anchor") == "end"
    assert float(detail.get("x")) - float(detail.get("textLength")) - left >= 11.9


def test_png_has_no_glyph_warning_and_no_formula():
    scene = Scene(200, 40, [Text(5, 20, "大\x07 $\\bad$")])
    assert png(scene, scale=1)[:4] == b"\x89PNG"
