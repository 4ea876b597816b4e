"""The synthetic detection set: its images, boxes and masks agree, and its files are the formats that they claim."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from caffelite.data.pictures import decode
from caffelite.drawn import shapes
from caffelite.errors import CaffeliteError

COUNTS = {"train": 6, "test": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("set") / "shapes"
    shapes.write(path, COUNTS, 64, seed=3)
    return path


@pytest.mark.parametrize("size", [32, 96])
def test_boxes_bound_the_visible_pixels_of_their_labels(size):
    for index in range(20):
        sample = shapes.draw(0, "train", index, size)
        assert 1 <= len(sample.boxes) <= shapes.MOST
        inside = np.zeros((size, size), bool)
        for box in sample.boxes:
            assert 0 <= box.xmin < box.xmax <= size and 0 <= box.ymin < box.ymax <= size
            window = slice(box.ymin, box.ymax), slice(box.xmin, box.xmax)
            assert 0 < box.area <= np.count_nonzero(sample.mask[window] == box.label)
            inside[window] = True
        assert not sample.mask[~inside].any()
        assert sum(box.area for box in sample.boxes) == np.count_nonzero(sample.mask)


def test_a_single_shape_touches_all_sides_of_its_box():
    single = [s for i in range(40) if len((s := shapes.draw(1, "test", i, 64)).boxes) == 1]
    assert single
    for sample in single:
        box, (rows, columns) = sample.boxes[0], np.nonzero(sample.mask)
        assert (box.xmin, box.ymin) == (columns.min(), rows.min())
        assert (box.xmax, box.ymax) == (columns.max() + 1, rows.max() + 1)
        assert box.area == len(rows)
        assert box.truncated or (min(box.xmin, box.ymin) >= 0 and max(box.xmax, box.ymax) <= 64)


def test_an_image_depends_on_seed_part_and_index_alone():
    first = shapes.draw(5, "train", 2, 48)
    again = shapes.draw(5, "train", 2, 48)
    assert (first.pixels == again.pixels).all() and first.boxes == again.boxes
    for other in ((6, "train", 2), (5, "test", 2), (5, "train", 3)):
        assert (shapes.draw(*other, 48).pixels != first.pixels).any()


@pytest.mark.parametrize("part", COUNTS)
def test_coco_voc_and_masks_hold_the_drawn_boxes(folder, part):
    coco = json.loads((folder / f"{part}.json").read_text())
    assert [c["name"] for c in coco["categories"]] == list(shapes.CLASSES[1:])
    assert [c["id"] for c in coco["categories"]] == [1, 2, 3, 4, 5]
    lists = [(folder / name).read_text().splitlines() for name in (f"{part}.txt", f"{part}_masks.txt")]
    assert len(coco["images"]) == len(lists[0]) == len(lists[1]) == COUNTS[part]
    for i, (image, boxes, masks) in enumerate(zip(coco["images"], *lists, strict=True)):
        drawn = shapes.draw(3, part, i, 64)
        (picture, annotation), (same, mask) = boxes.split(), masks.split()
        assert picture == same == image["file_name"] and (image["width"], image["height"]) == (64, 64)
        assert (decode((folder / picture).read_bytes())[::-1].transpose(1, 2, 0) == drawn.pixels).all()
        assert (decode((folder / mask).read_bytes())[0] == drawn.mask).all()
        mine = [a for a in coco["annotations"] if a["image_id"] == image["id"]]
        expected = [(b.label, [b.xmin, b.ymin, b.xmax - b.xmin, b.ymax - b.ymin], b.area) for b in drawn.boxes]
        assert [(a["category_id"], a["bbox"], a["area"]) for a in mine] == expected
        voc = ElementTree.parse(folder / annotation).getroot()
        assert [voc.findtext(f"size/{side}") for side in ("width", "height", "depth")] == ["64", "64", "3"]
        actual = [
            (o.findtext("name"), *(int(o.findtext(f"bndbox/{k}")) for k in ("xmin", "ymin", "xmax", "ymax")))
            for o in voc.iter("object")
        ]
        assert actual == [(shapes.CLASSES[b.label], b.xmin + 1, b.ymin + 1, b.xmax, b.ymax) for b in drawn.boxes]


def test_labels_are_listed_in_order(folder):
    assert (folder / "labels.txt").read_text().split() == list(shapes.CLASSES)
    assert (folder / "labelmap.prototxt").read_text().count("label:") == len(shapes.CLASSES)


def test_an_existing_folder_is_kept(folder):
    before = sorted(p.name for p in folder.iterdir())
    with pytest.raises(CaffeliteError, match="already exists"):
        shapes.write(folder, {"train": 1}, 64, seed=0)
    assert sorted(p.name for p in folder.iterdir()) == before
