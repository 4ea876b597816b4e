"""RoIData: annotations, sizes, boxes that follow their images, and a net whose images differ in size."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import text_format
from textnet import bind

from caffelite import caffelite_pb2 as pb
from caffelite.cli.dataset import dataset
from caffelite.data import objects, open_source
from caffelite.data.images import encode_png
from caffelite.data.pictures import decode
from caffelite.errors import NOWHERE, CaffeliteError

IMAGES = {"a": (20, 30), "b": (30, 20), "c": (24, 24)}
BOXES = {"a": [(3, 2, 9, 12, 1, 0), (10, 5, 30, 15, 2, 1)], "b": [(0, 0, 20, 30, 2, 0)], "c": []}  # x, y, x + w, y + h
VOC = "<annotation><size><width>{1}</width><height>{0}</height></size>{2}</annotation>"
OBJECT = (
    "<object><name>{4}</name><difficult>{5}</difficult><bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax>"
    "<ymax>{3}</ymax></bndbox></object>"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("boxes")
    rng = np.random.default_rng(0)
    coco = {"images": [], "annotations": [], "categories": [{"id": 7, "name": "two"}, {"id": 3, "name": "one"}]}
    for i, (name, (height, width)) in enumerate(IMAGES.items()):
        (path / f"{name}.png").write_bytes(encode_png(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)))
        coco["images"].append({"id": i, "file_name": f"{name}.png", "height": height, "width": width})
        objects = ""
        for x, y, right, low, label, hard in BOXES[name]:
            coco["annotations"].append({"image_id": i, "category_id": {1: 3, 2: 7}[label], "iscrowd": hard,
                                        "bbox": [x, y, right - x, low - y]})  # fmt: skip
            objects += OBJECT.format(x + 1, y + 1, right, low, ("", "one", "two")[label], hard)
        (path / f"{name}.xml").write_text(VOC.format(height, width, objects))
    (path / "coco.json").write_text(json.dumps(coco))
    (path / "voc.txt").write_text("".join(f"{name}.png {name}.xml\n" for name in IMAGES))
    (path / "labels.txt").write_text("background\none\ntwo\n")
    return path


def layer(folder, text: str = "", transform: str = "", tops: int = 3) -> pb.LayerParameter:
    above = " ".join(f'top: "{name}"' for name in ("data", "im_info", "gt_boxes", "objects")[:tops])
    text = f'name: "d" type: "RoIData" {above} transform_param {{ {transform} }} roi_data_param {{ {text} }}'
    return text_format.Parse(text.replace("@", f"{folder}/"), pb.LayerParameter())


def batches(folder, count: int, phase: int = pb.TRAIN, **given):
    with open_source(layer(folder, **given), phase, NOWHERE, 3) as source:
        return [[array.copy() for array in source.next()] for _ in range(count)], source


def test_coco_and_voc_give_the_same_boxes(folder):
    coco = objects.read(folder / "coco.json")
    voc = objects.read(folder / "voc.txt", label_file=str(folder / "labels.txt"))
    for one, other, name in zip(coco, voc, IMAGES, strict=True):
        assert one.file == other.file == str(folder / f"{name}.png")
        assert (one.height, one.width) == (other.height, other.width) == IMAGES[name]
        expected = [(x, y, right - 1, low - 1, label) for x, y, right, low, label, _ in BOXES[name]]
        assert one.boxes.tolist() == other.boxes.tolist() == [list(row) for row in expected]
        assert one.difficult.tolist() == other.difficult.tolist() == [bool(row[5]) for row in BOXES[name]]


def test_images_boxes_and_sizes(folder):
    actual, source = batches(folder, 3, text='source: "@coco.json" short_side: 0', tops=4)
    assert source.shapes == [(1, 3, 24, 30), (1, 3), (1, 5), (1, 1, 1, 8)] and source.varies and source.length == 3
    data, info, boxes, ssd = actual[0]
    pixels = annotations_pixels(folder / "a.png")
    assert (data.reshape(-1)[: pixels.size].reshape(pixels.shape) == pixels).all()
    assert info.tolist() == [[20, 30, 1]] and boxes.tolist() == [[3, 2, 8, 11, 1]]
    np.testing.assert_allclose(ssd[0, 0], [[0, 1, 0, 0.1, 0.1, 0.3, 0.6, 0]], rtol=1e-6)
    assert actual[2][2].tolist() == [[0, 0, 0, 0, -1]] and actual[2][3][0, 0, 0, 0] == -1, "an image without objects"
    every, _ = batches(folder, 1, text='source: "@coco.json" short_side: 0 use_difficult: true')
    assert every[0][2][:, 4].tolist() == [1, 2]


def annotations_pixels(path) -> np.ndarray:
    return decode(path.read_bytes(), True).astype(np.float32)


def test_a_database_gives_the_same(folder, tmp_path):
    done = CliRunner().invoke(dataset, ["detection", str(folder / "coco.json"), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    (path,) = tmp_path.glob("*_lmdb")
    given = "short_side: 0 shuffle: true"
    files, _ = batches(folder, 5, text=f'source: "@coco.json" {given}', transform="mirror: true", tops=4)
    records, source = batches(folder, 5, text=f'source: "{path}" {given}', transform="mirror: true", tops=4)
    assert source.length == 3 and source.shapes == [a.shape for a in files[0]]
    for one, other in zip(files, records, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a[..., :5], b[..., :5], rtol=1e-5, atol=1e-4)


def test_resizing_scales_boxes(folder):
    text = 'source: "@coco.json" short_side: 40 max_size: 50'
    actual, source = batches(folder, 3, text=text, transform="mean_value: 9 scale: 0.5")
    assert source.shapes[0] == (1, 3, 40, 50)
    sizes = [[33, 50, 5 / 3], [50, 33, 5 / 3], [40, 40, 5 / 3]]
    np.testing.assert_allclose([batch[1][0] for batch in actual], sizes, rtol=1e-6)
    np.testing.assert_allclose(actual[0][2], [[5, 10 / 3, 40 / 3, 55 / 3, 1]], rtol=1e-5)
    mean = actual[2][0].reshape(-1)[: 3 * 40 * 40].mean()
    assert mean == pytest.approx((annotations_pixels(folder / "c.png").mean() - 9) / 2, rel=0.02)


def test_mirrored_boxes_follow(folder):
    plain, _ = batches(folder, 12, text='source: "@coco.json" short_side: 0')
    mirrored, _ = batches(folder, 12, text='source: "@coco.json" short_side: 0', transform="mirror: true")
    kinds = set()
    for one, other in zip(plain, mirrored, strict=True):
        height, width = (int(v) for v in one[1][0, :2])
        images = [b[0].reshape(-1)[: 3 * height * width].reshape(3, height, width) for b in (one, other)]
        flipped = bool((images[0] != images[1]).any())
        kinds.add(flipped)
        if flipped:
            np.testing.assert_array_equal(images[1], images[0][..., ::-1])
        for a, b in zip(one[2], other[2], strict=True):
            expected = [width - 1 - a[2], a[1], width - 1 - a[0], *a[3:]] if flipped and a[4] > 0 else a
            assert b.tolist() == list(expected)
    assert kinds == {True, False}


def test_order_depends_on_the_position(folder):
    text = 'source: "@voc.txt" label_file: "@labels.txt" short_side: 0 shuffle: true'
    actual, _ = batches(folder, 9, text=text)
    with open_source(layer(folder, text), pb.TRAIN, NOWHERE, 3) as source:
        source.seek(4)
        for expected in actual[4:]:
            np.testing.assert_equal(source.next(), expected)
    sizes = [tuple(batch[1][0, :2]) for batch in actual]
    epochs = [tuple(sizes[k : k + 3]) for k in (0, 3, 6)]
    assert all(len(set(epoch)) == 3 for epoch in epochs) and len(set(epochs)) > 1


def test_a_net_follows_the_sizes_of_its_images(folder):
    data = text_format.MessageToString(layer(folder, 'source: "@coco.json" short_side: 0'))
    text = f"layer {{ {data} }}"
    text += """
