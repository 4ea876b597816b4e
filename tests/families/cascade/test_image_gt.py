"""ImageGtData: label maps cell by cell, boxes that follow their images, lists good and bad, boxes as a top."""

import numpy as np
import pytest
from textnet import bind, build, mistakes

from caffelite.data import open_source
from caffelite.data.images import encode_png
from caffelite.detection.boxes import rounded
from caffelite.errors import CaffeliteError
from caffelite.families.cascade.field_maps import Field, Objects, image_gt_labels
from caffelite.inspection.feeds import Feeds

COLORS = ((250, 20, 20), (20, 250, 20), (20, 20, 250))  # of the labels 1 to 3, in the order of data
SIZES = ((48, 64), (40, 40), (60, 50))
OBJECTS = [[(1, 0, 8, 10, 28, 30), (2, 0, 40, 20, 60, 44)], [(3, 1, 4, 4, 20, 36), (1, 0, 24, 6, 38, 20)], []]
REGIONS = [[], [(0, 0, 12, 12)], [(10, 10, 40, 40)]]
FIELDS = (Field(16, 16, 8), Field(24, 32, 16))
MAPS = " ".join(f"field_w: {f.width} field_h: {f.height} downsample_rate: {f.stride}" for f in FIELDS)
ALL = "do_multiple_scale: true min_scale: 12 max_scale: 40 min_whaspect: 0.5 max_whaspect: 2 shuffle: true"


def listed(name: str, size: tuple[int, int], objects, regions) -> str:
    lines = [f"{name}.png", 3, *size, len(objects), *objects, len(regions), *regions]
    rows = [" ".join(map(str, line)) if isinstance(line, tuple) else str(line) for line in lines]
    return "# 0\n" + "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("fields")
    text = ""
    for i, size in enumerate(SIZES):
        image = np.full((*size, 3), 128, np.uint8)
        for label, _, x0, y0, x1, y1 in OBJECTS[i]:
            image[y0:y1, x0:x1] = COLORS[label - 1][::-1]
        (path / f"{i}.png").write_bytes(encode_png(image))
        text += listed(str(i), size, OBJECTS[i], REGIONS[i])
    (path / "list.txt").write_text(text)
    return path


def layer(folder, text: str = ALL, transform: str = "mirror: true", boxes: bool = True, batch: int = 3) -> str:
    tops = 'top: "data" top: "a" top: "b"' + (' top: "boxes"' if boxes else "")
    field = f'source: "{folder}/list.txt" root_folder: "{folder}/" batch_size: {batch} {MAPS} {text}'
    field += " output_gt_boxes: true" * boxes
    above = f'layer {{ name: "d" type: "ImageGtData" {tops} transform_param {{ {transform} }} '
    return above + f"image_gt_data_param {{ {field} }} }}\n"


def opened(text: str, phase: str = "TRAIN", seed: int = 3):
    return build(text, phase, open_source=lambda spec, state, at: open_source(spec, state, at, seed)).nodes[0].layer


def batches(text: str, count: int, start: int = 0, seed: int = 3):
    with opened(text, seed=seed).source as source:
        source.seek(start)
        return [[array.copy() for array in source.next()] for _ in range(count)]


# label maps


