"""DenseImageData and ImageSegData: images and the labels of their pixels change alike."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data.sources import open_source
from caffelite.errors import CaffeliteError
from caffelite.runs.limits import listed_files

HEIGHT, WIDTH = 6, 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two images, whose blue is the label of the pixel; pal.png has these labels as a palette; small.png has other
    sides."""
    path = tmp_path_factory.mktemp("pairs")
    for number in range(2):
        labels = (np.arange(HEIGHT * WIDTH) + 100 * number).reshape(HEIGHT, WIDTH).astype(np.uint8)
        image = np.stack([labels, labels // 2, np.full_like(labels, 7)], -1)
        cv2.imwrite(str(path / f"i{number}.png"), image)
        cv2.imwrite(str(path / f"l{number}.png"), labels)
    cv2.imwrite(str(path / "small.png"), np.zeros((4, 5), np.uint8))
    cv2.imwrite(str(path / "color.png"), np.dstack([labels, labels, labels + 1]))
    return path


def source(
    folder, kind: str, body: str, transform: str = "", phase: int = pb.TRAIN, tops: str = "abc", lines: str = ""
):
    (folder / "list.txt").write_text(lines or "i0.png l0.png\ni1.png l1.png\n")
    field = "dense_image_data_param" if kind == "DenseImageData" else "image_data_param"
    named = f'source: "{folder}/list.txt" root_folder: "{folder}/" batch_size: 2 {body}'
    above = " ".join(f'top: "{top}"' for top in tops)
    text = f'layer {{ name: "d" type: "{kind}" {above} {field} {{ {named} }} transform_param {{ {transform} }} }}'
    document = prototxt.parse(text, pb.NetParameter, "net.prototxt")
    return open_source(document.message.layer[0], phase, document.locate.at("layer", 0), 5)


def batches(*arguments, count: int = 1, **options):
    with source(*arguments, **options) as opened:
        actual = [[a.copy() for a in opened.next()] for _ in range(count)]
        assert [a.shape for a in actual[0]] == [tuple(s) for s in opened.shapes]
        return actual


def test_labels_follow_the_crop_and_the_mirror(folder):
    body, tops = "mirror: true crop_height: 4 crop_width: 3", "ab"
    actual = batches(folder, "DenseImageData", body, "mean_value: 1 scale: 0.5", tops=tops, count=12)
    flips, corners = set(), set()
    for images, labels in actual:
        np.testing.assert_array_equal(images[:, :1] * 2 + 1, labels)
        flips.add(bool(labels[0, 0, 0, 1] < labels[0, 0, 0, 0]))
        corners.add(labels[0, 0].min())
    assert flips == {True, False} and len(corners) > 5


def test_pairs_are_the_same_in_every_run(folder):
    first, second = (batches(folder, "DenseImageData", "mirror: true shuffle: true", tops="ab") for _ in range(2))
    np.testing.assert_equal(first[0], second[0])


def test_edges_are_shares_and_those_above_a_half_are_whole(folder):
    gray = np.full((HEIGHT, WIDTH), 51, np.uint8)
    gray[:, 2:] = 128
    cv2.imwrite(str(folder / "edges.png"), gray)
    lines = "i0.png edges.png\ni1.png edges.png\n"
    images, edges = batches(folder, "ImageLabelmapData", "", "mean_value: 3", tops="ab", lines=lines)[0]
    assert edges.shape == (2, 1, HEIGHT, WIDTH) and images[0, 2, 0, 0] == 4
    np.testing.assert_allclose(edges[..., :2], 0.2, rtol=1e-6)
    assert (edges[..., 2:] == 1).all()


def test_resized_labels_take_the_nearest(folder):
    images, labels = batches(folder, "DenseImageData", "new_height: 3 new_width: 4", tops="ab")[0]
    assert images.shape == (2, 3, 3, 4) and set(labels[0].ravel()) <= set(range(HEIGHT * WIDTH))


def test_labels_of_a_part_of_the_size(folder):
    images, labels = batches(folder, "DenseImageData", "label_divide_factor: 3", tops="ab")[0]
    assert images.shape == (2, 3, 6, 9)
    np.testing.assert_array_equal(labels, images[:, :1, ::3, ::3])


def test_a_crop_beyond_the_image_is_padded(folder):
    body, crop = "label_type: PIXEL ignore_label: 254", "crop_height: 8 crop_width: 5 mean_value: 3"
    images, labels, sides = batches(folder, "ImageSegData", body, crop, pb.TEST)[0]
    whole = cv2.imread(str(folder / "i0.png")).transpose(2, 0, 1)
    np.testing.assert_array_equal(images[0, :, :6], whole[:, :, 2:7] - 3.0)
    assert (images[:, :, 6:] == 0).all() and (labels[:, :, 6:] == 254).all()
    assert sides.tolist() == [[[[6, 5]]], [[[6, 5]]]]


@pytest.mark.parametrize(("kind", "lines", "label"), [("IMAGE", "i0.png 3\n", 3), ("NONE", "i0.png\n", 255)])
def test_one_label_for_all_pixels(folder, kind, lines, label):
    _, labels, _ = batches(folder, "ImageSegData", f"label_type: {kind}", lines=lines)[0]
    assert (labels == label).all()


def test_windows_are_cut_out_and_padded(folder):
    lines = "i0.png l0.png -1 1 2 2\ni0.png l0.png 0 0 3 1\n"
    images, labels, _ = batches(folder, "WindowSegData", "label_type: PIXEL new_height: 2 new_width: 4", lines=lines)[0]
    whole = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    np.testing.assert_array_equal(labels[0, 0], np.column_stack([[255, 255], whole[1:3, :3]]))
    np.testing.assert_array_equal(images[0, 0], np.column_stack([[0, 0], whole[1:3, :3]]))
    np.testing.assert_array_equal(labels[1, 0], whole[:2, :4])


def test_windows_are_resized(folder):
    body = "label_type: IMAGE new_height: 3 new_width: 3"
    images, labels, _ = batches(folder, "WindowSegData", body, lines="i0.png 4 50 50 51 51\n")[0]
    assert images.shape == (2, 3, 3, 3) and not images.any() and (labels == 255).all()


def test_factors_resize_both(folder):
    body, transform = "label_type: PIXEL", "crop_size: 4 scale_factors: 2 scale_factors: 1"
    actual = batches(folder, "ImageSegData", body, transform, count=8)
    assert {bool((np.diff(labels[0, 0, 0]) == 0).any()) for _, labels, _ in actual} == {True, False}


def test_palette_numbers_are_labels(folder):
    image = pytest.importorskip("PIL.Image")
    numbers = np.arange(HEIGHT * WIDTH, dtype=np.uint8).reshape(HEIGHT, WIDTH)
    picture = image.fromarray(4 * numbers).quantize(4)
    expected = np.array(picture)
    picture.save(folder / "pal.png")
    _, labels = batches(folder, "DenseImageData", "", tops="ab", lines="i0.png pal.png\n")[0]
    np.testing.assert_array_equal(labels[0, 0], expected)


def test_files_of_the_list_are_known_to_the_server(folder):
    (folder / "named.txt").write_text("i0.png\t../l0.png\n\na b.png l1.png\n")
    for kind, field in (("DenseImageData", "dense_image_data_param"), ("ImageSegData", "image_data_param")):
        layer = pb.LayerParameter(type=kind)
        getattr(layer, field).source, getattr(layer, field).root_folder = "named.txt", "r/"
        assert {"r/i0.png", "r/../l0.png", "r/a b.png", "r/l1.png"} <= set(listed_files(layer, folder))
    (folder / "named.txt").write_text("i0.png\t../l0.png 0 1 2 3\n\na b.png l1.png 4 5 6 7\n")
    layer.type = "WindowSegData"
    assert {"r/i0.png", "r/../l0.png", "r/a b.png", "r/l1.png"} <= set(listed_files(layer, folder))


MISTAKES = [
    ("DenseImageData", "", "", "i0.png small.png\n", "do not fit their image; expected 6×9, found 4×5"),
    ("DenseImageData", "", "", "i0.png color.png\n", "not labels: it has colors"),
    ("DenseImageData", "", "", "i0.png none.png\n", "cannot read image"),
    ("DenseImageData", "crop_height: 7 crop_width: 2", "", "", "6×9 pixels are less than the crop, 7×2"),
    ("DenseImageData", "", "", "i0.png l0.png\nsmall.png small.png\n", "set new_height and new_width, or a crop"),
    ("DenseImageData", "crop_height: 7", "", "", "a crop of one side only"),
    ("DenseImageData", "new_height: 7", "", "", "new_height without new_width"),
    ("DenseImageData", "", "distort_param { }", "", "distort_param does not act on images with a label"),
    ("DenseImageData", "crop_height: 2 crop_width: 2", "crop_size: 3", "", "gives two crops"),
    ("DenseImageData", "label_divide_factor: 2", "crop_size: 2", "", "a bad label_divide_factor"),
    ("DenseImageData", "", "", "i0.png\n", "a line is not understood"),
    ("ImageSegData", "", "", "i0.png l0.png\n", "a line is not understood"),
    ("WindowSegData", "label_type: PIXEL", "", "i0.png l0.png 0 0 3\n", "no window"),
    ("WindowSegData", "label_type: PIXEL", "", "i0.png l0.png 3 0 2 0\n", "no window"),
    ("WindowSegData", "label_type: PIXEL", "", "i0.png 0 0 2 2\n", "a line is not understood"),
    ("ImageSegData", "label_type: NONE", "scale_factors: 0", "", "a bad factor"),
    ("ImageSegData", "label_type: NONE", 'mean_file: "m"', "", "takes no mean_file"),
    ("DenseImageData", "", "mean_value: 1 mean_value: 2", "", "wrong number of mean_value"),
]


@pytest.mark.parametrize("case", range(len(MISTAKES)))
def test_mistakes(folder, case):
    kind, body, transform, lines, message = MISTAKES[case]
    with pytest.raises(CaffeliteError) as caught:
        batches(folder, kind, body, transform, tops="ab", lines=lines)
    assert message in str(caught.value)
