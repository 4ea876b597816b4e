"""DetectionData and EvalData: lists, sizes, label maps, boxes that follow their images, orders."""

import numpy as np
import pytest
from google.protobuf import text_format
from textnet import bind, mistaken

from caffelite import caffelite_pb2 as pb
from caffelite.data import open_source
from caffelite.data.images import encode_png
from caffelite.data.order import AspectOrder
from caffelite.data.pictures import decode
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.families.cascade.field_maps import Objects, detection_labels
from caffelite.families.cascade.listed_images import DETECTION, read_objects
from caffelite.inspection.feeds import Feeds

SIZES = [(40, 64), (64, 40), (32, 32), (48, 64)]
# Of each image: class, ignored, difficult, x1, y1, x2, y2
OBJECTS = [
    [(1, 0, 0, 4, 4, 27, 25), (2, 0, 1, 30, 10, 60, 38)],
    [(2, 0, 0, 2, 20, 30, 50), (1, 1, 0, 5, 5, 20, 15)],
    [],
    [(3, 0, 0, 10, 10, 13, 40)],
]
REGIONS = [[], [(0, 50, 40, 64)], [], []]
FIELDS = "stride: 8 field_w: 24 field_h: 24 stride: 16 field_w: 32 field_h: 32"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, rng, lines = tmp_path_factory.mktemp("list"), np.random.default_rng(0), []
    for i, (height, width) in enumerate(SIZES):
        (path / f"{i}.png").write_bytes(encode_png(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)))
        lines += [f"# {i}", f"{i}.png", "3", height, width, len(OBJECTS[i])]
        lines += [" ".join(map(str, row)) for row in OBJECTS[i]] + [len(REGIONS[i])]
        lines += [" ".join(map(str, row)) for row in REGIONS[i]]
    (path / "list.txt").write_text("\n".join(map(str, lines)) + "\n")
    return path


def layer(folder, kind: str, text: str, transform: str = "", tops: int = 4) -> pb.LayerParameter:
    field = "detection_data_param" if kind == "DetectionData" else "eval_data_param"
    above = " ".join(f'top: "y{i}"' for i in range(tops))
    text = f'source: "{folder}/list.txt" root_folder: "{folder}/" {text}'
    text = f'name: "d" type: "{kind}" {above} transform_param {{ {transform} }} {field} {{ {text} }}'
    return text_format.Parse(text, pb.LayerParameter())


def net_of(spec: pb.LayerParameter, seed: int = 3):
    text = f"layer {{ {text_format.MessageToString(spec)} }}"
    return bind(text, open_source=lambda spec, phase, at: open_source(spec, phase, at, seed))


def batches(spec: pb.LayerParameter, count: int) -> list[list[np.ndarray]]:
    net, actual = net_of(spec), []
    for iteration in range(count):
        net.forward(iteration)
        actual.append([net.blobs[name].copy() for name in spec.top])
    net.close()
    return actual


def pixels(folder, i: int) -> np.ndarray:
    return decode((folder / f"{i}.png").read_bytes(), True).astype(np.float32)


def rows(i: int, item: int = 0) -> list[list[float]]:
    return [[item, *box, label, ignored, hard] for label, ignored, hard, *box in OBJECTS[i]] or [[-1.0] * 8]