layer { name: "c" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 2 kernel_size: 3 pad: 1
  weight_filler { type: "gaussian" } } }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "s" type: "Reduction" bottom: "p" top: "s" loss_weight: 1 }
"""
    net = bind(text, open_source=lambda spec, phase, at: open_source(spec, phase, at, 3))
    weights = net.params.blobs[0]
    for name in [*IMAGES, *IMAGES]:
        net.clear_loss()
        net.forward()
        net.backward()
        height, width = IMAGES[name]
        assert net.blobs["data"].shape == (1, 3, height, width)
        assert net.blobs["p"].shape == (1, 2, height // 2, width // 2)
        alone = bind(
            f'layer {{ name: "i" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: {height} '
            f"dim: {width} }} }} }}" + text[text.index("\nlayer") :]
        )
        alone.params.data[...] = net.params.data
        alone.set_inputs(data=annotations_pixels(folder / f"{name}.png")[None])
        alone.forward()
        alone.backward()
        np.testing.assert_allclose(net.dev.download(net.loss), alone.dev.download(alone.loss), rtol=1e-9)
        np.testing.assert_allclose(net.params.diff, alone.params.diff, rtol=1e-9)
    assert weights.shape == (2, 3, 3, 3)
    net.close()


def test_unknown_classes_and_wrong_sizes(folder):
    (folder / "one.txt").write_text("background\none\n")
    with pytest.raises(CaffeliteError, match='"two" is no class'):
        objects.read(folder / "voc.txt", label_file=str(folder / "one.txt"))
    with pytest.raises(CaffeliteError, match="need a label_file"):
        objects.read(folder / "voc.txt")
    (folder / "none.json").write_text('{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(CaffeliteError, match="no images"):
        objects.read(folder / "none.json")
    (folder / "wrong.json").write_text((folder / "coco.json").read_text().replace('"height": 20', '"height": 21'))
    with pytest.raises(CaffeliteError, match="wrong size of an image; expected 21×30, as annotated, found 20×30"):
        batches(folder, 1, text='source: "@wrong.json" short_side: 0')


def test_a_layer_without_a_source_has_shapes_only():
    net = bind('layer { name: "d" type: "RoIData" top: "a" top: "b" top: "c" }')
    assert [v.shape for v in net.graph.values.values()] == [(1, 3, 600, 1000), (1, 3), (1, 5)]
    with pytest.raises(CaffeliteError, match="has no data"):
        net.forward()