def iou(a, b, of_first=False):
    w, h = (min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1))
    common = max(w, 0) * max(h, 0)
    one, two = ((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return common / (one if of_first else one + two - common)


def cell_by_cell(fields, objects, windows, threshold, shapes):
    maps = [np.zeros((6, *shape)) for shape in shapes]
    matched, best, best_map = set(), [0.0] * len(objects.boxes), [0] * len(objects.boxes)

    def write(out, row, column, k, label):
        x0, y0, x1, y1 = objects.boxes[k]
        out[:5, row, column] = label, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0

    for m, (field, out, window) in enumerate(zip(fields, maps, windows, strict=True)):
        for row, column in np.ndindex(out.shape[1:]):
            x, y = (column + 0.5) * field.stride, (row + 0.5) * field.stride
            box = (x - field.width / 2, y - field.height / 2, x + field.width / 2, y + field.height / 2)
            inside = window[0] <= row < window[2] and window[1] <= column < window[3]
            if not inside or sum(iou(box, region, True) for region in objects.regions) >= 0.4:
                out[5, row, column] = 1
                continue
            actual = [iou(box, other) for other in objects.boxes]
            for k, value in enumerate(actual):
                if value > best[k]:
                    best[k], best_map[k] = value, m
            out[5, row, column] = max(actual, default=0)
            if max(actual, default=0) > threshold:
                k = actual.index(max(actual))
                matched.add(k)
                write(out, row, column, k, 0 if objects.ignored[k] else objects.labels[k])
    for k, box in enumerate(objects.boxes):
        if k in matched or objects.ignored[k] or best[k] < 0.2:
            continue
        out, stride = maps[best_map[k]], fields[best_map[k]].stride
        row, column = (int(np.clip((box[i] + box[i + 2]) / 2 // stride, 0, out.shape[2 - i] - 1)) for i in (1, 0))
        if out[0, row, column] == 0:
            write(out, row, column, k, objects.labels[k])
    return maps


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("count", [0, 1, 6])
def test_label_maps_cell_by_cell(threshold, count, seed):
    rng = np.random.default_rng(seed)
    shapes = ((6, 9), (3, 5))
    for _ in range(4):
        corners = rng.uniform(-8, 60, (count, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(2, 40, (count, 2))], 1)
        region = np.sort(rng.uniform(0, 40, (2, 2)), 0).reshape(1, 4)
        regions = np.concatenate([region] * 2)[: rng.integers(0, 3)]
        labels, ignored = rng.integers(1, 4, count), rng.random(count) < 0.3
        objects = Objects(boxes, labels, ignored, ignored, regions)
        windows = [(1, 0, 6, 8), (0, 1, 3, 5)]
        maps = [np.full((6, *shape), np.nan) for shape in shapes]
        image_gt_labels(list(FIELDS), objects, windows, threshold, maps)
        expected = cell_by_cell(FIELDS, objects, windows, threshold, shapes)
        for actual, wanted in zip(maps, expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-12, atol=1e-12)


# images and their boxes


@pytest.mark.parametrize(
    "text",
    [
        "resize_height: 48 resize_width: 64",
        f"resize_height: 56 resize_width: 56 crop_height: 40 crop_width: 32 {ALL}",
        f"resize_height: 40 resize_width: 48 {ALL.replace('12', '40').replace('max_scale: 40', 'max_scale: 160')}",
    ],
)
def test_boxes_follow_their_images(folder, text):
    seen = set()
    for data, *_, rows in batches(layer(folder, text, "mirror: true mean_value: 128"), 12):
        for image, x0, y0, x1, y1, label, ignored in rows[rows[:, 5] > 0]:
            height, width = data.shape[2:]
            x, y = (x0 + x1) / 2, (y0 + y1) / 2
            if 3 < x < width - 3 and 3 < y < height - 3 and min(x1 - x0, y1 - y0) > 6:
                color = np.array(COLORS[int(label) - 1]) - 128
                np.testing.assert_allclose(data[int(image), :, int(y), int(x)], color, atol=8)
                for dx, dy in ((x0 - x - 2, 0), (0, y1 - y + 2)):  # beyond a side it is another color
                    if 0 <= y + dy < height and 0 <= x + dx < width:
                        other = data[int(image), :, int(y + dy), int(x + dx)]
                        assert np.abs(other - color).max() > 50
                seen.add((int(label), bool(ignored), round(float(x1 - x0))))
    assert {label for label, *_ in seen} == {1, 2, 3} and len(seen) > 3


def test_labels_belong_to_the_boxes(folder):
    """Every label map is the one of the rows of boxes; regions and margins are the cells without them."""
    text = layer(folder, f"resize_height: 48 resize_width: 48 {ALL} min_gt_height: 10", "mirror: true")
    for data, *maps, rows in batches(text, 8):
        table = rows[rows[:, 5] > 0].astype(float)
        for i in range(len(data)):
            mine = table[table[:, 0] == i]
            small = mine[:, 4] - mine[:, 2] + 1 < 10
            middle = (mine[:, 1:3] + mine[:, 3:5]) / 2
            assert (mine[small | (middle < 0).any(1) | (middle >= 48).any(1), 6] == 1).all()
            for field, labels in zip(FIELDS, maps, strict=True):
                cells = np.argwhere(labels[i, 0] > 0)
                for row, column in cells:
                    target = labels[i, 1:5, row, column]
                    boxes = np.concatenate([(mine[:, 1:3] + mine[:, 3:5]) / 2, mine[:, 3:5] - mine[:, 1:3]], 1)
                    assert np.abs(boxes - target).max(1).min() < 1e-3
                assert labels.shape[2:] == (rounded(48 / field.stride),) * 2


def test_draws_depend_on_seed_and_position(folder):
    text = layer(folder, f"resize_height: 48 resize_width: 56 {ALL}", batch=2)
    whole = batches(text, 6)
    for again, expected in zip(batches(text, 3, start=6), whole[3:], strict=True):
        np.testing.assert_equal(again, expected)
    assert any((a[0] != b[0]).any() for a, b in zip(whole, batches(text, 6, seed=4), strict=True))


def test_pixels_without_changes(folder):
    text = layer(folder, "resize_height: 60 resize_width: 50 scale: 0.5", "mean_value: 1 mean_value: 2 mean_value: 3")
    data, *_ = batches(text, 1)[0]
    np.testing.assert_array_equal(data[2], np.broadcast_to(((128 - np.arange(1, 4)) / 2)[:, None, None], (3, 60, 50)))


def test_images_repeat_where_they_have_objects(folder):
    source = opened(layer(folder, "fg_img_multiple: 3")).source
    assert source.length == 3 + 3 + 1
    source.close()


# as a layer


def test_boxes_as_a_top(folder):
    text = layer(folder, "resize_height: 48 resize_width: 48", "", batch=1)
    net = bind(text, open_source=lambda spec, phase, at: open_source(spec, phase, at, 1), dtype="float32")
    assert net.blobs["boxes"].shape == (2, 7)
    actual = []
    for _ in range(4):
        net.forward()
        actual.append(net.blobs["boxes"].copy())
    assert [rows[:, 5:].tolist() for rows in actual[:2]] == [[[1, 0], [2, 0]], [[3, 1], [1, 0]]]
    np.testing.assert_array_equal(actual[2], [[0, 1, 1, 2, 2, 1, 1]], "a batch without boxes")
    np.testing.assert_array_equal(actual[3], actual[0])
    net.close()


def test_shapes_without_the_data(tmp_path):
    feeds = Feeds()
    graph = build(layer(tmp_path, "crop_height: 44 crop_width: 60", batch=2), open_source=feeds)
    assert {name: value.shape for name, value in graph.values.items()} == {
        "data": (2, 3, 44, 60), "a": (2, 6, 6, 8), "b": (2, 6, 3, 4), "boxes": (16, 7)}  # fmt: skip
    assert len(feeds.missing) == 1


@pytest.mark.parametrize(
    ("top", "field", "transform", "message"),
    [
        ('@top: "data"', "", "", "has 1 tops for 1 maps; expected 2: data, a label map each"),
        (None, "coord_num: @5", "", "a bad coord_num; expected 4, found 5"),
        (None, "crop_width: @5", "", "crop_width without crop_height"),
        (None, "min_scale: @5 max_scale: 4", "", "bad scales; expected 0 < min_scale <= max_scale, found 5 and 4"),
        (None, "", "crop_size: @5", "crop_size does not act on ImageGtData"),
        (None, "", "scale: @5", "give scale in image_gt_data_param"),
    ],
)
def test_mistakes_of_the_message(top, field, transform, message):
    body = (
        f"image_gt_data_param {{ field_w: 8 field_h: 8 downsample_rate: 4 {field} }} transform_param {{ {transform} }}"
    )
    top = top or 'top: "data" top: "a"'
    mistakes(f'layer {{ name: "d" type: "ImageGtData" {top} {body} }}', message)


HEAD = "# 0\na.png\n3\n9\n9\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "list.txt: no images in the list"),
        ("# 0\na.png\n1\n9\n9\n", "list.txt:2: bad sides of an image"),
        (HEAD + "1\n1 0 0 0 5\n", "list.txt:7: a line is not understood; expected label, ignored, x1 y1 x2 y2"),
        (HEAD + "1\n0 0 0 0 5 5\n0\n", "list.txt:7: a bad label; expected an integer of 1 or more, found 0"),
        (HEAD + "1\n1 0 0 0 5 inf\n0\n", "list.txt:7: a line is not understood; expected numbers up to"),
        (HEAD + "-1\n", "list.txt:6: a bad number of objects"),
        (HEAD + "0\n", "list.txt: a line is not understood; expected the number of ignored regions, found the end"),
    ],
)
def test_mistakes_of_the_list(tmp_path, text, message):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(CaffeliteError) as caught:
        opened(layer(tmp_path))
    assert message in str(caught.value)


def test_images_that_cannot_be_read(tmp_path):
    (tmp_path / "list.txt").write_text(HEAD + "0\n0\n")
    with pytest.raises(CaffeliteError, match=r"list.txt:2: cannot read image .*a.png.: No such file"):
        batches(layer(tmp_path), 1)
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(CaffeliteError, match=r"list.txt:2: image .*a.png.: not an image that can be decoded"):
        batches(layer(tmp_path), 1)
    with pytest.raises(CaffeliteError, match="a crop is larger than the images; expected at most 9, found 10"):
        opened(layer(tmp_path, "crop_height: 10 crop_width: 9"))