def test_images_of_the_list_in_their_sizes(folder):
    text = f"batch_size: 1 output_gt_boxes: true {FIELDS}"
    actual = batches(layer(folder, "DetectionData", text, "mean_value: 9 scale: 0.5"), 4)
    for i, (data, first, second, objects) in enumerate(actual):
        height, width = SIZES[i]
        np.testing.assert_allclose(data[0], (pixels(folder, i) - 9) * 0.5)
        assert first.shape == (1, 6, height // 8, width // 8)
        assert second.shape == (1, 6, (height + 8) // 16, (width + 8) // 16)
        assert objects.tolist() == rows(i)


def iou(a, b, of_first=False):
    w, h = (min(a[2 + k], b[2 + k]) - max(a[k], b[k]) + 1 for k in (0, 1))
    common = w * h if min(w, h) >= 1 else 0.0
    one, two = ((box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (a, b))
    return common / (one if of_first else one + two - common)


def labeled(maps, objects, regions, window, threshold):
    """The maps (stride, width, height of fields, rows, columns) cell by cell."""
    top, left, height, width = window
    actual, best, matched = [], [(0.0, 0)] * len(objects), set()
    for n, (stride, w, h, lines, columns) in enumerate(maps):
        out = np.zeros((6, lines, columns))
        actual.append(out)
        for y, x in np.ndindex(lines, columns):
            cx, cy = (x + 0.5) * stride, (y + 0.5) * stride
            field = [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]
            margin = [0.25 * w / 2, 0.25 * h / 2]
            inside = left <= x * stride < left + width and top <= y * stride < top + height
            inside &= field[0] >= left - margin[0] and field[2] < left + width + margin[0]
            inside &= field[1] >= top - margin[1] and field[3] < top + height + margin[1]
            if not inside:
                out[5, y, x] = 1
                continue
            each = [iou(box, field) for _, _, box in objects]
            best = [max(b, (v, -n)) for b, v in zip(best, each, strict=True)]
            k = int(np.argmax(each)) if each else -1
            out[5, y, x] = each[k] if each else 0
            if each and each[k] > threshold:
                label, ignored, box = objects[k]
                values = [0 if ignored else label, (box[0] + box[2]) / 2, (box[1] + box[3]) / 2]
                out[:5, y, x] = [*values, box[2] - box[0] + 1, box[3] - box[1] + 1]
                matched.add(k)
            elif sum(iou(field, region, True) for region in regions) >= 0.4:
                out[5, y, x] = 1
    for k, (label, ignored, box) in enumerate(objects):
        value, n = best[k][0], -best[k][1]
        if ignored or k in matched or value < 0.2:
            continue
        cx, cy = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        y, x = int(cy // maps[n][0]), int(cx // maps[n][0])
        if not actual[n][0, y, x]:
            actual[n][:, y, x] = [label, cx, cy, box[2] - box[0] + 1, box[3] - box[1] + 1, value]
    return actual


def test_label_maps_equal_those_cell_by_cell(seed):
    rng = np.random.default_rng(seed)
    maps = [(8, 24, 20, 10, 12), (16, 40, 36, 5, 6)]
    param = pb.DetectionDataParameter(fg_threshold=0.45, anchor_ignore_margin_ratio=0.25)
    for stride, w, h, *_ in maps:
        param.stride.append(stride)
        param.field_w.append(w)
        param.field_h.append(h)
    picked = 0
    for count in (0, 1, 6):
        corners = rng.uniform(8, 50, (count, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(5, 40, (count, 2))], 1)
        boxes[:1] = [30, 30, 42, 43]  # small for all fields
        labels, ignored = rng.integers(1, 4, count), np.arange(count) == 4
        regions, window = np.array([[16, 40, 60, 70.0]]), (8, 0, 64, 96)
        actual = [np.full((6, lines, columns), 7, np.float32) for *_, lines, columns in maps]
        detection_labels(param, Objects(boxes, labels, ignored, ignored, regions), window, actual)
        expected = labeled(maps, list(zip(labels, ignored, boxes, strict=True)), regions, window, 0.45)
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
            picked += ((one[0] > 0) & (one[5] <= 0.45)).sum()
    assert picked, "an object without a field"


def test_mirrored_and_scaled_boxes_follow_their_images(folder):
    """A white object on black stays where its box is."""
    image = np.zeros((48, 64, 3), np.uint8)
    image[12:31, 20:45] = 255
    (folder / "white.png").write_bytes(encode_png(image))
    (folder / "white.txt").write_text("# 0\nwhite.png\n3\n48\n64\n1\n1 0 0 20 12 44 30\n0\n")
    text = f"batch_size: 2 output_gt_boxes: true crop_width: 56 crop_height: 40 {FIELDS} "
    text += "low_scale_ratio: 0.6 high_scale_ratio: 1.9 multiscale_prob: 1 min_whaspect: 0.8 max_whaspect: 1.25"
    spec = layer(folder, "DetectionData", text, "mirror: true")
    spec.detection_data_param.source = f"{folder}/white.txt"
    widths = set()
    for data, _, _, objects in batches(spec, 8):
        for item, x1, y1, x2, y2, label, ignored, _ in objects:
            white = np.argwhere(data[int(item), 0] > 127)
            low, high = white.min(0), white.max(0)
            expected = np.clip([y1, x1, y2, x2], 0, [39, 55, 39, 55])
            np.testing.assert_allclose([*low, *high], expected, atol=2.1)
            assert label == 1 and not ignored
            widths.add(round(x2 - x1))
    assert len(widths) > 8


def test_sizes_of_a_batch(folder):
    text = f"batch_size: 2 short_size: 32 long_size: 64 template_ratio: 1 template_ratio: 2 {FIELDS}"
    shapes = {batch[0].shape for batch in batches(layer(folder, "DetectionData", text, tops=3), 8)}
    assert shapes <= {(2, 3, *size) for size in ((32, 64), (64, 32), (64, 128), (128, 64))} and len(shapes) > 2


def test_a_pass_depends_on_its_position_alone(folder):
    text = f'batch_size: 2 short_size: 32 long_size: 64 shuffle: "random_aspect" output_gt_boxes: true {FIELDS}'
    text += " distort_param { brightness_prob: 0.5 brightness_delta: 30 }"
    spec = layer(folder, "DetectionData", text, "mirror: true")
    actual = batches(spec, 5)
    with open_source(spec, pb.TRAIN, NOWHERE, 3) as source:
        source.seek(6)
        for expected in actual[3:]:
            for one, other in zip(source.next(), expected, strict=False):
                np.testing.assert_array_equal(one[: other.size].reshape(other.shape), other)


@pytest.mark.parametrize("group", [None, 2])
def test_orders_by_aspect(group):
    standing, order = [True, False, True, False, False, True, True], None
    order = AspectOrder(standing, (1, 2), group)
    epochs = [order(7 * epoch, 7).tolist() for epoch in range(6)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs) and len(set(map(tuple, epochs))) > 3
    kinds = {"".join("SL"[not standing[i]] for i in epoch) for epoch in epochs}
    assert kinds == ({"SSSSLLL", "LLLSSSS"} if group is None else {"SSLLSSL", "LLSSLSS"})


def test_evaluation_images(folder):
    actual = batches(layer(folder, "EvalData", "batch_size: 1 short_size: 64 long_size: 100", tops=3), 5)
    for i, (data, objects, sizes) in enumerate(actual):
        height, width = SIZES[i % 4]
        expected = [round(min(100, side * 64 / min(height, width)) / 32) * 32 for side in (height, width)]
        assert data.shape == (1, 3, *expected) and sizes.tolist() == [expected]
        scale = np.array([1, *[expected[1] / width, expected[0] / height] * 2, 1, 1, 1])
        np.testing.assert_allclose(objects, np.array(rows(i % 4)) * (scale if OBJECTS[i % 4] else 1), rtol=1e-6)


def test_layers_without_their_list_have_shapes(folder):
    text = f"batch_size: 1 short_size: 600 long_size: 1000 output_gt_boxes: true {FIELDS}"
    for kind, fields, shapes in (
        ("DetectionData", text, [(1, 3, 992, 608), (1, 6, 124, 76), (1, 6, 62, 38), (8, 8)]),
        ("EvalData", "batch_size: 1 short_size: 600 long_size: 1000", [(1, 3, 992, 608), (8, 8), (1, 2)]),
    ):
        spec = layer(folder, kind, fields, tops=len(shapes))
        getattr(spec, "eval_data_param" if kind == "EvalData" else "detection_data_param").source = "/none.txt"
        net = bind(f"layer {{ {text_format.MessageToString(spec)} }}", open_source=Feeds())
        assert [net.graph.values[name].shape for name in spec.top] == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no images in the list"),
        ("# 0\na.png\n1\n4\n4\n0\n0\n", "bad sides of an image; expected 3 channels"),
        ("# 0\na.png\n3\n4\n4\n1\n0 0 0 1 1 2 2\n0\n", ":7: a bad class; expected an integer of 1 or more, found 0"),
        ("# 0\na.png\n3\n4\n4\n1\n1 0 0 1 1 nan 2\n0\n", ":7: a line is not understood"),
        ("# 0\na.png\n3\n4\n4\n-1\n", ":6: a bad number of objects"),
        ("# 0\na.png\n3\n4\n4\n0\n", "a line is not understood; expected the number of regions"),
    ],
)
def test_lists_that_cannot_be_read(tmp_path, text, message):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(CaffeliteError, match=message):
        read_objects(tmp_path / "x.txt", "", DETECTION)


def test_an_image_of_another_size(folder):
    (folder / "wrong.txt").write_text((folder / "list.txt").read_text().replace("\n40\n64\n", "\n41\n64\n", 1))
    spec = layer(folder, "EvalData", "batch_size: 1", tops=2)
    spec.eval_data_param.source = f"{folder}/wrong.txt"
    with pytest.raises(CaffeliteError, match="wrong size of image .*; expected 41×64, found 40×64"):
        batches(spec, 1)


DATA = 'layer { name: "d" type: "DetectionData" top: "x" top: "y" detection_data_param { batch_size: 1 '


test_mistakes = mistaken(
    (DATA + "stride: 8 @field_w: 4 field_w: 3 field_h: 4 } }", "field_w has no value for each stride"),
    (DATA.replace('"y"', '@"y"') + "} }", "has 2 tops for 0 maps"),
    (DATA + "stride: 8 field_w: 4 field_h: 4 short_size: @4 } }", "short_size without long_size"),
    (DATA + 'stride: 8 field_w: 4 field_h: 4 shuffle: @"x" } }', "an unknown shuffle"),
    ('layer { name: "e" type: "EvalData" top: "x" top: "y" eval_data_param { batch_size: @2 } }', "differ in size"),
)
