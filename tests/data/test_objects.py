"""Annotated databases from VOC XML and COCO JSON."""

import json

import cv2
import numpy as np
import pytest

from caffelite.data import annotated_records, objects
from caffelite.data.annotated import objects_of, parsed
from caffelite.data.convert import Recipe, reader
from caffelite.data.records import Records
from caffelite.errors import CaffeliteError

BOXES = [("cat", 10, 5, 30, 25, 0), ("ant", -4, 2, 20, 50, 1), ("cat", 35, 35, 60, 39, 0), ("cat", 50, 5, 60, 9, 0)]


@pytest.fixture
def folder(tmp_path):
    """An image of 40×40 with boxes, of which one is cut at its sides and one is outside of it; and one without."""
    for name in "ab":
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.zeros((40, 40, 3), np.uint8))
    item = "<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>"
    item += "<ymax>{}</ymax></bndbox></object>"
    items = "".join(item.format(n, d, *corners) for n, *corners, d in BOXES)
    (tmp_path / "a.xml").write_text(f"<annotation>{items}</annotation>")
    (tmp_path / "b.xml").write_text("<annotation></annotation>")
    (tmp_path / "list.txt").write_text("a.png a.xml\nb.png b.xml\n")
    numbers = {"ant": 17, "cat": 3}
    coco = {
        "images": [{"id": 8, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}],
        "categories": [{"id": i, "name": n} for n, i in numbers.items()],
        "annotations": [
            {"image_id": 8, "category_id": numbers[n], "bbox": [x, y, r - x, b - y], "iscrowd": d}
            for n, x, y, r, b, d in BOXES
        ],
    }
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    return tmp_path


def converted(folder, images):
    done = annotated_records.convert(folder / "db", images, reader(str(folder)), Recipe(encoding=""), force=True)
    with Records(folder / "db") as records:
        return done, [objects_of(parsed(value)) for _, value in records]


def test_voc_and_coco_give_the_same_boxes(folder):
    images, classes = objects.read_coco(folder / "coco.json")
    assert classes == ["background", "cat", "ant"]
    done, actual = converted(folder, images)
    assert (done.images, done.cut, done.empty, dict(done.objects)) == (2, 2, 1, {1: 2, 2: 1})
    assert done.sizes == ["a 40 40", "b 40 40"]
    expected = np.array([[10, 5, 30, 25], [35, 35, 40, 39], [0, 2, 20, 40]]) / 40
    np.testing.assert_allclose(actual[0].boxes, expected, atol=1e-7)
    assert actual[0].others.tolist() == [[1, 0, 0], [1, 1, 0], [2, 0, 1]] and not len(actual[1].boxes)
    images, classes = objects.read_voc(
        objects.read_list(folder / "list.txt"), reader(str(folder)), ["background", "cat", "ant"]
    )
    other = converted(folder, images)[1]
    np.testing.assert_array_equal(other[0].boxes, actual[0].boxes)
    np.testing.assert_array_equal(other[0].others, actual[0].others)


def test_voc_classes_and_first_pixel(folder):
    listed = objects.read_list(folder / "list.txt")
    images, classes = objects.read_voc(listed, reader(str(folder)), first=1)
    assert classes == ["background", "ant", "cat"]
    assert images[0].boxes[0].corners == (9, 4, 30, 25) and images[0].boxes[0].label == 2


def test_voc_folder(folder):
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "test.txt").write_text("a\nb  1\n")
    names = [line[:2] for line in objects.voc_folder(folder, "test")]
    assert names == [("JPEGImages/a.jpg", "Annotations/a.xml"), ("JPEGImages/b.jpg", "Annotations/b.xml")]
    with pytest.raises(CaffeliteError, match="--part"):
        objects.voc_folder(folder, "val")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("coco.json", "{", "not a JSON file"),
        ("coco.json", "[]", 'the file has no "images"'),
        ("coco.json", '{"images": [], "categories": [], "annotations": [{"bbox": [1, 2]}]}', "a bad bbox"),
        ("coco.json", '{"images": [{}], "categories": [], "annotations": []}', 'image 0 has no "file_name"'),
        ("list.txt", "a.png\n", "list.txt:1: a line is not understood"),
        ("list.txt", "a.png none.xml\n", 'cannot read "none.xml"'),
        ("a.xml", "<annotation><object></object></annotation>", "object 1 is not understood"),
        ("a.xml", "<annotation>", "not an XML file"),
    ],
)
def test_mistakes(folder, name, text, message):
    (folder / name).write_text(text)
    with pytest.raises(CaffeliteError, match=message):
        if name == "coco.json":
            objects.read_coco(folder / name)
        else:
            objects.read_voc(objects.read_list(folder / "list.txt"), reader(str(folder)))


def test_an_unknown_class_and_a_missing_image(folder):
    listed = objects.read_list(folder / "list.txt")
    with pytest.raises(CaffeliteError, match='"cat" is no class'):
        objects.read_voc(listed, reader(str(folder)), ["background", "ant"])
    images, _ = objects.read_coco(folder / "coco.json")
    (folder / "b.png").unlink()
    with pytest.raises(CaffeliteError, match='cannot read "b.png"'):
        converted(folder, images)
    assert not (folder / "db").exists()
    done = annotated_records.convert(folder / "db", images, reader(str(folder)), Recipe(encoding=""), skip=True)
    assert done.images == 1 and len(done.skipped) == 1
