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
    assert (done.images, len(done.cut), len(done.empty), dict(done.objects)) == (2, 2, 1, {1: 2, 2: 1})
    assert done.sizes == ["a 40 40", "b 40 40"]
    expected = np.array([[10, 5, 30, 25], [35, 35, 40, 39], [0, 2, 20, 40]]) / 40
    np.testing.assert_allclose(actual[0].boxes, expected, atol=1e-7)
    assert actual[0].others.tolist() == [[1, 0, 0], [1, 1, 0], [2, 0, 1]] and not len(actual[1].boxes)
    images, classes = objects.read_pairs(
        objects.read_list(folder / "list.txt"), reader(str(folder)), ["background", "cat", "ant"]
    )
    other = converted(folder, images)[1]
    np.testing.assert_array_equal(other[0].boxes, actual[0].boxes)
    np.testing.assert_array_equal(other[0].others, actual[0].others)


def test_voc_classes_and_first_pixel(folder):
    listed = objects.read_list(folder / "list.txt")
    images, classes = objects.read_pairs(listed, reader(str(folder)), first=1)
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
            objects.read_pairs(objects.read_list(folder / "list.txt"), reader(str(folder)))


def test_an_unknown_class_and_a_missing_image(folder):
    listed = objects.read_list(folder / "list.txt")
    with pytest.raises(CaffeliteError, match='"cat" is no class'):
        objects.read_pairs(listed, reader(str(folder)), ["background", "ant"])
    images, _ = objects.read_coco(folder / "coco.json")
    (folder / "b.png").unlink()
    with pytest.raises(CaffeliteError, match='cannot read "b.png"'):
        converted(folder, images)
    assert not (folder / "db").exists()
    done = annotated_records.convert(folder / "db", images, reader(str(folder)), Recipe(encoding=""), skip=True)
    assert done.images == 1 and len(done.skipped) == 1


def test_ids_of_images_in_coco(folder, caplog):
    def boxes(change):
        content = json.loads((folder / "coco.json").read_text())
        change(content)
        (folder / "changed.json").write_text(json.dumps(content))
        return [len(image.boxes) for image in objects.read_coco(folder / "changed.json")[0]]

    def ids(*values):
        return lambda content: [one.update(image_id=i) for one, i in zip(content["annotations"], values, strict=True)]

    assert boxes(ids("8", 2.0, 8, "2")) == [2, 2] and not caplog.text
    assert boxes(ids(8, 77, 8, 8)) == [3, 0]
    assert "left out 1 annotations of images that the file does not list: annotation 1 of image 77" in caplog.text
    with pytest.raises(CaffeliteError, match="no annotation belongs to an image of the file; found annotation 0 of im"):
        boxes(ids(77, 77, 77, 77))
    with pytest.raises(CaffeliteError, match="two images have the id 8; found a.png and b.png"):
        boxes(lambda content: content["images"][1].update(id=8))
    with pytest.raises(CaffeliteError, match="two categories have one id; found 3"):
        boxes(lambda content: content["categories"][0].update(id=3))
    with pytest.raises(CaffeliteError, match='annotation 3 has no "image_id"'):
        boxes(lambda content: content["annotations"][3].pop("image_id"))


def test_an_image_of_another_size_than_annotated(folder):
    content = json.loads((folder / "coco.json").read_text())
    for image in content["images"]:
        image |= {"width": 80, "height": 40}
    (folder / "coco.json").write_text(json.dumps(content))
    images, _ = objects.read_coco(folder / "coco.json")
    said = 'image "a.png" has another size than annotated.* expected 80×40, found 40×40, width × height; annotate'
    with pytest.raises(CaffeliteError, match=said):
        converted(folder, images)


