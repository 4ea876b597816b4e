"""What data sets of lists and annotated databases are known by changes with their labels, boxes and records."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import open_source
from caffelite.data.writers import open_lmdb, write_hdf5
from caffelite.errors import NOWHERE

WINDOWS = "# 0\n0.png\n3\n12\n10\n2\n1 0.9 1 1 5 6\n0 0.1 0 0 3 3\n"
BOXES = "# 0\n0.png\n3\n12\n10\n1\n1 0 1 1 5 6\n0\n"
LISTS = {  # layer, list, the same list with another label, box or file
    "ImageSegData": (
        "image_data_param { source: 'list' batch_size: 1 label_type: PIXEL }",
        "0.png 0_label.png\n",
        "0.png 1_label.png\n",
    ),
    "WindowData": (
        "window_data_param { source: 'list' batch_size: 4 } transform_param { crop_size: 6 }",
        WINDOWS,
        WINDOWS.replace("1 1 5 6", "1 1 5 7"),
    ),
    "ImageGtData": (
        "image_gt_data_param { source: 'list' batch_size: 1 field_w: 8 field_h: 8 downsample_rate: 4 }",
        BOXES,
        BOXES.replace("1 1 5 6", "1 1 5 7"),
    ),
    "VideoFrames": ("video_data_param { source: 'list' batch_size: 1 modality: RGB }", "frames 1 0\n", "frames 1 1\n"),
}


def facts(kind, fields):
    text = f'layer {{ name: "in" type: "{kind}" top: "data" top: "label" {fields} }}'
    layer = prototxt.parse(text, pb.NetParameter).message.layer[0]
    with open_source(layer, pb.TRAIN, NOWHERE, 0) as source:
        return source.facts()


@pytest.fixture(autouse=True)
def pictures(tmp_path, in_tmp_path):
    (tmp_path / "frames").mkdir()
    for name in ("0.png", "frames/img_00001.jpg", "frames/image_0001.jpg"):
        cv2.imwrite(name, np.zeros((12, 10, 3), np.uint8))
    for name in ("0_label.png", "1_label.png"):
        cv2.imwrite(name, np.zeros((12, 10), np.uint8))


@pytest.mark.parametrize("kind", LISTS)
def test_a_changed_list_is_noticed(tmp_path, kind):
    fields, before, after = LISTS[kind]
    actual = []
    for text in (before, before, after):
        (tmp_path / "list").write_text(text)
        actual.append(facts(kind, fields))
    assert actual[0] == actual[1] and actual[0]["samples"] == actual[2]["samples"]
    assert actual[0]["list"] != actual[2]["list"]


def test_a_changed_record_with_boxes_is_noticed():
    actual = []
    for side in (0.5, 0.5, 0.6):
        record = pb.AnnotatedDatum(type=pb.AnnotatedDatum.BBOX)
        record.datum.CopyFrom(pb.Datum(channels=3, height=4, width=4, data=bytes(48)))
        box = record.annotation_group.add(group_label=1).annotation.add().bbox
        box.xmax = box.ymax = side
        with open_lmdb(Path("db"), force=True) as put:
            put([(b"0", record.SerializeToString())])
        actual.append(facts("AnnotatedData", "data_param { source: 'db' backend: LMDB batch_size: 1 }"))
    assert actual[0] == actual[1] and actual[0]["content"] != actual[2]["content"]


def test_classes_of_tables_are_counted(tmp_path):
    """Of all rows, where the files stay in memory."""
    for name, labels in (("a.h5", [0, 1, 1]), ("b.h5", [1])):
        write_hdf5(tmp_path / name, {"data": np.zeros((len(labels), 2)), "label": np.array(labels)})
    (tmp_path / "list").write_text("a.h5\nb.h5\n")
    known = facts("HDF5Data", "hdf5_data_param { source: 'list' batch_size: 1 }")
    assert known['values of "label"'] == "1 of 0, 3 of 1"