def test_boxes_that_are_cut_or_left_out_are_named(folder):
    text = (folder / "a.xml").read_text().replace("<xmax>30<", "<xmax>3<")
    (folder / "a.xml").write_text(text)
    images, _ = objects.read_pairs(objects.read_list(folder / "list.txt"), reader(str(folder)))
    done, _ = converted(folder, images)
    assert done.empty[0] == 'a.xml: object 1 of "a.png", (10, 5, 3, 25), its minimum above its maximum'
    assert done.empty[1] == 'a.xml: object 4 of "a.png", (50, 5, 60, 9)'
    assert done.cut[0] == 'a.xml: object 2 of "a.png", (-4, 2, 20, 50)'


def test_annotations_of_yolo_and_labelme(folder):
    (folder / "a.txt").write_text("1 0.5 0.375 0.5 0.5\n0 0.25 0.25 0.5 0.5 0.9\n")
    shapes = [
        {"label": "cat", "points": [[30, 25], [10, 5]], "shape_type": "rectangle"},
        {"label": "ant", "points": [[10, 10], [10, 20]], "shape_type": "circle", "flags": {"difficult": True}},
        {"label": "cat", "points": [[1, 2], [9, 4], [3, 8]], "shape_type": "polygon"},
    ]
    (folder / "b.json").write_text(json.dumps({"shapes": shapes, "imageHeight": 40, "imageWidth": 40}))
    (folder / "list.txt").write_text("a.png a.txt\nb.png b.json\n")

    def read():
        images, classes = objects.read_pairs(objects.read_list(folder / "list.txt"), reader(str(folder)))
        return classes, [[(classes[box.label], box.corners) for box in image.boxes] for image in images]

    assert read()[0] == ["background", "0", "1", "ant", "cat"]
    (folder / "classes.txt").write_text("ant\ncat\n")
    classes, boxes = read()
    assert classes == ["background", "ant", "cat"]
    assert boxes[0] == [("cat", (10, 5, 30, 25)), ("ant", (0, 0, 20, 20))]
    assert boxes[1] == [("cat", (10, 5, 30, 25)), ("ant", (0, 0, 20, 20)), ("cat", (1, 2, 9, 8))]
    for name, text, said in (
        ("a.txt", "0 10 10 20 20", "a.txt:1: a box is no share of its image"),
        ("a.txt", "0 0.1 0.1", "a.txt:1: an object is not understood; expected class x y width height"),
        ("b.json", "{}", "b.json: not a file of LabelMe"),
    ):
        before = (folder / name).read_text()
        (folder / name).write_text(text)
        with pytest.raises(CaffeliteError, match=said):
            read()
        (folder / name).write_text(before)
    with pytest.raises(CaffeliteError, match="the file of LabelMe has one image; .* name its folder, or a list"):
        objects.read_coco(folder / "b.json")


def test_folders_and_names_with_spaces(folder, caplog):
    (folder / "list.txt").write_text("my a.png my a.xml\nb.png b.xml\n")
    assert [pair[:2] for pair in objects.read_list(folder / "list.txt")] == [
        ("my a.png", "my a.xml"),
        ("b.png", "b.xml"),
    ]
    for name in ("list.txt", "coco.json"):
        (folder / name).unlink()
    (folder / "c.png").write_bytes((folder / "a.png").read_bytes())
    assert [pair[:2] for pair in objects.read_folder(folder, "")] == [("a.png", "a.xml"), ("b.png", "b.xml")]
    assert "left out 1 images without an annotation: c.png" in caplog.text
    (folder / "more").mkdir()
    (folder / "b.xml").rename(folder / "more" / "b.xml")
    assert objects.read_folder(folder, "")[1][:2] == ("b.png", "more/b.xml")
    (folder / "a.txt").touch()
    with pytest.raises(CaffeliteError, match="several annotations have the image's name; found a.txt, a.xml"):
        objects.read_folder(folder, "")


def test_a_voc_folder_with_other_images(folder):
    for name in ("ImageSets/Main", "JPEGImages"):
        (folder / name).mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "trainval.txt").write_text("a\n")
    (folder / "a.png").rename(folder / "JPEGImages" / "a.png")
    assert objects.read_folder(folder, "trainval")[0][0] == "JPEGImages/a.png"
